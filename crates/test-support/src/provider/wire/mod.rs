//! Encodes completions and errors for each wire format.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::{Value, json};

use super::answer::Answer;
use super::{ReceivedPrompt, Wire};

/// Encodes a completion as chunks of a body: one for each stream event, or one in all.
pub(super) fn chunks(prompt: &ReceivedPrompt, answer: &Answer) -> Vec<Vec<u8>> {
    if !prompt.streaming {
        return vec![whole(prompt.wire, answer).to_string().into_bytes()];
    }
    let events = match prompt.wire {
        Wire::Anthropic => anthropic::events(answer),
        Wire::Chat => chat::events(answer, prompt),
        Wire::Responses => responses::events(answer),
        Wire::Gemini => gemini::events(answer),
    };
    events.into_iter().map(String::into_bytes).collect()
}

fn whole(wire: Wire, answer: &Answer) -> Value {
    match wire {
        Wire::Anthropic => anthropic::whole(answer),
        Wire::Chat => chat::whole(answer),
        Wire::Responses => responses::whole(answer),
        Wire::Gemini => gemini::whole(answer),
    }
}

/// Whether the last event of a stream is only an end marker.
pub(super) fn has_last_word(wire: Wire) -> bool {
    match wire {
        Wire::Anthropic | Wire::Chat | Wire::Responses => true,
        Wire::Gemini => false,
    }
}

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grievance {
    Status(u16),
    Overflow,
    Filter,
    /// The prompt was blocked before the model saw it; only Gemini reports that.
    Blocked,
}

impl Grievance {
    pub(super) fn status(self, wire: Wire) -> u16 {
        match (self, wire) {
            (Self::Status(status), _) => status,
            // Blocked prompts have a success status.
            (Self::Blocked, _) => 200,
            (Self::Overflow | Self::Filter, _) => 400,
        }
    }
}

/// Returns the body of a rejection, as its vendor writes it.
pub(super) fn refusal(wire: Wire, grievance: Grievance) -> Value {
    match wire {
        Wire::Anthropic => anthropic::refusal(grievance),
        Wire::Chat | Wire::Responses => openai_refusal(grievance),
        Wire::Gemini => gemini::refusal(grievance),
    }
}

/// Returns an error in the middle of a completion: a stream event, or the whole body.
pub(super) fn refusal_inside(prompt: &ReceivedPrompt) -> Vec<u8> {
    let body = refusal(prompt.wire, Grievance::Status(529));
    let text = match (prompt.streaming, prompt.wire) {
        (false, _) => body.to_string(),
        (true, Wire::Anthropic) => event("error", &body),
        (true, Wire::Responses) => responses::failed(&body),
        (true, Wire::Chat | Wire::Gemini) => data(&body),
    };
    text.into_bytes()
}

fn openai_refusal(grievance: Grievance) -> Value {
    let (kind, code, message) = match grievance {
        Grievance::Overflow => (
            "invalid_request_error",
            json!("context_length_exceeded"),
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
        Grievance::Filter | Grievance::Blocked => (
            "invalid_request_error",
            json!("content_policy_violation"),
            "Your request was rejected as a result of our safety system.",
        ),
        Grievance::Status(401 | 403) => (
            "invalid_request_error",
            json!("invalid_api_key"),
            "Incorrect API key provided.",
        ),
        Grievance::Status(429) => (
            "requests",
            json!("rate_limit_exceeded"),
            "Rate limit reached for requests.",
        ),
        Grievance::Status(500..) => (
            "server_error",
            Value::Null,
            "The server had an error while processing your request. Sorry about that!",
        ),
        Grievance::Status(_) => (
            "invalid_request_error",
            Value::Null,
            "We could not parse your request.",
        ),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// Returns a named event.
fn event(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

/// Returns an unnamed event.
fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}
