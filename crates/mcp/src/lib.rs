//! Tools of MCP servers.
//!
//! Invariants:
//! 1. A server runs once, independent of the number of runs that use it, and ends with its pool, with its whole process group.
//! 2. A tool that differs from the approved one is withdrawn; hints of a server grant nothing.
//! 3. Text of a server is limited and framed as data; its requests are refused.
//! 4. No secret of a server's settings is in an error, a report or `Debug`.
//! 5. A server that dies fails only the calls in flight.

mod announced;
mod answer;
mod approval;
mod clean;
mod config;
mod connection;
mod expand;
mod fingerprint;
mod http;
mod judge;
mod name;
mod pool;
mod process;
mod resolved;
mod restarts;
mod server;
mod tool;
mod trouble;

pub use announced::LeftOut;
pub use approval::{ApprovalError, ApprovalFile, Approvals, Approved, ListedTool};
pub use config::{
    Address, ConfiguredServer, Endpoint, Program, ServerConfig, ToolRules, parse_mcp_json,
};
pub use fingerprint::Fingerprint;
pub use name::{MAX_SERVER_NAME_CHARS, check_server_name};
pub use pool::{Pool, PoolSettings, ServerReport, ServerState, ToolChange, ToolText};
pub use sortie_base::secret::Secret;
