//! The pool of servers that all runs share.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use sortie_core::ports::tool::{Tool, ToolSpec};
use sortie_fetch::Guard;

use crate::announced::Announced;
use crate::approval::ListedTool;
use crate::judge::Offers;
use crate::server::Server;
use crate::tool::McpTool;
use crate::{ApprovalError, Approvals, Fingerprint, LeftOut, ServerConfig};

/// How many servers are started at the same time.
const MAX_STARTS_AT_ONCE: usize = 4;

/// Settings for all servers of a pool.
pub struct PoolSettings {
    /// Values for `${VAR}` in settings.
    pub variables: BTreeMap<String, String>,
    /// The allow-listed variables that every program gets (`PATH`, `HOME`, …); nothing else is passed on.
    pub environment: BTreeMap<String, String>,
    /// Working directory of programs.
    pub workspace: PathBuf,
    /// Arguments before the command line of every program: a supervisor that ends the program with
    /// this process. If empty, programs are started directly.
    pub supervisor: Vec<OsString>,
    /// The network guard, with what the operator allows for these servers; `None` switches servers on
    /// the network off.
    pub guard: Option<Guard>,
    /// Which tools were approved.
    pub approvals: Arc<dyn Approvals>,
}

impl fmt::Debug for PoolSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Variables contain secrets.
        f.debug_struct("PoolSettings")
            .field("variables", &self.variables.len())
            .field("environment", &self.environment.len())
            .field("workspace", &self.workspace)
            .field("approvals", &self.approvals)
            .finish_non_exhaustive()
    }
}

/// A tool that differs from the approved one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolChange {
    pub server: String,
    /// The server's name for the tool.
    pub tool: String,
    /// Description that the server lists now.
    pub description: String,
    /// Fingerprint of the current description.
    pub fingerprint: Fingerprint,
    /// The approved announcement, if it was kept; as [`ToolText::text`].
    pub before: Option<String>,
    /// The current announcement; as [`ToolText::text`].
    pub text: String,
}

/// The announcement of an offered tool, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolText {
    /// The server's name for the tool.
    pub tool: String,
    /// Title, description, schema and hints exactly as the server wrote them, hidden characters
    /// included. Models read the description and the schema without those.
    pub text: String,
    /// Fingerprint of the approved description.
    pub fingerprint: Fingerprint,
}

/// The state of a server, for reports.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerReport {
    pub server: String,
    /// Whether it can be used.
    pub state: ServerState,
    /// The tools it offers.
    pub tools: Vec<ToolSpec>,
    /// The announcements of these tools, in the same order.
    pub texts: Vec<ToolText>,
    /// Tools that are not offered, and why.
    pub left_out: Vec<LeftOut>,
    /// Tools that are withdrawn until they are approved again.
    pub changes: Vec<ToolChange>,
}

/// Whether a server can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// Disabled by the operator.
    Disabled,
    Ready,
    /// Not available, with the reason.
    Unavailable(String),
}

/// The pool of servers that all runs share. Dropping it ends every server.
#[derive(Debug)]
pub struct Pool {
    servers: Vec<Arc<Server>>,
    settings: Arc<PoolSettings>,
}

impl Pool {
    /// Creates a pool of these servers without starting them. Of two with the same name the later one is used.
    pub fn new(configs: Vec<(String, ServerConfig)>, settings: PoolSettings) -> Self {
        let settings = Arc::new(settings);
        let configs: BTreeMap<String, ServerConfig> = configs.into_iter().collect();
        let servers = configs.into_iter();
        let servers = servers
            .map(|(name, config)| Arc::new(Server::new(name, config, Arc::clone(&settings))));
        Self {
            servers: servers.collect(),
            settings,
        }
    }

    /// Starts the servers that are not running and returns the tools of each. A server that fails is reported; the others stay usable.
    pub async fn list_tools(&self) -> Vec<ServerReport> {
        let reports = self.servers.iter().map(report);
        stream::iter(reports)
            .buffered(MAX_STARTS_AT_ONCE)
            .collect()
            .await
    }

    /// Makes the next [`Pool::list_tools`] list the tools of every running server again.
    pub fn look_again(&self) {
        self.servers.iter().for_each(|server| server.look_again());
    }

    /// Returns the tools of all servers as last listed. Filtered views for children are a matter of
    /// policy, by name; the servers are shared.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for server in &self.servers {
            let offers = server.offers().unwrap_or_default();
            for announced in &offers.tools {
                tools.push(Arc::new(McpTool::new(Arc::clone(server), announced)));
            }
        }
        tools
    }

    /// Approves changed tools exactly as they were reported: a tool that changes again in between
    /// stays withdrawn.
    pub async fn approve(&self, changes: &[ToolChange]) -> Result<(), ApprovalError> {
        let mut by_server: BTreeMap<String, Vec<ListedTool>> = BTreeMap::new();
        for change in changes {
            let seen = ListedTool {
                tool: change.tool.clone(),
                fingerprint: change.fingerprint.clone(),
                text: change.text.clone(),
            };
            by_server
                .entry(change.server.clone())
                .or_default()
                .push(seen);
        }
        for (server, seen) in &by_server {
            // A small file, written rarely: short enough to block on.
            self.settings.approvals.record(server, seen)?;
        }
        let named = |server: &&Arc<Server>| by_server.contains_key(&server.name);
        self.servers
            .iter()
            .filter(named)
            .for_each(|server| server.look_again());
        Ok(())
    }

    /// Closes all connections and ends the programs; no server is started again.
    pub async fn shut_down(&self) {
        futures::future::join_all(self.servers.iter().map(|server| server.shut_down())).await;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Tools may outlive the pool; the programs must not.
        self.servers.iter().for_each(|server| server.kill());
    }
}

async fn report(server: &Arc<Server>) -> ServerReport {
    let state = if server.config.disabled {
        ServerState::Disabled
    } else {
        match server.ready().await {
            Ok(_) => ServerState::Ready,
            Err(trouble) => ServerState::Unavailable(trouble.summary()),
        }
    };
    let offers = server.offers().unwrap_or_default();
    let Offers {
        tools,
        left_out,
        changes,
    } = offers.as_ref();
    ServerReport {
        server: server.name.clone(),
        state,
        tools: tools.iter().map(|tool| tool.spec.clone()).collect(),
        texts: tools.iter().map(text).collect(),
        left_out: left_out.clone(),
        changes: changes.clone(),
    }
}

fn text(tool: &Announced) -> ToolText {
    ToolText {
        tool: tool.name.clone(),
        text: tool.text.clone(),
        fingerprint: tool.fingerprint.clone(),
    }
}
