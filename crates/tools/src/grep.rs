//! `grep`: finds files by content, with ripgrep's engine.

use std::fmt::Write as _;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish,
    SinkMatch,
};
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_base::truncate::truncate_around;
use sortie_core::ports::tool::{
    Recovery, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};

use crate::arguments::{at_most, parse, spec, whole};
use crate::blocking::{Stop, in_workspace};
use crate::confine::{Kept, Kind, OpenFile, Workspace};
use crate::glob::NamePattern;
use crate::walk::{Walked, walk};

/// The most bytes of a pattern.
const MAX_PATTERN_BYTES: usize = 2048;
/// The most bytes of a compiled pattern.
const MAX_REGEX_BYTES: usize = 2 * 1024 * 1024;
/// The most bytes of one file that are searched.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// The most bytes of a line that is searched.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;
/// The most characters of a line that are shown.
const MAX_LINE_CHARS: usize = 300;
/// The number of lines or files that are returned if the call sets no limit.
const DEFAULT_LIMIT: u64 = 100;
/// The most lines or files that a call can request.
const MAX_LIMIT: u64 = 1000;
/// The most context lines around a match that a call can request.
const MAX_CONTEXT: u64 = 20;
/// The most bytes of a result.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// The `grep` tool: searches the content of files.
#[derive(Debug)]
pub struct Grep {
    spec: ToolSpec,
    kept: Arc<Kept>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    output: Output,
    #[serde(default, deserialize_with = "whole")]
    context: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    limit: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Output {
    #[default]
    Content,
    Files,
    Count,
}

impl Grep {
    /// Creates the tool, which does not access the kept places.
    pub(crate) fn keeping(kept: &Arc<Kept>) -> Self {
        Self {
            spec: spec(
                "grep",
                "Search file contents by regex (ripgrep). output: content (default), files or count.",
                json!({
                    "type": "object",
                    "properties": {
                        "pattern": {"type": "string"},
                        "path": {"type": "string"},
                        "glob": {"type": "string"},
                        "ignore_case": {"type": "boolean"},
                        "output": {"enum": ["content", "files", "count"]},
                        "context": {"type": "integer"},
                        "limit": {"type": "integer"}
                    },
                    "required": ["pattern"],
                    "additionalProperties": false
                }),
            ),
            kept: Arc::clone(kept),
        }
    }
}

impl Default for Grep {
    fn default() -> Self {
        Self::keeping(&Arc::default())
    }
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Reads
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let arguments: Arguments = parse(arguments)?;
        let work = move |workspace: &Workspace, stop: &Stop| search(workspace, &arguments, stop);
        let text = in_workspace(context, &self.kept, work).await?;
        Ok(ToolAnswer::text(text).into())
    }
}

