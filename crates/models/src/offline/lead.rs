//! The main agent: starts three surveyors, then combines their results into one report.

use serde_json::json;

use sortie_base::truncate::truncate;
use sortie_core::words::Lang;

use super::evidence::{Answer, Evidence};
use super::survey::Survey;
use super::{Call, EXPLORER, Step, words};

/// The tool that starts a child and waits for its result.
pub(super) const TASK_TOOL: &str = "task";
/// The maximum length of a failure in the report.
const SHOWN_FAILURE_CHARS: usize = 240;

/// Returns whether children were already started.
pub(super) fn has_delegated(evidence: &Evidence<'_>) -> bool {
    evidence.with(TASK_TOOL).next().is_some()
}

/// Starts the children, or combines their results.
pub(super) fn next(evidence: &Evidence<'_>, lang: Lang) -> Step {
    if has_delegated(evidence) {
        return Step::Say(combine(evidence, lang));
    }
    Step::Look {
        say: words::sending_out(lang),
        calls: Survey::ALL
            .iter()
            .map(|survey| order(*survey, lang))
            .collect(),
    }
}

fn order(survey: Survey, lang: Lang) -> Call {
    Call {
        tool: TASK_TOOL,
        arguments: json!({
            "description": words::order_label(survey, lang),
            "prompt": words::order_prompt(survey, lang),
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
    let sections: Vec<(Survey, Section)> = Survey::ALL
        .iter()
        .map(|survey| {
            (
                *survey,
                section(evidence.answer(&order(*survey, lang)), lang),
            )
        })
        .collect();
    let mut lines = vec![format!("# {}", words::report_title(lang)), String::new()];
    for (survey, section) in &sections {
        let title = words::survey_title(*survey, lang);
        lines.push(format!("- **{title}**: {}", section.headline));
    }
    lines.extend([String::new(), words::signature(lang)]);
    for (survey, section) in &sections {
        let title = words::survey_title(*survey, lang);
        lines.extend([String::new(), format!("## {title}"), String::new()]);
        lines.push(section.body.clone());
    }
    lines.extend([
        String::new(),
        format!("## {}", words::unknown_title(lang)),
        String::new(),
    ]);
    lines.extend(unknown(&sections, lang));
    lines.join("\n")
}

fn unknown(sections: &[(Survey, Section)], lang: Lang) -> Vec<String> {
    let all: Vec<String> = sections
        .iter()
        .flat_map(|(survey, section)| {
            let title = words::survey_title(*survey, lang);
            let items = section.unknown.iter();
            items.map(move |item| format!("- {title}: {item}"))
        })
        .collect();
    if all.is_empty() {
        return vec![format!("- {}", words::nothing_unknown(lang))];
    }
    all
}

fn section(answer: Answer<'_>, lang: Lang) -> Section {
    let (problem, body) = match answer {
        Answer::Text { text, .. } => return understood(text, lang),
        Answer::Failed(text) => {
            let first = text.trim().lines().next().unwrap_or_default();
            (
                words::child_failed(&truncate(first, SHOWN_FAILURE_CHARS), lang),
                text,
            )
        }
        Answer::Absent => (words::child_absent(lang), ""),
    };
    Section {
        headline: words::no_numbers(lang),
        body: quoted(body, lang),
        unknown: vec![problem],
    }
}

/// Splits a child's report into its first line, its body, and what it could not determine.
fn understood(text: &str, lang: Lang) -> Section {
    let report = without_frame(without_closing_line(text));
    let (headline, rest) = report.split_once('\n').unwrap_or((report, ""));
    let mut body = Vec::new();
    let mut unknown = Vec::new();
    let mut is_unknown = false;
    for line in rest.lines().filter(|line| !words::is_signature(line)) {
        if let Some(title) = line.strip_prefix("### ") {
            is_unknown = words::is_unknown_title(title);
        }
        match line.strip_prefix("- ") {
            Some(item) if is_unknown => unknown.push(item.to_owned()),
            Some(_) | None if is_unknown => {}
            Some(_) | None => body.push(line),
        }
    }
    Section {
        headline: headline.trim_matches('*').to_owned(),
        body: quoted(body.join("\n").trim(), lang),
        unknown,
    }
}

fn quoted(body: &str, lang: Lang) -> String {
    if body.trim().is_empty() {
        words::no_details(lang)
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
