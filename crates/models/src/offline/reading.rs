//! Parses the output of tools. A line that cannot be parsed is omitted, never guessed.

/// A list of paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Paths {
    /// The files and folders, as the tool printed them.
    pub items: Vec<String>,
    /// How many more paths exist according to the tool.
    pub more: u64,
    /// Whether some paths were omitted without a count.
    pub open_ended: bool,
}

impl Paths {
    /// Returns the number of paths, listed or not; a lower bound if open-ended.
    pub(super) fn total(&self) -> u64 {
        self.items.len() as u64 + self.more
    }

    /// Returns whether the list is incomplete.
    pub(super) const fn is_partial(&self) -> bool {
        self.more > 0 || self.open_ended
    }
}

/// A count for each of some files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub items: Vec<(String, u64)>,
    /// Whether the tool or the runtime omitted some.
    pub partial: bool,
}

/// A matching line of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub path: String,
    pub line: u64,
    pub text: String,
}

/// Parses one path per line.
pub(super) fn paths(text: &str) -> Paths {
    let mut paths = Paths::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if is_note(line) {
            let more = number_of_more(line);
            paths.more += more;
            paths.open_ended |= more == 0 && tells_of_more(line);
        } else {
            paths.items.push(line.trim_start_matches("./").to_owned());
        }
    }
    paths
}

/// Parses `path:number` per line.
pub(super) fn counts(text: &str) -> Counts {
    let mut counts = Counts::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let pair = line.rsplit_once(':').and_then(|(path, number)| {
            let number = number.trim().parse().ok()?;
            Some((path.trim_start_matches("./").to_owned(), number))
        });
        match pair {
            Some(pair) if !is_note(line) => counts.items.push(pair),
            Some(_) | None => counts.partial |= tells_of_more(line),
        }
    }
    counts
}

/// Parses `path:line:text` per line.
pub(super) fn matches(text: &str) -> Vec<Match> {
    text.lines().filter_map(match_line).collect()
}

/// Returns the names at the top of a directory listing; folders end with a slash.
pub(super) fn entries(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with(' ') && !is_note(line));
    lines
        .map(|line| {
            let line = line.split(" -> ").next().unwrap_or(line);
            match line.rsplit_once(" (") {
                Some((name, size)) if size.ends_with(')') => name.to_owned(),
                Some(_) | None => line.to_owned(),
            }
        })
        .collect()
}

/// Returns whether only part of a file was read.
pub(super) fn is_part_of_file(text: &str) -> bool {
    let last = text.lines().next_back().unwrap_or_default();
    last.starts_with("(lines ") && last.contains("offset=")
}

/// Returns the lines of a file, without the line numbers that the tool adds.
pub(super) fn file_lines(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    if let [only] = lines.as_slice()
        && is_note(only)
    {
        return Vec::new();
    }
    let numbered = lines.iter().filter(|line| numbered(line).is_some()).count();
    if numbered * 2 < lines.len() {
        return lines;
    }
    lines.into_iter().filter_map(numbered_text).collect()
}

fn numbered_text(line: &str) -> Option<&str> {
    numbered(line).map(|(_, text)| text)
}

fn match_line(line: &str) -> Option<Match> {
    let (path, rest) = line.split_once(':')?;
    let (number, text) = rest.split_once(':')?;
    Some(Match {
        path: path.trim_start_matches("./").to_owned(),
        line: number.trim().parse().ok()?,
        text: text.trim().to_owned(),
    })
}

/// Splits off a line number.
fn numbered(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start();
    let end = line
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(line.len());
    let number = line[..end].parse().ok()?;
    let rest = &line[end..];
    if rest.is_empty() {
        return Some((number, rest));
    }
    let text = ["\t", "→", "| ", "|", ": "]
        .iter()
        .find_map(|mark| rest.strip_prefix(mark));
    text.map(|text| (number, text))
}

/// Returns whether a line is a tool's note about its output rather than output.
fn is_note(line: &str) -> bool {
    let framed = line.starts_with(['(', '[', '…', '<']) || line.starts_with("...");
    framed || is_sentence(line)
}

/// Returns whether a line is a sentence: paths may contain spaces, but not a full stop at the end
/// and four words.
fn is_sentence(line: &str) -> bool {
    let ends = line.ends_with(['.', '。', ':', '：']);
    ends && line.split_whitespace().count() >= 3 || line.ends_with('。')
}

