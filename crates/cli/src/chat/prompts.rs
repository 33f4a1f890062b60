//! Approval requests and questions: one key answers, and only the request that is on the screen.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sortie_core::request::{OpenRequest, Reply, RequestId, RequestKind};
use sortie_core::words::Lang;
use sortie_text::t;

use super::keys::Key;
use crate::approval;

/// How long a request must be on the screen before a single key answers it: a key that was meant
/// for the input must not approve anything.
const REACTION: Duration = Duration::from_millis(700);

/// The requests that wait for the user.
#[derive(Debug)]
pub(super) struct Prompts {
    lang: Lang,
    queue: VecDeque<OpenRequest>,
    /// The request that was printed, and when.
    shown: Option<(RequestId, Instant)>,
    /// The request that the input answers.
    answering: Option<Answering>,
}

/// The request that the input answers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answering {
    request: RequestId,
    /// Whether the input is the reason of a denial.
    denies: bool,
}

/// The effect of a key.
#[derive(Debug, PartialEq)]
pub(super) enum Pressed {
    /// The user decided.
    Reply(RequestId, Reply),
    /// The input now answers the request. If there is a key, it belongs to the answer.
    Answers(Option<Key>),
    /// The key is for the input.
    Unused(Key),
}

/// The meaning of a submitted text.
#[derive(Debug, PartialEq)]
pub(super) enum Submitted {
    /// It answers a request.
    Reply(RequestId, Reply),
    /// It answers a request that is no longer open, or is no answer.
    TooLate,
    /// It is a message.
    Message,
}

impl Prompts {
    pub(super) const fn new(lang: Lang) -> Self {
        Self {
            lang,
            queue: VecDeque::new(),
            shown: None,
            answering: None,
        }
    }

    /// Takes over the open requests; returns those that are no longer open and were on the screen.
    pub(super) fn update(&mut self, open: Vec<OpenRequest>) -> Vec<OpenRequest> {
        let is_open = |known: &OpenRequest| {
            open.iter()
                .any(|other| other.request.id == known.request.id)
        };
        let mut withdrawn = Vec::new();
        let shown = self.shown.as_ref().map(|(id, _)| id.clone());
        self.queue.retain(|known| {
            let keep = is_open(known);
            if !keep && shown.as_ref() == Some(&known.request.id) {
                withdrawn.push(known.clone());
            }
            keep
        });
        if !withdrawn.is_empty() {
            self.shown = None;
        }
        for request in open {
            if self
                .queue
                .iter()
                .all(|known| known.request.id != request.request.id)
            {
                self.queue.push_back(request);
            }
        }
        withdrawn
    }

    /// Returns the next request to print, if none is on the screen.
    pub(super) fn show_next(&mut self) -> Option<&OpenRequest> {
        if self.shown.is_some() {
            return None;
        }
        let next = self.queue.front()?;
        self.shown = Some((next.request.id.clone(), Instant::now()));
        Some(next)
    }

    /// Returns the request on the screen.
    pub(super) fn current(&self) -> Option<&OpenRequest> {
        let (id, _) = self.shown.as_ref()?;
        self.queue.iter().find(|open| open.request.id == *id)
    }

    /// Returns the request whose id begins with a text; the one on the screen for an empty text.
    pub(super) fn find(&self, id: &str) -> Option<&OpenRequest> {
        match id {
            "" => self.current(),
            id => self
                .queue
                .iter()
                .find(|open| open.request.id.as_str().starts_with(id)),
        }
    }

    pub(super) const fn is_answering(&self) -> bool {
        self.answering.is_some()
    }

    /// The input no longer answers a request.
    pub(super) fn stop_answering(&mut self) {
        self.answering = None;
    }

    /// Forgets a request that was answered here.
    pub(super) fn answered(&mut self, id: &RequestId) {
        self.queue.retain(|open| open.request.id != *id);
        self.shown = self.shown.take().filter(|(shown, _)| shown != id);
        self.answering = None;
    }

