//! The main agent: starts three surveyors, then combines their results into one report.

use serde_json::json;

use sortie_base::truncate::truncate;
use sortie_text::{Lang, t};

use super::evidence::{Answer, Evidence};
use super::survey::{SURVEYS, Survey};
use super::{Call, EXPLORER, Step};

/// The tool that starts a child and waits for its result.
pub(super) const TASK_TOOL: &str = "task";
/// The maximum length of a failure in the report.
const SHOWN_FAILURE_CHARS: usize = 240;

/// Starts the children, or combines their results.
pub(super) fn next(evidence: &Evidence<'_>, lang: Lang) -> Step {
    if evidence.has_called(TASK_TOOL) {
        return Step::Answer(combine(evidence, lang));
    }
    Step::Look {
        text: t!(lang, "survey-sending"),
        calls: SURVEYS.iter().map(|survey| order(survey, lang)).collect(),
    }
}

fn order(survey: &Survey, lang: Lang) -> Call {
    Call {
        tool: TASK_TOOL,
        arguments: json!({
            "description": t!(lang, survey.label),
            "prompt": t!(lang, survey.prompt),
            "subagent_type": EXPLORER,
        }),
    }
}

/// The result of one child.
struct Section {
    headline: String,
    body: String,
    unknown: Vec<String>,
}

fn combine(evidence: &Evidence<'_>, lang: Lang) -> String {
    let mut head = vec![format!("# {}\n", t!(lang, "survey-title"))];
    let mut bodies = Vec::new();
    let mut unknown = Vec::new();
    for survey in &SURVEYS {
        let title = t!(lang, survey.title);
        let section = section(evidence.answer(&order(survey, lang)), lang);
        head.push(format!("- **{title}**: {}", section.headline));
        bodies.push(format!("\n## {title}\n\n{}", section.body));
        let items = section.unknown.iter();
        unknown.extend(items.map(|item| format!("- {title}: {item}")));
    }
    if unknown.is_empty() {
        unknown.push(format!("- {}", t!(lang, "survey-complete")));
    }
    head.push(format!("\n{}", t!(lang, "survey-signature")));
    bodies.push(format!("\n## {}\n", t!(lang, "survey-unknown")));
    [head, bodies, unknown].concat().join("\n")
}

fn section(answer: Answer<'_>, lang: Lang) -> Section {
    let (problem, body) = match answer {
        Answer::Text { text, .. } => return understood(text, lang),
        Answer::Failed(text) => {
            let first = text.trim().lines().next().unwrap_or_default();
            let why = truncate(first, SHOWN_FAILURE_CHARS);
            (t!(lang, "survey-child-failed", why = why), text)
        }
        Answer::Absent => (t!(lang, "survey-child-absent"), ""),
    };
    Section {
        headline: t!(lang, "survey-no-result"),
        body: quoted(body, lang),
        unknown: vec![problem],
    }
}

/// Splits a child's report into its first line, its body, and what it could not determine.
fn understood(text: &str, lang: Lang) -> Section {
    let report = without_frame(without_closing_line(text));
    let (headline, rest) = report.split_once('\n').unwrap_or((report, ""));
    let is_fixed = |line: &str, id: &str| Lang::ALL.iter().any(|lang| t!(*lang, id) == line.trim());
    let lines = rest.lines();
    let (mut body, mut unknown, mut is_unknown) = (Vec::new(), Vec::new(), false);
    for line in lines.filter(|line| !is_fixed(line, "survey-signature")) {
        if let Some(title) = line.strip_prefix("### ") {
            is_unknown = is_fixed(title, "survey-unknown");
        }
        if !is_unknown {
            body.push(line);
        } else if let Some(item) = line.strip_prefix("- ") {
            unknown.push(item.to_owned());
        }
    }
    Section {
        headline: headline.trim_matches('*').to_owned(),
        body: quoted(&body.join("\n"), lang),
        unknown,
    }
}

fn quoted(body: &str, lang: Lang) -> String {
    if body.trim().is_empty() {
        t!(lang, "survey-no-details")
    } else {
        body.trim().to_owned()
    }
}

/// Returns the report without the line that the runtime appends.
fn without_closing_line(text: &str) -> &str {
    let text = text.trim();
    match text.rsplit_once("\n\n") {
        Some((report, last)) if last.starts_with('[') && !last.contains('\n') => report.trim_end(),
        Some(_) | None => text,
    }
}

/// Returns the report without the two marker lines that the runtime puts around it, and its note
/// above them.
fn without_frame(text: &str) -> &str {
    let inner = || {
        let (before, close) = text.rsplit_once('\n')?;
        let (_note, framed) = before.split_once('\n')?;
        let (open, report) = framed.split_once('\n')?;
        (mark(open)? == mark(close)?).then_some(report)
    };
    inner().unwrap_or(text)
}

/// Returns the word that both marker lines share.
fn mark(line: &str) -> Option<&str> {
    let words = line.strip_prefix("----- ")?.strip_suffix(" -----")?;
    words.rsplit(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_is_not_part_of_the_report() {
        for (text, expected) in [
            (
                "A note.\n----- begin subagent output 4f59 -----\na\n\nb\n----- end subagent output 4f59 -----",
                "a\n\nb",
            ),
            (
                "说明。\n----- 子 Agent 输出开始 4f59 -----\na\n----- 子 Agent 输出结束 4f59 -----",
                "a",
            ),
            (
                "a\n----- x 1 -----\nb\n----- y 2 -----",
                "a\n----- x 1 -----\nb\n----- y 2 -----",
            ),
            ("a", "a"),
        ] {
            assert_eq!(without_frame(text), expected);
        }
    }

    #[test]
    fn the_closing_line_is_not_part_of_the_report() {
        for (text, expected) in [
            ("a\n\nb\n\n[agent explore, id 1, 2 tool calls]", "a\n\nb"),
            ("a\n\nb", "a\n\nb"),
            ("[only this]", "[only this]"),
        ] {
            assert_eq!(without_closing_line(text), expected);
        }
    }
}
