//! What is said while it happens: over the WebSocket, and as server-sent events.

use serde::{Deserialize, Serialize};
use sortie_core::{Notification, RunId, SessionKey};
use utoipa::ToSchema;

use crate::{Me, Request, Task};

/// What a client says over the WebSocket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientMessage {
    /// Wants to hear of something.
    Subscribe(Subscribe),
    /// Wants to hear no more of it.
    Unsubscribe {
        /// The name that it gave.
        id: String,
    },
    /// Wants to hear an echo.
    Ping {
        /// Comes back.
        n: u64,
    },
}

/// What a client wants to hear of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Subscribe {
    /// The name that the client gives it.
    pub id: String,
    /// How much.
    pub scope: Scope,
    /// Of which session, for `session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Of which task, for `task` and `tree`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Whether to hear what models say while they say it.
    #[serde(default)]
    pub text: bool,
    /// Where it heard last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

/// How much a client wants to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything that it may see.
    All,
    /// One session.
    Session,
    /// One task.
    Task,
    /// One task's tree.
    Tree,
}

/// Where a client heard last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resume {
    /// In which life of the server.
    pub epoch: String,
    /// The last sequence number.
    pub seq: u64,
}

/// What the server says over the WebSocket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ServerMessage {
    /// About the connection, or a whole state.
    Control(Box<Control>),
    /// Something happened to a task.
    Event(Box<LiveEvent>),
}

/// What is said about the connection, and whole states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Control {
    /// The first message.
    Hello {
        /// Names this life of the server.
        epoch: String,
        /// The last event so far. Numbers count what happens on the whole server, also what this key
        /// may not see: whoever comes back has to say where it was.
        seq: u64,
        /// How often it says that it lives.
        heartbeat_ms: u64,
        /// Its version.
        version: String,
        /// Who is listening.
        me: Me,
    },
    /// A wish was heard.
    Subscribed {
        /// The client's name for it.
        id: String,
        /// Whether what was missed follows; otherwise a snapshot does.
        resumed: bool,
    },
    /// Everything that lives, as of `seq`.
    Snapshot {
        /// The client's name for the subscription.
        id: String,
        /// Everything up to here is in it.
        seq: u64,
        /// The newest that have not ended, as summaries.
        tasks: Vec<Task>,
        /// What they ask.
        requests: Vec<Request>,
        /// Whether there are more.
        truncated: bool,
        /// How many events were missed, after falling behind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missed: Option<u64>,
    },
    /// Records that changed, as summaries.
    Tasks {
        /// Its place among the events.
        seq: u64,
        /// The records.
        tasks: Vec<Task>,
    },
    /// A piece of what a model says.
    Text {
        /// The run.
        #[schema(value_type = String)]
        task_id: RunId,
        /// Its session.
        #[schema(value_type = String)]
        session_id: SessionKey,
        /// Its tree.
        #[schema(value_type = String)]
        root_id: RunId,
        /// The piece.
        text: String,
    },
    /// The server lives.
    Heartbeat {
        /// The last event so far. Numbers count what happens on the whole server, also what this key
        /// may not see: whoever comes back has to say where it was.
        seq: u64,
        /// When.
        at: String,
    },
    /// The echo of a ping.
    Pong {
        /// What the ping had.
        n: u64,
    },
    /// A message was not understood, or not granted.
    Error {
        /// Which kind of mistake.
        code: String,
        /// What to do.
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
