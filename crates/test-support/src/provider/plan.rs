//! How a reply is sent: which bytes, when, and how the response ends.

use std::time::Duration;

use serde_json::{Value, json};

use super::answer::{Answer, CallPart, Part, Stop, Tokens, tokens};
use super::reply::{Call, Ending, Reply};
use super::wire::{self, Grievance};
use super::{ReceivedPrompt, Wire};

/// A marker in the middle of a completion, at which it breaks off.
const MIDDLE: &str = "~middle~";
/// The size of one piece of an endless response.
const ENDLESS_BYTES: usize = 64 << 10;

/// What to do with a connection.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The delay before the first byte.
    pub(super) wait: Duration,
    /// What to send; `None` if the connection ends first.
    pub(super) head: Option<Head>,
    pub(super) chunks: Vec<Vec<u8>>,
    pub(super) finish: Finish,
    pub(super) tokens: Option<Tokens>,
}

/// The beginning of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) retry_after: Option<u64>,
}

/// How a response ends.
#[derive(Clone, Debug)]
pub(super) enum Finish {
    /// Ends the response properly.
    Whole,
    /// Within its last chunk.
    Abrupt,
    /// Resets the connection instead.
    Reset,
    /// Never: nothing more is sent.
    Silent,
    /// Never: this is sent for ever.
    Endless(Vec<u8>),
}

/// What all replies to one request share.
#[derive(Clone, Debug)]
pub(super) struct Making<'a> {
    pub(super) prompt: &'a ReceivedPrompt,
    /// The usage of the prompt.
    pub(super) prompt_tokens: Tokens,
    /// The model that the response names.
    pub(super) model: String,
}

