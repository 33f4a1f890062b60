//! Asking the person at the terminal: about calls that change something, and what runs want to
//! know.
//!
//! Fails closed: any other answer than yes is no, and what nobody answers expires. Everything a
//! model wrote is escaped, so that it cannot draw a prompt.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use sortie_core::{
    Answerer, ApprovalRequest, Lang, OpenRequest, Question, Reply, RequestId, RequestKind,
};
use sortie_text::{cut_middle, t};
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use crate::escape::escaped;
use crate::screen::Screen;
use crate::settings::Settings;

/// How much of a command or a value is shown. Longer ones are cut in the middle, visibly.
const SHOWN_CHARS: usize = 4_000;
/// How many lines of a change are shown.
const SHOWN_DIFF_LINES: usize = 24;
/// Arguments of our own tools that the question itself or the change shows. Whatever else a call has
/// is listed, and of tools that are not ours everything is.
const TOLD_ELSEWHERE: &[(&str, &[&str])] = &[
    ("exec", &["command"]),
    ("write_file", &["path", "content"]),
    ("edit_file", &["path", "old_string", "new_string"]),
];
/// Lines typed and not read yet; more are dropped.
const TYPED_LINES: usize = 16;
/// Who answers at a terminal, as audits name them.
pub(crate) const AT_TERMINAL: &str = "terminal";

/// The person at the terminal.
#[derive(Debug)]
pub(crate) struct Person {
    lang: Lang,
    screen: Arc<Screen>,
    /// One question at a time.
    typed: AsyncMutex<Option<mpsc::Receiver<String>>>,
}

impl Person {
    /// The person at the terminal, if somebody sits there.
    pub(crate) fn at(settings: &Settings, screen: &Arc<Screen>) -> Option<Arc<Self>> {
        settings.terminal.has_person().then(|| {
            Arc::new(Self {
                lang: settings.lang,
                screen: Arc::clone(screen),
                typed: AsyncMutex::new(None),
            })
        })
    }

    /// Asks, and waits for a line. `None` if no answer will come.
    pub(crate) async fn answer(self: Arc<Self>, asked: OpenRequest) -> Option<(RequestId, Reply)> {
        let mut typed = self.typed.lock().await;
        let typed = typed.get_or_insert_with(read_lines);
        // What was typed before the question is no answer to it.
        while typed.try_recv().is_ok() {}
        let _pause = self.screen.pause();
        prompt(&question(self.lang, &asked));
        // Who has closed the terminal will not answer: that is a no, as any other line is.
        let line = typed.recv().await.unwrap_or_else(|| {
            prompt("\n");
            String::new()
        });
        let reply = reply(&asked.request.kind, &line)?;
        Some((asked.request.id, reply))
    }
}

/// What a typed line means; `None` if it is no answer.
pub(crate) fn reply(asked: &RequestKind, line: &str) -> Option<Reply> {
    let line = line.trim();
    match asked {
        RequestKind::Approval(approval) => Some(verdict(approval, line)),
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
                text: text.to_owned(),
            })
        }
    }
}

fn verdict(approval: &ApprovalRequest, line: &str) -> Reply {
    let by = AT_TERMINAL.to_owned();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let word = word.to_lowercase();
    let lasting = word
        .strip_prefix('a')
        .and_then(|number| match number {
            "" => Some(1),
            number => number.parse::<usize>().ok(),
        })
        .and_then(|number| approval.lasting.get(number.checked_sub(1)?));
    match (word.as_str(), lasting) {
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

/// The only reader of stdin, for the life of the process: a read cannot be taken back, so an
/// abandoned question must not leave a second one behind.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(TYPED_LINES);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if let Err(mpsc::error::TrySendError::Closed(_)) = sender.try_send(line) {
                return;
            }
        }
    });
    receiver
}

fn prompt(text: &str) {
    let mut stream = io::stderr().lock();
    // If the terminal is gone, no answer will come either, and that means no.
    stream.write_all(text.as_bytes()).ok();
    stream.flush().ok();
}

/// The question with everything that a person needs to decide.
pub(crate) fn question(lang: Lang, asked: &OpenRequest) -> String {
    match &asked.request.kind {
        RequestKind::Approval(approval) => approval_question(lang, asked, approval),
        RequestKind::Question(question) => plain_question(lang, asked, question),
    }
}

fn approval_question(lang: Lang, asked: &OpenRequest, approval: &ApprovalRequest) -> String {
    let mut lines = match &approval.preview {
        Some(preview) => first_lines(lang, preview.lines().map(str::to_owned)),
        None => details(lang, &approval.arguments),
    };
    lines.extend(other_arguments(approval));
    let hidden = subject(approval)
        .chars()
        .count()
        .saturating_sub(SHOWN_CHARS);
    if hidden > 0 {
        lines.push(t!(lang, "approval-hidden", count = hidden));
    }
    lines.push(t!(
        lang,
        "approval-reason",
        reason = shown(&approval.reason)
    ));
    for (index, rule) in approval.lasting.iter().enumerate() {
        lines.push(t!(
            lang,
            "approval-lasting",
            number = index + 1,
            rule = shown(rule)
        ));
    }
    let mut lines: Vec<String> = lines
        .into_iter()
        .map(|line| format!("  | {line}"))
        .collect();
    let key = if approval.lasting.is_empty() {
        "approval-question-once"
    } else {
        "approval-question"
    };
    lines.push(t!(
        lang,
        key,
        agent = escaped(&asked.agent),
        label = escaped(&asked.label),
        tool = escaped(&approval.tool),
        what = shown(&subject(approval))
    ));
    lines.join("\n") + " "
}

