//! Prompts for the user at the terminal: one at a time. A typed line answers only the prompt that
//! it was begun under.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sortie_core::id::RunId;
use sortie_core::request::{OpenRequest, Reply, RequestId};
use sortie_core::words::Lang;
use sortie_text::t;

use crate::approval::{AT_TERMINAL, question, reply};
use crate::keyboard::{Keyboard, Line, Pressed};
use crate::screen::{Pause, Screen};
use crate::settings::Settings;

/// How long a user takes to notice that a prompt was withdrawn. A line begun within this time is
/// meant for the withdrawn prompt, even if the next one is already on the screen.
const REACTION: Duration = Duration::from_millis(700);

/// The user at the terminal, with the queue of prompts.
#[derive(Debug)]
pub(crate) struct Person {
    lang: Lang,
    screen: Arc<Screen>,
    /// The keyboard, opened with the first prompt.
    keyboard: Option<Keyboard>,
    showing: Option<Showing>,
    waiting: VecDeque<OpenRequest>,
    line: Line,
    /// The prompt that the line was begun under.
    begun_under: Begun,
    /// When the last shown prompt was withdrawn, and why.
    withdrawn: Option<(Instant, String)>,
}

/// A prompt on the screen. Progress lines are paused while it is shown.
#[derive(Debug)]
struct Showing {
    open: OpenRequest,
    _pause: Pause,
}

/// The prompt under which a line was begun.
#[derive(Debug, Default)]
enum Begun {
    /// The line is empty.
    #[default]
    NotYet,
    /// The prompt that is shown now.
    Here,
    /// None: no prompt was shown.
    Unasked,
    /// A prompt that was withdrawn since, for this reason.
    Withdrawn(String),
}

/// What the user did.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The user replied to a request.
    Reply(RequestId, Reply),
    /// The input was no reply: the request stays open for other approvers.
    None,
}

impl Person {
    /// Returns the user at the terminal, if stdin and stderr are one.
    pub(crate) fn at(settings: &Settings, screen: &Arc<Screen>) -> Option<Self> {
        settings.terminal.has_person().then(|| Self {
            lang: settings.lang,
            screen: Arc::clone(screen),
            keyboard: None,
            showing: None,
            waiting: VecDeque::new(),
            line: Line::default(),
            begun_under: Begun::NotYet,
            withdrawn: None,
        })
    }

    /// Queues a prompt for the request behind earlier ones.
    pub(crate) fn enqueue(&mut self, request: OpenRequest) {
        self.waiting.push_back(request);
        self.show_next();
    }

    /// Returns the requests that are shown or queued, with their runs.
    pub(crate) fn pending(&self) -> Vec<(RequestId, RunId)> {
        let shown = self.showing.iter().map(|showing| &showing.open);
        shown
            .chain(&self.waiting)
            .map(|open| (open.request.id.clone(), open.task_id))
            .collect()
    }

    /// Withdraws a prompt whose request is decided or obsolete. A line that was begun under it
    /// never answers the next prompt.
    pub(crate) fn withdraw(&mut self, request: &RequestId, reason: &str) {
        self.waiting.retain(|open| open.request.id != *request);
        let is_shown = |showing: &Showing| showing.open.request.id == *request;
        if !self.showing.as_ref().is_some_and(is_shown) {
            return;
        }
        // Keys that have arrived by now were pressed under the old prompt.
        let mut late_lines = 0;
        while let Some(keys) = self.keyboard.as_mut().and_then(Keyboard::at_hand) {
            for key in keys {
                match self.press(key) {
                    Pressed::Goes | Pressed::Closed => {}
                    Pressed::Ended(_) => late_lines += 1,
                }
            }
        }
        let words = t!(self.lang, "withdrawn", reason = reason);
        self.write(&format!("\n{words}\n"));
        if late_lines > 0 {
            self.report_late(reason);
        }
        if self.line.is_begun() {
            self.begun_under = Begun::Withdrawn(reason.to_owned());
        }
        self.withdrawn = Some((Instant::now(), reason.to_owned()));
        self.showing = None;
        self.show_next();
    }

