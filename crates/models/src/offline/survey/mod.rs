//! The three surveys: each is a plan of calls in stages and a report computed from the results.

mod docs;
mod hot_spots;
mod layout;

use serde_json::json;

use sortie_base::truncate::truncate;
use sortie_core::words::Lang;

use super::evidence::{Answer, Evidence};
use super::reading::{Counts, Paths, counts, entries, is_part_of_file, paths};
use super::{Call, Step, words};

/// The maximum number of items of a list in a report.
const LISTED: usize = 8;
/// The maximum number of directory entries in a report.
const LISTED_ENTRIES: usize = 24;
/// The maximum length of a failure in a report.
const SHOWN_FAILURE_CHARS: usize = 160;
/// The maximum number of files in a count: as many as the tool returns.
const COUNTED_FILES: u64 = 1000;
/// The number of lines of a file that are read: enough for an outline.
const READ_LINES: u64 = 400;

/// Words that mark an instruction as a request for a survey.
const ASKS: [&str; 20] = [
    "survey",
    "explore",
    "overview",
    "demo",
    "repository",
    "repo ",
    "codebase",
    "project",
    "summarise",
    "summarize",
    "项目",
    "概览",
    "探索",
    "调查",
    "仓库",
    "代码库",
    "总结",
    "演示",
    "了解",
    "概述",
];

/// The kinds of surveys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survey {
    /// Languages, modules, entry points.
    Layout,
    /// The documentation of the project.
    Docs,
    /// Marks of unfinished work, and tests.
    HotSpots,
}

impl Survey {
    /// All surveys, in the order of the report.
    pub(super) const ALL: [Self; 3] = [Self::Layout, Self::Docs, Self::HotSpots];

    /// Returns the survey that best matches the instruction, or `None` if none matches.
    pub(super) fn recognise(instruction: &str) -> Option<Self> {
        let lower = instruction.to_lowercase();
        let score = |survey: &Self| {
            survey
                .keywords()
                .iter()
                .filter(|w| lower.contains(**w))
                .count()
        };
        // Takes the first of the best, so that a tie selects the more general survey.
        let best = Self::ALL.iter().rev().max_by_key(|survey| score(survey))?;
        (score(best) > 0).then_some(*best)
    }

    const fn keywords(self) -> &'static [&'static str] {
        match self {
            Self::Layout => &[
                "layout",
                "language",
                "module",
                "entry point",
                "structure",
                "manifest",
                "布局",
                "结构",
                "语言",
                "模块",
                "入口",
            ],
            Self::Docs => &[
                "readme",
                "docs",
                "documentation",
                "documents",
                "headings",
                "文档",
                "自述",
                "标题",
            ],
            Self::HotSpots => &[
                "todo", "fixme", "hack", "xxx", "hot spot", "hotspot", "test", "热点", "待办",
                "测试",
            ],
        }
    }

    /// Returns the calls of a stage, given the results of the earlier ones.
    fn stage(self, number: usize, evidence: &Evidence<'_>) -> Vec<Call> {
        match self {
            Self::Layout => layout::stage(number, evidence),
            Self::Docs => docs::stage(number, evidence),
            Self::HotSpots => hot_spots::stage(number, evidence),
        }
    }

    fn report(self, evidence: &Evidence<'_>, lang: Lang) -> Report {
        match self {
            Self::Layout => layout::report(evidence, lang),
            Self::Docs => docs::report(evidence, lang),
            Self::HotSpots => hot_spots::report(evidence, lang),
        }
    }
}

/// Returns whether the instruction requests something that this model can do.
pub(super) fn asked_for(instruction: &str) -> bool {
    let lower = format!("{} ", instruction.to_lowercase());
    ASKS.iter().any(|word| lower.contains(word))
}

/// The number of stages of a plan.
const STAGES: usize = 3;

