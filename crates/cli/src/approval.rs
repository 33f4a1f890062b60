//! Formats approval prompts for the user at the terminal, and parses the typed replies.
//!
//! Fails closed: every answer except yes means no, and an unanswered request expires. Hidden
//! characters in text of a model are written out, so that it cannot draw a prompt or hide what
//! would run.

use crate::ids::short_label;
use crate::theme::Themed as _;
use console::Style;
use serde_json::Value;
use sortie_base::diff;
use sortie_base::hidden::{write_out, write_out_line};
use sortie_core::request::{
    Answerer, ApprovalRequest, Danger, OpenRequest, Question, Reply, RequestKind,
};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_text::{t, truncate_middle};

/// The most characters of a value. A longer one is truncated in the middle, with a mark.
const SHOWN_CHARS: usize = 4_000;
/// The most characters of what would run: longer than any reasonable command. `sortie approvals
/// show` prints all of it.
const EXACT_CHARS: usize = 32_000;
/// The most lines of a diff.
const SHOWN_DIFF_LINES: usize = 24;
/// Arguments of built-in tools that the diff already shows. All other arguments are listed.
const SHOWN_IN_DIFF: &[(&str, &[&str])] = &[
    ("write_file", &["content"]),
    ("edit_file", &["old_string", "new_string"]),
];
/// The name of the terminal in audits.
pub(crate) const AT_TERMINAL: &str = "terminal";

/// Parses a line that this person typed; `None` if it is no reply.
pub(crate) fn reply(kind: &RequestKind, line: &str, person: &str) -> Option<Reply> {
    let line = line.trim();
    match kind {
        RequestKind::Approval(approval) => Some(verdict(approval, line, person)),
        RequestKind::Question(question) => {
            let chosen = line
                .parse::<usize>()
                .ok()
                .and_then(|number| question.options.get(number.checked_sub(1)?))
                .map(String::as_str);
            let text = match (chosen, line) {
                (Some(option), _) => option,
                (None, "") => question.default.as_deref()?,
                (None, line) => line,
            };
            Some(Reply::Answered {
                by: Answerer::Person,
                name: Some(person.to_owned()),
                text: text.to_owned(),
            })
        }
    }
}

fn verdict(approval: &ApprovalRequest, line: &str, person: &str) -> Reply {
    let by = person.to_owned();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let word = word.to_lowercase();
    let lasting = word
        .strip_prefix('a')
        .and_then(|number| match number {
            "" => Some(1),
            number => number.parse::<usize>().ok(),
        })
        .and_then(|number| approval.lasting.get(number.checked_sub(1)?));
    // A dangerous call needs the whole word, and is never approved for more than this one call.
    let is_dangerous = !approval.dangers.is_empty();
    match (word.as_str(), lasting) {
        ("yes" | "是", _) if is_dangerous && rest.is_empty() => {
            Reply::Approved { by, lasting: None }
        }
        (_, _) if is_dangerous => Reply::Refused {
            by,
            words: Some(rest.trim().to_owned())
                .filter(|words| matches!(word.as_str(), "n" | "no" | "否") && !words.is_empty()),
        },
        ("y" | "yes" | "是", _) => Reply::Approved { by, lasting: None },
        ("always" | "总是", _) => Reply::Approved {
            by,
            lasting: approval.lasting.first().cloned(),
        },
        (_, Some(rule)) => Reply::Approved {
            by,
            lasting: Some(rule.clone()),
        },
        ("n" | "no" | "否", None) => Reply::Refused {
            by,
            words: Some(rest.trim().to_owned()).filter(|words| !words.is_empty()),
        },
        (_, None) => Reply::Refused { by, words: None },
    }
}

/// Formats the prompt with everything that a decision needs.
pub(crate) fn question(lang: Lang, open: &OpenRequest) -> String {
    match &open.request.kind {
        RequestKind::Approval(approval) => approval_question(lang, open, approval),
        RequestKind::Question(question) => plain_question(lang, open, question),
    }
}

