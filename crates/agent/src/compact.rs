//! Shortens a history that is too long for the model.
//!
//! Older tool results and announcements are replaced by a few lines that describe them and name the
//! blob with the whole text. The task, the model's own text and the newest results stay.

use std::sync::Arc;

use sortie_core::event::{CompactedPart, Event};
use sortie_core::id::{BlobId, CallId};
use sortie_core::message::{Block, Message, SharedMessage, ToolResult};
use sortie_core::ports::store::Blob;
use sortie_core::words::Lang;
use sortie_text::{first_chars, one_line, t};

/// Characters of results that stay as they are.
const KEPT_CHARS: usize = 40_000;
/// A part that is not longer than this is not worth shortening.
const SHORT_CHARS: usize = 600;
/// Characters of the beginning of a part that its summary repeats.
const SHOWN_CHARS: usize = 200;

/// A decision to shorten a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    /// The event to append.
    pub event: Event,
    /// The texts that the event refers to.
    pub blobs: Vec<CompactedText>,
}

/// The whole text of a part that was shortened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactedText {
    /// The id of the blob.
    pub id: BlobId,
    /// The content of the blob.
    pub text: String,
}

impl From<CompactedText> for Blob {
    fn from(text: CompactedText) -> Self {
        Self {
            id: text.id,
            bytes: text.text.into_bytes(),
        }
    }
}

/// A part of a history that can be shortened.
struct Candidate<'a> {
    message: usize,
    result: Option<usize>,
    text: &'a str,
    chars: usize,
    /// The blob with the whole text, if there is one already.
    full: Option<&'a BlobId>,
    images: usize,
    title: String,
}

/// Decides what to shorten; `None` if there is nothing.
pub(crate) fn plan(lang: Lang, history: &[SharedMessage]) -> Option<Compaction> {
    let candidates = candidates(lang, history);
    let total: usize = candidates.iter().map(|candidate| candidate.chars).sum();
    let mut left = KEPT_CHARS.min(total / 2);
    let mut parts = Vec::new();
    let mut blobs = Vec::new();
    let mut saved = 0;
    for candidate in candidates.iter().rev() {
        if candidate.chars <= left {
            left -= candidate.chars;
            continue;
        }
        // Parts older than one that was too long are shortened too.
        left = 0;
        let id = name_of(candidate.text, candidate.full);
        let summary = summary(lang, candidate, &id);
        saved += candidate.chars.saturating_sub(summary.chars().count());
        if candidate.full.is_none() {
            blobs.push(CompactedText {
                id: id.clone(),
                text: candidate.text.to_owned(),
            });
        }
        parts.push(CompactedPart {
            message: candidate.message,
            result: candidate.result,
            summary,
            full: id,
        });
    }
    if parts.is_empty() {
        return None;
    }
    parts.reverse();
    let before = chars_of(history);
    Some(Compaction {
        event: Event::Compacted {
            parts,
            chars_before: before as u64,
            chars_after: before.saturating_sub(saved) as u64,
            messages: Some(history.len()),
        },
        blobs,
    })
}

/// Puts the summaries in their places.
///
/// The beginning of a conversation may have been removed since. Everything behind it then has a
/// smaller index, but the same distance from the end. `messages` is how many messages there were. A
/// part that no longer exists needs no summary.
pub(crate) fn apply(
    history: &mut [SharedMessage],
    parts: &[CompactedPart],
    messages: Option<usize>,
) {
    let mut places = places(history);
    for part in parts {
        let found = match messages {
            Some(messages) => {
                let message = (history.len() + part.message).checked_sub(messages);
                places.iter().position(|place| {
                    Some(place.message) == message
                        && place.result == part.result
                        && place.full == part.full
                })
            }
            None => by_content(&places, part),
        };
        if let Some(found) = found {
            let place = places.remove(found);
            shorten(history, &place, part);
        }
    }
}

/// Finds a part by its content, for events that do not record the number of messages: the index
/// only distinguishes several equal ones.
fn by_content(places: &[SummaryPosition], part: &CompactedPart) -> Option<usize> {
    let equal = |place: &SummaryPosition| place.full == part.full;
    places
        .iter()
        .position(|place| {
            (place.message, place.result) == (part.message, part.result) && equal(place)
        })
        .or_else(|| places.iter().position(equal))
}

/// A position in a history that can have a summary.
struct SummaryPosition {
    message: usize,
    result: Option<usize>,
    /// The id of the whole text.
    full: BlobId,
}

