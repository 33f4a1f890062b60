//! The processes that share a store, and what they learn of each other.

use crate::event::JournalEntry;
use crate::ports::store::RunRef;
use crate::time::Timestamp;
use crate::worker::Worker;

/// Enters a process into the list of workers, or renews its entry.
#[derive(Clone, Debug)]
pub struct Join {
    pub worker: Worker,
    /// Whether it claims no more runs and is about to leave.
    pub draining: bool,
    /// The present time, by the clock of leases.
    pub at: Timestamp,
    /// When the entry expires unless it is renewed.
    pub lease_until: Timestamp,
}

/// A position in the feed of journal entries. The default is the end of the feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedPlace(pub u64);

/// Journal entries that other processes wrote.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    /// In the order of their commits; those of one run in the order of their positions.
    pub entries: Vec<FeedEntry>,
    /// Where to read next.
    pub next: FeedPlace,
}

/// A journal entry, and what notifications about its run contain.
#[derive(Clone, Debug)]
pub struct FeedEntry {
    pub entry: JournalEntry,
    /// The run, with the position of the entry.
    pub about: RunRef,
    pub agent: String,
    pub label: String,
    pub depth: u32,
    /// The progress and the number of tool calls of the record when the feed is read.
    pub progress: u8,
    pub tool_calls: u32,
}
