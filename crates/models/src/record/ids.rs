//! Ids of runs in text: UUIDs, which differ in every execution.

use std::collections::{HashMap, HashSet};

use sortie_core::ports::model::ModelRequest;

/// The length of a UUID in text.
const ID_BYTES: usize = 36;
/// The maximum number of ids of a request that are kept.
const MAX_IDS: usize = 4096;

/// Returns the ids that a request mentions, in the order of their first appearance.
pub(super) fn ids_of(request: &ModelRequest) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut ids = Vec::new();
    let mut note = |text: &str| {
        for (_, id) in ids_in(text) {
            if ids.len() < MAX_IDS && seen.insert(id.to_ascii_lowercase()) {
                ids.push(id.to_ascii_lowercase());
            }
        }
    };
    note(&request.system);
    note(&request.origin.task);
    for message in &request.messages {
        // Ids need no escapes in JSON, so its text shows all of them in order.
        note(&serde_json::to_string(message).unwrap_or_default());
    }
    ids
}

/// Replaces each id in the text by `{id}`.
pub(super) fn without_ids(text: &str) -> String {
    replaced(text, |_| Some("{id}".to_owned()))
}

/// Replaces ids in the text by others.
pub(super) fn with_ids(text: &str, others: &HashMap<&str, &str>) -> String {
    replaced(text, |id| {
        let id = id.to_ascii_lowercase();
        others.get(id.as_str()).map(|other| (*other).to_owned())
    })
}

fn replaced(text: &str, other: impl Fn(&str) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut end = 0;
    for (at, id) in ids_in(text) {
        result.push_str(&text[end..at]);
        match other(id) {
            Some(other) => result.push_str(&other),
            None => result.push_str(id),
        }
        end = at + ID_BYTES;
    }
    result.push_str(&text[end..]);
    result
}

/// Returns the ids in a text and their offsets.
fn ids_in(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let mut next = 0;
    std::iter::from_fn(move || {
        while next + ID_BYTES <= bytes.len() {
            let at = next;
            let window = &bytes[at..at + ID_BYTES];
            if is_id(window) && !touches_hex(bytes, at) {
                next = at + ID_BYTES;
                return Some((at, &text[at..at + ID_BYTES]));
            }
            next += 1;
        }
        None
    })
}

fn is_id(window: &[u8]) -> bool {
    // The last byte decides most windows at once.
    window.last().is_some_and(u8::is_ascii_hexdigit)
        && window.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn touches_hex(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| bytes.get(before));
    let after = bytes.get(at + ID_BYTES);
    [before, after]
        .into_iter()
        .flatten()
        .any(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0190a0b1-0000-7000-8000-00000000000a";
    const B: &str = "0190a0b1-0000-7000-8000-00000000000B";

    #[test]
    fn ids_are_found_and_replaced() {
        for (text, expected) in [
            (String::new(), String::new()),
            (A.to_owned(), "{id}".to_owned()),
            (
                format!("查 {A}, then {B}。"),
                "查 {id}, then {id}。".to_owned(),
            ),
            (format!("{A}{A}"), format!("{A}{A}")),
            (A[..35].to_owned(), A[..35].to_owned()),
            (
                format!("subagent:{A}:0123"),
                "subagent:{id}:0123".to_owned(),
            ),
        ] {
            assert_eq!(without_ids(&text), expected);
        }
    }
}
