//! Making a history shorter when the model cannot read all of it.
//!
//! Older answers of tools and older announcements become a few lines that say what they were and
//! where the whole can be read. The task, what the model itself said, and the newest answers stay.

use std::sync::Arc;

use sortie_core::{
    Blob, BlobId, Block, CallId, CompactedPart, Event, Lang, Message, SharedMessage, ToolResult,
};
use sortie_text::{first_chars, one_line, t};

/// The most characters of answers that stay as they are.
const KEPT_CHARS: usize = 40_000;
/// A part that is not longer than this is not worth making shorter.
const SHORT_CHARS: usize = 600;
/// How much of the beginning of a part its summary repeats.
const SHOWN_CHARS: usize = 200;

/// What to shorten.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    /// The fact to journal.
    pub event: Event,
    /// The texts that the fact refers to.
    pub blobs: Vec<CompactedText>,
}

/// The whole text of a part that became short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactedText {
    /// Its name.
    pub id: BlobId,
    /// The text.
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

/// A place in a history whose text can become short.
struct Candidate<'a> {
    message: usize,
    result: Option<usize>,
    text: &'a str,
    chars: usize,
    /// Where the whole text already is.
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
        // Older ones do not come back in after a newer one was too long.
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
/// The beginning of a conversation may have been removed since, and then everything behind it stands
/// further to the front, as far from the end as before. `messages` is how many there were. What is
/// no longer there needs no summary.
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

/// Where a part is that an earlier version made short, as far as its words tell: its place only says
/// which of several equal ones it was.
fn by_content(places: &[Place], part: &CompactedPart) -> Option<usize> {
    let equal = |place: &Place| place.full == part.full;
    places
        .iter()
        .position(|place| {
            (place.message, place.result) == (part.message, part.result) && equal(place)
        })
        .or_else(|| places.iter().position(equal))
}

/// A place in a history that can hold a summary.
struct Place {
    message: usize,
    result: Option<usize>,
    /// The name of the whole text.
    full: BlobId,
}

fn places(history: &[SharedMessage]) -> Vec<Place> {
    let mut places = Vec::new();
    for (message, said) in history.iter().enumerate() {
        match &**said {
            Message::Tools { results } => {
                places.extend(results.iter().enumerate().map(|(index, result)| Place {
                    message,
                    result: Some(index),
                    full: name_of(&result.text, result.full.as_ref()),
                }));
            }
            Message::Notice { text } => places.push(Place {
                message,
                result: None,
                full: name_of(text, None),
            }),
            Message::User { .. } | Message::Assistant { .. } => {}
        }
    }
    places
}

/// The name of a whole text, which may be somewhere else already.
fn name_of(text: &str, full: Option<&BlobId>) -> BlobId {
    full.cloned().unwrap_or_else(|| BlobId::of(text.as_bytes()))
}

fn shorten(history: &mut [SharedMessage], place: &Place, part: &CompactedPart) {
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
                let asked = index.checked_sub(1).and_then(|before| history.get(before));
                for (place, result) in results.iter().enumerate() {
                    found.push(Candidate {
                        message: index,
                        result: Some(place),
                        text: &result.text,
                        chars: weight(result),
                        full: result.full.as_ref(),
                        images: result.images.len(),
                        title: tool_name(asked, &result.call),
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

/// What an answer weighs; a picture is worth about fifteen hundred tokens.
fn weight(result: &ToolResult) -> usize {
    const PICTURE_CHARS: usize = 6_000;
    result.text.chars().count() + result.images.len() * PICTURE_CHARS
}

fn tool_name(asked: Option<&SharedMessage>, call: &CallId) -> String {
    let Some(Message::Assistant { blocks }) = asked.map(|message| &**message) else {
        return String::new();
    };
    let name = blocks.iter().find_map(|block| match block {
        Block::Call(made) if made.id == *call => Some(made.name.clone()),
        Block::Call(_) | Block::Text { .. } | Block::Reasoning { .. } => None,
    });
    name.unwrap_or_default()
}

fn summary(lang: Lang, candidate: &Candidate<'_>, id: &BlobId) -> String {
    let words = t!(
        lang,
        "compact-summary",
        title = candidate.title.as_str(),
        chars = candidate.text.chars().count() as u64,
        lines = candidate.text.lines().count() as u64,
        beginning = one_line(first_chars(candidate.text.trim_start(), SHOWN_CHARS)),
        id = id.as_str()
    );
    if candidate.images == 0 {
        return words;
    }
    format!(
        "{words} {}",
        t!(lang, "compact-images", count = candidate.images as u64)
    )
}

/// How long a history is, in characters that a model reads.
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
            sortie_core::Arguments::Json(value) => value.to_string().chars().count(),
            sortie_core::Arguments::Malformed { raw, .. } => raw.chars().count(),
        },
    }
}
