//! What all formats need for a turn: the normalized history, thinking levels, limits.
//!
//! A history may come from another model. Reasoning of other vendors is omitted. Ids and names of
//! calls are rewritten so that every server accepts them; they stay stable from turn to turn,
//! because each depends only on the messages before it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use sortie_core::id::{CallId, hex};
use sortie_core::message::{
    Arguments, Block, ImageRef, Message, ResultStatus, ToolCall, ToolResult,
};
use sortie_core::ports::model::{ModelError, ModelRequest, Wire};

use crate::dialect::{Dialect, SchemaSupport, ToolIds};

/// The longest call id that OpenAI's Chat accepts; other servers accept 64 characters.
const CHAT_ID_CHARS: usize = 40;
const ID_CHARS: usize = 64;
/// The longest tool name that all servers accept.
const NAME_CHARS: usize = 64;
/// The maximum length of arguments that were not JSON, as shown to the model.
const MALFORMED_CHARS: usize = 2000;
const NOTHING: &str = "(no output)";
const EMPTY: &str = "(empty message)";
const MISSING_NAME: &str = "unnamed";

#[derive(Debug)]
pub(crate) enum Entry<'a> {
    /// A message in the user's role.
    User(&'a str),
    /// A message in the model's role; never empty.
    Answered(Vec<Part<'a>>),
    /// The results of the preceding calls.
    Results(Vec<Outcome<'a>>),
}

/// A part of a message of the model.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    /// Text that is not blank.
    Text(&'a str),
    /// Reasoning of the same vendor.
    Reasoning {
        text: &'a str,
        native: &'a Value,
    },
    Call(CallOut<'a>),
}

/// A call as it is sent.
#[derive(Debug)]
pub(crate) struct CallOut<'a> {
    pub(crate) id: Cow<'a, str>,
    /// Whether the id was assigned by the vendor.
    pub(crate) has_vendor_id: bool,
    pub(crate) name: Cow<'a, str>,
    pub(crate) arguments: ObjectOf<'a>,
}

/// A result as it is sent.
#[derive(Debug)]
pub(crate) struct Outcome<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) has_vendor_id: bool,
    pub(crate) name: Cow<'a, str>,
    pub(crate) text: Cow<'a, str>,
    pub(crate) failed: bool,
    pub(crate) pictures: Vec<Picture<'a>>,
}

/// An image to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picture<'a> {
    pub(crate) media_type: &'a str,
    pub(crate) bytes: &'a [u8],
}

/// Returns the normalized history.
pub(crate) fn entries<'a>(dialect: &Dialect, request: &'a ModelRequest) -> Vec<Entry<'a>> {
    let mut digest = Digester {
        dialect,
        request,
        origin: dialect.origin(),
        used: HashSet::new(),
        names: HashMap::new(),
    };
    request
        .messages
        .iter()
        .filter_map(|message| digest.entry(message))
        .collect()
}

