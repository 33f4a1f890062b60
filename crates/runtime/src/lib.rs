//! The library's front door: admit, schedule, execute, cancel, recover, announce.
//!
//! [`Runtime::start`] takes a store, models and tools, recovers what an earlier process left
//! behind, and runs until [`Runtime::shut_down`]. Everything it does is a transition of the store,
//! so it may be killed at any moment and started again.
//!
//! Read `spawn.rs` for how a run comes to be, `executor.rs` for how it runs, and `announce.rs` for
//! how its result arrives.

mod agents;
mod announce;
mod ask;
mod clock;
pub mod crash;
mod dispatch;
mod executor;
mod fork;
mod live;
mod log;
mod past;
mod pen;
mod runtime;
mod scheduler;
mod settings;
mod sinks;
mod spawn;
mod spawner;
mod toolbox;

pub use agents::Agents;
pub use clock::ProcessClock;
pub use fork::Fork;
pub use log::ToolCallLog;
pub use runtime::{NewRun, NobodyToAsk, Parts, Runtime, RuntimeError};
pub use settings::{AgentSettings, Lanes, ModelDefaults, RunDefaults, Settings};
pub use sinks::{FileSink, Sink, SinkError};
pub use sortie_agent::{Divergence, Replayed, Tapes, projection, replay_tree};
pub use sortie_agent::{TranscriptLine, builtin_agents, main_agent, transcript};
pub use sortie_core as core;
pub use toolbox::{Toolbox, ToolboxError};
