//! The person at the terminal: one prompt at a time, each typed line for the prompt it was begun
//! under.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::Arc;

use sortie_core::{Lang, OpenRequest, Reply, RequestId, RunId};
use sortie_text::t;

use crate::approval::{AT_TERMINAL, question, reply};
use crate::keyboard::{Keyboard, Line, Pressed};
use crate::screen::{Pause, Screen};
use crate::settings::Settings;

/// The person at the terminal.
#[derive(Debug)]
pub(crate) struct Person {
    lang: Lang,
    screen: Arc<Screen>,
    /// Opened with the first prompt.
    keyboard: Option<Keyboard>,
    showing: Option<Showing>,
    waiting: VecDeque<OpenRequest>,
    line: Line,
    /// The prompt that the line was begun under.
    begun_under: Begun,
}

/// A prompt on the screen, which stands still meanwhile.
#[derive(Debug)]
struct Showing {
    asked: OpenRequest,
    _pause: Pause,
}

/// Where a line was begun.
#[derive(Debug, Default)]
enum Begun {
    /// Nothing was typed yet.
    #[default]
    NotYet,
    /// Under the prompt that is shown.
    Here,
    /// While nothing was asked.
    Unasked,
    /// Under a prompt that was withdrawn, for this reason.
    Withdrawn(String),
}

/// What the person did.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Replied to a request.
    Reply(RequestId, Reply),
    /// Typed nothing that is an answer: the request stays open for others.
    None,
}

impl Person {
    /// The person at the terminal, if there is one.
    pub(crate) fn at(settings: &Settings, screen: &Arc<Screen>) -> Option<Self> {
        settings.terminal.has_person().then(|| Self {
            lang: settings.lang,
            screen: Arc::clone(screen),
            keyboard: None,
            showing: None,
            waiting: VecDeque::new(),
            line: Line::default(),
            begun_under: Begun::NotYet,
        })
    }

    /// Shows a prompt for the request, after those that were asked before.
    pub(crate) fn ask(&mut self, request: OpenRequest) {
        self.waiting.push_back(request);
        self.show_next();
    }

    /// The requests that are shown or wait to be, with their runs.
    pub(crate) fn asked(&self) -> Vec<(RequestId, RunId)> {
        let shown = self.showing.iter().map(|showing| &showing.asked);
        shown
            .chain(&self.waiting)
            .map(|asked| (asked.request.id.clone(), asked.task_id))
            .collect()
    }

    /// Takes a prompt back that has its answer, or needs none any more. A line that was begun under
    /// it is never an answer to the next one.
    pub(crate) fn withdraw(&mut self, request: &RequestId, reason: &str) {
        self.waiting.retain(|asked| asked.request.id != *request);
        let is_shown = |showing: &Showing| showing.asked.request.id == *request;
        if !self.showing.as_ref().is_some_and(is_shown) {
            return;
        }
        // Keys that arrived before this moment were pressed under the old prompt.
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
            self.say_late(reason);
        }
        if self.line.is_begun() {
            self.begun_under = Begun::Withdrawn(reason.to_owned());
        }
        self.showing = None;
        self.show_next();
    }

    /// What the person does next. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Answer {
        loop {
            let Some(keyboard) = &mut self.keyboard else {
                return std::future::pending().await;
            };
            let Some(keys) = keyboard.keys().await else {
                // A closed terminal is a no, as any other line is.
                match self.take_line("") {
                    Some(answer) => return answer,
                    None => return std::future::pending().await,
                }
            };
            for key in keys {
                let answer = match self.press(key) {
                    Pressed::Goes => None,
                    Pressed::Closed => {
                        self.write("\n");
                        self.take_line("")
                    }
                    Pressed::Ended(line) => self.ended(&line),
                };
                if let Some(answer) = answer {
                    // What was pasted behind the line was typed before the next question.
                    return answer;
                }
            }
        }
    }

    /// Says that an answer of this person was too late.
    pub(crate) fn say_late(&self, reason: &str) {
        let words = t!(self.lang, "answer-late", reason = reason);
        self.write(&format!("{words}\n"));
    }

    /// Shows the next prompt, if none is shown.
    pub(crate) fn show_next(&mut self) {
        if self.showing.is_some() {
            return;
        }
        let Some(asked) = self.waiting.pop_front() else {
            return;
        };
        let pause = self.screen.pause();
        // The first one discards what was typed before. Later ones know when a line was begun.
        self.keyboard.get_or_insert_with(Keyboard::open);
        self.showing = Some(Showing {
            asked,
            _pause: pause,
        });
        self.draw();
    }

    fn draw(&self) {
        if let Some(showing) = &self.showing {
            self.write(&question(self.lang, &showing.asked));
        }
    }

    fn press(&mut self, key: u8) -> Pressed {
        let mut echo = String::new();
        let was_begun = self.line.is_begun();
        let pressed = self.line.press(key, &mut echo);
        if !was_begun {
            self.begun_under = match (&self.showing, self.line.is_begun()) {
                (_, false) => Begun::NotYet,
                (Some(_), true) => Begun::Here,
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

    /// A line has ended: an answer, or one that was begun at another time and is rejected.
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
                self.say_late(&reason);
                self.draw();
                None
            }
        }
    }

    fn take_line(&mut self, line: &str) -> Option<Answer> {
        let showing = self.showing.take()?;
        Some(
            match reply(&showing.asked.request.kind, line, AT_TERMINAL) {
                Some(reply) => Answer::Reply(showing.asked.request.id.clone(), reply),
                None => Answer::None,
            },
        )
    }

    fn write(&self, text: &str) {
        let mut stream = io::stderr().lock();
        // If the terminal is gone, no answer will come either, and that means no.
        stream.write_all(text.as_bytes()).ok();
        stream.flush().ok();
    }
}