fn search(
    workspace: &Workspace,
    arguments: &Arguments,
    stop: &Stop,
) -> Result<String, ToolFailure> {
    let mut search = Search::new(arguments, stop)?;
    let start = workspace.locate(arguments.path.as_deref().unwrap_or("."))?;
    if workspace.open_directory(&start).is_err() {
        search.file(&start, workspace.open_file(&start)?);
        return Ok(search.answer(arguments, Walked::ONE_FILE));
    }
    let names = arguments
        .glob
        .as_deref()
        .map(NamePattern::new)
        .transpose()?;
    let walked = walk(workspace, &start, usize::MAX, stop, &mut |found| {
        let wanted = found.kind == Kind::File
            && !found.ignored
            && names.as_ref().is_none_or(|names| names.fits(found, &start));
        // A file that vanished or cannot be read has no matches to show.
        if wanted && let Ok(open) = workspace.open_listed(&found.directory, &found.path) {
            search.file(&found.path, open);
        }
        if search.full {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(search.answer(arguments, walked))
}

/// A search through many files, and its results so far.
struct Search<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    output: Output,
    limit: u64,
    stop: &'a Stop,
    answer: String,
    /// The lines or files in the result, depending on the output mode.
    given: u64,
    /// Whether there were more matches than the limit.
    full: bool,
}

impl<'a> Search<'a> {
    fn new(arguments: &Arguments, stop: &'a Stop) -> Result<Self, ToolFailure> {
        let context = match arguments.output {
            Output::Content => arguments.context.unwrap_or(0).min(MAX_CONTEXT) as usize,
            Output::Files | Output::Count => 0,
        };
        Ok(Self {
            matcher: compile(&arguments.pattern, arguments.ignore_case)?,
            searcher: SearcherBuilder::new()
                .binary_detection(BinaryDetection::quit(0))
                .heap_limit(Some(MAX_LINE_BYTES))
                .before_context(context)
                .after_context(context)
                .build(),
            output: arguments.output,
            limit: arguments.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
            stop,
            answer: String::new(),
            given: 0,
            full: false,
        })
    }

    fn file(&mut self, path: &Path, open: OpenFile) {
        let shown = path.display().to_string();
        let mut sink = FileSink {
            path: &shown,
            matcher: &self.matcher,
            output: self.output,
            allowed: self.limit - self.given,
            stop: self.stop,
            found: FileMatches::default(),
        };
        let reader = open.file.take(MAX_FILE_BYTES);
        // A file with a line over the limit, or one that fails midway, contributes the matches
        // before that.
        self.searcher
            .search_reader(&self.matcher, reader, &mut sink)
            .ok();
        let found = sink.found;
        self.take(&shown, &found);
    }

    fn take(&mut self, path: &str, found: &FileMatches) {
        if found.matches == 0 {
            self.full |= found.more;
            return;
        }
        // Writing to a String cannot fail.
        match self.output {
            Output::Content => {
                self.answer.push_str(&found.text);
                self.given += found.matches;
                self.full |= found.more;
            }
            Output::Files | Output::Count if self.given == self.limit => self.full = true,
            Output::Files => {
                writeln!(self.answer, "{path}").ok();
                self.given += 1;
            }
            Output::Count => {
                writeln!(self.answer, "{path}:{}", found.matches).ok();
                self.given += 1;
            }
        }
        self.full |= self.answer.len() > MAX_ANSWER_BYTES;
    }

    fn answer(mut self, arguments: &Arguments, walked: Walked) -> String {
        if self.given == 0 {
            self.answer = format!("Nothing matches {}.\n", arguments.pattern);
        }
        if self.full {
            let note =
                "(more matches exist; use a narrower pattern, path or glob, or a higher limit)\n";
            self.answer.push_str(note);
        }
        self.answer.push_str(&walked.notes().join("\n"));
        self.answer.truncate(self.answer.trim_end().len());
        self.answer
    }
}

fn compile(pattern: &str, ignore_case: bool) -> Result<RegexMatcher, ToolFailure> {
    at_most("pattern", pattern, MAX_PATTERN_BYTES)?;
    RegexMatcherBuilder::new()
        .case_insensitive(ignore_case)
        .line_terminator(Some(b'\n'))
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .build(pattern)
        .map_err(|error| {
            ToolFailure::new(format!(
                "The pattern cannot be used: {error}. It is a regular expression over single lines; write \\ before characters meant literally."
            ))
        })
}

/// The matches of one file.
#[derive(Debug, Default)]
struct FileMatches {
    text: String,
    matches: u64,
    /// Whether there were more matches than allowed.
    more: bool,
}

/// Collects the matches of one file.
struct FileSink<'a> {
    path: &'a str,
    matcher: &'a RegexMatcher,
    output: Output,
    /// How many more matching lines may be returned.
    allowed: u64,
    stop: &'a Stop,
    found: FileMatches,
}

impl FileSink<'_> {
    /// Returns whether a further match would exceed the limit.
    fn is_full(&mut self) -> bool {
        let full = self.found.matches == self.allowed;
        self.found.more |= full;
        full
    }

    fn line(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        let line = String::from_utf8_lossy(bytes);
        let line = line.trim_end_matches(['\n', '\r']);
        let at = match self.matcher.find(line.as_bytes()) {
            Ok(Some(found)) => found.start(),
            Ok(None) | Err(_) => 0,
        };
        let number = number.unwrap_or(0);
        let shown = truncate_around(line, at, MAX_LINE_CHARS);
        // Writing to a String cannot fail.
        writeln!(self.found.text, "{}{mark}{number}{mark}{shown}", self.path).ok();
    }
}