impl Making<'_> {
    pub(super) fn plan(&self, reply: &Reply) -> Plan {
        match reply {
            Reply::Text(_)
            | Reply::Calls(_)
            | Reply::Thinking(..)
            | Reply::TokenLimitInCall
            | Reply::MalformedArguments(..)
            | Reply::DuplicateIds(_)
            | Reply::MissingIds(_)
            | Reply::HugeArguments(_)
            | Reply::Empty => self.answered(&self.answer(reply)),
            Reply::Refusal => self.refusal(),
            Reply::ContentFilter => self.content_filter(),
            Reply::SlowFirstByte(wait, then) => Plan {
                wait: *wait,
                ..self.plan(then)
            },
            Reply::InPieces(bytes, then) => in_pieces(*bytes, self.plan(then)),
            Reply::OtherModelName(model, then) => Self {
                model: model.clone(),
                ..self.clone()
            }
            .plan(then),
            Reply::NoDone(then) => self.without_last_word(self.plan(then)),
            Reply::Status(status, retry_after) => Plan {
                head: Some(Head {
                    status: *status,
                    kind: JSON,
                    retry_after: *retry_after,
                }),
                ..self.refused(Grievance::Status(*status))
            },
            Reply::ContextOverflow => self.refused(Grievance::Overflow),
            Reply::Reset => Plan {
                head: None,
                chunks: Vec::new(),
                finish: Finish::Reset,
                ..self.half()
            },
            Reply::ResetMidway => Plan {
                finish: Finish::Reset,
                ..self.half()
            },
            Reply::Stall => Plan {
                finish: Finish::Silent,
                ..self.half()
            },
            Reply::Endless => self.endless(),
            Reply::CutInCall(ending) => self.cut_in_call(*ending),
            Reply::InvalidUtf8 => self.invalid_utf8(),
            Reply::ErrorInStream => self.error_in_stream(),
            Reply::Html(status) => Plan {
                head: Some(Head {
                    status: *status,
                    kind: "text/html; charset=utf-8",
                    retry_after: None,
                }),
                chunks: vec![b"<!doctype html>\n<title>Bad gateway</title>\n".to_vec()],
                ..self.refused(Grievance::Status(*status))
            },
        }
    }

    fn answered(&self, answer: &Answer) -> Plan {
        Plan {
            wait: Duration::ZERO,
            head: Some(Head {
                status: 200,
                kind: if self.prompt.streaming {
                    "text/event-stream"
                } else {
                    JSON
                },
                retry_after: None,
            }),
            chunks: wire::chunks(self.prompt, answer),
            finish: Finish::Whole,
            tokens: Some(answer.tokens),
        }
    }

    fn refused(&self, grievance: Grievance) -> Plan {
        let body = wire::refusal(self.prompt.wire, grievance);
        Plan {
            wait: Duration::ZERO,
            head: Some(Head {
                status: grievance.status(self.prompt.wire),
                kind: JSON,
                retry_after: None,
            }),
            chunks: vec![body.to_string().into_bytes()],
            finish: Finish::Whole,
            tokens: None,
        }
    }

    fn answer(&self, reply: &Reply) -> Answer {
        let (parts, stop) = self.parts(reply);
        self.made(parts, stop)
    }

    fn made(&self, parts: Vec<Part>, stop: Stop) -> Answer {
        let bytes: usize = parts.iter().map(Part::bytes).sum();
        Answer {
            number: self.prompt.nth,
            model: self.model.clone(),
            tokens: Tokens {
                output: tokens(bytes) + 1,
                ..self.prompt_tokens
            },
            parts,
            stop,
        }
    }

    fn parts(&self, reply: &Reply) -> (Vec<Part>, Stop) {
        match reply {
            Reply::Text(text) => (vec![Part::Text(text.clone())], Stop::Done),
            Reply::Thinking(thought, then) => {
                let (mut parts, stop) = self.parts(then);
                parts.insert(0, Part::Thought(thought.clone()));
                (parts, stop)
            }
            Reply::Calls(calls) => self.calls(calls, |index| {
                Some(format!("call_{}_{index}", self.prompt.nth))
            }),
            Reply::DuplicateIds(calls) => self.calls(calls, |_| Some("call_same".to_owned())),
            Reply::MissingIds(calls) => self.calls(calls, |_| None),
            Reply::MalformedArguments(tool, raw) => self.raw_call(tool, raw, Stop::Calls),
            Reply::TokenLimitInCall => self.raw_call(
                "write_file",
                r#"{"path": "cut.txt", "content": "ha"#,
                Stop::Length,
            ),
            Reply::HugeArguments(bytes) => {
                let arguments = json!({"path": "huge.txt", "content": "x".repeat(*bytes)});
                self.calls(&[Call::new("write_file", arguments)], |_| {
                    Some("huge".to_owned())
                })
            }
            // Other wrapped replies are not completions.
            Reply::Empty
            | Reply::SlowFirstByte(..)
            | Reply::InPieces(..)
            | Reply::OtherModelName(..)
            | Reply::NoDone(_)
            | Reply::Status(..)
            | Reply::ContextOverflow
            | Reply::Reset
            | Reply::ResetMidway
            | Reply::Endless
            | Reply::Stall
            | Reply::CutInCall(_)
            | Reply::InvalidUtf8
            | Reply::Refusal
            | Reply::ContentFilter
            | Reply::ErrorInStream
            | Reply::Html(_) => (Vec::new(), Stop::Done),
        }
    }

    fn calls(&self, calls: &[Call], id: impl Fn(usize) -> Option<String>) -> (Vec<Part>, Stop) {
        let part = |(index, call): (usize, &Call)| {
            Part::Call(CallPart {
                id: id(index),
                name: call.name.clone(),
                arguments: call.arguments.to_string(),
            })
        };
        (calls.iter().enumerate().map(part).collect(), Stop::Calls)
    }

    /// Encodes a call whose arguments are not JSON. Gemini has no text for them: it reports itself
    /// that the call is malformed, or leaves it out.
    fn raw_call(&self, tool: &str, raw: &str, stop: Stop) -> (Vec<Part>, Stop) {
        if self.prompt.wire == Wire::Gemini {
            let stop = match stop {
                Stop::Calls => Stop::Malformed,
                Stop::Done | Stop::Length | Stop::Refusal | Stop::Filter | Stop::Malformed => stop,
            };
            return (Vec::new(), stop);
        }
        let call = Part::Call(CallPart {
            id: Some(format!("call_{}_raw", self.prompt.nth)),
            name: tool.to_owned(),
            arguments: raw.to_owned(),
        });
        (vec![call], stop)
    }

    fn refusal(&self) -> Plan {
        let words = "I cannot help with that.".to_owned();
        let part = match self.prompt.wire {
            Wire::Gemini => return self.refused(Grievance::Blocked),
            Wire::Anthropic => Part::Text(words),
            Wire::Chat | Wire::Responses => Part::Refusal(words),
        };
        self.answered(&self.made(vec![part], Stop::Refusal))
    }

    fn content_filter(&self) -> Plan {
        match self.prompt.wire {
            Wire::Anthropic => self.refused(Grievance::Filter),
            Wire::Chat | Wire::Responses | Wire::Gemini => {
                let part = Part::Text("As for the ".to_owned());
                self.answered(&self.made(vec![part], Stop::Filter))
            }
        }
    }

    /// Encodes a completion up to its middle.
    fn half(&self) -> Plan {
        let words = format!("I begin {MIDDLE} and go on.");
        let mut plan = self.answered(&self.answer(&Reply::Text(words)));
        let middle = middle(&plan.chunks);
        if self.prompt.streaming {
            plan.chunks.truncate(middle.chunk + 1);
        } else {
            plan.chunks[0].truncate(middle.byte);
        }
        plan.tokens = None;
        plan
    }

    fn endless(&self) -> Plan {
        let long = "x".repeat(ENDLESS_BYTES);
        let half = self.half();
        let more = match (self.prompt.streaming, half.chunks.last()) {
            (true, Some(last)) => replaced(last, MIDDLE.as_bytes(), long.as_bytes()),
            (true, None) | (false, _) => long.into_bytes(),
        };
        Plan {
            finish: Finish::Endless(more),
            ..half
        }
    }

    fn cut_in_call(&self, ending: Ending) -> Plan {
        let arguments = json!({"path": "cut.txt", "content": format!("{MIDDLE} and the rest")});
        let mut plan = self.plan(&Reply::Calls(vec![Call::new("write_file", arguments)]));
        let middle = middle(&plan.chunks);
        plan.chunks.truncate(middle.chunk + 1);
        if ending == Ending::Abrupt || !self.prompt.streaming {
            plan.chunks[middle.chunk].truncate(middle.byte);
        }
        plan.finish = match ending {
            Ending::Abrupt => Finish::Abrupt,
            Ending::Clean => Finish::Whole,
        };
        plan.tokens = None;
        plan
    }

    fn invalid_utf8(&self) -> Plan {
        let mut plan = self.answered(&self.answer(&Reply::Text(format!("Caf{MIDDLE}."))));
        for chunk in &mut plan.chunks {
            *chunk = replaced(chunk, MIDDLE.as_bytes(), &[0xff, 0xfe]);
        }
        plan.tokens = None;
        plan
    }

    fn error_in_stream(&self) -> Plan {
        let mut plan = self.half();
        if !self.prompt.streaming {
            plan.chunks.clear();
        }
        plan.chunks.push(wire::refusal_inside(self.prompt));
        plan
    }

    fn without_last_word(&self, mut plan: Plan) -> Plan {
        if self.prompt.streaming && wire::has_last_word(self.prompt.wire) {
            plan.chunks.pop();
        }
        plan
    }
}

