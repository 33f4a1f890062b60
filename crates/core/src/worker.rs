//! The processes that execute the runs of one store, and the labels that place runs on them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::run::Lane;
use crate::time::Timestamp;

/// The longest label.
const MAX_LABEL_CHARS: usize = 63;
/// The most labels of a worker, and the most that a run may require.
pub const MAX_LABELS: usize = 32;
/// The most characters of a host's name in the id of a worker.
const MAX_HOST_CHARS: usize = 40;

/// The id of a process that executes runs: the owner of its leases.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(String);

impl WorkerId {
    /// Returns an id that people recognise and that no other process has: the host, the process id
    /// and the end of a new unique id.
    pub fn new(host: &str, pid: u32, unique: RunId) -> Self {
        let is_plain = |character: &char| character.is_ascii_alphanumeric() || *character == '-';
        let host: String = host.chars().filter(is_plain).take(MAX_HOST_CHARS).collect();
        let suffix = unique.as_u128() & 0xffff_ffff;
        Self(format!("{host}-{pid}-{suffix:08x}"))
    }

    /// Wraps an id that was stored, or the name of the only owner of a store.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A property of a worker that runs can require, such as `gpu`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(String);

/// An invalid label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid label {0:?}: use 1 to 63 lower-case letters, digits, dots, underscores and hyphens, \
     beginning with a letter or digit"
)]
pub struct BadLabel(String);

impl Label {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = BadLabel;

    fn from_str(text: &str) -> Result<Self, BadLabel> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let begins_well = bytes.first().is_some_and(|first| is_plain(*first));
        let goes_on_well = bytes
            .iter()
            .all(|byte| is_plain(*byte) || b"._-".contains(byte));
        if begins_well && goes_on_well && bytes.len() <= MAX_LABEL_CHARS {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadLabel(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Label {
    type Error = BadLabel;

    fn try_from(text: String) -> Result<Self, BadLabel> {
        text.parse()
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Sorts labels and removes duplicates, so that equal sets are equal lists.
pub fn sorted(mut labels: Vec<Label>) -> Vec<Label> {
    labels.sort_unstable();
    labels.dedup();
    labels
}

/// A process that executes runs, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    pub id: WorkerId,
    /// The command that started it.
    pub command: String,
    /// Whether it also receives messages and delivers results to sinks, as a server does. A store
    /// has at most one such process at a time.
    pub is_front: bool,
    pub host: String,
    pub pid: u32,
    pub labels: Vec<Label>,
    /// The most runs at once, for each lane that it claims from.
    pub lanes: Vec<(Lane, u32)>,
}

impl Worker {
    /// Returns the most runs of a lane at once.
    pub fn slots(&self, lane: Lane) -> u64 {
        let slots = self.lanes.iter().filter(|(of, _)| *of == lane);
        slots.map(|(_, slots)| u64::from(*slots)).sum()
    }
}

words! {
    /// Whether a worker executes runs.
    WorkerState {
        /// It claims runs.
        Active = "active",
        /// It claims no more runs and is about to leave.
        Draining = "draining",
        /// It has not renewed its lease; its runs are claimed by others.
        Lost = "lost",
    }
}

/// A worker as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRecord {
    pub worker: Worker,
    pub state: WorkerState,
    pub joined_at: Timestamp,
    /// The last renewal of its lease, by the clock of the database.
    pub heartbeat_at: Timestamp,
    /// The runs that it executes.
    pub runs: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_plain_words() {
        for good in ["gpu", "linux", "a", "0", "cuda-12.4", "my_repo"] {
            assert!(good.parse::<Label>().is_ok(), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", "-a", ".a", "GPU", "a b", "a,b", "a/b", "ä", &long] {
            assert!(bad.parse::<Label>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ids_of_workers_contain_nothing_of_a_strange_host_name() {
        let unique = RunId::from_uuid(uuid::Uuid::from_u128(0xabcd));
        let id = WorkerId::new("host.local\n; x", 7, unique);
        assert_eq!(id.as_str(), "hostlocalx-7-0000abcd");
    }
}
