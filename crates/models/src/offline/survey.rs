//! The three surveys, and the form of their reports.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sortie_text::{Lang, t};

use super::evidence::Evidence;
use super::look::Look;
use super::{Step, docs, hot_spots, layout};

/// The maximum number of items of a list in a report.
const LISTED: usize = 8;

/// Words that mark an instruction as a request for a survey.
const SURVEY_TERMS: &str = "survey,explore,overview,demo,repository,repo ,codebase,project,summarise,\
                    summarize,项目,概览,探索,调查,仓库,代码库,总结,演示,了解,概述";

/// A kind of survey: the ids of its texts, the words that ask for it, and how it is made.
pub(super) struct Survey {
    pub(super) title: &'static str,
    pub(super) label: &'static str,
    pub(super) prompt: &'static str,
    keywords: &'static str,
    make: fn(&mut Look<'_>) -> Result<Report, Step>,
}

/// All surveys, in the order of the report.
pub(super) static SURVEYS: [Survey; 3] = [
    Survey {
        title: "survey-layout",
        label: "survey-layout-label",
        prompt: "survey-layout-prompt",
        keywords: "layout,language,module,entry point,structure,manifest,布局,结构,语言,模块,入口",
        make: layout::make,
    },
    Survey {
        title: "survey-docs",
        label: "survey-docs-label",
        prompt: "survey-docs-prompt",
        keywords: "readme,docs,documentation,documents,headings,文档,自述,标题",
        make: docs::make,
    },
    Survey {
        title: "survey-hot-spots",
        label: "survey-hot-spots-label",
        prompt: "survey-hot-spots-prompt",
        keywords: "todo,fixme,hack,xxx,hot spot,hotspot,test,热点,待办,测试",
        make: hot_spots::make,
    },
];

/// Returns whether the instruction requests something that this model can do.
pub(super) fn is_survey(instruction: &str) -> bool {
    score(&format!("{instruction} "), SURVEY_TERMS) > 0
}

/// Returns the survey that best matches the instruction, or `None` if none matches.
fn recognise(instruction: &str) -> Option<&'static Survey> {
    let score = |survey: &&Survey| score(instruction, survey.keywords);
    // Takes the first of the best, so that a tie selects the more general survey.
    let best = SURVEYS.iter().rev().max_by_key(score);
    best.filter(|survey| score(survey) > 0)
}

/// Returns how many of the words, which commas separate, a text contains.
fn score(text: &str, words: &str) -> usize {
    let lower = text.to_lowercase();
    words.split(',').filter(|word| lower.contains(word)).count()
}

/// Returns the next calls of the survey, or its report. If no survey was recognised, it is the
/// layout.
pub(super) fn next(evidence: &Evidence<'_>, lang: Lang) -> Step {
    let recognised = recognise(evidence.instruction);
    let survey = recognised.unwrap_or(&SURVEYS[0]);
    let mut look = Look::new(evidence, lang);
    let report = match (survey.make)(&mut look) {
        Ok(report) => report,
        Err(step) => return step,
    };
    if recognised.is_none() {
        look.unknown.insert(0, t!(lang, "survey-only"));
    }
    Step::Answer(report.render(look.unknown, lang))
}

/// The findings of a survey. The main agent parses the rendered form again.
#[derive(Debug)]
pub(super) struct Report {
    /// Joined by commas to the first line.
    pub(super) headline: Vec<String>,
    /// Lists with the ids of their titles.
    pub(super) lists: Vec<(&'static str, Vec<String>)>,
}

impl Report {
    fn render(self, unknown: Vec<String>, lang: Lang) -> String {
        let comma = if lang == Lang::Zh { "，" } else { ", " };
        let mut lines = vec![format!("**{}**", self.headline.join(comma))];
        let lists = self.lists.into_iter().chain([("survey-unknown", unknown)]);
        for (title, items) in lists.filter(|(_, items)| !items.is_empty()) {
            lines.push(format!("\n### {}\n", t!(lang, title)));
            lines.extend(items.iter().map(|item| format!("- {item}")));
        }
        lines.push(format!("\n{}", t!(lang, "survey-signature")));
        lines.join("\n")
    }
}

/// Shows the first items of a list, and how many more there are.
pub(super) fn listed<T>(items: &[T], show: impl FnMut(&T) -> String, lang: Lang) -> Vec<String> {
    listed_up_to(LISTED, items, show, lang)
}

/// Shows at most `max` items of a list, and how many more there are.
pub(super) fn listed_up_to<T>(
    max: usize,
    items: &[T],
    show: impl FnMut(&T) -> String,
    lang: Lang,
) -> Vec<String> {
    let mut lines: Vec<String> = items.iter().take(max).map(show).collect();
    if items.len() > max {
        lines.push(t!(lang, "survey-more", count = items.len() - max));
    }
    lines
}

/// Marks a number that may be higher.
pub(super) fn at_least(number: String, is_lower_bound: bool, lang: Lang) -> String {
    if is_lower_bound {
        t!(lang, "survey-at-least", number = number)
    } else {
        number
    }
}

/// Adds up the numbers of equal names; the biggest comes first.
pub(super) fn biggest_first<K: Ord>(items: impl IntoIterator<Item = (K, u64)>) -> Vec<(K, u64)> {
    let mut sums: BTreeMap<K, u64> = BTreeMap::new();
    for (name, number) in items {
        *sums.entry(name).or_default() += number;
    }
    let mut sums: Vec<(K, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, number)| Reverse(*number));
    sums
}

/// Sorts paths by depth, nearest to the root first.
pub(super) fn nearest_first<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut paths: Vec<&str> = paths.into_iter().collect();
    paths.sort_by_key(|path| (depth(path), *path));
    paths.dedup();
    paths
}

/// Returns the file name of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the depth of a path.
pub(super) fn depth(path: &str) -> usize {
    path.matches('/').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(instruction: &str) -> Option<&'static str> {
        recognise(instruction).map(|survey| survey.title)
    }

    #[test]
    fn each_order_of_the_lead_is_recognised() {
        for lang in [Lang::En, Lang::Zh] {
            for survey in &SURVEYS {
                let prompt = t!(lang, survey.prompt);
                assert_eq!(title(&prompt), Some(survey.title), "{prompt}");
            }
        }
    }

    #[test]
    fn synonyms_are_recognized_as_surveys() {
        for (instruction, expected) in [
            ("what languages are used?", Some("survey-layout")),
            ("read the README", Some("survey-docs")),
            ("find TODOs", Some("survey-hot-spots")),
            ("统计测试和待办", Some("survey-hot-spots")),
            ("fix the login bug", None),
        ] {
            assert_eq!(title(instruction), expected, "{instruction}");
        }
    }

    #[test]
    fn survey_requests_are_recognized() {
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
            assert_eq!(is_survey(instruction), expected, "{instruction}");
        }
    }
}