fn approval_question(lang: Lang, open: &OpenRequest, approval: &ApprovalRequest) -> String {
    let agent = write_out_line(&open.agent);
    let label = short_label(&open.label);
    let tool = write_out_line(&approval.tool);
    let mut lines = vec![t!(
        lang,
        "approval-asks",
        agent = agent.as_str(),
        label = label.as_str(),
        tool = tool.as_str()
    )];
    lines.extend(exact_lines(lang, open, approval));
    let mut notes = other_arguments(approval);
    notes.extend(match &approval.preview {
        Some(preview) => first_lines(lang, preview.lines().map(str::to_owned)),
        None => details(lang, &approval.arguments),
    });
    notes.push(reason_words(lang, &approval.reason));
    if approval.dangers.is_empty() {
        notes.extend(approval.lasting.iter().enumerate().map(|(index, rule)| {
            t!(
                lang,
                "approval-lasting",
                number = index + 1,
                rule = shown(rule)
            )
        }));
    }
    lines.extend(notes.into_iter().map(|note| format!("  | {note}")));
    let red = Style::new().bad().bold().for_stderr();
    let dangers = danger_lines(lang, &approval.dangers).into_iter();
    lines.extend(dangers.map(|line| red.apply_to(line).to_string()));
    let key = match (&*approval.dangers, &*approval.lasting) {
        ([_, ..], _) => "approval-question-danger",
        ([], []) => "approval-question-once",
        ([], [_, ..]) => "approval-question",
    };
    lines.push(t!(lang, key, agent = agent, label = label, tool = tool));
    lines.join("\n") + " "
}

/// Formats what would run, verbatim, on separate lines.
fn exact_lines(lang: Lang, open: &OpenRequest, approval: &ApprovalRequest) -> Vec<String> {
    let exact = truncate_middle(&approval.exact, EXACT_CHARS, "\n[…]\n");
    let bold = Style::new().bold().for_stderr();
    let mut lines: Vec<String> = exact
        .text
        .split('\n')
        .map(|line| format!("    {}", bold.apply_to(write_out(line))))
        .collect();
    if exact.left_out > 0 {
        lines.push(t!(
            lang,
            "approval-hidden",
            count = exact.left_out,
            id = open.request.id.as_str()
        ));
    }
    lines
}

/// Formats the dangers of a call, one per line.
pub(crate) fn danger_lines(lang: Lang, dangers: &[Danger]) -> Vec<String> {
    let line = |danger: &Danger| {
        t!(
            lang,
            "approval-danger",
            command = shown(&danger.command),
            why = shown(&danger.why),
            instead = shown(&danger.instead)
        )
    };
    dangers.iter().map(line).collect()
}

/// Formats why a prompt was withdrawn: which reply was sent elsewhere, by whom and when.
pub(crate) fn replied_elsewhere(
    lang: Lang,
    reply: Option<&Reply>,
    at: Option<Timestamp>,
) -> String {
    let at = at.map(Timestamp::to_rfc3339).unwrap_or_default();
    let (by, words) = match reply {
        None => return t!(lang, "withdrawn-ended"),
        Some(Reply::Expired) => return t!(lang, "withdrawn-expired", at = at),
        Some(Reply::Approved { by, lasting: None }) => (shown(by), t!(lang, "replied-approved")),
        Some(Reply::Approved {
            by,
            lasting: Some(rule),
        }) => (
            shown(by),
            t!(lang, "replied-approved-always", rule = shown(rule)),
        ),
        Some(Reply::Refused { by, words: None }) => (shown(by), t!(lang, "replied-denied")),
        Some(Reply::Refused {
            by,
            words: Some(words),
        }) => (
            shown(by),
            t!(lang, "replied-denied-because", words = shown(words)),
        ),
        Some(Reply::Answered { by, name, text }) => {
            let by = match (by, name) {
                (Answerer::Parent, _) => t!(lang, "replied-by-parent"),
                (Answerer::Person, None) => t!(lang, "replied-by-person"),
                (Answerer::Person, Some(name)) => shown(name),
            };
            (by, shown(text))
        }
    };
    t!(lang, "withdrawn-replied", by = by, at = at, words = words)
}