    /// Processes a key that is pressed while the input is empty.
    pub(super) fn press(&mut self, key: Key, person: &str) -> Pressed {
        let Some((_, shown_at)) = &self.shown else {
            return Pressed::Unused(key);
        };
        if self.answering.is_some() || shown_at.elapsed() < REACTION {
            return Pressed::Unused(key);
        }
        let Some(open) = self.current() else {
            return Pressed::Unused(key);
        };
        let id = open.request.id.clone();
        let line = match (&open.request.kind, &key) {
            (RequestKind::Approval(approval), Key::Char(character)) => {
                let is_dangerous = !approval.dangers.is_empty();
                match character {
                    'd' => return self.answers(id, true, None),
                    'y' if is_dangerous => return self.answers(id, false, Some(key)),
                    'y' | 'n' => character.to_string(),
                    'a' if !is_dangerous && !approval.lasting.is_empty() => "a".to_owned(),
                    '1'..='9' if !is_dangerous => {
                        let number = character.to_digit(10).unwrap_or(0) as usize;
                        if number > approval.lasting.len() {
                            return Pressed::Unused(key);
                        }
                        format!("a{number}")
                    }
                    _ => return Pressed::Unused(key),
                }
            }
            (RequestKind::Question(question), Key::Char(character)) => {
                let number = character.to_digit(10).unwrap_or(0) as usize;
                if (1..=question.options.len()).contains(&number) && question.options.len() < 10 {
                    number.to_string()
                } else if *character == '/' {
                    return Pressed::Unused(key);
                } else {
                    return self.answers(id, false, Some(key));
                }
            }
            (RequestKind::Question(question), Key::Enter) if question.default.is_some() => {
                String::new()
            }
            (RequestKind::Question(_), Key::Paste(_)) => {
                return self.answers(id, false, Some(key));
            }
            (RequestKind::Approval(_) | RequestKind::Question(_), _) => {
                return Pressed::Unused(key);
            }
        };
        match approval::reply(&open.request.kind, &line, person) {
            Some(reply) => Pressed::Reply(id, reply),
            None => Pressed::Unused(key),
        }
    }

    fn answers(&mut self, request: RequestId, denies: bool, key: Option<Key>) -> Pressed {
        self.answering = Some(Answering { request, denies });
        Pressed::Answers(key)
    }

    /// Decides what a submitted text means.
    pub(super) fn submit(&mut self, text: &str, person: &str) -> Submitted {
        let Some(answering) = self.answering.take() else {
            return Submitted::Message;
        };
        let open = self
            .current()
            .filter(|open| open.request.id == answering.request);
        let Some(open) = open else {
            return Submitted::TooLate;
        };
        let line = match answering.denies {
            true => format!("n {text}"),
            false => text.to_owned(),
        };
        match approval::reply(&open.request.kind, &line, person) {
            Some(reply) => Submitted::Reply(answering.request, reply),
            None => Submitted::TooLate,
        }
    }

