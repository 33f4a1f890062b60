//! One event as bytes, with the data that decides which clients get it.

use sortie_core::id::{RunId, SessionKey};
use sortie_core::notification::Notification;
use sortie_core::run::RunRecord;
use sortie_core::tenant::Tenant;
use sortie_protocol::{Control, LiveEvent, Task};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::guard::Caller;

/// A message for clients.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The sequence number; 0 for text, which has none.
    pub(crate) seq: u64,
    /// The value of `type`.
    pub(crate) name: &'static str,
    /// The event as JSON.
    pub(crate) bytes: Utf8Bytes,
    /// The tasks that it is about, by which clients filter.
    tasks: Tasks,
    source: Source,
}

/// The tasks that a message is about.
#[derive(Debug)]
enum Tasks {
    One(RunId),
    Some(Vec<RunId>),
}

/// The session, tree and tenant of a run.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) session: SessionKey,
    pub(super) root: RunId,
    pub(super) tenant: Option<Tenant>,
}

impl Source {
    pub(super) fn of(record: &RunRecord) -> Self {
        Self {
            session: record.session.clone(),
            root: record.root,
            tenant: record.tenant.clone(),
        }
    }
}

/// What a client subscribes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    All,
    Session(SessionKey),
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
            source: Source {
                session: event.session_id.clone(),
                root: event.root_id,
                tenant: event.tenant.clone(),
            },
            bytes: json(&LiveEvent { seq, event }),
        }
    }

    /// Creates the frame of changed records of one tree.
    pub(super) fn records(seq: u64, source: Source, tasks: Vec<Task>) -> Self {
        let runs = tasks.iter().map(|task| task.task_id).collect();
        Self {
            seq,
            name: "tasks",
            bytes: json(&Control::Tasks { seq, tasks }),
            tasks: Tasks::Some(runs),
            source,
        }
    }

    /// Creates the frame of a piece of a completion.
    pub(super) fn text(run: RunId, source: Source, text: &str) -> Self {
        let control = Control::Text {
            task_id: run,
            session_id: source.session.clone(),
            root_id: source.root,
            text: text.to_owned(),
        };
        Self {
            seq: 0,
            name: "text",
            bytes: json(&control),
            tasks: Tasks::One(run),
            source,
        }
    }

    /// Returns whether the caller may see it.
    pub(super) fn is_for(&self, caller: &Caller) -> bool {
        caller.sees(self.source.tenant.as_ref())
    }

    /// Returns whether it belongs to a topic.
    pub(crate) fn is_about(&self, topic: &Topic) -> bool {
        match topic {
            Topic::All => true,
            Topic::Session(session) => self.source.session == *session,
            Topic::Tree(root) => self.source.root == *root,
            Topic::Task(run) => match &self.tasks {
                Tasks::One(task) => task == run,
                Tasks::Some(tasks) => tasks.contains(run),
            },
        }
    }
}

/// Serialises a message into bytes that all clients share.
pub(crate) fn json<T: serde::Serialize>(message: &T) -> Utf8Bytes {
    match serde_json::to_string(message) {
        Ok(text) => Utf8Bytes::from(text),
        Err(error) => {
            // Our own types have only string keys, so this cannot fail.
            tracing::error!(%error, "cannot serialise a message");
            Utf8Bytes::from_static("{\"type\":\"error\",\"code\":\"internal\",\"message\":\"\"}")
        }
    }
}