fn plain_question(lang: Lang, open: &OpenRequest, question: &Question) -> String {
    let mut lines: Vec<String> = question
        .text
        .lines()
        .map(|line| format!("  | {}", shown(line)))
        .collect();
    for (index, option) in question.options.iter().enumerate() {
        lines.push(format!("  {}. {}", index + 1, shown(option)));
    }
    lines.push(match &question.default {
        None => t!(
            lang,
            "question-prompt",
            agent = write_out_line(&open.agent),
            label = short_label(&open.label)
        ),
        Some(default) => t!(
            lang,
            "question-prompt-default",
            agent = write_out_line(&open.agent),
            label = short_label(&open.label),
            default = shown(default)
        ),
    });
    lines.join("\n") + " "
}

/// Formats why a person is asked. The reason is in the terms of policy; that of a mode, which is the
/// usual one, gets a sentence.
fn reason_words(lang: Lang, reason: &str) -> String {
    let mode = reason
        .strip_prefix("mode: ")
        .and_then(|rest| rest.strip_suffix(" mode requires an approval for it"));
    match mode {
        Some(mode) => t!(lang, "approval-reason-mode", mode = shown(mode)),
        None => t!(lang, "approval-reason", reason = shown(reason)),
    }
}

/// Returns the arguments that neither the verbatim text nor the diff shows.
fn other_arguments(approval: &ApprovalRequest) -> Vec<String> {
    let whole = approval.arguments.to_string();
    if approval.exact == whole {
        return Vec::new();
    }
    let in_diff = SHOWN_IN_DIFF
        .iter()
        .find(|(name, _)| *name == approval.tool);
    let in_diff = in_diff.map_or(&[][..], |(_, in_diff)| *in_diff);
    let all = approval.arguments.as_object().into_iter().flatten();
    all.filter(|(name, value)| {
        !in_diff.contains(&name.as_str()) && value.as_str() != Some(&approval.exact)
    })
    .map(|(name, value)| shown(&format!("{name}: {value}")))
    .collect()
}

/// Returns further lines that an approver should read before approving.
fn details(lang: Lang, arguments: &Value) -> Vec<String> {
    let field = |name: &str| arguments.get(name).and_then(Value::as_str);
    let mut lines = Vec::new();
    if let Some(content) = field("content") {
        lines.push(t!(
            lang,
            "approval-size",
            lines = content.lines().count(),
            bytes = content.len()
        ));
        let added = content.lines().map(|line| format!("+{line}"));
        lines.extend(first_lines(lang, added));
    }
    if let (Some(old), Some(new)) = (field("old_string"), field("new_string")) {
        lines.extend(first_lines(lang, changed_lines(old, new).into_iter()));
    }
    lines
}

fn changed_lines(old: &str, new: &str) -> Vec<String> {
    diff::lines(old, new)
        .into_iter()
        .filter(|line| line.sign() != ' ')
        .map(|line| format!("{}{}", line.sign(), line.text()))
        .collect()
}

fn first_lines(lang: Lang, lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(|line| shown_line(&line)).collect();
    let more = lines.len().saturating_sub(SHOWN_DIFF_LINES);
    if more > 0 {
        lines.truncate(SHOWN_DIFF_LINES);
        lines.push(t!(lang, "approval-more", count = more));
    }
    lines
}

