//! The configuration of a server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use sortie_core::policy::Mode;
use sortie_core::tenant::Tenant;
use sortie_core::words::Lang;
use sortie_protocol::Proof;

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address; port 0 chooses a free port.
    pub listen: SocketAddr,
    /// Other names of the server, with or without a port.
    pub hosts: Vec<String>,
    /// Folders in which operators without a tenant may work; the first is the default.
    pub workspaces: Vec<PathBuf>,
    /// Settings of single tenants.
    pub tenants: BTreeMap<Tenant, TenantConfig>,
    /// The folder of keys and tokens.
    pub home: PathBuf,
    /// The default language of runs and pages.
    pub lang: Lang,
    /// The model if neither the caller nor the agent names one.
    pub default_model: String,
    /// How calls that change something are treated by default.
    pub default_mode: Mode,
    /// The secret with which this start of the server proves its identity.
    pub proof: Proof,
    pub limits: ServerLimits,
}

/// Settings of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantConfig {
    /// Folders in which its keys may work; a folder below the home if there are none.
    pub workspaces: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Sustained requests per second.
    pub per_second: NonZeroU32,
    /// Most requests in a burst.
    pub burst: NonZeroU32,
}

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Requests of one key.
    pub rate: Rate,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of a body that carries a task or a message.
    pub task_body_bytes: usize,
    /// Most concurrent connections of all clients.
    pub connections: usize,
    /// How long the headers of a request may take to arrive, and a connection may idle.
    pub header_timeout: Duration,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a handler may take until it begins to answer.
    pub handler_timeout: Duration,
    /// How long a client may read nothing of what is sent to it.
    pub stall_timeout: Duration,
    /// How long the server waits for clients when it stops.
    pub stop_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        /// More than a page or a person needs, less than a client in an endless loop sends.
        const PER_SECOND: NonZeroU32 = NonZeroU32::new(100).expect("not zero");
        /// The page sends a few dozen requests when it opens.
        const BURST: NonZeroU32 = NonZeroU32::new(400).expect("not zero");
        Self {
            rate: Rate {
                per_second: PER_SECOND,
                burst: BURST,
            },
            body_bytes: 1024 * 1024,
            task_body_bytes: 4 * 1024 * 1024,
            // Ten thousand WebSocket clients and some requests.
            connections: 12_000,
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(20),
            handler_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(5),
        }
    }
}