/// Returns the number in a note such as `(12 more files match; …)`.
fn number_of_more(line: &str) -> u64 {
    let inner = line.trim_start_matches(['(', '[', '…', '.', ' ']);
    match inner.split_once(" more") {
        Some((number, _)) => number.trim().parse().unwrap_or(0),
        None => 0,
    }
}

/// Returns whether a note reports omitted output.
fn tells_of_more(line: &str) -> bool {
    let line = line.trim();
    if !is_note(line) {
        return false;
    }
    let lower = line.to_lowercase();
    let marks = ["more", "left out", "first", "stopped", "省略"];
    line.starts_with('…') || marks.iter().any(|mark| lower.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_notes_are_told_apart() {
        for (text, expected, total, partial) in [
            ("a.rs\nsrc/b c.rs\n", vec!["a.rs", "src/b c.rs"], 2, false),
            ("./a.rs", vec!["a.rs"], 1, false),
            ("No file matches **/*.", vec![], 0, false),
            (
                "a.rs\n(12 more files match; use a narrower pattern or path)",
                vec!["a.rs"],
                13,
                true,
            ),
            (
                "a.rs\n(stopped early: too much to look at; give a narrower path)",
                vec!["a.rs"],
                1,
                true,
            ),
            (
                "a.rs\n[7 characters left out here; read_file with path \"blob:1\" gives the whole text]\nb.rs",
                vec!["a.rs", "b.rs"],
                2,
                true,
            ),
            (
                "a.rs\n[此处省略 7 个字符；用 read_file 读取路径 \"blob:1\" 可得到全文]",
                vec!["a.rs"],
                1,
                true,
            ),
            ("", vec![], 0, false),
        ] {
            let found = paths(text);
            assert_eq!(found.items, expected, "{text}");
            assert_eq!(
                (found.total(), found.is_partial()),
                (total, partial),
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_are_read_from_the_end_of_a_line() {
        for (text, expected, partial) in [
            (
                "a.rs:3\nsrc/b.rs:12\n",
                vec![("a.rs", 3), ("src/b.rs", 12)],
                false,
            ),
            ("odd:name.rs: 4", vec![("odd:name.rs", 4)], false),
            ("No line matches `x`.", vec![], false),
            (
                "a.rs:3\n(2 more files have matches; narrow the search)",
                vec![("a.rs", 3)],
                true,
            ),
            ("a.rs:many", vec![], false),
        ] {
            let found = counts(text);
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(p, n)| (p.to_owned(), n))
                .collect();
            assert_eq!(found.items, expected, "{text}");
            assert_eq!(found.partial, partial, "{text}");
        }
    }

    #[test]
    fn matching_lines_have_a_place() {
        let found = matches("a.rs:3:  // TODO: b\nnot a match\na.rs:x:y\n(3 more lines)");
        let shown: Vec<_> = found
            .iter()
            .map(|m| (m.path.as_str(), m.line, m.text.as_str()))
            .collect();
        assert_eq!(shown, [("a.rs", 3, "// TODO: b")]);
    }

    #[test]
    fn line_numbers_are_taken_off() {
        for (text, expected) in [
            ("1\t# A\n2\t\n3\tb\n", vec!["# A", "", "b"]),
            ("     1\t# A\n", vec!["# A"]),
            ("1→# A\n2→1 apple", vec!["# A", "1 apple"]),
            (
                "7\tlate\n(lines 7-7 of 9; go on with offset=8)",
                vec!["late"],
            ),
            ("# A\n\n1 apple a day", vec!["# A", "", "1 apple a day"]),
            ("(a.md is empty)", vec![]),
        ] {
            assert_eq!(file_lines(text), expected, "{text}");
        }
    }

    #[test]
    fn entries_of_a_directory() {
        let text = ".gitignore (8 B)\nsrc/\n  a.rs (2 B)\nmy notes (1).txt (4 B)\nlink -> src\n(only the first 4 are listed; give a narrower path)";
        assert_eq!(
            entries(text),
            [".gitignore", "src/", "my notes (1).txt", "link"]
        );
        assert!(entries("(none is empty)").is_empty());
    }
}