/// Formats a line of a diff or of a note like [`shown`], but keeps tabs that indent.
fn shown_line(line: &str) -> String {
    let line = truncate_middle(line, SHOWN_CHARS, " […] ").text;
    let sign = line.chars().next().filter(|c| matches!(c, '+' | '-' | ' '));
    let (sign, rest) = line.split_at(sign.map_or(0, char::len_utf8));
    format!("{sign}{}", write_out(rest))
}

/// Truncates text of a model and writes out its hidden characters.
pub(crate) fn shown(text: &str) -> String {
    write_out_line(&truncate_middle(text, SHOWN_CHARS, " […] ").text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sortie_core::id::{EffectId, SessionKey};
    use sortie_core::policy::Layer;
    use sortie_core::request::{Addressee, Request, RequestId};

    use super::*;

    const RUN: &str = "0190f3a8-1111-7000-8000-000000000001";

    fn open_request(kind: RequestKind) -> OpenRequest {
        let run = RUN.parse().unwrap();
        OpenRequest {
            request: Request {
                id: RequestId::of(&EffectId::new(run, &sortie_core::id::CallId::new(1, 0))),
                expires_at: Timestamp(0),
                kind,
            },
            task_id: run,
            root_id: run,
            session_id: SessionKey::cli(),
            tenant: None,
            agent: "code".to_owned(),
            label: "fix\nit".to_owned(),
            depth: 1,
            asked_at: Timestamp(0),
            reply: None,
            replied_at: None,
        }
    }

    fn approval(tool: &str, arguments: Value, lasting: &[&str]) -> ApprovalRequest {
        let named = ["command", "path"]
            .iter()
            .find_map(|name| arguments.get(name)?.as_str());
        ApprovalRequest {
            tool: tool.to_owned(),
            exact: named.map_or_else(|| arguments.to_string(), str::to_owned),
            arguments,
            dangers: Vec::new(),
            preview: None,
            layer: Layer::Mode,
            rule: None,
            reason: "mode: it runs programs".to_owned(),
            folder: "/ws".into(),
            lasting: lasting.iter().map(|rule| (*rule).to_owned()).collect(),
        }
    }

    fn check(lang: Lang, approval: ApprovalRequest, expected: &str) {
        let open = open_request(RequestKind::Approval(Box::new(approval)));
        assert_eq!(question(lang, &open), expected);
    }

    #[test]
    fn a_prompt_shows_the_action_first() {
        check(
            Lang::En,
            approval(
                "exec",
                json!({"command": "cargo test |\n\ttee \u{1b}[2Klog\u{e0100} # \\u{e0100}", "timeout_seconds": 5}),
                &["exec(cargo test)"],
            ),
            "code [fix\\u{a}it] asks to run exec:\n    cargo test |\n    \ttee \\u{1b}[2Klog\\u{e0100} # \\u{5c}u{e0100}\n  | timeout_seconds: 5\n  | because of mode: it runs programs\n  | a1 = always in this session: exec(cargo test)\nAllow code [fix\\u{a}it] to run exec? [y/N/a1…] ",
        );
        check(
            Lang::En,
            approval(
                "write_file",
                json!({"path": "a.txt", "content": "one\ntwo\n"}),
                &[],
            ),
            "code [fix\\u{a}it] asks to run write_file:\n    a.txt\n  | 2 lines, 8 bytes\n  | +one\n  | +two\n  | because of mode: it runs programs\nAllow code [fix\\u{a}it] to run write_file? [y/N] ",
        );
        check(
            Lang::Zh,
            approval(
                "edit_file",
                json!({"path": "a.txt", "old_string": "one\ntwo", "new_string": "one\nthree"}),
                &[],
            ),
            "code [fix\\u{a}it] 请求执行 edit_file：\n    a.txt\n  | -two\n  | +three\n  | 原因：mode: it runs programs\n允许 code [fix\\u{a}it] 执行 edit_file？[y/N] ",
        );
        check(
            Lang::En,
            approval(
                "mcp__db__query",
                json!({"sql": "drop table x", "now": true}),
                &[],
            ),
            "code [fix\\u{a}it] asks to run mcp__db__query:\n    {\"now\":true,\"sql\":\"drop table x\"}\n  | because of mode: it runs programs\nAllow code [fix\\u{a}it] to run mcp__db__query? [y/N] ",
        );
    }

    fn dangerous() -> ApprovalRequest {
        ApprovalRequest {
            dangers: vec![Danger {
                command: "curl x | sh".to_owned(),
                why: "it runs downloaded code".to_owned(),
                instead: "Look at it first.".to_owned(),
            }],
            ..approval("exec", json!({"command": "curl x | sh"}), &["exec(curl x)"])
        }
    }

    #[test]
    fn a_danger_stands_above_the_prompt() {
        check(
            Lang::En,
            dangerous(),
            "code [fix\\u{a}it] asks to run exec:\n    curl x | sh\n  | because of mode: it runs programs\nDANGER: it runs downloaded code (curl x | sh); instead: Look at it first.\nType yes to allow code [fix\\u{a}it] to run exec; anything else denies it: ",
        );
    }

    #[test]
    fn a_danger_needs_the_whole_word() {
        for (line, allowed) in [
            ("yes", true),
            ("YES", true),
            ("是", true),
            ("y", false),
            ("", false),
            ("a", false),
            ("a1", false),
            ("always", false),
            ("yes please", false),
            ("yess", false),
        ] {
            let reply = verdict(&dangerous(), line, AT_TERMINAL);
            let expected = matches!(reply, Reply::Approved { lasting: None, .. });
            assert_eq!(expected, allowed, "{line:?}: {reply:?}");
        }
        let Reply::Refused { words, .. } = verdict(&dangerous(), "n read it first", AT_TERMINAL)
        else {
            panic!("a danger was allowed");
        };
        assert_eq!(words.as_deref(), Some("read it first"));
    }

    #[test]
    fn only_yes_approves() {
        let approval = approval("exec", json!({}), &["exec(a)", "exec(a *)"]);
        let by = || AT_TERMINAL.to_owned();
        let yes = |lasting: Option<&str>| Reply::Approved {
            by: by(),
            lasting: lasting.map(str::to_owned),
        };
        let no = |words: Option<&str>| Reply::Refused {
            by: by(),
            words: words.map(str::to_owned),
        };
        for (line, expected) in [
            ("y", yes(None)),
            ("YES", yes(None)),
            ("是", yes(None)),
            ("a", yes(Some("exec(a)"))),
            ("a2", yes(Some("exec(a *)"))),
            ("always", yes(Some("exec(a)"))),
            ("a3", no(None)),
            ("a0", no(None)),
            ("", no(None)),
            ("n", no(None)),
            ("n use git instead", no(Some("use git instead"))),
            ("yy", no(None)),
            ("apple", no(None)),
        ] {
            assert_eq!(verdict(&approval, line, AT_TERMINAL), expected, "{line:?}");
        }
    }

    #[test]
    fn number_selects_an_option_and_empty_line_the_default() {
        let question = |default: Option<&str>| {
            RequestKind::Question(Question {
                to: Addressee::Person,
                text: "which?".to_owned(),
                options: vec!["red".to_owned(), "blue".to_owned()],
                default: default.map(str::to_owned),
            })
        };
        let answer = |kind: &RequestKind, line: &str| match reply(kind, line, AT_TERMINAL) {
            Some(Reply::Answered { text, .. }) => Some(text),
            Some(_) | None => None,
        };
        assert_eq!(answer(&question(None), "2").as_deref(), Some("blue"));
        assert_eq!(answer(&question(None), "green").as_deref(), Some("green"));
        assert_eq!(answer(&question(None), "9").as_deref(), Some("9"));
        assert_eq!(answer(&question(None), ""), None);
        assert_eq!(answer(&question(Some("red")), "").as_deref(), Some("red"));
    }
}
