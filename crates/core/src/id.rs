//! Ids as types, so that a run id cannot be passed for a call id.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The shortest prefix of a run id that the command line and the API accept.
pub const MIN_PREFIX_CHARS: usize = 8;

/// The length of a new handle. The store gives a run a longer one, up to the second number, only while
/// another run has the shorter one.
pub const HANDLE_CHARS: (usize, usize) = (4, 6);

/// The digits of a handle. `i`, `l` and `o` look like other digits and are missing, as is `u`.
const HANDLE_DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The id of a run, called a task in the interfaces. UUIDv7, so ids sort by creation time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(Uuid);

impl RunId {
    /// Wraps a UUID that a [`crate::time::Clock`] generated.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    pub const fn as_u128(self) -> u128 {
        self.0.as_u128()
    }

    /// Returns the handles that the run can have, the shortest first. They come from a hash of the id:
    /// ids of the same moment share their first characters, and their hashes do not.
    pub fn handles(self) -> impl Iterator<Item = String> {
        let hash = Sha256::digest(self.0.as_bytes());
        let (shortest, longest) = HANDLE_CHARS;
        let digit = |byte: &u8| char::from(HANDLE_DIGITS[usize::from(byte % 32)]);
        let digits: String = hash.iter().take(longest).map(digit).collect();
        (shortest..=longest).map(move |length| digits[..length].to_owned())
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for RunId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(Self)
    }
}

/// Returns what was typed as a handle in its stored spelling; `None` if it cannot be one. Capital
/// letters and look-alikes are accepted: `O` is `0`, `I` and `L` are `1`.
pub fn as_handle(typed: &str) -> Option<String> {
    let (shortest, longest) = HANDLE_CHARS;
    if !(shortest..=longest).contains(&typed.len()) {
        return None;
    }
    let stored = |character: char| match character.to_ascii_lowercase() {
        'o' => Some('0'),
        'i' | 'l' => Some('1'),
        other => u8::try_from(other)
            .is_ok_and(|byte| HANDLE_DIGITS.contains(&byte))
            .then_some(other),
    };
    typed.chars().map(stored).collect()
}

/// The id of a tool call within its run: `{turn}-{index}`, assigned by Sortie.
///
/// A provider's call ids may be missing or duplicated, so they are stored beside this one and never
/// used as keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(String);

impl CallId {
    /// Returns the id of the `index`-th call in the completion of `turn`.
    pub fn new(turn: u32, index: usize) -> Self {
        Self(format!("{turn}-{index}"))
    }

    /// Reads an id from storage.
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id under which this call starts the child of one attempt at one item.
    #[must_use]
    pub fn of_item(&self, item: u32, attempt: u32) -> Self {
        Self(format!("{}/{item}.{attempt}", self.0))
    }

    /// Returns the call, the item and the attempt of an id that [`CallId::of_item`] made.
    pub fn item(&self) -> Option<(Self, u32, u32)> {
        let (call, member) = self.0.split_once('/')?;
        let (item, attempt) = member.split_once('.')?;
        Some((
            Self(call.to_owned()),
            item.parse().ok()?,
            attempt.parse().ok()?,
        ))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of one effect: a call of a run. The same after any number of restarts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EffectId(String);

impl EffectId {
    pub fn new(run: RunId, call: &CallId) -> Self {
        Self(format!("{run}/{call}"))
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key of a conversation, `channel:chat_id`, for example `cli:direct`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionKey(String);

/// A session key without a channel or a chat id.
#[derive(Debug, thiserror::Error)]
#[error(
    "invalid session {0:?}: write channel:chat_id, for example cli:direct, or an id of your own without a colon"
)]
pub struct BadSessionKey(String);

impl SessionKey {
    /// Returns the session of a person at a terminal.
    pub fn cli() -> Self {
        Self("cli:direct".to_owned())
    }

    /// Returns the private session of a child: `subagent:{run_id}:{task_hash}`.
    pub fn of_child(run: RunId, task: &str) -> Self {
        Self(format!("subagent:{run}:{}", task_hash(task)))
    }

    /// Returns the scope of session grants: this session in one folder. In another folder the
    /// approver is asked again.
    #[must_use]
    pub fn in_folder(&self, folder: &std::path::Path) -> Self {
        Self(format!("{} in {}", self.0, folder.display()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionKey {
    type Err = BadSessionKey;

    /// Parses `channel:chat_id`. An id without a channel belongs to the channel `api`: programs
    /// bring session ids of their own, and few contain a colon.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some((channel, chat)) if !channel.is_empty() && !chat.is_empty() => {
                Ok(Self(text.to_owned()))
            }
            None if !text.trim().is_empty() => Ok(Self(format!("api:{text}"))),
            Some(_) | None => Err(BadSessionKey(text.to_owned())),
        }
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the first 16 hex digits of the SHA-256 of a task's text.
pub fn task_hash(task: &str) -> String {
    let mut text = hex(&Sha256::digest(task.as_bytes()));
    text.truncate(16);
    text
}

/// Returns bytes as lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            write!(text, "{byte:02x}").ok();
            text
        })
}

/// The id of a long tool output stored beside the journal: the SHA-256 of its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(String);

impl BlobId {
    pub fn of(bytes: &[u8]) -> Self {
        Self(hex(&Sha256::digest(bytes)))
    }

    /// Reads an id from storage or from a model's call.
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fencing token of a claim. Each new claim of a run gets a higher one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub i64);

/// A position in a run's journal, from 1, without gaps.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub i64);

impl Seq {
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to write a run's journal. The store rejects it once a newer claim exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    pub run: RunId,
    pub epoch: Epoch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_key_without_a_channel_belongs_to_api() {
        for (text, expected) in [
            ("cli:direct", Some("cli:direct")),
            ("web:a:b", Some("web:a:b")),
            ("family", Some("api:family")),
            ("6f1c2b7e-1d1a", Some("api:6f1c2b7e-1d1a")),
            ("", None),
            (" ", None),
            (":family", None),
            ("api:", None),
        ] {
            let key = text.parse::<SessionKey>().ok();
            assert_eq!(key.as_ref().map(SessionKey::as_str), expected, "{text:?}");
        }
    }
}
