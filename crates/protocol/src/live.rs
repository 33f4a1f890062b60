//! What is said while it happens: over the WebSocket, and as server-sent events.

use serde::{Deserialize, Serialize};
use sortie_base::truncate::truncate;
use sortie_core::{Delivery, Notification, NotificationKind, RunId, SessionKey};
use utoipa::ToSchema;

use crate::{Balance, Me, Request, Task, schema, time};

/// How many characters of a result, of words or of an error stand in an event. The record has them
/// all.
pub const LIVE_CHARS: usize = 4_000;

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

/// Something happened to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveEvent {
    /// Its place among all events of this life of the server. Those count too that a client did not
    /// ask for or may not see, so it may see gaps.
    pub seq: u64,
    /// The end of the task's journal at that moment.
    pub task_seq: i64,
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The session that asked for it.
    #[schema(value_type = String)]
    pub session_id: SessionKey,
    /// The first run of its tree.
    #[schema(value_type = String)]
    pub root_id: RunId,
    /// The run that asked for it.
    #[schema(value_type = Option<String>, required)]
    pub parent_id: Option<RunId>,
    /// When.
    pub at: String,
    /// What.
    #[serde(flatten)]
    pub kind: LiveKind,
}

/// What happened to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LiveKind {
    /// It was admitted and waits.
    Queued {
        /// Its agent.
        agent: String,
        /// Its label.
        label: String,
    },
    /// It was first claimed.
    Started {
        /// Its agent.
        agent: String,
        /// Its label.
        label: String,
    },
    /// It has come further.
    Progress {
        /// 0 to 100.
        progress: u8,
        /// Calls made.
        tool_calls: u32,
    },
    /// It called a tool.
    Tool {
        /// Which.
        tool: String,
        /// Calls made before.
        tool_calls: u32,
    },
    /// It waits for the provider's rate limit, or no longer does.
    Held {
        /// Its place among the questions to the same model.
        #[schema(required)]
        position: Option<u32>,
        /// When the provider said to come back.
        #[schema(required)]
        resumes_in_ms: Option<u64>,
    },
    /// The model is asked again, or another one is. What it had said of the answer is void.
    Retrying {
        /// What went wrong.
        error: String,
        /// The model that is asked next.
        model: String,
        /// How long it waits first.
        delay_ms: u64,
        /// Whether somebody may have read a part of the answer that is now void.
        shown: bool,
    },
    /// Older parts of its history became short.
    Compacted {
        /// Characters before.
        chars_before: u64,
        /// Characters after.
        chars_after: u64,
    },
    /// It waits for somebody's word.
    Asked {
        /// What it asks, with long texts cut.
        request: Box<Request>,
    },
    /// Somebody has replied, or nobody did in time.
    Replied {
        /// The request.
        request_id: String,
    },
    /// Most of its budget is spent.
    BudgetLow {
        /// How much of what.
        balances: Vec<Balance>,
    },
    /// It said something that is not its final word.
    Said {
        /// What; cut after [`LIVE_CHARS`] characters.
        text: String,
    },
    /// Somebody told it to pause.
    Paused,
    /// Somebody told it to go on.
    Resumed,
    /// It ended with a result.
    Completed {
        /// The result; cut after [`LIVE_CHARS`] characters.
        result: String,
    },
    /// It ended without.
    Failed {
        /// Why.
        error: String,
    },
    /// Its deadline passed.
    Timeout {
        /// The deadline.
        error: String,
    },
    /// It was stopped.
    Cancelled {
        /// By whom.
        error: String,
    },
    /// Its result arrived, or was given up.
    Delivery {
        /// Which.
        #[schema(value_type = schema::Delivery)]
        delivery: Delivery,
    },
    /// Its record is gone.
    Deleted,
}

impl LiveKind {
    /// The word in `type`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Queued { .. } => "queued",
            Self::Started { .. } => "started",
            Self::Progress { .. } => "progress",
            Self::Tool { .. } => "tool",
            Self::Held { .. } => "held",
            Self::Retrying { .. } => "retrying",
            Self::Compacted { .. } => "compacted",
            Self::Asked { .. } => "asked",
            Self::Replied { .. } => "replied",
            Self::BudgetLow { .. } => "budget_low",
            Self::Said { .. } => "said",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Timeout { .. } => "timeout",
            Self::Cancelled { .. } => "cancelled",
            Self::Delivery { .. } => "delivery",
            Self::Deleted => "deleted",
        }
    }
}

impl LiveEvent {
    /// An event in its place; `None` for news that only the record tells.
    pub fn of(seq: u64, notification: &Notification) -> Option<Self> {
        let kind = kind_of(&notification.kind)?;
        Some(Self {
            seq,
            task_seq: notification.seq.0,
            task_id: notification.task_id,
            session_id: notification.session_id.clone(),
            root_id: notification.root_id,
            parent_id: notification.parent_id,
            at: time(notification.at),
            kind,
        })
    }
}

fn short(text: &str) -> String {
    truncate(text, LIVE_CHARS)
}

fn kind_of(kind: &NotificationKind) -> Option<LiveKind> {
    Some(match kind {
        NotificationKind::Queued { agent, label } => LiveKind::Queued {
            agent: agent.clone(),
            label: label.clone(),
        },
        NotificationKind::Started { agent, label } => LiveKind::Started {
            agent: agent.clone(),
            label: label.clone(),
        },
        NotificationKind::Progress {
            progress,
            tool_calls,
        } => LiveKind::Progress {
            progress: *progress,
            tool_calls: *tool_calls,
        },
        NotificationKind::Tool { tool, tool_calls } => LiveKind::Tool {
            tool: tool.clone(),
            tool_calls: *tool_calls,
        },
        NotificationKind::Held {
            position,
            resumes_in_ms,
        } => LiveKind::Held {
            position: *position,
            resumes_in_ms: *resumes_in_ms,
        },
        NotificationKind::Retrying {
            error,
            model,
            delay_ms,
            shown,
        } => LiveKind::Retrying {
            error: short(error),
            model: model.clone(),
            delay_ms: *delay_ms,
            shown: *shown,
        },
        NotificationKind::Compacted {
            chars_before,
            chars_after,
        } => LiveKind::Compacted {
            chars_before: *chars_before,
            chars_after: *chars_after,
        },
        NotificationKind::Asked { request } => LiveKind::Asked {
            request: Box::new(Request::from(request.as_ref()).summary()),
        },
        NotificationKind::Replied { request } => LiveKind::Replied {
            request_id: request.to_string(),
        },
        NotificationKind::BudgetLow { balances } => LiveKind::BudgetLow {
            balances: balances.iter().map(Balance::from).collect(),
        },
        NotificationKind::Said { text } => LiveKind::Said { text: short(text) },
        NotificationKind::Changed { .. } => return None,
        NotificationKind::Paused => LiveKind::Paused,
        NotificationKind::Resumed => LiveKind::Resumed,
        NotificationKind::Deleted => LiveKind::Deleted,
        NotificationKind::Completed { result } => LiveKind::Completed {
            result: short(result),
        },
        NotificationKind::Failed { error } => LiveKind::Failed {
            error: short(error),
        },
        NotificationKind::Timeout { error } => LiveKind::Timeout {
            error: short(error),
        },
        NotificationKind::Cancelled { error } => LiveKind::Cancelled {
            error: short(error),
        },
        NotificationKind::Delivery { delivery } => LiveKind::Delivery {
            delivery: *delivery,
        },
    })
}
