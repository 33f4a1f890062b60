//! One event as bytes, with just enough beside them to know who may hear it.

use sortie_core::{Notification, RunId, RunRecord, SessionKey, Tenant};
use sortie_protocol::{Control, LiveEvent, Task};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::guard::Caller;

/// Something that happened, as it goes out.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Its number; 0 for text, which has none.
    pub(crate) seq: u64,
    /// The word in `type`.
    pub(crate) name: &'static str,
    /// The JSON.
    pub(crate) bytes: Utf8Bytes,
    /// Whom it is about, and where that belongs: what clients filter by.
    tasks: Tasks,
    place: Place,
}

/// Whom an event is about.
#[derive(Debug)]
enum Tasks {
    One(RunId),
    Some(Vec<RunId>),
}

/// Where a run belongs.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) session: SessionKey,
    pub(super) root: RunId,
    pub(super) tenant: Option<Tenant>,
}

impl Place {
    pub(super) fn of(record: &RunRecord) -> Self {
        Self {
            session: record.session.clone(),
            root: record.root,
            tenant: record.tenant.clone(),
        }
    }
}

/// What somebody wants to hear of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    /// Everything.
    All,
    /// One session.
    Session(SessionKey),
    /// One task.
    Task(RunId),
    /// One tree, by its root.
    Tree(RunId),
}

impl Frame {
    /// Creates the frame of an event.
    pub(super) fn event(seq: u64, event: Notification) -> Self {
        Self {
            seq,
            name: event.kind.name(),
            tasks: Tasks::One(event.task_id),
            place: Place {
                session: event.session_id.clone(),
                root: event.root_id,
                tenant: event.tenant.clone(),
            },
            bytes: json(&LiveEvent { seq, event }),
        }
    }

    /// Changed records of one tree.
    pub(super) fn records(seq: u64, place: Place, tasks: Vec<Task>) -> Self {
        let runs = tasks.iter().map(|task| task.task_id).collect();
        Self {
            seq,
            name: "tasks",
            bytes: json(&Control::Tasks { seq, tasks }),
            tasks: Tasks::Some(runs),
            place,
        }
    }

    /// A piece of what a model says.
    pub(super) fn text(run: RunId, place: Place, text: &str) -> Self {
        let control = Control::Text {
            task_id: run,
            session_id: place.session.clone(),
            root_id: place.root,
            text: text.to_owned(),
        };
        Self {
            seq: 0,
            name: "text",
            bytes: json(&control),
            tasks: Tasks::One(run),
            place,
        }
    }

    /// Whether somebody may hear it at all.
    pub(super) fn is_for(&self, caller: &Caller) -> bool {
        caller.sees(self.place.tenant.as_ref())
    }

    /// Whether it is about what somebody wants to hear of.
    pub(crate) fn is_about(&self, wanted: &Wanted) -> bool {
        match wanted {
            Wanted::All => true,
            Wanted::Session(session) => self.place.session == *session,
            Wanted::Tree(root) => self.place.root == *root,
            Wanted::Task(run) => match &self.tasks {
                Tasks::One(task) => task == run,
                Tasks::Some(tasks) => tasks.contains(run),
            },
        }
    }
}

/// What is said, as bytes that all clients share.
pub(crate) fn json<T: serde::Serialize>(said: &T) -> Utf8Bytes {
    match serde_json::to_string(said) {
        Ok(text) => Utf8Bytes::from(text),
        Err(error) => {
            // Our own types have no maps with odd keys; if one ever does, this is where it shows.
            tracing::error!(%error, "something could not be said");
            Utf8Bytes::from_static("{\"type\":\"error\",\"code\":\"internal\",\"message\":\"\"}")
        }
    }
}
