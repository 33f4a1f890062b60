//! Differences between two texts, line by line.

use std::fmt::Write as _;

/// The most changed lines that are compared one by one. Texts that differ more are shown as one
/// replacement, which bounds time and memory.
const MAX_EDITS: usize = 1_000;

/// A line of a difference, with its line break if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    Kept(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

impl<'a> Line<'a> {
    /// Returns the sign of the line in a unified diff.
    pub fn sign(self) -> char {
        match self {
            Self::Kept(_) => ' ',
            Self::Removed(_) => '-',
            Self::Added(_) => '+',
        }
    }

    /// Returns the line without its line break.
    pub fn text(self) -> &'a str {
        let (Self::Kept(line) | Self::Removed(line) | Self::Added(line)) = self;
        line.strip_suffix('\n').unwrap_or(line)
    }
}

/// Returns the lines of both texts. Where lines changed, the removed ones come first.
pub fn lines<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let equal = |(left, right): &(&&str, &&str)| left == right;
    let start = old.iter().zip(&new).take_while(equal).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let pairs = old_rest.iter().rev().zip(new_rest.iter().rev());
    let end = pairs.take_while(equal).count();
    let old_middle = &old_rest[..old_rest.len() - end];
    let new_middle = &new_rest[..new_rest.len() - end];
    let kept = |line: &&'a str| Line::Kept(line);
    let mut lines: Vec<Line<'a>> = old[..start].iter().map(kept).collect();
    lines.extend(middle(old_middle, new_middle));
    lines.extend(old_rest[old_middle.len()..].iter().map(kept));
    lines
}

/// Returns a unified diff without file names, with this many unchanged lines around each change.
pub fn unified(old: &str, new: &str, context: usize) -> String {
    let lines = lines(old, new);
    let mut text = String::new();
    let (mut at, mut old_line, mut new_line) = (0, 1, 1);
    for hunk in hunks(&lines, context) {
        let skipped = hunk.start - at;
        let (old_start, new_start) = (old_line + skipped, new_line + skipped);
        let hunk_lines = &lines[hunk.clone()];
        let count = |sign: char| hunk_lines.iter().filter(|line| line.sign() == sign).count();
        let (kept, removed, added) = (count(' '), count('-'), count('+'));
        let old_range = range(old_start, kept + removed);
        let new_range = range(new_start, kept + added);
        writeln!(text, "@@ -{old_range} +{new_range} @@").ok();
        for line in hunk_lines {
            writeln!(text, "{}{}", line.sign(), line.text()).ok();
        }
        (at, old_line, new_line) = (
            hunk.end,
            old_start + kept + removed,
            new_start + kept + added,
        );
    }
    text
}

/// Returns the ranges of changes with their context; ranges that touch are one.
fn hunks(lines: &[Line<'_>], context: usize) -> Vec<std::ops::Range<usize>> {
    let mut hunks: Vec<std::ops::Range<usize>> = Vec::new();
    let changed = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.sign() != ' ');
    for (index, _) in changed {
        let start = index.saturating_sub(context);
        let end = (index + 1 + context).min(lines.len());
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            Some(_) | None => hunks.push(start..end),
        }
    }
    hunks
}

/// Formats a range of lines; an empty one is named by the line before it.
fn range(start: usize, count: usize) -> String {
    match count {
        0 => format!("{},0", start - 1),
        1 => start.to_string(),
        _ => format!("{start},{count}"),
    }
}

/// Compares texts that differ in their first and their last line, by Myers' algorithm.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let Some(edits) = shortest_edits(old, new) else {
        let removed = old.iter().map(|line| Line::Removed(line));
        return removed
            .chain(new.iter().map(|line| Line::Added(line)))
            .collect();
    };
    let (mut lines, mut added) = (Vec::new(), Vec::new());
    for line in edits {
        match line {
            Line::Added(_) => added.push(line),
            Line::Removed(_) => lines.push(line),
            Line::Kept(_) => {
                lines.append(&mut added);
                lines.push(line);
            }
        }
    }
    lines.append(&mut added);
    lines
}