fn plain_question(lang: Lang, asked: &OpenRequest, question: &Question) -> String {
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
            agent = escaped(&asked.agent),
            label = escaped(&asked.label)
        ),
        Some(default) => t!(
            lang,
            "question-prompt-default",
            agent = escaped(&asked.agent),
            label = escaped(&asked.label),
            default = shown(default)
        ),
    });
    lines.join("\n") + " "
}

/// What the call is about: the command, the path, or all of it.
pub(crate) fn subject(approval: &ApprovalRequest) -> String {
    let named = told_elsewhere(&approval.tool).first();
    let named = named.and_then(|name| approval.arguments.get(name)?.as_str());
    named.map_or_else(|| approval.arguments.to_string(), str::to_owned)
}

fn told_elsewhere(tool: &str) -> &'static [&'static str] {
    let mut ours = TOLD_ELSEWHERE.iter();
    ours.find(|(name, _)| *name == tool)
        .map_or(&[], |(_, told)| told)
}

/// Arguments that neither the question nor the change shows.
fn other_arguments(approval: &ApprovalRequest) -> Vec<String> {
    let told = told_elsewhere(&approval.tool);
    let all = approval.arguments.as_object().into_iter().flatten();
    all.filter(|(name, _)| !told.contains(&name.as_str()))
        .map(|(name, value)| shown(&format!("{name}: {value}")))
        .collect()
}

/// What else a person should see before saying yes.
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
    TextDiff::from_lines(old, new)
        .iter_all_changes()
        .filter_map(|change| {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => return None,
            };
            Some(format!("{sign}{}", change.value().trim_end_matches('\n')))
        })
        .collect()
}

fn first_lines(lang: Lang, lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(|line| shown(&line)).collect();
    let more = lines.len().saturating_sub(SHOWN_DIFF_LINES);
    if more > 0 {
        lines.truncate(SHOWN_DIFF_LINES);
        lines.push(t!(lang, "approval-more", count = more));
    }
    lines
}

/// A text of a model, bounded and with nothing hidden.
pub(crate) fn shown(text: &str) -> String {
    escaped(&cut_middle(text, SHOWN_CHARS, " […] ").text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sortie_core::{Addressee, EffectId, Layer, Request, SessionKey, Timestamp};

    use super::*;

    const RUN: &str = "0190f3a8-1111-7000-8000-000000000001";

    fn asked(kind: RequestKind) -> OpenRequest {
        let run = RUN.parse().unwrap();
        OpenRequest {
            request: Request {
                id: RequestId::of(&EffectId::new(run, &sortie_core::CallId::new(1, 0))),
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
        ApprovalRequest {
            tool: tool.to_owned(),
            arguments,
            preview: None,
            layer: Layer::Mode,
            rule: None,
            reason: "mode: it runs programs".to_owned(),
            folder: "/ws".into(),
            lasting: lasting.iter().map(|rule| (*rule).to_owned()).collect(),
        }
    }

    fn check(lang: Lang, approval: ApprovalRequest, expected: &str) {
        let asked = asked(RequestKind::Approval(Box::new(approval)));
        assert_eq!(question(lang, &asked), expected);
    }

    #[test]
    fn a_question_shows_what_will_happen() {
        check(
            Lang::En,
            approval(
                "exec",
                json!({"command": "cargo test\n\u{1b}[2KAllow? [y/N/a] y", "timeout_seconds": 5}),
                &["exec(cargo test)"],
            ),
            "  | timeout_seconds: 5\n  | because of mode: it runs programs\n  | a1 = always in this session: exec(cargo test)\nAllow code [fix\\nit] to run exec: cargo test\\n\\u{1b}[2KAllow? [y/N/a] y? [y/N/a1…] ",
        );
        check(
            Lang::En,
            approval(
                "write_file",
                json!({"path": "a.txt", "content": "one\ntwo\n"}),
                &[],
            ),
            "  | 2 lines, 8 bytes\n  | +one\n  | +two\n  | because of mode: it runs programs\nAllow code [fix\\nit] to run write_file: a.txt? [y/N] ",
        );
        check(
            Lang::Zh,
            approval(
                "edit_file",
                json!({"path": "a.txt", "old_string": "one\ntwo", "new_string": "one\nthree"}),
                &[],
            ),
            "  | -two\n  | +three\n  | 原因：mode: it runs programs\n允许 code [fix\\nit] 执行 edit_file：a.txt？[y/N] ",
        );
    }

    #[test]
    fn only_yes_is_yes() {
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
            assert_eq!(verdict(&approval, line), expected, "{line:?}");
        }
    }

    #[test]
    fn a_number_chooses_and_nothing_is_the_default() {
        let question = |default: Option<&str>| {
            RequestKind::Question(Question {
                to: Addressee::Person,
                text: "which?".to_owned(),
                options: vec!["red".to_owned(), "blue".to_owned()],
                default: default.map(str::to_owned),
            })
        };
        let said = |kind: &RequestKind, line: &str| match reply(kind, line) {
            Some(Reply::Answered { text, .. }) => Some(text),
            Some(_) | None => None,
        };
        assert_eq!(said(&question(None), "2").as_deref(), Some("blue"));
        assert_eq!(said(&question(None), "green").as_deref(), Some("green"));
        assert_eq!(said(&question(None), "9").as_deref(), Some("9"));
        assert_eq!(said(&question(None), ""), None);
        assert_eq!(said(&question(Some("red")), "").as_deref(), Some("red"));
    }
}
