//! The server itself: its state, its keys, who is asking.

use serde::{Deserialize, Serialize};
use sortie_core::{Lane, Lang};
use utoipa::ToSchema;

/// What the server is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServerState {
    /// Its version.
    pub version: String,
    /// When it started.
    pub started_at: String,
    /// Names this life of it: sequence numbers of events count within it.
    pub epoch: String,
    /// Its home folder; empty for keys of a tenant.
    pub home: String,
    /// The queues; none for keys of a tenant, because they are everybody's.
    pub lanes: Vec<LaneState>,
    /// The models that were asked; none for keys of a tenant.
    pub models: Vec<ModelState>,
    /// Who is listening; nobody for keys of a tenant.
    pub connections: Connections,
    /// How long it has been up.
    pub uptime_seconds: u64,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaneState {
    /// Which.
    pub lane: Lane,
    /// How many may run at once.
    pub limit: u32,
    /// How many do.
    pub claimed: u32,
    /// How many wait.
    pub queued: u32,
}

/// One model, as its rate limits see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelState {
    /// Its name.
    pub model: String,
    /// How it is.
    pub state: String,
    /// Questions under way.
    pub in_flight: u32,
    /// How many there may be at once.
    #[schema(required)]
    pub limit: Option<u32>,
    /// Questions that wait.
    pub queued: u32,
    /// When it may be asked again.
    #[schema(required)]
    pub paused_until: Option<String>,
}

impl From<sortie_core::ModelState> for ModelState {
    fn from(state: sortie_core::ModelState) -> Self {
        Self {
            model: state.model,
            state: state.state,
            in_flight: state.in_flight,
            limit: state.limit,
            queued: state.queued,
            paused_until: state.paused_until.map(sortie_core::Timestamp::to_rfc3339),
        }
    }
}

/// Who is listening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connections {
    /// By WebSocket.
    pub websocket: u64,
    /// By server-sent events.
    pub sse: u64,
}

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Looks.
    Viewer,
    /// Also makes, steers and ends tasks.
    Operator,
    /// Also decides who may do what.
    Admin,
}

impl Role {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// How somebody showed who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// By a key.
    Key,
    /// By a browser's cookie.
    Browser,
}

/// Who is asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// The name of the key.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Whose things it sees; null is everybody's.
    #[schema(required)]
    pub tenant: Option<String>,
    /// How it came in.
    pub via: Via,
    /// When it ends.
    #[schema(required)]
    pub expires_at: Option<String>,
    /// The server's language.
    pub lang: Lang,
}

/// A key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Its id: the part of the token that is no secret.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Whose things it sees; null is everybody's.
    #[schema(required)]
    pub tenant: Option<String>,
    /// When it was made.
    pub created_at: String,
    /// When it ends.
    #[schema(required)]
    pub expires_at: Option<String>,
    /// When it was last used, as far as this life of the server knows.
    #[schema(required)]
    pub last_used_at: Option<String>,
}

/// A new key with its token, which is shown once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewKeyMade {
    /// The key.
    pub key: Key,
    /// Its token.
    pub token: String,
}

/// A link that lets a browser in, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginLink {
    /// Where to go.
    pub url: String,
    /// Until when.
    pub expires_at: String,
}

/// How the server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, `ready`, `stopping`, or `broken` while the store accepts no writes.
    pub status: String,
    /// Why it is broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Health {
    /// A state that needs no reason.
    pub fn of(status: &str) -> Self {
        Self {
            status: status.to_owned(),
            reason: None,
        }
    }
}
