//! Asking the person at the terminal about calls that change something.
//!
//! Fails closed: without a person, without an answer in time, or with any other answer than yes,
//! the call does not run. Everything a model wrote is escaped, so that it cannot draw a prompt.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use sortie_core::{Approval, Approver, Ask, Lang, RunId};
use sortie_text::{cut_middle, t};
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use crate::escape::escaped;
use crate::screen::Screen;
use crate::settings::Settings;

/// How long a question waits for its answer; then the call is refused.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// How much of a command or a value is shown. Longer ones are cut in the middle, visibly.
const SHOWN_CHARS: usize = 4_000;
/// How many lines of a change are shown.
const SHOWN_DIFF_LINES: usize = 24;
/// Arguments that the question or the change itself shows.
const TOLD_ELSEWHERE: &[&str] = &["command", "path", "content", "old_string", "new_string"];
/// Lines typed and not read yet; more are dropped.
const TYPED_LINES: usize = 16;

/// Asks the person at the terminal.
#[derive(Debug)]
pub(crate) struct TerminalApprover {
    lang: Lang,
    has_person: bool,
    screen: Arc<Screen>,
    /// One question at a time.
    typed: AsyncMutex<Option<mpsc::Receiver<String>>>,
    /// Runs that may do everything from now on.
    always: Mutex<BTreeSet<RunId>>,
}

impl TerminalApprover {
    /// Asks if somebody sits at the terminal, else refuses.
    pub(crate) fn new(settings: &Settings, screen: Arc<Screen>) -> Self {
        Self {
            lang: settings.lang,
            has_person: settings.terminal.has_person(),
            screen,
            typed: AsyncMutex::new(None),
            always: Mutex::default(),
        }
    }

    fn may_always(&self, run: RunId) -> bool {
        self.always
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&run)
    }

    async fn ask(&self, ask: &Ask) -> Answer {
        let mut typed = self.typed.lock().await;
        // Somebody may have said "always" while this one waited for its turn.
        if self.may_always(ask.run) {
            return Answer::Yes;
        }
        let typed = typed.get_or_insert_with(read_lines);
        // What was typed before the question is no answer to it.
        while typed.try_recv().is_ok() {}
        let _pause = self.screen.pause();
        prompt(&question(self.lang, ask));
        match tokio::time::timeout(ANSWER_TIMEOUT, typed.recv()).await {
            Ok(Some(line)) => Answer::of(&line),
            Ok(None) | Err(_) => {
                prompt("\n");
                Answer::No
            }
        }
    }
}

#[async_trait]
impl Approver for TerminalApprover {
    async fn approve(&self, ask: &Ask) -> Approval {
        if !self.has_person {
            return Approval::Refused(t!(self.lang, "refused-no-person", tool = &ask.tool));
        }
        if self.may_always(ask.run) {
            return Approval::Granted;
        }
        match self.ask(ask).await {
            Answer::Yes => Approval::Granted,
            Answer::Always => {
                self.always
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(ask.run);
                Approval::Granted
            }
            Answer::No => Approval::Refused(t!(self.lang, "refused-by-person", tool = &ask.tool)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    Always,
    No,
}

impl Answer {
    fn of(line: &str) -> Self {
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" | "是" => Self::Yes,
            "a" | "always" | "总是" => Self::Always,
            _ => Self::No,
        }
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
fn question(lang: Lang, ask: &Ask) -> String {
    let mut lines: Vec<String> = details(lang, &ask.arguments)
        .into_iter()
        .map(|line| format!("  | {line}"))
        .collect();
    lines.push(t!(
        lang,
        "approval-question",
        agent = escaped(&ask.agent),
        label = escaped(&ask.label),
        tool = escaped(&ask.tool),
        what = shown(&subject(&ask.arguments))
    ));
    lines.join("\n") + " "
}

/// What the call is about: the command, the path, or all of it.
fn subject(arguments: &Value) -> String {
    let named = ["command", "path"]
        .into_iter()
        .find_map(|name| arguments.get(name).and_then(Value::as_str));
    named.map_or_else(|| arguments.to_string(), str::to_owned)
}

/// What else a person should see before saying yes.
fn details(lang: Lang, arguments: &Value) -> Vec<String> {
    let field = |name: &str| arguments.get(name).and_then(Value::as_str);
    let mut lines = Vec::new();
    let hidden = subject(arguments)
        .chars()
        .count()
        .saturating_sub(SHOWN_CHARS);
    if hidden > 0 {
        lines.push(t!(lang, "approval-hidden", count = hidden));
    }
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
    let rest = arguments.as_object().into_iter().flatten();
    lines.extend(
        rest.filter(|(name, _)| !TOLD_ELSEWHERE.contains(&name.as_str()))
            .map(|(name, value)| shown(&format!("{name}: {value}"))),
    );
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

fn shown(text: &str) -> String {
    escaped(&cut_middle(text, SHOWN_CHARS, " […] ").text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(lang: Lang, tool: &str, arguments: Value, expected: &str) {
        let ask = Ask {
            run: "0190f3a8-1111-7000-8000-000000000001".parse().unwrap(),
            agent: "code".to_owned(),
            label: "fix\nit".to_owned(),
            tool: tool.to_owned(),
            arguments,
        };
        assert_eq!(question(lang, &ask), expected);
    }

    #[test]
    fn a_question_shows_what_will_happen() {
        check(
            Lang::En,
            "exec",
            json!({"command": "cargo test\n\u{1b}[2KAllow? [y/N/a] y", "timeout_seconds": 5}),
            "  | timeout_seconds: 5\nAllow code [fix\\nit] to run exec: cargo test\\n\\u{1b}[2KAllow? [y/N/a] y? [y/N/a = always for this run] ",
        );
        check(
            Lang::En,
            "write_file",
            json!({"path": "a.txt", "content": "one\ntwo\n"}),
            "  | 2 lines, 8 bytes\n  | +one\n  | +two\nAllow code [fix\\nit] to run write_file: a.txt? [y/N/a = always for this run] ",
        );
        check(
            Lang::Zh,
            "edit_file",
            json!({"path": "a.txt", "old_string": "one\ntwo", "new_string": "one\nthree"}),
            "  | -two\n  | +three\n允许 code [fix\\nit] 执行 edit_file：a.txt？[y/N/a = 本次运行一直允许] ",
        );
    }

    #[test]
    fn only_yes_is_yes() {
        for (line, expected) in [
            ("y\n", Answer::Yes),
            (" YES ", Answer::Yes),
            ("是", Answer::Yes),
            ("a", Answer::Always),
            ("", Answer::No),
            ("n", Answer::No),
            ("yy", Answer::No),
        ] {
            assert_eq!(Answer::of(line), expected, "{line:?}");
        }
    }
}
