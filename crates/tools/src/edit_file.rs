//! `edit_file`: replaces an exact piece of a file.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_base::nearest::line_similarity;
use sortie_base::truncate::truncate;
use sortie_core::ports::tool::{
    Reconcile, Reconciled, Recovery, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply,
    ToolSpec, Touches,
};

use crate::arguments::{at_most, parse, spec};
use crate::blocking::{Stop, in_workspace};
use crate::confine::{Kept, NewContent, OpenFile, Parents, Workspace, WriteTarget};
use crate::diff;
use crate::fingerprint::{Fingerprint, State, reconcile_file, temporary_name};
use crate::preview::shown;

/// The most bytes of a file that can be edited, before and after the edit.
const MAX_FILE_BYTES: usize = 10 * 1024 * 1024;
/// The most places that are listed when a piece is not unique.
const MAX_PLACES: usize = 10;
/// The most lines of a file that are searched for similar text.
const MAX_HINT_LINES: usize = 20_000;
/// The most lines of a missing piece that are compared with each place of a file. Without a limit
/// the time would be the product of both lengths.
const MAX_HINT_HEIGHT: usize = 200;
/// The most lines of similar text that are shown.
const MAX_SHOWN_LINES: usize = 12;
/// The most characters of a line that are compared or shown.
const MAX_LINE_CHARS: usize = 200;
/// The least similarity of a suggested line to the requested one, from 0 to 1.
const SIMILAR_ENOUGH: f64 = 0.6;

/// The `edit_file` tool: replaces parts of a file.
#[derive(Debug)]
pub struct EditFile {
    spec: ToolSpec,
    kept: Arc<Kept>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

impl EditFile {
    /// Creates the tool, which does not access the kept places.
    pub(crate) fn keeping(kept: &Arc<Kept>) -> Self {
        Self {
            spec: spec(
                "edit_file",
                "Replace old_string by new_string in a file. old_string must be exact, without line numbers, and occur once, unless replace_all.",
                json!({
                    "type": "object",
                    "properties": {
                        "path": {"type": "string"},
                        "old_string": {"type": "string"},
                        "new_string": {"type": "string"},
                        "replace_all": {"type": "boolean"}
                    },
                    "required": ["path", "old_string", "new_string"],
                    "additionalProperties": false
                }),
            ),
            kept: Arc::clone(kept),
        }
    }
}

impl Default for EditFile {
    fn default() -> Self {
        Self::keeping(&Arc::default())
    }
}

#[async_trait]
impl Tool for EditFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Files
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Reconcilable(self)
    }

    async fn preview(&self, context: &ToolContext<'_>, arguments: &Value) -> Option<String> {
        let arguments: Arguments = parse(arguments.clone()).ok()?;
        let look = move |workspace: &Workspace, _: &Stop| {
            let planned = Planned::make(workspace, &arguments)?;
            let text = diff::unified(&planned.old, &planned.new);
            Ok(format!("{}:\n{text}", planned.place.shown()))
        };
        Some(shown(in_workspace(context, &self.kept, look).await))
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let arguments: Arguments = parse(arguments)?;
        let temporary = temporary_name(context.effect);
        let work =
            move |workspace: &Workspace, stop: &Stop| edit(workspace, &arguments, &temporary, stop);
        let text = in_workspace(context, &self.kept, work).await?;
        Ok(ToolAnswer::text(text).into())
    }
}

#[async_trait]
impl Reconcile for EditFile {
    async fn fingerprint(&self, context: &ToolContext<'_>, arguments: &Value) -> Value {
        let Ok(arguments) = parse::<Arguments>(arguments.clone()) else {
            return Value::Null;
        };
        let fingerprint = in_workspace(context, &self.kept, move |workspace, _| {
            Ok(json!(match Planned::make(workspace, &arguments) {
                Ok(planned) => Fingerprint {
                    before: State::of(planned.old.as_bytes()),
                    after: Some(State::of(planned.new.as_bytes())),
                },
                // The call can only fail, so it changes nothing whenever it runs.
                Err(_) => Fingerprint {
                    before: State::at(workspace, &arguments.path),
                    after: None,
                },
            }))
        });
        fingerprint.await.unwrap_or(Value::Null)
    }