const JSON: &str = "application/json";

/// The position of the middle.
#[derive(Clone, Copy, Debug)]
struct Middle {
    chunk: usize,
    byte: usize,
}

fn middle(chunks: &[Vec<u8>]) -> Middle {
    let found = chunks
        .iter()
        .enumerate()
        .find_map(|(chunk, bytes)| Some((chunk, position(bytes, MIDDLE.as_bytes())?)));
    let (chunk, byte) = found.expect("an answer that says its middle");
    Middle { chunk, byte }
}

fn position(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word)
}

fn replaced(bytes: &[u8], word: &[u8], by: &[u8]) -> Vec<u8> {
    match position(bytes, word) {
        Some(at) => [&bytes[..at], by, &bytes[at + word.len()..]].concat(),
        None => bytes.to_vec(),
    }
}

fn in_pieces(bytes: usize, plan: Plan) -> Plan {
    let all = plan.chunks.concat();
    Plan {
        chunks: all.chunks(bytes.max(1)).map(<[u8]>::to_vec).collect(),
        ..plan
    }
}

/// Encodes a rejection outside the script: the client exceeded the rate, or used a wrong path.
pub(super) fn turned_away(wire: Option<Wire>, status: u16, retry_after: Option<u64>) -> Plan {
    let body = match wire {
        Some(wire) => wire::refusal(wire, Grievance::Status(status)),
        None => Value::Null,
    };
    Plan {
        wait: Duration::ZERO,
        head: Some(Head {
            status,
            kind: JSON,
            retry_after,
        }),
        chunks: vec![body.to_string().into_bytes()],
        finish: Finish::Whole,
        tokens: None,
    }
}
