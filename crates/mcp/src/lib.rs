//! Tools of MCP servers.
//!
//! Invariants:
//! 1. A server runs once, however many runs use it, and ends with its pool: its whole process group.
//! 2. A tool is what it was when it was approved, or it is withdrawn; hints of a server grant nothing.
//! 3. Whatever a server says is bounded and framed as data; whatever it asks for is refused.
//! 4. No secret of a server's settings is in an error, a report or `Debug`.
//! 5. A server that dies costs the call that it was in, and nothing else.

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
pub use approval::{ApprovalError, ApprovalFile, Approvals, Approved, Seen};
pub use config::{Address, Endpoint, Found, Program, ServerConfig, ToolRules, parse_mcp_json};
pub use fingerprint::Fingerprint;
pub use name::{MAX_SERVER_NAME_CHARS, check_server_name};
pub use pool::{Pool, PoolSettings, ServerReport, ServerState, ToolChange, ToolText};
pub use sortie_base::secret::Secret;
