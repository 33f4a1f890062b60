//! Snapshots: the active tasks as one message. All clients request one at the same time after a
//! restart, so a snapshot is shared for a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sortie_core::ports::store::ListFilter;
use sortie_core::request::RequestFilter;
use sortie_core::run::Status;
use sortie_core::tenant::Tenant;
use sortie_protocol::{Request, Task};
use sortie_runtime::{Runtime, RuntimeError};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::{Hub, Topic};

/// How long clients share a snapshot.
const VALID_FOR: Duration = Duration::from_millis(200);
/// Maximum number of tasks in a snapshot.
const MAX_TASKS: u32 = 1_000;
/// Maximum number of requests in a snapshot.
const MAX_REQUESTS: u32 = 1_000;
/// Maximum number of bytes of the tasks, and of the requests. Together they are half of the largest
/// message that a client accepts.
const PART_BYTES: usize = 4 * 1024 * 1024;
/// The number of snapshots that are shared at once.
const MAX_KEPT: usize = 256;

/// The tenant and topic of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) tenant: Option<Tenant>,
    pub(super) topic: Topic,
}

/// The active tasks as of a sequence number.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) seq: u64,
    /// The message, from `"tasks"` on.
    rest: String,
    /// The last message that was built from it: most clients choose the same id.
    whole: Mutex<Option<(String, Utf8Bytes)>>,
}

impl Snapshot {
    /// Returns the message for a subscription.
    pub(super) fn message(&self, id: &str, missed: Option<u64>) -> Utf8Bytes {
        // Serialising a string cannot fail.
        let id = serde_json::to_string(id).unwrap_or_default();
        let mut head = format!(r#"{{"type":"snapshot","id":{id},"seq":{}"#, self.seq);
        if let Some(missed) = missed {
            head.push_str(&format!(r#","missed":{missed}"#));
        }
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        match whole.as_ref() {
            Some((made_of, message)) if *made_of == head => message.clone(),
            Some(_) | None => {
                let message = Utf8Bytes::from(format!("{head},{}", self.rest));
                *whole = Some((head, message.clone()));
                message
            }
        }
    }
}

#[derive(Debug)]
struct Slot {
    made: Instant,
    cell: OnceCell<Arc<Snapshot>>,
}

/// The snapshots that are still valid.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
}

impl Snapshots {
    fn slot(&self, key: &Key, fresh: bool) -> Arc<Slot> {
        let now = Instant::now();
        let is_valid = |slot: &Slot| now.saturating_duration_since(slot.made) < VALID_FOR;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if !fresh && let Some(slot) = slots.get(key).filter(|slot| is_valid(slot)) {
            return Arc::clone(slot);
        }
        if slots.len() >= MAX_KEPT {
            slots.retain(|_, slot| is_valid(slot));
        }
        let slot = Arc::new(Slot {
            made: now,
            cell: OnceCell::new(),
        });
        if slots.len() < MAX_KEPT {
            slots.insert(key.clone(), Arc::clone(&slot));
        }
        slot
    }

    /// Returns a snapshot that is at most [`VALID_FOR`] old, or a new one if `fresh`.
    pub(super) async fn get(
        &self,
        hub: &Hub,
        runtime: &Runtime,
        key: &Key,
        fresh: bool,
    ) -> Result<Arc<Snapshot>, RuntimeError> {
        let slot = self.slot(key, fresh);
        slot.cell
            .get_or_try_init(|| make(hub, runtime, key))
            .await
            .cloned()
    }
}

async fn make(hub: &Hub, runtime: &Runtime, key: &Key) -> Result<Arc<Snapshot>, RuntimeError> {
    // Taken before the records are read: a later event may be sent twice, but is never lost.
    let seq = hub.seq();
    let mut tasks = ListFilter {
        statuses: vec![Status::Pending, Status::Running],
        tenant: key.tenant.clone(),
        limit: MAX_TASKS + 1,
        ..ListFilter::default()
    };
    let mut requests = RequestFilter {
        tenant: key.tenant.clone(),
        limit: MAX_REQUESTS + 1,
        ..RequestFilter::default()
    };
    match &key.topic {
        Topic::All => {}
        Topic::Session(session) => {
            tasks.session = Some(session.clone());
            requests.session = Some(session.clone());
        }
        Topic::Tree(root) => {
            tasks.root = Some(*root);
            requests.root = Some(*root);
        }
        Topic::Task(run) => {
            tasks.runs = vec![*run];
            requests.run = Some(*run);
        }
    }
    let records = runtime.list(tasks).await?;
    let open = runtime.requests(requests).await?;
    let tasks = records.iter().map(|record| Task::from(record).summary());
    let tasks = Part::of(tasks, MAX_TASKS);
    let requests = open.iter().map(|open| Request::from(open).summary());
    let requests = Part::of(requests, MAX_REQUESTS);
    let rest = format!(
        r#""tasks":{},"requests":{},"truncated":{}}}"#,
        tasks.json,
        requests.json,
        tasks.is_cut || requests.is_cut
    );
    Ok(Arc::new(Snapshot {
        seq,
        rest,
        whole: Mutex::new(None),
    }))
}

/// The beginning of a list, as JSON.
struct Part {
    json: String,
    /// Whether the list is longer.
    is_cut: bool,
}

impl Part {
    /// Serialises at most `most` items and [`PART_BYTES`] bytes.
    fn of<T: serde::Serialize>(items: impl Iterator<Item = T>, most: u32) -> Self {
        let mut json = String::from("[");
        let mut is_cut = false;
        for (index, item) in items.enumerate() {
            // Serialising our own types cannot fail; an item that did would mark the list as
            // truncated.
            let item = serde_json::to_string(&item).unwrap_or_default();
            is_cut =
                index == most as usize || item.is_empty() || json.len() + item.len() > PART_BYTES;
            if is_cut {
                break;
            }
            if index > 0 {
                json.push(',');
            }
            json.push_str(&item);
        }
        json.push(']');
        Self { json, is_cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_truncated_at_their_limits_and_marked() {
        let part = Part::of(1..=3, 3);
        assert_eq!((part.json.as_str(), part.is_cut), ("[1,2,3]", false));
        let part = Part::of(1..=4, 3);
        assert_eq!((part.json.as_str(), part.is_cut), ("[1,2,3]", true));
        let long = "x".repeat(PART_BYTES / 3);
        let part = Part::of(std::iter::repeat_n(&long, 4), 10);
        assert!(part.is_cut && part.json.len() <= PART_BYTES + 1);
        let list: Vec<String> = serde_json::from_str(&part.json).unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(Part::of(std::iter::empty::<u8>(), 1).json, "[]");
    }
}
