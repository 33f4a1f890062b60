#![doc = include_str!("../../../docs/library.md")]

mod agent_files;
mod approvals;
mod assembly;
mod audit;
mod builder;
mod environment;
mod error;
mod hooks;
#[cfg(feature = "mcp")]
mod mcp;
mod notices;
mod options;
mod read_tool;
mod sessions;
mod settings;
mod skills;
mod sortie;
mod tasks;
#[cfg(feature = "telemetry")]
mod telemetry;
#[cfg(feature = "web")]
mod web_tools;
mod worktrees;

pub use approvals::Approvals;
pub use assembly::Assembly;
pub use audit::Audit;
pub use builder::{Builder, WorkerOptions};
pub use environment::Environment;
pub use error::Error;
pub use options::{OpenStore, Options, SandboxHelper, TRUST_FILE, sandbox_helper};
pub use sessions::Sessions;
pub use skills::SkillFolders;
pub use sortie::{PendingTelemetry, Sortie};
pub use tasks::Tasks;
pub use worktrees::GitWorktrees;

pub use async_trait::async_trait;
pub use sortie_config::Config;
pub use sortie_core::agent::AgentDefinition;
pub use sortie_core::audit::AuditLine;
pub use sortie_core::budget::Budget;
pub use sortie_core::event::{Event, JournalEntry};
pub use sortie_core::id::{RunId, Seq, SessionKey};
pub use sortie_core::message::Usage;
pub use sortie_core::notification::{Notification, NotificationKind};
pub use sortie_core::policy::{ApproveSpawn, Mode};
pub use sortie_core::ports::store::{AuditFilter, CancelReport, ListFilter, Replied, StoreError};
pub use sortie_core::request::{
    Answerer, ApprovalRequest, OpenRequest, Reply, RequestFilter, RequestId, RequestKind,
    SessionGrant,
};
pub use sortie_core::run::{ForkPoint, Isolation, Lane, Outcome, Priority, RunRecord, Status};
pub use sortie_core::session::{SessionFilter, SessionSummary};
pub use sortie_core::stats::Stats;
pub use sortie_core::tenant::Tenant;
pub use sortie_core::time::Timestamp;
pub use sortie_core::words::Lang;
pub use sortie_core::worker::Label;
pub use sortie_runtime::{
    Fork, MessageReceipt, NewRun, Refusal, RefusalReason, Runtime, ToolCallLog, TranscriptLine,
};
#[cfg(feature = "server")]
pub use sortie_server as server;

/// Tools of your own: implement [`Tool`](tool::Tool), or use [`ReadTool`](tool::ReadTool) for a
/// function that only reads, and hand it to [`Builder::tool`].
pub mod tool {
    pub use crate::read_tool::ReadTool;
    pub use sortie_core::id::EffectId;
    pub use sortie_core::ports::tool::{
        Image, Reconcile, Reconciled, Recovery, Remains, Tool, ToolAnswer, ToolContext,
        ToolFailure, ToolOutcome, ToolReply, ToolSpec, Touches,
    };
}

/// Models of your own: implement [`Model`](model::Model) and [`ModelDirectory`](model::ModelDirectory)
/// and hand the directory to [`Builder::models`].
pub mod model {
    pub use sortie_core::event::StopReason;
    pub use sortie_core::message::{Arguments, Message, SharedMessage};
    pub use sortie_core::ports::model::{
        AnswerPart, DeltaSink, Fault, Model, ModelAnswer, ModelDirectory, ModelError, ModelRequest,
        NoDeltas, PromptOrigin, RateLimitWait, Terms, TokenPrice, TurnOptions,
    };
    pub use sortie_core::run::Sampling;
    pub use sortie_models::{Directory, DirectorySettings, Script, ScriptModel};
}

/// Sinks of your own: places outside the store to which results are delivered.
pub mod sink {
    pub use sortie_core::inbox::Announcement;
    pub use sortie_core::run::SinkAddress;
    pub use sortie_runtime::{FileSink, Sink, SinkError};
}
