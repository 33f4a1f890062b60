//! Encodes requests to models and decodes their responses: four wire formats, without I/O.
//!
//! A vendor is a [`Dialect`]: a format and how its servers deviate from it, as data. [`encode`]
//! turns a request into the bytes to send, [`Decoder`] turns the received bytes into a reply,
//! [`classify`] turns an error response into a typed error. Every buffer is bounded; nothing is
//! guessed.
//!
//! Usage is counted in one way for all vendors: `input_tokens` counts all input tokens, including
//! those read from the cache and those written to it.

mod anthropic;
pub mod bounds;
mod chat;
mod classify;
mod decoder;
mod dialect;
mod draft;
mod gemini;
mod history;
mod parameters;
mod responses;
mod steps;
mod text_call;

pub use classify::{RefusedReply, classify};
pub use decoder::{Decoder, Flow, decode_whole};
pub use dialect::{
    Dialect, EmptyContent, MaxTokensField, ReasoningBack, SchemaSupport, SystemRole, Thinking,
    ToolIds,
};
pub use steps::{ToolMode, read_step, without_tools};
pub use text_call::{TextCall, may_be_text_call, text_call};

use serde::Serialize;
use sha2::{Digest, Sha256};
use sortie_core::ports::model::{ModelError, ModelRequest, Wire};

/// Whether the response is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Streamed, as server-sent events.
    Streaming,
    /// Whole, as one JSON document.
    Whole,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The path after the base URL, for example `/v1/messages`; may contain a query.
    pub path: String,
    pub body: Vec<u8>,
}

/// Encodes a request. `model` is the vendor's own name of the model.
pub fn encode(
    dialect: &Dialect,
    model: &str,
    request: &ModelRequest,
    mode: Mode,
) -> Result<Encoded, ModelError> {
    let body = match dialect.format {
        Wire::Anthropic => anthropic::body(dialect, model, request, mode),
        Wire::Chat => chat::body(dialect, model, request, mode),
        Wire::Responses => responses::body(dialect, model, request, mode),
        Wire::Gemini => gemini::body(dialect, request),
    }?;
    let path = dialect.path(mode).replace("{model}", &escaped(model));
    Ok(Encoded { path, body })
}

/// Escapes a model's name for use in a URL.
fn escaped(model: &str) -> String {
    model.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => text.push(char::from(byte)),
            b'-' | b'.' | b'_' | b'~' | b'/' | b':' | b'@' => text.push(char::from(byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
        text
    })
}

/// Serializes a body directly from the data it borrows.
fn to_bytes(body: &impl Serialize) -> Result<Vec<u8>, ModelError> {
    serde_json::to_vec(body).map_err(|error| {
        ModelError::fatal(format!("the request cannot be written as JSON: {error}"))
    })
}

/// Returns the hash of what sibling requests share: the system prompt and the tools.
pub fn prefix_key(request: &ModelRequest) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(request.system.len().to_le_bytes());
    hash.update(request.system.as_bytes());
    for tool in request.tools.iter() {
        for text in [&tool.name, &tool.description, &tool.parameters.to_string()] {
            hash.update(text.len().to_le_bytes());
            hash.update(text.as_bytes());
        }
    }
    hash.finalize().into()
}
