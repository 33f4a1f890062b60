//! The engine: plans, admits, schedules, executes, cancels, recovers and announces runs. Programs
//! embed it through the crate `sortie`.
//!
//! [`Runtime::start`] takes a store, models and tools, recovers what an earlier process left
//! behind, and runs until [`Runtime::shut_down`]. Everything it does is a transition of the store,
//! so it may be killed at any moment and started again.
//!
//! Read `planner.rs` for how a new run is decided, `spawn.rs` for how a child starts,
//! `scheduler.rs` for how a run is claimed, `executor.rs` for how it is executed, `dispatch.rs` for
//! what becomes of a tool call, and `announce.rs` for how a result reaches its parent.

mod active_runs;
mod agents;
mod allowlist;
mod announce;
mod audit;
mod authority;
mod budget;
mod changes;
mod clock;
pub mod crash;
mod details_cache;
mod dispatch;
mod engine;
mod executor;
mod fork;
mod hooks;
mod journal_load;
mod journal_writer;
mod leftovers;
mod model_call;
mod new_run;
mod peers;
mod planner;
mod preview;
mod publish;
mod refusal;
mod requests;
mod requeue;
mod runtime;
mod scheduler;
mod session_locks;
mod session_turns;
mod settings;
mod sinks;
mod spawn;
mod tool_call_log;
mod toolbox;
mod workspace;

pub use agents::Agents;
pub use allowlist::{AllowedModels, UnknownTool, unknown_tools_of};
pub use clock::ProcessClock;
pub use fork::Fork;
pub use new_run::NewRun;
pub use planner::{MODELS_IN_FILES, Planner};
pub use refusal::{Refusal, RefusalReason};
pub use runtime::{
    Explained, LaneState, MessageReceipt, Parts, PolicySubject, PolicyView, Runtime, RuntimeError,
    check_message,
};
pub use settings::{ApprovalSettings, Lanes, RunDefaults, Settings, WorkerSettings};
pub use sinks::{FileSink, Sink, SinkError};
pub use sortie_agent::summaries_of;
pub use sortie_agent::{CriticalSpan, Span, SpanKind, TaskTimeline, Timeline};
pub use sortie_agent::{Divergence, Replayed, Tapes, projection, replay_tree};
pub use sortie_agent::{MAX_REPORT_TASKS, TaskFacts, delegation_report, report_subtree};
pub use sortie_agent::{TranscriptLine, builtin_agents, main_agent, transcript};
pub use sortie_core as core;
pub use sortie_policy::{Explanation, LayerView, Opinion, View};
pub use tool_call_log::ToolCallLog;
pub use toolbox::{Toolbox, ToolboxError};