/// Returns the next calls of the survey, or its report. If no survey was recognised, it is the
/// layout.
pub(super) fn next(recognised: Option<Survey>, evidence: &Evidence<'_>, lang: Lang) -> Step {
    let survey = recognised.unwrap_or(Survey::Layout);
    for number in 0..STAGES {
        let calls: Vec<Call> = survey
            .stage(number, evidence)
            .into_iter()
            .filter(|call| evidence.offers(call.tool) && evidence.answer(call) == Answer::Absent)
            .collect();
        if !calls.is_empty() {
            let say = words::looking(survey, number, lang);
            return Step::Look { say, calls };
        }
    }
    let mut report = survey.report(evidence, lang);
    if recognised.is_none() {
        report.unknown.insert(0, words::only_surveys(lang));
    }
    Step::Say(report.render(lang))
}

/// The findings of a survey. The main agent parses the rendered form again.
#[derive(Debug)]
struct Report {
    headline: String,
    sections: Vec<(String, Vec<String>)>,
    unknown: Vec<String>,
}

impl Report {
    fn render(&self, lang: Lang) -> String {
        let mut lines = vec![format!("**{}**", self.headline)];
        let unknown = (words::unknown_title(lang), self.unknown.clone());
        for (title, items) in self.sections.iter().chain([&unknown]) {
            if items.is_empty() {
                continue;
            }
            lines.extend([String::new(), format!("### {title}"), String::new()]);
            lines.extend(items.iter().map(|item| format!("- {item}")));
        }
        lines.extend([String::new(), words::signature(lang)]);
        lines.join("\n")
    }
}

/// Reads results from the evidence and collects what is missing.
struct Reader<'e, 'a> {
    evidence: &'e Evidence<'a>,
    lang: Lang,
    unknown: Vec<String>,
}

impl<'e, 'a> Reader<'e, 'a> {
    const fn new(evidence: &'e Evidence<'a>, lang: Lang) -> Self {
        Self {
            evidence,
            lang,
            unknown: Vec::new(),
        }
    }

    /// Returns the text of a result; a missing result is recorded.
    fn text(&mut self, call: &Call) -> Option<&'a str> {
        let what = describe(call);
        match self.evidence.answer(call) {
            Answer::Text { text, cut } => {
                if cut {
                    self.note_part(call);
                }
                Some(text)
            }
            Answer::Failed(why) => {
                let first = why.trim().lines().next().unwrap_or_default();
                let why = truncate(first, SHOWN_FAILURE_CHARS);
                self.unknown
                    .push(words::tool_failed(&what, &why, self.lang));
                None
            }
            Answer::Absent => {
                self.unknown.push(words::not_asked(&what, self.lang));
                None
            }
        }
    }

    fn paths(&mut self, call: &Call) -> Paths {
        let mut found = self.text(call).map(paths).unwrap_or_default();
        found.open_ended |= is_cut(self.evidence.answer(call));
        if found.is_partial() {
            self.note_part(call);
        }
        found
    }

    /// Returns the top of a directory listing.
    fn entries(&mut self, path: &str) -> Vec<String> {
        let names = self.text(&list_dir(path)).map(entries).unwrap_or_default();
        let more = words::and_more(more_than(LISTED_ENTRIES, names.len()), self.lang);
        let shown = names.iter().take(LISTED_ENTRIES);
        let line: Vec<String> = shown.map(|name| format!("`{name}`")).chain(more).collect();
        if line.is_empty() {
            return Vec::new();
        }
        vec![line.join(", ")]
    }

    /// Returns the text of a file; records if only part of it was read.
    fn file(&mut self, path: &str) -> Option<&'a str> {
        let call = read(path);
        let text = self.text(&call)?;
        if is_part_of_file(text) {
            self.note_part(&call);
        }
        Some(text)
    }

    fn counts(&mut self, call: &Call) -> Counts {
        let mut found = self.text(call).map(counts).unwrap_or_default();
        found.partial |= is_cut(self.evidence.answer(call));
        if found.partial {
            self.note_part(call);
        }
        found
    }

    fn note_part(&mut self, call: &Call) {
        let note = words::was_cut(&describe(call), self.lang);
        self.unknown.push(note);
    }

    /// Returns what was recorded as missing, without duplicates.
    fn into_unknown(mut self) -> Vec<String> {
        let mut seen = Vec::new();
        self.unknown.retain(|item| {
            let is_new = !seen.contains(item);
            seen.push(item.clone());
            is_new
        });
        self.unknown
    }
}

