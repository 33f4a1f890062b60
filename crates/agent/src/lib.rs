//! The run machine: a run is a fold over its journal, and the machine decides what comes next.
//!
//! ```text
//! events ──fold──▶ RunState ──next_step──▶ CallModel | CallTools | Wait | Finish | Done
//!    ▲                                           │
//!    └────────── append (durable, fenced) ◀── the driver acts
//! ```
//!
//! Nothing here waits, reads a clock or touches a file. Main agent and child are the same machine
//! on different contexts.

mod batch;
mod builtin;
mod compact;
mod context;
mod fan_out;
mod model_chain;
mod prompt;
mod render;
mod repeats;
mod replay;
mod report;
mod schema;
mod state;
mod step;
mod timeline;
mod transcript;

pub use batch::{CallStatus, OpenCall};
pub use builtin::{builtin_agents, main_agent};
pub use compact::{CompactedText, Compaction};
pub use context::{MAX_CONTEXT_BYTES, Separator, cached_context, copied_context};
pub use fan_out::{Attempt, FanOut, FanOutStep};
pub use prompt::{PromptContext, system_prompt, with_workspace};
pub use render::{MAX_RESULT_CHARS, announcement_notice, bound_result, frame};
pub use replay::{Divergence, MAX_EARLIER_RUNS, Replayed, Tapes, projection, replay_tree};
pub use report::{MAX_REPORT_TASKS, TaskFacts, delegation_report, report_subtree};
pub use state::{CountedTokens, IllegalEvent, PriorHistory, RunState, summaries_of};
pub use step::{ModelCall, Step};
pub use timeline::{CriticalSpan, Span, SpanKind, TaskTimeline, Timeline, task_timeline, timeline};
pub use transcript::{TranscriptLine, transcript};
