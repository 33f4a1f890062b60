//! The state of the server, its keys, and the caller.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};
use sortie_core::run::Lane;
use sortie_core::words::Lang;
use sortie_core::worker::{WorkerRecord, WorkerState};
use utoipa::ToSchema;

use crate::time;

/// The state of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServerState {
    /// The version of the binary.
    pub version: String,
    /// When the server started.
    pub started_at: String,
    /// Identifies this start of the server: sequence numbers of events are valid within one epoch.
    pub epoch: String,
    /// The home folder; empty for keys of a tenant.
    pub home: String,
    /// The lanes; empty for keys of a tenant, because tenants share them.
    pub lanes: Vec<LaneState>,
    /// The models that were prompted; empty for keys of a tenant.
    pub models: Vec<ModelState>,
    /// The connected clients; zero for keys of a tenant.
    pub connections: Connections,
    /// Seconds since the server started.
    pub uptime_seconds: u64,
}

/// A process that executes tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// The id, which no other process has.
    pub id: String,
    /// `lost` if it has not renewed its lease, so that others continue its tasks.
    pub state: WorkerState,
    /// The command that started it.
    pub command: String,
    /// Whether it is the server, or a command that owns the store.
    pub is_front: bool,
    /// The name of its machine.
    pub host: String,
    /// Its process id on that machine.
    pub pid: u32,
    /// The labels that tasks can require.
    pub labels: Vec<String>,
    /// The lanes that it takes tasks from.
    pub lanes: Vec<WorkerLane>,
    /// How many tasks it executes.
    pub tasks: u64,
    /// When it joined, by the clock of the database.
    pub joined_at: String,
    /// When it last renewed its lease, by the clock of the database.
    pub heartbeat_at: String,
}

/// A lane of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerLane {
    /// The lane.
    pub lane: Lane,
    /// The most tasks at once.
    pub limit: u32,
}

impl From<&WorkerRecord> for Worker {
    fn from(record: &WorkerRecord) -> Self {
        let worker = &record.worker;
        Self {
            id: worker.id.to_string(),
            state: record.state,
            command: worker.command.clone(),
            is_front: worker.is_front,
            host: worker.host.clone(),
            pid: worker.pid,
            labels: worker.labels.iter().map(ToString::to_string).collect(),
            lanes: worker
                .lanes
                .iter()
                .map(|(lane, limit)| WorkerLane {
                    lane: *lane,
                    limit: *limit,
                })
                .collect(),
            tasks: record.runs,
            joined_at: time(record.joined_at),
            heartbeat_at: time(record.heartbeat_at),
        }
    }
}

/// The state of one lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaneState {
    /// The lane.
    pub lane: Lane,
    /// How many runs the lane executes at once.
    pub limit: u32,
    /// How many runs are claimed.
    pub claimed: u32,
    /// How many runs are queued.
    pub queued: u32,
}

/// The state of one model's rate limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelState {
    /// The name of the model.
    pub model: String,
    /// The state, in words.
    pub state: String,
    /// Prompts under way.
    pub in_flight: u32,
    /// The limit of concurrent prompts.
    #[schema(required)]
    pub limit: Option<u32>,
    /// Queued prompts.
    pub queued: u32,
    /// Until when the provider accepts no prompts.
    #[schema(required)]
    pub paused_until: Option<String>,
}

impl From<sortie_core::ports::model::ModelState> for ModelState {
    fn from(state: sortie_core::ports::model::ModelState) -> Self {
        Self {
            model: state.model,
            state: state.state,
            in_flight: state.in_flight,
            limit: state.limit,
            queued: state.queued,
            paused_until: state
                .paused_until
                .map(sortie_core::time::Timestamp::to_rfc3339),
        }
    }
}

/// The number of connected clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connections {
    /// WebSocket clients.
    pub websocket: u64,
    /// Clients of server-sent events.
    pub sse: u64,
}

/// The role of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Also creates, steers and cancels tasks.
    Operator,
    /// Also manages keys, and approves without limits.
    Admin,
}

impl Role {
    /// Returns the role's name in JSON.
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

/// How a caller authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// With an API key.
    Key,
    /// With the cookie and page key of a browser login.
    Browser,
}

/// The caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// The name of the key.
    pub name: String,
    /// The role of the key.
    pub role: Role,
    /// The tenant that the key is limited to; null for all tenants.
    #[schema(required)]
    pub tenant: Option<String>,
    /// How the caller authenticated.
    pub via: Via,
    /// When the key expires.
    #[schema(required)]
    pub expires_at: Option<String>,
    /// The language of the server.
    pub lang: Lang,
}

/// An API key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// The public part of the token.
    pub id: String,
    /// The name of the key.
    pub name: String,
    /// The role of the key.
    pub role: Role,
    /// The tenant that the key is limited to; null for all tenants.
    #[schema(required)]
    pub tenant: Option<String>,
    /// When the key was created.
    pub created_at: String,
    /// When the key expires.
    #[schema(required)]
    pub expires_at: Option<String>,
    /// When the key was last used since the server started.
    #[schema(required)]
    pub last_used_at: Option<String>,
}

/// A new key with its token, which is shown only once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewKeyMade {
    /// The key.
    pub key: Key,
    /// Its token.
    pub token: String,
}

/// A link that logs a browser in, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginLink {
    /// The link.
    pub url: String,
    /// When the link expires.
    pub expires_at: String,
}

/// The health of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, `ready`, `stopping`, or `broken` while the store accepts no writes.
    pub status: String,
    /// Why the server is `broken`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Health {
    /// Creates a health that needs no reason.
    pub fn of(status: &str) -> Self {
        Self {
            status: status.to_owned(),
            reason: None,
        }
    }
}

/// Returns an address at which clients on this machine reach a server that listens at `listens`.
pub fn local_address(listens: SocketAddr) -> SocketAddr {
    let ip = match listens.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        // The server may listen on IPv6 only.
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => return listens,
    };
    SocketAddr::new(ip, listens.port())
}

#[cfg(test)]
mod tests {
    use super::local_address;

    #[test]
    fn unspecified_addresses_become_loopback() {
        for (listens, expected) in [
            ("0.0.0.0:7878", "127.0.0.1:7878"),
            ("[::]:7878", "[::1]:7878"),
            ("127.0.0.2:7878", "127.0.0.2:7878"),
        ] {
            let address = local_address(listens.parse().expect("an address"));
            assert_eq!(address, expected.parse().expect("an address"));
        }
    }
}