    /// Returns the next answer of the user. Cancel-safe: no key is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Answer {
        loop {
            let Some(keyboard) = &mut self.keyboard else {
                return std::future::pending().await;
            };
            let Some(keys) = keyboard.keys().await else {
                // A closed terminal means no, as does any line that is not yes.
                match self.take_line("") {
                    Some(answer) => return answer,
                    None => return std::future::pending().await,
                }
            };
            let mut answer = None;
            for key in keys {
                let pressed = self.press(key);
                if answer.is_some() {
                    // Input pasted after the answer was typed before the next prompt: a line that
                    // ends here is dropped, and an incomplete one counts as begun while no prompt
                    // was shown.
                    continue;
                }
                answer = match pressed {
                    Pressed::Goes => None,
                    Pressed::Closed => {
                        self.write("\n");
                        self.take_line("")
                    }
                    Pressed::Ended(line) => self.ended(&line),
                };
            }
            if let Some(answer) = answer {
                return answer;
            }
        }
    }

    /// Prints that an answer of this user was too late.
    pub(crate) fn report_late(&self, reason: &str) {
        let words = t!(self.lang, "answer-late", reason = reason);
        self.write(&format!("{words}\n"));
    }

    /// Shows the next prompt, if none is shown.
    pub(crate) fn show_next(&mut self) {
        if self.showing.is_some() {
            return;
        }
        let Some(open) = self.waiting.pop_front() else {
            return;
        };
        let pause = self.screen.pause();
        // The first prompt discards earlier input. Later prompts know when a line was begun.
        self.keyboard.get_or_insert_with(Keyboard::open);
        self.pass_over();
        self.showing = Some(Showing {
            open,
            _pause: pause,
        });
        // The bell: the user may be looking elsewhere.
        self.write("\u{7}");
        self.draw();
    }

    /// Reads the keys that arrived while no prompt was shown, for example while a reply was sent. A line
    /// that ended among them is reported, and never answers the prompt that is shown next.
    fn pass_over(&mut self) {
        let mut rejected = None;
        while let Some(keys) = self.keyboard.as_mut().and_then(Keyboard::at_hand) {
            for key in keys {
                match self.press(key) {
                    Pressed::Goes | Pressed::Closed => {}
                    Pressed::Ended(_) => rejected = Some(std::mem::take(&mut self.begun_under)),
                }
            }
        }
        match rejected {
            None => {}
            Some(Begun::Withdrawn(reason)) => self.report_late(&reason),
            Some(Begun::NotYet | Begun::Here | Begun::Unasked) => {
                let words = t!(self.lang, "line-begun-before");
                self.write(&format!("{words}\n"));
            }
        }
    }

    fn draw(&self) {
        if let Some(showing) = &self.showing {
            self.write(&question(self.lang, &showing.open));
        }
    }

    fn press(&mut self, key: u8) -> Pressed {
        let mut echo = String::new();
        let was_begun = self.line.is_begun();
        let pressed = self.line.press(key, &mut echo);
        if !was_begun {
            // An empty line begins with the key that ends it.
            let begins = self.line.is_begun() || matches!(pressed, Pressed::Ended(_));
            self.begun_under = match (&self.showing, begins) {
                (_, false) => Begun::NotYet,
                (Some(_), true) => self.just_withdrawn().map_or(Begun::Here, Begun::Withdrawn),
                (None, true) => Begun::Unasked,
            };
        } else if !self.line.is_begun() && pressed == Pressed::Goes {
            self.begun_under = Begun::NotYet;
        }
        let echoes = self.keyboard.as_ref().is_some_and(Keyboard::needs_echo);
        if echoes && self.showing.is_some() {
            self.write(&echo);
        }
        pressed
    }

    /// Returns why the previous prompt was withdrawn, if the user may not have noticed it yet.
    fn just_withdrawn(&self) -> Option<String> {
        let (at, reason) = self.withdrawn.as_ref()?;
        (at.elapsed() < REACTION).then(|| reason.clone())
    }

    /// Handles a complete line: it is an answer, or it was begun under another prompt and is
    /// rejected.
    fn ended(&mut self, line: &str) -> Option<Answer> {
        match std::mem::take(&mut self.begun_under) {
            Begun::NotYet | Begun::Here => self.take_line(line),
            Begun::Unasked => {
                if self.showing.is_some() {
                    let words = t!(self.lang, "line-begun-before");
                    self.write(&format!("{words}\n"));
                    self.draw();
                }
                None
            }
            Begun::Withdrawn(reason) => {
                self.report_late(&reason);
                self.draw();
                None
            }
        }
    }

    fn take_line(&mut self, line: &str) -> Option<Answer> {
        let showing = self.showing.take()?;
        Some(match reply(&showing.open.request.kind, line, AT_TERMINAL) {
            Some(reply) => Answer::Reply(showing.open.request.id.clone(), reply),
            None => Answer::None,
        })
    }

    fn write(&self, text: &str) {
        let mut stream = io::stderr().lock();
        // If the terminal is gone, no answer can arrive, which means no.
        stream.write_all(text.as_bytes()).ok();
        stream.flush().ok();
    }
}

