//! Reads the results of tools, and collects the calls that are still missing.

use serde_json::json;

use sortie_base::truncate::truncate;
use sortie_text::{Lang, t};

use super::evidence::{Answer, Evidence};
use super::{Call, Step};

/// The maximum length of a failure in a report.
const SHOWN_FAILURE_CHARS: usize = 160;
/// The maximum number of files in a count: as many as the tool returns.
const COUNTED_FILES: u64 = 1000;
/// The number of lines of a file that are read: enough for an outline.
const READ_LINES: u64 = 400;

/// A survey asks it for the result of every call that it needs. A call without a result is made in
/// the next turn if its tool is offered; otherwise the report names it as unknown.
#[derive(Debug)]
pub(super) struct Look<'a> {
    evidence: &'a Evidence<'a>,
    pub(super) lang: Lang,
    missing: Vec<Call>,
    /// What could not be determined.
    pub(super) unknown: Vec<String>,
}

/// The output of a tool that prints one item per line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Output<'a> {
    pub(super) lines: Vec<&'a str>,
    /// How many more items exist according to the tool.
    pub(super) more: u64,
    /// Whether some items were omitted without a count.
    pub(super) is_open_ended: bool,
    /// Whether the tool returned a result.
    pub(super) is_known: bool,
}

impl<'a> Output<'a> {
    fn parse(text: &'a str, is_cut: bool) -> Self {
        let mut output = Self {
            is_open_ended: is_cut,
            is_known: true,
            ..Self::default()
        };
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if !is_note(line) {
                output.lines.push(line.trim_start_matches("./"));
            } else if let Some(more) = number_of_more(line) {
                output.more += more;
            } else {
                output.is_open_ended |= reports_omission(line);
            }
        }
        output
    }

    /// Returns the number of items, listed or not; a lower bound if open-ended.
    pub(super) fn total(&self) -> u64 {
        self.lines.len() as u64 + self.more
    }

    pub(super) const fn is_partial(&self) -> bool {
        self.more > 0 || self.is_open_ended
    }

    /// Parses `path:number` per line.
    pub(super) fn counts(&self) -> Vec<(String, u64)> {
        let pair = |line: &&str| {
            let (path, number) = line.rsplit_once(':')?;
            Some((path.to_owned(), number.trim().parse().ok()?))
        };
        self.lines.iter().filter_map(pair).collect()
    }
}

impl<'a> Look<'a> {
    pub(super) const fn new(evidence: &'a Evidence<'a>, lang: Lang) -> Self {
        Self {
            evidence,
            lang,
            missing: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// Ends the turn if calls are missing: the survey continues from its beginning in the next one.
    pub(super) fn turn(&mut self, text: &str) -> Result<(), Step> {
        if self.missing.is_empty() {
            return Ok(());
        }
        Err(Step::Look {
            text: t!(self.lang, text),
            calls: std::mem::take(&mut self.missing),
        })
    }

    /// Returns the paths that match a pattern.
    pub(super) fn paths(&mut self, pattern: &str) -> Output<'a> {
        self.output(&glob(pattern))
    }

    /// Returns the number of paths that match a pattern, if the tool counted all of them.
    pub(super) fn number_of_paths(&mut self, pattern: &str) -> Option<u64> {
        let (text, is_cut) = self.answer(&glob(pattern))?;
        Some(Output::parse(text, is_cut).total())
    }

    /// Returns the number of matching lines of each file, as `path:number`.
    pub(super) fn counts(&mut self, pattern: &str) -> Output<'a> {
        let arguments = json!({ "pattern": pattern, "output": "count", "limit": COUNTED_FILES });
        self.output(&Call {
            tool: "grep",
            arguments,
        })
    }

    /// Returns the matching lines of a file, as `path:line:text`.
    pub(super) fn matches(&mut self, path: &str, pattern: &str) -> Vec<&'a str> {
        let arguments = json!({ "pattern": pattern, "path": path, "output": "content" });
        let found = self.output(&Call {
            tool: "grep",
            arguments,
        });
        found.lines
    }

    /// Returns the names in a folder; folders end with a slash.
    pub(super) fn entries(&mut self, path: &str) -> Vec<&'a str> {
        let listing = self.output(&Call {
            tool: "list_dir",
            arguments: json!({ "path": path }),
        });
        let top = listing.lines.into_iter().filter(|l| !l.starts_with(' '));
        top.map(entry_name).collect()
    }

    /// Returns the first lines of a file.
    pub(super) fn file(&mut self, path: &str) -> Option<Vec<&'a str>> {
        let call = Call {
            tool: "read_file",
            arguments: json!({ "path": path, "limit": READ_LINES }),
        };
        let (text, is_cut) = self.answer(&call)?;
        let last = text.lines().next_back().unwrap_or_default();
        if is_cut || last.starts_with("(lines ") && last.contains("offset=") {
            self.note_part(&call);
        }
        Some(text.lines().filter_map(numbered_text).collect())
    }

    fn output(&mut self, call: &Call) -> Output<'a> {
        let Some((text, is_cut)) = self.answer(call) else {
            return Output::default();
        };
        let output = Output::parse(text, is_cut);
        if output.is_partial() {
            self.note_part(call);
        }
        output
    }

    /// Returns the text of a result and whether the runtime truncated it.
    fn answer(&mut self, call: &Call) -> Option<(&'a str, bool)> {
        let what = describe(call);
        match self.evidence.answer(call) {
            Answer::Text { text, cut } => return Some((text, cut)),
            Answer::Failed(why) => {
                let first = why.trim().lines().next().unwrap_or_default();
                let why = truncate(first, SHOWN_FAILURE_CHARS);
                self.unknown
                    .push(t!(self.lang, "survey-tool-failed", what = what, why = why));
            }
            Answer::Absent if self.evidence.offers(call.tool) => self.missing.push(call.clone()),
            Answer::Absent => self
                .unknown
                .push(t!(self.lang, "survey-not-called", what = what)),
        }
        None
    }

    fn note_part(&mut self, call: &Call) {
        self.unknown
            .push(t!(self.lang, "survey-part", what = describe(call)));
    }
}