struct Digester<'a, 'd> {
    dialect: &'d Dialect,
    request: &'a ModelRequest,
    origin: String,
    used: HashSet<Cow<'a, str>>,
    /// The id and name under which the latest call of an id was sent: ids repeat if one history
    /// continues another.
    names: HashMap<&'a CallId, (Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Digester<'a, '_> {
    fn entry(&mut self, message: &'a Message) -> Option<Entry<'a>> {
        match message {
            Message::User { text } | Message::Notice { text } => {
                Some(Entry::User(if is_blank(text) { EMPTY } else { text }))
            }
            Message::Assistant { blocks } => self.answered(blocks).map(Entry::Answered),
            Message::Tools { results } => Some(Entry::Results(
                results.iter().map(|result| self.outcome(result)).collect(),
            )),
        }
    }

    fn answered(&mut self, blocks: &'a [Block]) -> Option<Vec<Part<'a>>> {
        let mut parts: Vec<Part<'a>> = blocks.iter().filter_map(|block| self.part(block)).collect();
        let is_spoken = |part: &Part<'_>| match part {
            Part::Text(_) | Part::Call(_) => true,
            Part::Reasoning { .. } => false,
        };
        let last = parts.iter().rposition(is_spoken)?;
        match self.dialect.format {
            // Both formats refuse reasoning at the end of a message.
            Wire::Anthropic | Wire::Responses => parts.truncate(last + 1),
            Wire::Chat | Wire::Gemini => {}
        }
        Some(parts)
    }

    fn part(&mut self, block: &'a Block) -> Option<Part<'a>> {
        match block {
            Block::Text { text } => (!is_blank(text)).then_some(Part::Text(text)),
            Block::Reasoning { text, native } => {
                let native = native.as_ref()?;
                (native["wire"] == self.origin.as_str()).then_some(Part::Reasoning { text, native })
            }
            Block::Call(call) => Some(Part::Call(self.call(call))),
        }
    }

    fn call(&mut self, call: &'a ToolCall) -> CallOut<'a> {
        let id = self.unused(self.fit_id(call.provider_id.as_deref(), &call.id), &call.id);
        let name = fit_name(&call.name);
        self.used.insert(id.clone());
        self.names.insert(&call.id, (id.clone(), name.clone()));
        CallOut {
            id,
            has_vendor_id: call.provider_id.is_some(),
            name,
            arguments: ObjectOf(&call.arguments),
        }
    }

    fn outcome(&self, result: &'a ToolResult) -> Outcome<'a> {
        let (id, name) = self.names.get(&result.call).cloned().unwrap_or_else(|| {
            let id = self.fit_id(result.provider_id.as_deref(), &result.call);
            (id, Cow::Borrowed(MISSING_NAME))
        });
        let pictures: Vec<Picture<'a>> = self.pictures(&result.images);
        Outcome {
            id,
            has_vendor_id: result.provider_id.is_some(),
            name,
            text: result_text(result, result.images.len() - pictures.len()),
            failed: match result.status {
                ResultStatus::Ok => false,
                ResultStatus::Error | ResultStatus::Denied | ResultStatus::Interrupted => true,
            },
            pictures,
        }
    }

    fn pictures(&self, images: &'a [ImageRef]) -> Vec<Picture<'a>> {
        if !self.dialect.shows_images() {
            return Vec::new();
        }
        let bytes = |image: &'a ImageRef| {
            Some(Picture {
                media_type: &image.media_type,
                bytes: self.request.images.get(&image.blob)?,
            })
        };
        images.iter().filter_map(bytes).collect()
    }

    fn fit_id(&self, given: Option<&'a str>, call: &'a CallId) -> Cow<'a, str> {
        let id = given.unwrap_or(call.as_str());
        let plain = id
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'));
        let fits = match (self.dialect.tool_ids, self.dialect.format) {
            (ToolIds::NineAlphanumeric, _) => {
                id.len() == 9 && id.chars().all(|letter| letter.is_ascii_alphanumeric())
            }
            (ToolIds::AsGiven, Wire::Chat) => id.len() <= CHAT_ID_CHARS,
            (ToolIds::AsGiven, Wire::Gemini) => true,
            (ToolIds::AsGiven, Wire::Anthropic | Wire::Responses) => plain && id.len() <= ID_CHARS,
        };
        if fits && !id.is_empty() {
            return Cow::Borrowed(id);
        }
        Cow::Owned(self.made_id(id))
    }

    /// Returns the id itself, or another if an earlier call uses it.
    fn unused(&self, id: Cow<'a, str>, call: &CallId) -> Cow<'a, str> {
        let mut candidate = id;
        let mut count = 0_u32;
        while self.used.contains(&candidate) {
            count += 1;
            candidate = Cow::Owned(self.made_id(&format!("{candidate}/{call}/{count}")));
        }
        candidate
    }

    /// Returns an id that every server of the dialect accepts, the same for the same text.
    fn made_id(&self, text: &str) -> String {
        let digits = hex(&Sha256::digest(text.as_bytes()));
        match self.dialect.tool_ids {
            ToolIds::NineAlphanumeric => digits.chars().take(9).collect(),
            ToolIds::AsGiven => {
                let digits: String = digits.chars().take(24).collect();
                format!("call_{digits}")
            }
        }
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns the name in characters that every server accepts: a model may have invented a name, and
/// servers would refuse every later request with it in the history.
fn fit_name(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return Cow::Borrowed(MISSING_NAME);
    }
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if name.len() <= NAME_CHARS && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let plain = |letter| if fits(letter) { letter } else { '_' };
    Cow::Owned(name.chars().map(plain).take(NAME_CHARS).collect())
}

fn result_text(result: &ToolResult, left_out: usize) -> Cow<'_, str> {
    let text = match (result.text.as_str(), result.images.len()) {
        ("", 0) => NOTHING,
        (text, _) => text,
    };
    if left_out == 0 {
        return Cow::Borrowed(text);
    }
    let note = format!("[{left_out} image(s) left out: this model does not accept images]");
    match text {
        "" => Cow::Owned(note),
        text => Cow::Owned(format!("{text}\n{note}")),
    }
}

/// Serializes the arguments of a call as a JSON object. Anything else is wrapped as text in an
/// object, because servers refuse a history with other values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectOf<'a>(&'a Arguments);

impl Serialize for ObjectOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = match self.0 {
            Arguments::Json(value) if value.is_object() => return value.serialize(serializer),
            Arguments::Json(value) => Cow::Owned(value.to_string()),
            Arguments::Malformed { raw, error: _ } => Cow::Borrowed(raw.as_str()),
        };
        let shown: String = raw.chars().take(MALFORMED_CHARS).collect();
        serializer.collect_map([("malformed", shown)])
    }
}

/// Serializes the arguments of a call as text that is a JSON object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextOf<'a>(pub(crate) ObjectOf<'a>);

impl Serialize for TextOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = serde_json::to_string(&self.0).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&text)
    }
}

