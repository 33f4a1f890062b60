//! Context forks: what a new run knows of the conversation that asked for it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::message::SharedMessage;

/// The most messages that a fork can ask for.
pub const MAX_FORKED_MESSAGES: u32 = 1_000;

/// How much of the requester's conversation a new run starts with: `clean`, `last:N` or `cached`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ContextFork {
    /// Nothing but the task.
    Clean,
    /// A normalized copy of the last messages, from 1 to [`MAX_FORKED_MESSAGES`].
    Last(u32),
    /// The requester's last prompt, unchanged, so that the provider's prompt cache is hit.
    Cached,
}

impl ContextFork {
    /// As much as a copy can have; `forkContext: true` in an agent's file.
    pub const ALL: Self = Self::Last(MAX_FORKED_MESSAGES);
}

impl fmt::Display for ContextFork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean => f.write_str("clean"),
            Self::Last(count) => write!(f, "last:{count}"),
            Self::Cached => f.write_str("cached"),
        }
    }
}

impl FromStr for ContextFork {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = |digits: &str| {
            let count: u32 = digits.trim().parse().ok()?;
            (1..=MAX_FORKED_MESSAGES).contains(&count).then_some(count)
        };
        let fork = match text {
            "clean" => Some(Self::Clean),
            "cached" => Some(Self::Cached),
            other => other.strip_prefix("last:").and_then(count).map(Self::Last),
        };
        fork.ok_or_else(|| {
            format!(
                "`{text}` is not a context fork: use clean, cached or last:N with N from 1 to {MAX_FORKED_MESSAGES}"
            )
        })
    }
}

impl TryFrom<String> for ContextFork {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ContextFork> for String {
    fn from(fork: ContextFork) -> Self {
        fork.to_string()
    }
}

/// The conversation that a run starts with. A copy, so that nothing depends on the run that it was
/// taken from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForkedContext {
    pub fork: ContextFork,
    /// The run that it was copied from. Its long outputs and images are read while they exist.
    pub run: RunId,
    /// Ends with the separator; the task follows.
    pub messages: Vec<SharedMessage>,
    /// What precedes the messages in a prompt, if that is the requester's too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<ForkedPrompt>,
}

/// The part of a prompt before its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedPrompt {
    pub system: String,
    /// The tools that are described. The run may call only those of its own.
    pub tools: Vec<String>,
    /// Names the group of prompts that share a cache.
    pub cache_key: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_contract_are_read_and_written() {
        for word in ["clean", "cached", "last:1", "last:1000"] {
            assert_eq!(word.parse::<ContextFork>().unwrap().to_string(), word);
        }
        for word in ["", "last", "last:0", "last:1001", "last:-1", "all", "Clean"] {
            assert!(word.parse::<ContextFork>().is_err(), "{word}");
        }
        let json = serde_json::to_string(&ContextFork::Last(3)).unwrap();
        assert_eq!(json, "\"last:3\"");
    }
}