const fn is_cut(answer: Answer<'_>) -> bool {
    matches!(answer, Answer::Text { cut: true, .. })
}

/// Returns the paths that an earlier stage found, or none.
fn found_paths(evidence: &Evidence<'_>, call: &Call) -> Vec<String> {
    match evidence.answer(call) {
        Answer::Text { text, .. } => paths(text).items,
        Answer::Failed(_) | Answer::Absent => Vec::new(),
    }
}

/// Returns the counts that an earlier stage found, or none.
fn found_counts(evidence: &Evidence<'_>, call: &Call) -> Vec<(String, u64)> {
    match evidence.answer(call) {
        Answer::Text { text, .. } => counts(text).items,
        Answer::Failed(_) | Answer::Absent => Vec::new(),
    }
}

fn glob(pattern: &str) -> Call {
    Call {
        tool: "glob",
        arguments: json!({ "pattern": pattern }),
    }
}

fn list_dir(path: &str) -> Call {
    Call {
        tool: "list_dir",
        arguments: json!({ "path": path }),
    }
}

fn count(pattern: &str) -> Call {
    Call {
        tool: "grep",
        arguments: json!({ "pattern": pattern, "output": "count", "limit": COUNTED_FILES }),
    }
}

fn matches_in(path: &str, pattern: &str) -> Call {
    Call {
        tool: "grep",
        arguments: json!({ "pattern": pattern, "path": path, "output": "content" }),
    }
}

fn read(path: &str) -> Call {
    Call {
        tool: "read_file",
        arguments: json!({ "path": path, "limit": READ_LINES }),
    }
}

/// Describes a call for a report.
fn describe(call: &Call) -> String {
    let argument = |key: &str| call.arguments.get(key).and_then(|value| value.as_str());
    let what = [argument("pattern"), argument("path")];
    let what: Vec<String> = what
        .into_iter()
        .flatten()
        .map(|text| format!("`{text}`"))
        .collect();
    format!("{} {}", call.tool, what.join(" "))
}

/// Returns the number of items that a list omits.
const fn more_than_listed(count: usize) -> u64 {
    more_than(LISTED, count)
}

const fn more_than(shown: usize, count: usize) -> u64 {
    count.saturating_sub(shown) as u64
}

/// Returns the file name of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the depth of a path.
fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// Sorts paths by depth, nearest to the root first.
fn nearest_first(mut paths: Vec<String>) -> Vec<String> {
    paths.sort_by(|a, b| depth(a).cmp(&depth(b)).then_with(|| a.cmp(b)));
    paths.dedup();
    paths
}

/// Sorts by size, biggest first, then by name.
fn biggest_first(mut items: Vec<(String, u64)>) -> Vec<(String, u64)> {
    items.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_of_the_lead_is_recognised() {
        for lang in [Lang::En, Lang::Zh] {
            for survey in Survey::ALL {
                let prompt = words::order_prompt(survey, lang);
                assert_eq!(Survey::recognise(&prompt), Some(survey), "{prompt}");
            }
        }
    }

    #[test]
    fn other_words_for_surveys() {
        for (instruction, expected) in [
            ("what languages are used?", Some(Survey::Layout)),
            ("read the README", Some(Survey::Docs)),
            ("find TODOs", Some(Survey::HotSpots)),
            ("统计测试和待办", Some(Survey::HotSpots)),
            ("fix the login bug", None),
        ] {
            assert_eq!(Survey::recognise(instruction), expected, "{instruction}");
        }
    }

    #[test]
    fn what_counts_as_a_request_for_a_survey() {
        for (instruction, expected) in [
            ("Survey this folder", true),
            ("give me an overview", true),
            ("explore the repo", true),
            ("run the demo", true),
            ("概览一下这个项目", true),
            ("write a poem about reports", false),
            ("fix the login bug", false),
            ("你好", false),
        ] {
            assert_eq!(asked_for(instruction), expected, "{instruction}");
        }
    }
}
