//! What a server is told at its start.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use sortie_core::{Lang, Mode, Tenant};
use sortie_protocol::Proof;

/// What a server is told at its start.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where it listens; port 0 is any free one.
    pub listen: SocketAddr,
    /// Other names that it is reached by, with or without a port.
    pub hosts: Vec<String>,
    /// Folders that operators without a tenant may work in; the first is the default.
    pub workspaces: Vec<PathBuf>,
    /// What is set for single tenants.
    pub tenants: BTreeMap<Tenant, TenantConfig>,
    /// The folder of keys and tokens.
    pub home: PathBuf,
    /// The language of runs and pages, unless somebody wishes another.
    pub lang: Lang,
    /// The model if neither the caller nor the agent wants one in particular.
    pub default_model: String,
    /// How calls that change something are treated, unless somebody wishes otherwise.
    pub default_mode: Mode,
    /// What this life of the server shows to clients that ask whether it is the right one.
    pub proof: Proof,
    /// What bounds everything.
    pub limits: ServerLimits,
}

/// What is set for one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantConfig {
    /// Folders that its keys may work in; a folder of its own below the home if there are none.
    pub workspaces: Vec<PathBuf>,
}

/// How often something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// In the long run.
    pub per_second: NonZeroU32,
    /// At once.
    pub burst: NonZeroU32,
}

/// What bounds a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Requests of one key.
    pub rate: Rate,
    /// Bytes of a body, as a rule.
    pub body_bytes: usize,
    /// Bytes of a body that carries a task or a message.
    pub task_body_bytes: usize,
    /// Connections at once.
    pub connections: usize,
    /// How long the headers of a request may take to arrive, and a connection may idle.
    pub header_timeout: Duration,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a handler may take until it begins to answer.
    pub handler_timeout: Duration,
    /// How long a client may take nothing of what is sent to it.
    pub stall_timeout: Duration,
    /// How long clients are waited for when the server stops.
    pub stop_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        /// More than a page or a person needs, less than a loop gone wild sends.
        const PER_SECOND: NonZeroU32 = NonZeroU32::new(100).expect("not zero");
        /// A page that opens asks for a few dozen things at once.
        const BURST: NonZeroU32 = NonZeroU32::new(400).expect("not zero");
        Self {
            rate: Rate {
                per_second: PER_SECOND,
                burst: BURST,
            },
            body_bytes: 1024 * 1024,
            task_body_bytes: 4 * 1024 * 1024,
            // Ten thousand watchers and some requests beside them.
            connections: 12_000,
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(20),
            handler_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(5),
        }
    }
}