/// Returns a shortest list of edits, or `None` if it has more than [`MAX_EDITS`].
fn shortest_edits<'a>(old: &[&'a str], new: &[&'a str]) -> Option<Vec<Line<'a>>> {
    let most = (old.len() + new.len()).min(MAX_EDITS);
    // `furthest[offset + k]` is how far the old text is consumed on diagonal k, where k is the
    // number of consumed old lines minus that of new lines.
    let offset = most + 1;
    let mut furthest = vec![0_usize; 2 * offset + 1];
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    for edits in 0..=most {
        // Only the diagonals that this round can leave are kept for the way back.
        rounds.push(furthest[offset - edits..=offset + edits].to_vec());
        for k in (0..=edits).map(|step| offset + 2 * step - edits) {
            let down =
                k == offset - edits || (k != offset + edits && furthest[k - 1] < furthest[k + 1]);
            let mut x = if down {
                furthest[k + 1]
            } else {
                furthest[k - 1] + 1
            };
            let mut y = x + offset - k;
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            furthest[k] = x;
            if x >= old.len() && y >= new.len() {
                return Some(way_back(old, new, &rounds));
            }
        }
    }
    None
}

/// Follows the rounds back from the ends of both texts.
fn way_back<'a>(old: &[&'a str], new: &[&'a str], rounds: &[Vec<usize>]) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    let (mut x, mut y) = (old.len(), new.len());
    for (edits, furthest) in rounds.iter().enumerate().rev() {
        // Index `edits` is diagonal 0.
        let k = edits + x - y;
        let down = k == 0 || (k != 2 * edits && furthest[k - 1] < furthest[k + 1]);
        let (edit, from, to) = match (edits, down) {
            (0, _) => (None, (0, 0), (0, 0)),
            (_, true) => {
                let (x, y) = (furthest[k + 1], furthest[k + 1] + edits - (k + 1));
                (Some(Line::Added(new[y])), (x, y), (x, y + 1))
            }
            (_, false) => {
                let (x, y) = (furthest[k - 1], furthest[k - 1] + edits - (k - 1));
                (Some(Line::Removed(old[x])), (x, y), (x + 1, y))
            }
        };
        while (x, y) != to {
            (x, y) = (x - 1, y - 1);
            lines.push(Line::Kept(old[x]));
        }
        lines.extend(edit);
        (x, y) = from;
    }
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn removed_lines_come_before_added_ones() {
        let check = |old: &str, new: &str, expected: &[&str]| {
            let shown: Vec<String> = lines(old, new)
                .into_iter()
                .map(|line| format!("{}{}", line.sign(), line.text()))
                .collect();
            assert_eq!(shown, expected);
        };
        check("", "", &[]);
        check("a\n", "a\n", &[" a"]);
        check("", "a\nb", &["+a", "+b"]);
        check("a\nb\nc\n", "a\nx\ny\nc\n", &[" a", "-b", "+x", "+y", " c"]);
        check("a", "a\n", &["-a", "+a"]);
    }

    #[test]
    fn unified_diff_has_ranges_and_context() {
        let numbers = |range: std::ops::Range<u32>| -> String {
            range.map(|number| format!("{number}\n")).collect()
        };
        let old = numbers(1..21);
        let new = old.replace("5\n", "five\n").replace("20\n", "");
        assert_eq!(
            unified(&old, &new, 1),
            "@@ -4,3 +4,3 @@\n 4\n-5\n+five\n 6\n\
             @@ -14,3 +14,3 @@\n 14\n-15\n+1five\n 16\n\
             @@ -19,2 +19 @@\n 19\n-20\n"
        );
        assert_eq!(unified("", "a\n", 2), "@@ -0,0 +1 @@\n+a\n");
        assert_eq!(unified("a\n", "", 2), "@@ -1 +0,0 @@\n-a\n");
        assert_eq!(unified("a\n", "a\n", 2), "");
    }

    #[test]
    fn texts_that_differ_too_much_are_one_replacement() {
        let text = |prefix: &str| -> String {
            (0..MAX_EDITS)
                .map(|number| format!("{prefix}{number}\nsame\n"))
                .collect()
        };
        let lines = lines(&text("a"), &text("b")).len();
        assert_eq!(lines, 4 * MAX_EDITS - 1);
    }

    fn text() -> impl Strategy<Value = String> {
        proptest::collection::vec(prop_oneof!["a\n", "b\n", "c\n"], 0..14)
            .prop_map(|lines| lines.concat())
    }

    /// The length of the longest common subsequence, computed the slow way.
    fn common(old: &[&str], new: &[&str]) -> usize {
        match (old, new) {
            ([], _) | (_, []) => 0,
            ([a, old_rest @ ..], [b, new_rest @ ..]) if a == b => 1 + common(old_rest, new_rest),
            ([_, old_rest @ ..], [_, new_rest @ ..]) => {
                common(old_rest, new).max(common(old, new_rest))
            }
        }
    }

    proptest! {
        #[test]
        fn both_texts_can_be_rebuilt_and_no_edit_is_superfluous(old in text(), new in text()) {
            let lines = lines(&old, &new);
            let rebuilt = |left_out: char| -> String {
                lines
                    .iter()
                    .filter(|line| line.sign() != left_out)
                    .map(|line| format!("{}\n", line.text()))
                    .collect()
            };
            prop_assert_eq!(rebuilt('+'), &*old);
            prop_assert_eq!(rebuilt('-'), &*new);
            let old: Vec<&str> = old.lines().collect();
            let new: Vec<&str> = new.lines().collect();
            let kept = lines.iter().filter(|line| line.sign() == ' ').count();
            prop_assert_eq!(kept, common(&old, &new));
        }
    }
}
