//! Messages of the WebSocket and of server-sent events.

use serde::{Deserialize, Serialize};
use sortie_core::id::{RunId, SessionKey};
use sortie_core::notification::Notification;
use utoipa::ToSchema;

use crate::{Me, Request, Task};

/// A message of a client over the WebSocket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientMessage {
    /// Starts a subscription.
    Subscribe(Subscribe),
    /// Ends a subscription.
    Unsubscribe {
        /// The id of the subscription.
        id: String,
    },
    /// Asks for a `pong`.
    Ping {
        /// A number that the `pong` repeats.
        n: u64,
    },
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Subscribe {
    /// The id that the client chooses.
    pub id: String,
    /// Which events the client gets.
    pub scope: Scope,
    /// The session, for `session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The task, for `task` and `tree`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Whether to stream the text of completions.
    #[serde(default)]
    pub text: bool,
    /// The last event that the client received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

/// Which events a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Events of every task that the key may see.
    All,
    /// Events of one session.
    Session,
    /// Events of one task.
    Task,
    /// Events of one task's tree.
    Tree,
}

/// The position of a client in the event sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resume {
    /// The epoch of the server.
    pub epoch: String,
    /// The last sequence number.
    pub seq: u64,
}

/// A message of the server over the WebSocket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ServerMessage {
    /// A message about the connection, or records.
    Control(Box<Control>),
    /// A live event.
    Event(Box<LiveEvent>),
}

/// Messages about the connection, and records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Control {
    /// The first message.
    Hello {
        /// Identifies this start of the server.
        epoch: String,
        /// The sequence number of the last event. Events that this key may not see are numbered too,
        /// so a client resumes from the last number that it received.
        seq: u64,
        /// The interval between heartbeats.
        heartbeat_ms: u64,
        /// The version of the server.
        version: String,
        /// The caller.
        me: Me,
    },
    /// A subscription started.
    Subscribed {
        /// The id of the subscription.
        id: String,
        /// Whether the missed events follow; otherwise a snapshot follows.
        resumed: bool,
    },
    /// The tasks that have not ended, as of `seq`.
    Snapshot {
        /// The id of the subscription.
        id: String,
        /// The sequence number of the last event that the snapshot includes.
        seq: u64,
        /// The newest tasks that have not ended, as summaries.
        tasks: Vec<Task>,
        /// Their open requests.
        requests: Vec<Request>,
        /// Whether there are more tasks.
        truncated: bool,
        /// How many events the client missed because it fell behind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missed: Option<u64>,
    },
    /// Changed records, as summaries.
    Tasks {
        /// The sequence number of the message.
        seq: u64,
        /// The records.
        tasks: Vec<Task>,
    },
    /// A piece of a completion.
    Text {
        /// The task.
        #[schema(value_type = String)]
        task_id: RunId,
        /// The session of the task.
        #[schema(value_type = String)]
        session_id: SessionKey,
        /// The root of its tree.
        #[schema(value_type = String)]
        root_id: RunId,
        /// The piece.
        text: String,
    },
    /// Sent at the interval that `hello` announces.
    Heartbeat {
        /// The sequence number of the last event, as in `hello`.
        seq: u64,
        /// When it was sent.
        at: String,
    },
    /// The reply to a ping.
    Pong {
        /// The number of the ping.
        n: u64,
    },
    /// A message of the client was invalid or refused.
    Error {
        /// The kind of error.
        code: String,
        /// What to do about it.
        message: String,
    },
}

/// A live event of a task, with its number on this server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveEvent {
    /// The number of the event since the server started. Events that the client did not subscribe to
    /// or may not see are numbered too, so a client sees gaps.
    pub seq: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Notification,
}