    async fn reconcile(
        &self,
        context: &ToolContext<'_>,
        arguments: &Value,
        fingerprint: &Value,
    ) -> Reconciled {
        let Ok(arguments) = parse::<Arguments>(arguments.clone()) else {
            return Reconciled::Unknown;
        };
        let answer = format!(
            "Edited {}, as a check after an interruption confirmed.",
            arguments.path
        );
        reconcile_file(context, &self.kept, arguments.path, fingerprint, answer).await
    }
}

fn edit(
    workspace: &Workspace,
    arguments: &Arguments,
    temporary: &str,
    stop: &Stop,
) -> Result<String, ToolFailure> {
    let planned = Planned::make(workspace, arguments)?;
    let new = NewContent {
        bytes: planned.new.as_bytes(),
        temporary,
        replaces: Some(&planned.open.stat),
    };
    planned.place.replace(&new, stop)?;
    let times = match planned.times {
        1 => String::new(),
        times => format!(" in {times} places"),
    };
    Ok(format!(
        "Edited {}{times}:\n{}",
        planned.place.shown(),
        diff::unified(&planned.old, &planned.new)
    ))
}

/// An edit that is computed but not written yet.
struct Planned {
    place: WriteTarget,
    open: OpenFile,
    old: String,
    new: String,
    times: usize,
}

impl Planned {
    fn make(workspace: &Workspace, arguments: &Arguments) -> Result<Self, ToolFailure> {
        refuse_empty(arguments)?;
        let path = workspace.locate(&arguments.path)?;
        let place = workspace.place(&path, Parents::Require)?;
        let Some(mut open) = place.existing()? else {
            // Opening the file again returns the error that suggests similar names.
            workspace.open_file(&path)?;
            return Err(ToolFailure::new(
                "The file has just appeared. Read it, then try again.",
            ));
        };
        let bytes = open.read(&path, MAX_FILE_BYTES as u64)?;
        let old = String::from_utf8(bytes).map_err(|_| {
            ToolFailure::new(format!(
                "{} is not UTF-8 text. Change it with exec and a program that keeps its encoding.",
                arguments.path
            ))
        })?;
        let (new, times) = replaced(&old, arguments)?;
        at_most("the edited file", &new, MAX_FILE_BYTES)?;
        Ok(Self {
            place,
            open,
            old,
            new,
            times,
        })
    }
}

fn refuse_empty(arguments: &Arguments) -> Result<(), ToolFailure> {
    if arguments.old_string.is_empty() {
        return Err(ToolFailure::new(
            "old_string is empty. Give the exact text to replace, or use write_file for a new file.",
        ));
    }
    if arguments.old_string == arguments.new_string {
        return Err(ToolFailure::new(
            "old_string and new_string are the same, so there is nothing to change. Check new_string.",
        ));
    }
    Ok(())
}

/// Returns the new text and the number of replacements.
fn replaced(text: &str, arguments: &Arguments) -> Result<(String, usize), ToolFailure> {
    let places = places_of(text, &arguments.old_string);
    let times = places.len();
    if times == 0 {
        return Err(not_found(text, arguments));
    }
    if times > 1 && !arguments.replace_all {
        return Err(ToolFailure::new(format!(
            "old_string occurs {times} times in {} (lines {}). Add lines around it until it is unique, or set replace_all.",
            arguments.path,
            line_numbers(text, &places)
        )));
    }
    // A line break of the new text may become two bytes.
    let grown = (times as u64).saturating_mul(arguments.new_string.len() as u64);
    if times > 1 && grown > MAX_FILE_BYTES as u64 {
        return Err(ToolFailure::new(format!(
            "Replacing {times} places would make the file too large. Edit fewer places."
        )));
    }
    let mut new = String::with_capacity(text.len());
    let mut done = 0;
    let mut breaks = LineBreaks::of(text);
    for place in places {
        new.push_str(&text[done..place.start]);
        new.push_str(&with_line_ends_of(
            &mut breaks,
            &place,
            &arguments.new_string,
        ));
        done = place.end;
    }
    new.push_str(&text[done..]);
    Ok((new, times))
}

