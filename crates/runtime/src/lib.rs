//! The library's front door: admit, schedule, execute, cancel, recover, announce.
//!
//! [`Runtime::start`] takes a store, models and tools, recovers what an earlier process left
//! behind, and runs until [`Runtime::shut_down`]. Everything it does is a transition of the store,
//! so it may be killed at any moment and started again.
//!
//! Read `spawn.rs` for how a run comes to be, `executor.rs` for how it runs, `dispatch.rs` for what
//! becomes of a call, and `announce.rs` for how a result arrives.

mod agents;
mod announce;
mod ask;
mod audit;
mod authority;
mod budget;
mod choices;
mod clock;
mod control;
pub mod crash;
mod dispatch;
mod executor;
mod fork;
mod inquiry;
mod leftovers;
mod live;
mod log;
mod particulars;
mod past;
mod pen;
mod preview;
mod review;
mod runtime;
mod scheduler;
mod session_locks;
mod setback;
mod settings;
mod sinks;
mod spawn;
mod spawner;
mod telling;
mod toolbox;
mod views;
mod workplace;

pub use agents::Agents;
pub use choices::{AllowedModels, UnknownTool, unknown_tools_of};
pub use clock::ProcessClock;
pub use control::Said;
pub use fork::Fork;
pub use log::ToolCallLog;
pub use runtime::{NewRun, Parts, Runtime, RuntimeError};
pub use settings::{
    AgentSettings, ApprovalSettings, Lanes, ModelDefaults, PolicySettings, RunDefaults, Settings,
    SkillSettings,
};
pub use sinks::{FileSink, Sink, SinkError};
pub use sortie_agent::{CriticalSpan, Span, SpanKind, TaskTimeline, Timeline};
pub use sortie_agent::{Divergence, Replayed, Tapes, projection, replay_tree};
pub use sortie_agent::{MAX_NEUTRALISED, Particulars, neutralised, summaries_of};
pub use sortie_agent::{TranscriptLine, builtin_agents, main_agent, transcript};
pub use sortie_core as core;
pub use sortie_policy::{Explanation, LayerView, Opinion, View};
pub use spawn::{MODELS_IN_FILES, Planner};
pub use toolbox::{Toolbox, ToolboxError};
pub use views::{Explained, LaneState, PolicyView, Whose};