/// Serializes the bytes of an image as base64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base64Of<'a>(pub(crate) &'a [u8]);

impl Serialize for Base64Of<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &STANDARD))
    }
}

/// Serializes an image as a `data:` URL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataUrl<'a>(pub(crate) Picture<'a>);

impl fmt::Display for DataUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = Base64Display::new(self.0.bytes, &STANDARD);
        write!(f, "data:{};base64,{data}", self.0.media_type)
    }
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The requested thinking level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level<'a> {
    /// Uses the default of the model.
    Unset,
    Off,
    /// The level with this name.
    Named(&'a str),
}

impl<'a> Level<'a> {
    /// Returns the thinking level of a request.
    pub(crate) fn of(request: &'a ModelRequest) -> Self {
        match request.options.thinking.as_deref() {
            None | Some("" | "default") => Self::Unset,
            Some("off" | "none") => Self::Off,
            Some(word) => Self::Named(word),
        }
    }
}

/// Returns the token budget of a level: `low`, `medium` and `high` as given, or a number.
pub(crate) fn thinking_tokens(
    word: &str,
    [low, medium, high]: [u64; 3],
) -> Result<u64, ModelError> {
    match word {
        "minimal" | "low" => Ok(low),
        "medium" => Ok(medium),
        "high" | "xhigh" | "max" => Ok(high),
        word => word.parse().map_err(|_| {
            ModelError::fatal(format!(
                "thinking level {word:?} is unknown to this model; use off, low, medium, high or a \
                 number of tokens"
            ))
        }),
    }
}

/// Returns the maximum number of output tokens, if the request or the dialect sets one.
pub(crate) fn answer_tokens(dialect: &Dialect, request: &ModelRequest) -> Option<u64> {
    let requested = request.options.sampling.max_tokens;
    let tokens = requested.or(dialect.default_max_tokens)?;
    Some(tokens.min(dialect.output_limit.unwrap_or(u64::MAX)))
}

/// Returns the temperature, if it may be sent.
pub(crate) fn temperature(dialect: &Dialect, request: &ModelRequest) -> Option<f64> {
    request
        .options
        .sampling
        .temperature
        .filter(|_| dialect.temperature)
}

/// Returns the constraint on the reply, as far as the dialect supports it.
pub(crate) fn schema<'a>(dialect: &Dialect, request: &'a ModelRequest) -> Bound<'a> {
    let may = dialect.schema_with_tools || request.tools.is_empty();
    match (&request.options.schema, dialect.schema) {
        (Some(schema), SchemaSupport::Native) if may => Bound::Schema(schema),
        (Some(_), SchemaSupport::Object) if may => Bound::Object,
        (Some(_) | None, SchemaSupport::Native | SchemaSupport::Object | SchemaSupport::None) => {
            Bound::Free
        }
    }
}

/// The constraint on a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound<'a> {
    /// Leaves the choice to the model.
    Free,
    /// The reply must be a JSON object.
    Object,
    /// The reply must match a schema.
    Schema(&'a Value),
}

/// Returns a key that requests with one beginning share, for servers that route by it.
pub(crate) fn cache_key(dialect: &Dialect, request: &ModelRequest) -> Option<String> {
    let key = || {
        hex(&Sha256::digest(request.origin.cache_key.as_bytes()))
            .chars()
            .take(32)
            .collect()
    };
    dialect.prompt_cache_key.then(key)
}