/// Returns where the piece occurs. Models write `\n`, so if there is no exact match, its line
/// breaks also match `\r\n`, even in a file with mixed line endings.
fn places_of(text: &str, piece: &str) -> Vec<Range<usize>> {
    let exact = ranges_of(text, piece);
    if !exact.is_empty() || piece.contains('\r') || !text.contains("\r\n") {
        return exact;
    }
    let plain = text.replace("\r\n", "\n");
    // The offsets in `plain` before which a `\r` was removed, in ascending order.
    let removed: Vec<usize> = text
        .match_indices("\r\n")
        .enumerate()
        .map(|(count, (at, _))| at - count)
        .collect();
    let in_text = |at: usize| at + removed.partition_point(|place| *place < at);
    ranges_of(&plain, piece)
        .into_iter()
        .map(|range| in_text(range.start)..in_text(range.end))
        .collect()
}

fn ranges_of(text: &str, piece: &str) -> Vec<Range<usize>> {
    text.match_indices(piece)
        .map(|(at, found)| at..at + found.len())
        .collect()
}

/// Returns the new text with the line endings of the place it replaces, so that a file keeps its
/// own. Text that contains `\r` is used as it is.
fn with_line_ends_of<'a>(
    breaks: &mut LineBreaks<'_>,
    place: &Range<usize>,
    new: &'a str,
) -> Cow<'a, str> {
    if new.contains('\r') || !new.contains('\n') {
        return Cow::Borrowed(new);
    }
    match breaks.nearest(place.start) {
        Some(at) if breaks.text[..at].ends_with('\r') => Cow::Owned(new.replace('\n', "\r\n")),
        Some(_) | None => Cow::Borrowed(new),
    }
}

/// Finds the line breaks near places in ascending order, in one pass over the text: a search for
/// each place took seconds in a file without line breaks.
struct LineBreaks<'a> {
    text: &'a str,
    /// The line break found last, at or after the previous place.
    next: Option<usize>,
    /// The last line break of the text.
    last: Option<usize>,
}

impl<'a> LineBreaks<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            text,
            next: None,
            last: text.rfind('\n'),
        }
    }

    /// Returns the first line break at or after the place, otherwise the last one before it.
    fn nearest(&mut self, place: usize) -> Option<usize> {
        let last = self.last?;
        if last <= place {
            return Some(last);
        }
        if self.next.is_none_or(|next| next < place) {
            self.next = self.text[place..].find('\n').map(|at| place + at);
        }
        self.next
    }
}

fn line_numbers(text: &str, places: &[Range<usize>]) -> String {
    let mut numbers: Vec<String> = places
        .iter()
        .take(MAX_PLACES)
        .map(|at| (text[..at.start].matches('\n').count() + 1).to_string())
        .collect();
    if places.len() > MAX_PLACES {
        numbers.push("…".to_owned());
    }
    numbers.join(", ")
}

fn not_found(text: &str, arguments: &Arguments) -> ToolFailure {
    let path = &arguments.path;
    let Some((at, why)) = nearest(text, &arguments.old_string) else {
        return ToolFailure::new(format!(
            "old_string does not occur in {path}, nor anything like it. Read the file and copy the text exactly."
        ));
    };
    let height = arguments
        .old_string
        .lines()
        .count()
        .clamp(1, MAX_SHOWN_LINES);
    let shown: Vec<String> = text
        .lines()
        .skip(at)
        .take(height)
        .map(|line| truncate(line, MAX_LINE_CHARS))
        .collect();
    ToolFailure::new(format!(
        "old_string does not occur in {path}. {why} at line {}; copy it exactly:\n{}",
        at + 1,
        shown.join("\n")
    ))
}

