//! Short summaries of what changed in a file.

use sortie_base::diff::{self, Line};
use sortie_base::truncate::{first_bytes, truncate};

/// The most lines of a diff that are shown.
const MAX_DIFF_LINES: usize = 60;
/// The most characters of a line that are shown.
const MAX_LINE_CHARS: usize = 300;
/// The most bytes of a new file that are read to show its beginning.
const MAX_SHOWN_BYTES: usize = 64 * 1024;
/// The number of unchanged lines around a change.
const CONTEXT_LINES: usize = 2;

/// Returns how many lines were added and removed: `+3 -1 lines`.
pub(crate) fn counts(old: &str, new: &str) -> String {
    let (mut added, mut removed) = (0_usize, 0_usize);
    for line in diff::lines(old, new) {
        match line {
            Line::Added(_) => added += 1,
            Line::Removed(_) => removed += 1,
            Line::Kept(_) => {}
        }
    }
    format!("+{added} -{removed} lines")
}

/// Returns the part of a text that a diff can show.
pub(crate) fn beginning(text: &str) -> &str {
    first_bytes(text, MAX_SHOWN_BYTES)
}

/// Returns a unified diff without file names, truncated to a readable length.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let whole = diff::unified(old, new, CONTEXT_LINES);
    let mut lines: Vec<String> = whole
        .lines()
        .take(MAX_DIFF_LINES)
        .map(|line| truncate(line, MAX_LINE_CHARS))
        .collect();
    let left_out = whole.lines().count().saturating_sub(MAX_DIFF_LINES);
    if left_out > 0 {
        lines.push(format!("({left_out} more lines of the diff are not shown)"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lines() {
        let check = |old: &str, new: &str, expected: &str| assert_eq!(counts(old, new), expected);
        check("", "a\nb\n", "+2 -0 lines");
        check("a\nb\n", "a\nc\n", "+1 -1 lines");
        check("a\n", "a\n", "+0 -0 lines");
    }

    #[test]
    fn shows_a_bounded_diff() {
        assert_eq!(
            unified("a\nb\nc\nd\n", "a\nb\nC\nd\n"),
            "@@ -1,4 +1,4 @@\n a\n b\n-c\n+C\n d"
        );
        let long: String = (0..500).map(|number| format!("{number}\n")).collect();
        let shown = unified("", &long);
        assert_eq!(shown.lines().count(), MAX_DIFF_LINES + 1);
        assert!(
            shown.ends_with("more lines of the diff are not shown)"),
            "{shown}"
        );
    }
}