fn places(history: &[SharedMessage]) -> Vec<SummaryPosition> {
    let mut places = Vec::new();
    for (message, content) in history.iter().enumerate() {
        match &**content {
            Message::Tools { results } => {
                places.extend(
                    results
                        .iter()
                        .enumerate()
                        .map(|(index, result)| SummaryPosition {
                            message,
                            result: Some(index),
                            full: name_of(&result.text, result.full.as_ref()),
                        }),
                );
            }
            Message::Notice { text } => places.push(SummaryPosition {
                message,
                result: None,
                full: name_of(text, None),
            }),
            Message::User { .. } | Message::Assistant { .. } => {}
        }
    }
    places
}

/// Returns the blob id of a whole text, which may be stored already.
fn name_of(text: &str, full: Option<&BlobId>) -> BlobId {
    full.cloned().unwrap_or_else(|| BlobId::of(text.as_bytes()))
}

fn shorten(history: &mut [SharedMessage], place: &SummaryPosition, part: &CompactedPart) {
    let Some(message) = history.get_mut(place.message) else {
        return;
    };
    match (Arc::make_mut(message), place.result) {
        (Message::Tools { results }, Some(index)) => {
            if let Some(result) = results.get_mut(index) {
                result.text.clone_from(&part.summary);
                result.full = Some(part.full.clone());
                result.images.clear();
            }
        }
        (Message::Notice { text }, None) => text.clone_from(&part.summary),
        (Message::Tools { .. }, None)
        | (Message::Notice { .. }, Some(_))
        | (Message::User { .. } | Message::Assistant { .. }, _) => {}
    }
}

fn candidates(lang: Lang, history: &[SharedMessage]) -> Vec<Candidate<'_>> {
    let mut found = Vec::new();
    for (index, message) in history.iter().enumerate() {
        match &**message {
            Message::Tools { results } => {
                let previous = index.checked_sub(1).and_then(|before| history.get(before));
                for (place, result) in results.iter().enumerate() {
                    found.push(Candidate {
                        message: index,
                        result: Some(place),
                        text: &result.text,
                        chars: weight(result),
                        full: result.full.as_ref(),
                        images: result.images.len(),
                        title: tool_name(previous, &result.call),
                    });
                }
            }
            Message::Notice { text } => found.push(Candidate {
                message: index,
                result: None,
                text,
                chars: text.chars().count(),
                full: None,
                images: 0,
                title: t!(lang, "compact-notice"),
            }),
            Message::User { .. } | Message::Assistant { .. } => {}
        }
    }
    found.retain(|candidate| candidate.chars > SHORT_CHARS);
    found
}

/// Returns the weight of a result; a picture counts for about 1,500 tokens.
fn weight(result: &ToolResult) -> usize {
    const PICTURE_CHARS: usize = 6_000;
    result.text.chars().count() + result.images.len() * PICTURE_CHARS
}

fn tool_name(previous: Option<&SharedMessage>, call: &CallId) -> String {
    let Some(Message::Assistant { blocks }) = previous.map(|message| &**message) else {
        return String::new();
    };
    let name = blocks.iter().find_map(|block| match block {
        Block::Call(made) if made.id == *call => Some(made.name.clone()),
        Block::Call(_) | Block::Text { .. } | Block::Reasoning { .. } => None,
    });
    name.unwrap_or_default()
}

fn summary(lang: Lang, candidate: &Candidate<'_>, id: &BlobId) -> String {
    let summary_text = t!(
        lang,
        "compact-summary",
        title = candidate.title.as_str(),
        chars = candidate.text.chars().count() as u64,
        lines = candidate.text.lines().count() as u64,
        beginning = one_line(first_chars(candidate.text.trim_start(), SHOWN_CHARS)),
        id = id.as_str()
    );
    if candidate.images == 0 {
        return summary_text;
    }
    format!(
        "{summary_text} {}",
        t!(lang, "compact-images", count = candidate.images as u64)
    )
}

/// Returns the length of a history in characters that a model reads.
pub(crate) fn chars_of(history: &[SharedMessage]) -> usize {
    history.iter().map(|message| message_chars(message)).sum()
}

fn message_chars(message: &Message) -> usize {
    match message {
        Message::User { text } | Message::Notice { text } => text.chars().count(),
        Message::Tools { results } => results.iter().map(weight).sum(),
        Message::Assistant { blocks } => blocks.iter().map(block_chars).sum(),
    }
}

fn block_chars(block: &Block) -> usize {
    match block {
        Block::Text { text } | Block::Reasoning { text, .. } => text.chars().count(),
        Block::Call(call) => match &call.arguments {
            sortie_core::message::Arguments::Json(value) => value.to_string().chars().count(),
            sortie_core::message::Arguments::Malformed { raw, .. } => raw.chars().count(),
        },
    }
}