    /// Returns the line above the input that names the keys.
    pub(super) fn hint(&self) -> Option<String> {
        let open = self.current()?;
        let waiting = self.queue.len().saturating_sub(1);
        let keys = match (&open.request.kind, &self.answering) {
            (RequestKind::Approval(_), Some(answering)) if answering.denies => {
                t!(self.lang, "chat-keys-reason")
            }
            (RequestKind::Approval(approval), _) if !approval.dangers.is_empty() => {
                t!(self.lang, "chat-keys-danger")
            }
            (RequestKind::Approval(approval), _) if approval.lasting.is_empty() => {
                t!(self.lang, "chat-keys-once")
            }
            (RequestKind::Approval(_), _) => t!(self.lang, "chat-keys-approval"),
            (RequestKind::Question(_), _) => t!(self.lang, "chat-keys-question"),
        };
        Some(match waiting {
            0 => keys,
            waiting => format!(
                "{keys}  {}",
                t!(self.lang, "chat-keys-more", count = waiting)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use sortie_core::id::{CallId, EffectId, SessionKey};
    use sortie_core::policy::Layer;
    use sortie_core::request::{ApprovalRequest, Danger, Request};
    use sortie_core::time::Timestamp;

    use super::*;

    const RUN: &str = "0190f3a8-1111-7000-8000-000000000001";

    fn request(number: u32, dangers: Vec<Danger>) -> OpenRequest {
        let run = RUN.parse().unwrap();
        OpenRequest {
            request: Request {
                id: RequestId::of(&EffectId::new(run, &CallId::new(number, 0))),
                expires_at: Timestamp(0),
                kind: RequestKind::Approval(Box::new(ApprovalRequest {
                    tool: "exec".to_owned(),
                    exact: "ls".to_owned(),
                    arguments: serde_json::json!({"command": "ls"}),
                    dangers,
                    preview: None,
                    layer: Layer::Mode,
                    rule: None,
                    reason: "it runs programs".to_owned(),
                    folder: "/ws".into(),
                    lasting: vec!["exec(ls)".to_owned()],
                })),
            },
            task_id: run,
            root_id: run,
            session_id: SessionKey::cli(),
            tenant: None,
            agent: "main".to_owned(),
            label: "x".to_owned(),
            depth: 0,
            asked_at: Timestamp(0),
            reply: None,
            replied_at: None,
        }
    }

    /// Returns prompts whose first request has been on the screen long enough.
    fn shown(requests: Vec<OpenRequest>) -> Prompts {
        let mut prompts = Prompts::new(Lang::En);
        prompts.update(requests);
        prompts.show_next();
        if let Some((_, at)) = &mut prompts.shown {
            *at = at.checked_sub(REACTION).unwrap();
        }
        prompts
    }

    #[test]
    fn a_key_right_after_the_prompt_appeared_decides_nothing() {
        let mut prompts = Prompts::new(Lang::En);
        prompts.update(vec![request(1, Vec::new())]);
        prompts.show_next();
        let pressed = prompts.press(Key::Char('y'), "anna");
        assert_eq!(pressed, Pressed::Unused(Key::Char('y')));
    }

    #[test]
    fn one_key_decides() {
        for (key, approved) in [('y', true), ('n', false), ('a', true), ('1', true)] {
            let mut prompts = shown(vec![request(1, Vec::new())]);
            let Pressed::Reply(_, reply) = prompts.press(Key::Char(key), "anna") else {
                panic!("{key} decided nothing");
            };
            assert_eq!(matches!(reply, Reply::Approved { .. }), approved, "{key}");
        }
        for key in ['2', 'x', '/'] {
            let mut prompts = shown(vec![request(1, Vec::new())]);
            let pressed = prompts.press(Key::Char(key), "anna");
            assert_eq!(pressed, Pressed::Unused(Key::Char(key)));
        }
    }

    #[test]
    fn a_danger_needs_the_whole_word() {
        let danger = Danger {
            command: "ls".to_owned(),
            why: "x".to_owned(),
            instead: "y".to_owned(),
        };
        let mut prompts = shown(vec![request(1, vec![danger])]);
        let pressed = prompts.press(Key::Char('a'), "anna");
        assert_eq!(pressed, Pressed::Unused(Key::Char('a')));
        let pressed = prompts.press(Key::Char('y'), "anna");
        assert_eq!(pressed, Pressed::Answers(Some(Key::Char('y'))));
        let Submitted::Reply(_, reply) = prompts.submit("yes", "anna") else {
            panic!("not a reply");
        };
        assert!(matches!(reply, Reply::Approved { lasting: None, .. }));
    }

    #[test]
    fn text_for_a_withdrawn_request_does_not_answer_the_next() {
        let (first, second) = (request(1, Vec::new()), request(2, Vec::new()));
        let mut prompts = shown(vec![first, second.clone()]);
        prompts.press(Key::Char('d'), "anna");
        assert_eq!(prompts.update(vec![second]).len(), 1);
        prompts.show_next();
        assert_eq!(prompts.submit("use git", "anna"), Submitted::TooLate);
    }
}