#[cfg(test)]
mod tests {
    use sortie_core::id::{CallId, EffectId, SessionKey};
    use sortie_core::request::{Addressee, Question, Request, RequestKind};
    use sortie_core::time::Timestamp;
    use tokio::sync::mpsc;

    use super::*;

    const RUN: &str = "0190f3a8-1111-7000-8000-000000000001";

    fn question(number: u32) -> OpenRequest {
        let run = RUN.parse().unwrap();
        OpenRequest {
            request: Request {
                id: RequestId::of(&EffectId::new(run, &CallId::new(number, 0))),
                expires_at: Timestamp(0),
                kind: RequestKind::Question(Question {
                    to: Addressee::Person,
                    text: "Which?".to_owned(),
                    options: Vec::new(),
                    default: None,
                }),
            },
            task_id: run,
            root_id: run,
            session_id: SessionKey::cli(),
            tenant: None,
            agent: "code".to_owned(),
            label: "fix it".to_owned(),
            depth: 1,
            asked_at: Timestamp(0),
            reply: None,
            replied_at: None,
        }
    }

    /// Returns a user with two queued questions, and a sender for the keys that they type.
    fn with_two_requests() -> (Person, mpsc::Sender<Vec<u8>>) {
        let (keys, chunks) = mpsc::channel(8);
        let mut person = Person {
            lang: Lang::En,
            screen: Arc::new(Screen::plain()),
            keyboard: Some(Keyboard::of(chunks)),
            showing: None,
            waiting: VecDeque::new(),
            line: Line::default(),
            begun_under: Begun::NotYet,
            withdrawn: None,
        };
        person.enqueue(question(1));
        person.enqueue(question(2));
        (person, keys)
    }

    async fn types(keys: &mpsc::Sender<Vec<u8>>, text: &str) {
        keys.send(text.as_bytes().to_vec()).await.unwrap();
    }

    /// Returns the request and the text of the next answer.
    async fn answer(person: &mut Person) -> (RequestId, String) {
        let Answer::Reply(request, Reply::Answered { text, .. }) = person.next().await else {
            panic!("the person did not answer");
        };
        (request, text)
    }

    #[tokio::test]
    async fn lines_typed_while_a_reply_is_sent_do_not_answer_the_next_prompt() {
        let (mut person, keys) = with_two_requests();
        types(&keys, "first\npasted").await;
        let first = answer(&mut person).await;
        assert_eq!(first, (question(1).request.id, "first".to_owned()));
        types(&keys, " behind it\nahead\n").await;
        types(&keys, "begun ").await;
        person.show_next();
        // The rest of a line that was begun before the prompt does not answer it either.
        types(&keys, "before\nsecond\n").await;
        let second = answer(&mut person).await;
        assert_eq!(second, (question(2).request.id, "second".to_owned()));
    }

    #[tokio::test]
    async fn a_line_begun_within_the_reaction_time_does_not_answer_the_next_prompt() {
        let (mut person, keys) = with_two_requests();
        person.withdraw(&question(1).request.id, "answered elsewhere");
        types(&keys, "late\n\nlate again\n").await;
        let early = tokio::time::timeout(Duration::from_millis(50), person.next()).await;
        assert!(early.is_err(), "{early:?}");
        tokio::time::sleep(REACTION).await;
        types(&keys, "in time\n").await;
        let second = answer(&mut person).await;
        assert_eq!(second, (question(2).request.id, "in time".to_owned()));
    }
}