/// Returns the line, counted from 0, where the text is most similar to the piece, and how it
/// differs.
fn nearest(text: &str, piece: &str) -> Option<(usize, &'static str)> {
    let wanted: Vec<&str> = piece.lines().take(MAX_HINT_HEIGHT).map(str::trim).collect();
    let lines: Vec<&str> = text.lines().take(MAX_HINT_LINES).map(str::trim).collect();
    let skipped = wanted.iter().position(|line| !line.is_empty())?;
    let first = wanted[skipped];
    let whole = lines
        .windows(wanted.len())
        .position(|window| window == wanted.as_slice());
    if let Some(at) = whole {
        return Some((at, "There is the same text with other white space"));
    }
    if let Some(at) = lines.iter().position(|line| *line == first) {
        return Some((
            at.saturating_sub(skipped),
            "There is a text that begins the same way",
        ));
    }
    let first = truncate(first, MAX_LINE_CHARS);
    lines
        .iter()
        .enumerate()
        .take(MAX_HINT_LINES / 10)
        .map(|(at, line)| {
            let line = truncate(line, MAX_LINE_CHARS);
            (at, line_similarity(&first, &line))
        })
        .filter(|(_, ratio)| *ratio >= SIMILAR_ENOUGH)
        .max_by(|left, right| left.1.total_cmp(&right.1))
        .map(|(at, _)| (at.saturating_sub(skipped), "The most similar text is"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::testing::{Delegation, Folder, call, fingerprint, preview, recover};

    async fn check(
        before: &str,
        old: &str,
        new: &str,
        all: bool,
        expected: Result<(&str, &str), &str>,
    ) {
        let folder = Folder::with(&[("f", before)]);
        let arguments =
            json!({"path": "f", "old_string": old, "new_string": new, "replace_all": all});
        let reply = call(&EditFile::default(), &folder, arguments).await;
        match expected {
            Ok((after, answer)) => {
                assert_eq!(reply.unwrap(), answer);
                assert_eq!(folder.read("f"), after);
            }
            Err(failure) => {
                assert_eq!(reply.unwrap_err().to_string(), failure);
                assert_eq!(folder.read("f"), before);
            }
        }
        assert!(!folder.has_leftovers());
    }

    #[tokio::test]
    async fn edits() {
        check(
            "a\nb\nc\n",
            "b",
            "B",
            false,
            Ok(("a\nB\nc\n", "Edited f:\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c")),
        )
        .await;
        check(
            "x x",
            "x",
            "分",
            true,
            Ok(("分 分", "Edited f in 2 places:\n@@ -1 +1 @@\n-x x\n+分 分")),
        )
        .await;
        check(
            "a\r\nb\r\n",
            "a\nb",
            "c\nd",
            false,
            Ok(("c\r\nd\r\n", "Edited f:\n@@ -1,2 +1,2 @@\n-a\n-b\n+c\n+d")),
        )
        .await;
        // A new line in a file with `\r\n` gets `\r\n` too, although `old_string` has no line
        // break.
        check(
            "a\r\nb\r\n",
            "b",
            "b\nc",
            false,
            Ok(("a\r\nb\r\nc\r\n", "Edited f:\n@@ -1,2 +1,3 @@\n a\n b\n+c")),
        )
        .await;
        // Mixed line endings match, and each place keeps its own.
        check(
            "a\r\nb\nc\r\n",
            "a\nb\nc",
            "a\nx",
            false,
            Ok(("a\r\nx\r\n", "Edited f:\n@@ -1,3 +1,2 @@\n a\n-b\n-c\n+x")),
        )
        .await;
        check(
            "gone\n",
            "gone\n",
            "",
            false,
            Ok(("", "Edited f:\n@@ -1 +0,0 @@\n-gone")),
        )
        .await;
    }

    /// With one search of the text for each place this would take minutes.
    #[test]
    fn many_places_without_line_breaks_take_one_pass() {
        let places = 1_000_000;
        let text = "a,".repeat(places);
        let arguments = Arguments {
            path: "f".to_owned(),
            old_string: ",".to_owned(),
            new_string: ",\n".to_owned(),
            replace_all: true,
        };
        let (new, times) = replaced(&text, &arguments).unwrap();
        assert_eq!(times, places);
        assert!(new == "a,\n".repeat(places));
    }

    #[test]
    fn each_place_keeps_the_nearest_line_ending() {
        let arguments = Arguments {
            path: "f".to_owned(),
            old_string: "x".to_owned(),
            new_string: "y\nz".to_owned(),
            replace_all: true,
        };
        let check = |text: &str, expected: &str| {
            let (new, _) = replaced(text, &arguments).unwrap();
            assert_eq!(new, expected);
        };
        check("x\nx\r\nx", "y\nz\ny\r\nz\r\ny\r\nz");
        check("x x\r\nx\nx", "y\r\nz y\r\nz\r\ny\nz\ny\nz");
        check("x", "y\nz");
    }

    #[tokio::test]
    async fn preview_shows_the_diff_or_the_failure() {
        let check = async |old: &str, expected: &str| {
            let folder = Folder::with(&[("f", "a\nb\n")]);
            let arguments = json!({"path": "f", "old_string": old, "new_string": "B"});
            let tool = EditFile::default();
            let text = preview(&tool, &folder, &arguments, &Delegation::default()).await;
            assert!(text.starts_with(expected), "{text}");
            assert_eq!(folder.read("f"), "a\nb\n");
        };
        check("b", "f:\n@@ -1,2 +1,2 @@\n a\n-b\n+B").await;
        check("z", "It would fail: old_string does not occur in f").await;
    }

    #[tokio::test]
    async fn failures_explain_how_to_correct_old_string() {
        check("x\ny\nx\n", "x", "z", false, Err("old_string occurs 2 times in f (lines 1, 3). Add lines around it until it is unique, or set replace_all.")).await;
        check("a\n    if b {\n    }\n", "if b {\n}", "", false, Err("old_string does not occur in f. There is the same text with other white space at line 2; copy it exactly:\n    if b {\n    }")).await;
        check("fn a() {\n  one\n}\n", "fn a() {\n  two\n", "", false, Err("old_string does not occur in f. There is a text that begins the same way at line 1; copy it exactly:\nfn a() {\n  one")).await;
        check("z\nlet total = 5;\n", "let total = 6;", "", false, Err("old_string does not occur in f. The most similar text is at line 2; copy it exactly:\nlet total = 5;")).await;
        check("abc\n", "qqqqqq", "", false, Err("old_string does not occur in f, nor anything like it. Read the file and copy the text exactly.")).await;
        check("abc\n", "", "x", false, Err("old_string is empty. Give the exact text to replace, or use write_file for a new file.")).await;
        check("abc\n", "abc", "abc", false, Err("old_string and new_string are the same, so there is nothing to change. Check new_string.")).await;
    }

    #[tokio::test]
    async fn uneditable_files_are_rejected() {
        let folder = Folder::with(&[("main.rs", ""), (".git/config", "x")]);
        folder.write("latin", b"caf\xe9");
        folder.link("link", Path::new("latin"));
        let check = async |path: &str, expected: &str| {
            let arguments = json!({"path": path, "old_string": "x", "new_string": "y"});
            let failure = call(&EditFile::default(), &folder, arguments)
                .await
                .unwrap_err();
            assert!(failure.to_string().starts_with(expected), "{failure}");
        };
        check("latin", "latin is not UTF-8 text.").await;
        check("man.rs", "man.rs does not exist. Did you mean main.rs?").await;
        check("no/such", "no/such does not exist.").await;
        check(".git/config", ".git/config belongs to git's own files").await;
        check("link", "link is not UTF-8 text.").await;
    }

    #[tokio::test]
    async fn reconcile_after_a_crash_reports_whether_the_edit_happened() {
        let tool = EditFile::default();
        let arguments = json!({"path": "f", "old_string": "a", "new_string": "b"});
        let check = async |before: &str, after: &str, expected: &str| {
            let folder = Folder::with(&[("f", before)]);
            let remembered = fingerprint(&tool, &folder, &arguments).await;
            folder.write("f", after.as_bytes());
            assert_eq!(
                recover(&tool, &folder, &arguments, &remembered).await,
                expected
            );
        };
        let happened = "Edited f, as a check after an interruption confirmed.";
        check("1a2", "1b2", happened).await;
        check("1a2", "1a2", "not yet").await;
        check("1a2", "other", "unknown").await;
        check("no such", "no such", "not yet").await;
        check("a a", "a a", "not yet").await;
    }
}