fn glob(pattern: &str) -> Call {
    Call {
        tool: "glob",
        arguments: json!({ "pattern": pattern }),
    }
}

/// Describes a call for a report.
fn describe(call: &Call) -> String {
    let argument = |key: &&str| call.arguments.get(key).and_then(|value| value.as_str());
    let named = ["pattern", "path"].iter().filter_map(argument);
    let named: Vec<String> = named.map(|text| format!("`{text}`")).collect();
    format!("{} {}", call.tool, named.join(" "))
}

/// Returns whether a line is a tool's note about its output rather than output.
fn is_note(line: &str) -> bool {
    line.starts_with('(') && line.ends_with(')')
        || line.starts_with('[') && line.ends_with(']')
        || line.starts_with("No file matches ")
        || line.starts_with("Nothing matches ")
}

/// Returns the number in a note such as `(12 more files match; …)`.
fn number_of_more(note: &str) -> Option<u64> {
    let (number, _) = note.trim_start_matches('(').split_once(" more")?;
    number.parse().ok()
}

fn reports_omission(note: &str) -> bool {
    let marks = ["more", "left out", "first", "stopped", "省略"];
    note.starts_with(['(', '[']) && marks.iter().any(|mark| note.contains(mark))
}

/// Returns the name in a line of a listing, without the target of a link and the size.
fn entry_name(line: &str) -> &str {
    let line = line.split(" -> ").next().unwrap_or(line);
    match line.rsplit_once(" (") {
        Some((name, size)) if size.ends_with(')') => name,
        Some(_) | None => line,
    }
}

/// Returns a line of a file without its number; `None` for a note.
fn numbered_text(line: &str) -> Option<&str> {
    let (number, text) = line.split_once('\t')?;
    number.trim().parse::<u64>().ok().map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_notes_are_distinguished() {
        for (text, lines, total, partial) in [
            ("a.rs\nsrc/b c.rs\n", vec!["a.rs", "src/b c.rs"], 2, false),
            ("./(group)/[id].rs", vec!["(group)/[id].rs"], 1, false),
            ("No file matches **/*.", vec![], 0, false),
            ("(none is empty)", vec![], 0, false),
            (
                "a.rs\n(12 more files match; use a narrower pattern or path)",
                vec!["a.rs"],
                13,
                true,
            ),
            (
                "a.rs:3\n(there is more; use a narrower pattern)",
                vec!["a.rs:3"],
                1,
                true,
            ),
            (
                "a.rs\n(stopped early: too many files; give a narrower path)",
                vec!["a.rs"],
                1,
                true,
            ),
            (
                "a.rs\n[此处省略 7 个字符；用 read_file 读取路径 \"blob:1\" 可得到全文]\nb.rs",
                vec!["a.rs", "b.rs"],
                2,
                true,
            ),
            ("", vec![], 0, false),
        ] {
            let found = Output::parse(text, false);
            assert_eq!(found.lines, lines, "{text}");
            assert_eq!(
                (found.total(), found.is_partial()),
                (total, partial),
                "{text}"
            );
            assert!(Output::parse(text, true).is_partial());
        }
    }

    #[test]
    fn numbers_are_read_from_the_end_of_a_line() {
        let text = "a.rs:3\nodd:name.rs: 4\na.rs:many\nNothing matches `x`.";
        let expected = [("a.rs".to_owned(), 3), ("odd:name.rs".to_owned(), 4)];
        assert_eq!(Output::parse(text, false).counts(), expected);
    }

    #[test]
    fn line_numbers_and_notes_are_not_part_of_a_file() {
        let text =
            "1\t# A\n2\t\n 3\t1 apple\n(lines 1-3 of 9; continue with offset=4)\n(a.md is empty)";
        let lines: Vec<&str> = text.lines().filter_map(numbered_text).collect();
        assert_eq!(lines, ["# A", "", "1 apple"]);
    }

    #[test]
    fn entries_have_neither_size_nor_target() {
        for (line, name) in [
            (".gitignore (8 B)", ".gitignore"),
            ("src/", "src/"),
            ("my notes (1).txt (4 B)", "my notes (1).txt"),
            ("link -> src", "link"),
        ] {
            assert_eq!(entry_name(line), name);
        }
    }
}