impl Sink for FileSink<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        if self.output == Output::Content && self.is_full() {
            return Ok(false);
        }
        self.found.matches += 1;
        match self.output {
            Output::Content => self.line(found.line_number(), ':', found.bytes()),
            Output::Files => return Ok(false),
            Output::Count => {}
        }
        self.found.more |= self.found.text.len() > MAX_ANSWER_BYTES;
        Ok(!self.found.more && !self.stop.is_due())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        if *context.kind() == SinkContextKind::Before && self.is_full() {
            return Ok(false);
        }
        self.line(context.line_number(), '-', context.bytes());
        Ok(true)
    }

    // Called only before a further match.
    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        if self.is_full() {
            return Ok(false);
        }
        self.found.text.push_str("--\n");
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Folder, call};

    async fn check(arguments: Value, expected: &str) {
        let folder = Folder::with(&[
            (".gitignore", "*.log\n"),
            ("a.rs", "fn one() {}\nlet x;\nfn two() {}\n"),
            ("b.txt", "one\r\nfive\n"),
            ("x.log", "one\n"),
            ("src/c.rs", "ONE\n分析 one 项目\n"),
        ]);
        folder.write("bin", b"one\0one\n");
        folder.write("latin", b"caf\xe9 three\n");
        let reply = call(&Grep::default(), &folder, arguments.clone()).await;
        let text = reply.unwrap_or_else(|failure| format!("! {failure}"));
        assert_eq!(text, expected, "{arguments}");
    }

    #[tokio::test]
    async fn searches() {
        check(
            json!({"pattern": "one"}),
            "a.rs:1:fn one() {}\nb.txt:1:one\nsrc/c.rs:2:分析 one 项目",
        )
        .await;
        check(
            json!({"pattern": "ONE", "ignore_case": true, "path": "src"}),
            "src/c.rs:1:ONE\nsrc/c.rs:2:分析 one 项目",
        )
        .await;
        check(
            json!({"pattern": "one", "glob": "*.rs", "output": "files"}),
            "a.rs\nsrc/c.rs",
        )
        .await;
        check(
            json!({"pattern": "fn|one", "output": "count"}),
            "a.rs:2\nb.txt:1\nsrc/c.rs:1",
        )
        .await;
        check(
            json!({"pattern": "let", "context": 1}),
            "a.rs-1-fn one() {}\na.rs:2:let x;\na.rs-3-fn two() {}",
        )
        .await;
        check(json!({"pattern": "one", "path": "x.log"}), "x.log:1:one").await;
        check(json!({"pattern": "three"}), "latin:1:caf\u{fffd} three").await;
        check(json!({"pattern": "nowhere"}), "Nothing matches nowhere.").await;
    }

    #[tokio::test]
    async fn is_bounded() {
        let more = "(more matches exist; use a narrower pattern, path or glob, or a higher limit)";
        check(
            json!({"pattern": "fn", "limit": 1}),
            &format!("a.rs:1:fn one() {{}}\n{more}"),
        )
        .await;
        check(
            json!({"pattern": "fn", "limit": 2}),
            "a.rs:1:fn one() {}\na.rs:3:fn two() {}",
        )
        .await;
        check(
            json!({"pattern": "fn", "limit": 1, "context": 1}),
            &format!("a.rs:1:fn one() {{}}\na.rs-2-let x;\n{more}"),
        )
        .await;
        check(
            json!({"pattern": "one", "limit": 1, "output": "files"}),
            &format!("a.rs\n{more}"),
        )
        .await;
        let folder = Folder::with(&[]);
        folder.write(
            "long",
            format!("{}needle{}\n", "分".repeat(5000), "析".repeat(5000)).as_bytes(),
        );
        let text = call(&Grep::default(), &folder, json!({"pattern": "needle"}))
            .await
            .unwrap();
        assert!(text.contains("分needle析"), "{text}");
        assert_eq!(text.chars().count(), "long:1:".len() + MAX_LINE_CHARS + 2);
    }

    #[tokio::test]
    async fn refuses_bad_patterns() {
        let refuse = async |pattern: &str, part: &str| {
            let folder = Folder::with(&[("f", "x")]);
            let failure = call(&Grep::default(), &folder, json!({"pattern": pattern})).await;
            let failure = failure.unwrap_err().to_string();
            assert!(failure.contains(part), "{failure}");
        };
        refuse("(", "unclosed group").await;
        refuse(r"(\w{100}){100}{100}", "size limit").await;
        refuse(&"x".repeat(MAX_PATTERN_BYTES + 1), "the limit is 2048").await;
        refuse(r"a\nb", "single lines").await;
    }
}
