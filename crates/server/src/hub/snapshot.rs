//! What lives, as one message. Asked for by everybody at once after a restart, so it is made once and
//! kept for a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sortie_core::{ListFilter, RequestFilter, RunId, Status, Tenant};
use sortie_protocol::{Request, Task};
use sortie_runtime::{Runtime, RuntimeError};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::{Hub, Wanted};

/// How long one is good for others.
const GOOD_FOR: Duration = Duration::from_millis(200);
/// Tasks in one.
const MAX_TASKS: u32 = 1_000;
/// Requests in one.
const MAX_REQUESTS: u32 = 1_000;
/// Different ones that are kept.
const MAX_KEPT: usize = 256;

/// Whose snapshot, of what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) tenant: Option<Tenant>,
    pub(super) wanted: Wanted,
}

/// What lives, as of a number.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) seq: u64,
    /// The message from `"tasks"` on.
    rest: String,
    /// The last whole message that was made of it: most clients give the same name.
    whole: Mutex<Option<(String, Utf8Bytes)>>,
}

impl Snapshot {
    /// The message for a subscription.
    pub(super) fn message(&self, id: &str, missed: Option<u64>) -> Utf8Bytes {
        // A string always becomes JSON.
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

/// Those that are still good.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
}

impl Snapshots {
    fn slot(&self, key: &Key, fresh: bool) -> Arc<Slot> {
        let now = Instant::now();
        let is_good = |slot: &Slot| now.saturating_duration_since(slot.made) < GOOD_FOR;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if !fresh && let Some(slot) = slots.get(key).filter(|slot| is_good(slot)) {
            return Arc::clone(slot);
        }
        if slots.len() >= MAX_KEPT {
            slots.retain(|_, slot| is_good(slot));
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

    /// A snapshot that is at most a moment old, or one that begins now.
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
    // Whatever happens after this number is told too, perhaps twice, never not at all.
    let seq = hub.seq();
    let mut filter = ListFilter {
        statuses: vec![Status::Pending, Status::Running],
        tenant: key.tenant.clone(),
        limit: MAX_TASKS + 1,
        ..ListFilter::default()
    };
    let mut one = None;
    match &key.wanted {
        Wanted::All => {}
        Wanted::Session(session) => filter.session = Some(session.clone()),
        Wanted::Tree(root) => filter.root = Some(*root),
        Wanted::Task(run) => {
            filter.runs = vec![*run];
            one = Some(*run);
        }
    }
    let records = runtime.list(filter).await?;
    let truncated = records.len() > MAX_TASKS as usize;
    let tasks: Vec<Task> = records
        .iter()
        .take(MAX_TASKS as usize)
        .map(|record| Task::from(record).summary())
        .collect();
    let requests = requests(runtime, key, one).await?;
    let rest = format!(
        r#""tasks":{},"requests":{},"truncated":{truncated}}}"#,
        list(&tasks),
        list(&requests)
    );
    Ok(Arc::new(Snapshot {
        seq,
        rest,
        whole: Mutex::new(None),
    }))
}

async fn requests(
    runtime: &Runtime,
    key: &Key,
    run: Option<RunId>,
) -> Result<Vec<Request>, RuntimeError> {
    let open = runtime
        .requests(RequestFilter {
            run,
            tenant: key.tenant.clone(),
            limit: MAX_REQUESTS,
            ..RequestFilter::default()
        })
        .await?;
    let is_wanted = |request: &Request| match &key.wanted {
        Wanted::All | Wanted::Task(_) => true,
        Wanted::Session(session) => request.session_id == *session,
        Wanted::Tree(root) => request.root_id == *root,
    };
    Ok(open.iter().map(Request::from).filter(is_wanted).collect())
}

/// Our own types always become JSON; were one not to, the list would be empty rather than broken.
fn list<T: serde::Serialize>(items: &[T]) -> String {
    serde_json::to_string(items).unwrap_or_else(|_| "[]".to_owned())
}
