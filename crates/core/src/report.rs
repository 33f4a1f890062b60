//! The report on how a tree of tasks was delegated, in the shape that every interface shows.

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::run::Status;

/// How the tree of a task was delegated: time, tokens, cost and waits of each task, the critical
/// path, duplicate work, and what stayed out of the context of the parents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DelegationReport {
    /// The root of the reported tree.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub task_id: RunId,
    /// Whether the root has ended. If not, all numbers are those so far.
    pub ended: bool,
    /// Milliseconds from the admission of the root to its end, or to now.
    pub elapsed_ms: u64,
    /// Input and output tokens of all listed tasks; null if unknown.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub tokens: Option<u64>,
    /// Estimated cost of all listed tasks; null if that of any task is unknown.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub cost_usd: Option<f64>,
    /// The tasks: each parent is followed by its children, oldest first.
    pub tasks: Vec<ReportTask>,
    /// Tasks of a very large tree that are not part of the report.
    pub left_out: u64,
    /// What the root's result waited for, in order.
    pub critical_path: Vec<CriticalStep>,
    /// Shorter steps of the critical path that are not listed.
    pub steps_left_out: u64,
    /// What siblings read or searched more than once, the largest first.
    pub duplicates: Vec<Duplicate>,
    /// Smaller duplicates that are not listed.
    pub duplicates_left_out: u64,
    /// What stayed out of the contexts of the parents.
    pub context: ContextSaved,
    /// An estimate of whether delegating paid off.
    pub estimate: Estimate,
}

/// One task of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportTask {
    /// The task.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub task_id: RunId,
    /// The short name of the task.
    pub handle: String,
    /// The task that started it; null for the root of the report.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required))]
    pub parent_id: Option<RunId>,
    /// The distance from the root of the report.
    pub depth: u32,
    /// The label of the task.
    pub label: String,
    /// The agent of the task.
    pub agent: String,
    /// The model that replied last.
    pub model: String,
    /// The status of the task.
    pub status: Status,
    /// Milliseconds from the start of the report to its admission.
    pub from_ms: u64,
    /// Milliseconds from its admission to its end, or to now.
    pub elapsed_ms: u64,
    /// Milliseconds of it on the critical path.
    pub critical_ms: u64,
    /// What it spent its time on.
    pub time: TimeByActivity,
    /// Completions of its model.
    pub completions: u32,
    /// Its tool calls.
    pub tool_calls: u32,
    /// Its own input and output tokens; null if unknown.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub tokens: Option<u64>,
    /// Its own estimated cost; null if unknown.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub cost_usd: Option<f64>,
    /// Bytes that it read and wrote in its own context, without its instruction.
    pub context_bytes: u64,
    /// Bytes of its instruction, which its parent wrote.
    pub instruction_bytes: u64,
    /// Bytes of its result in the context of its parent.
    pub announced_bytes: u64,
    /// Whether its journal was removed, so that only its record is known.
    pub journal_removed: bool,
}

/// Milliseconds by what a task waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimeByActivity {
    /// A slot in its lane.
    pub slot_ms: u64,
    /// A completion of its model.
    pub model_ms: u64,
    /// The provider's rate limit.
    pub rate_limit_ms: u64,
    /// Its tools.
    pub tool_ms: u64,
    /// An approval.
    pub approval_ms: u64,
    /// The answer to a question.
    pub question_ms: u64,
    /// Its children.
    pub children_ms: u64,
    /// A person who resumes it.
    pub paused_ms: u64,
    /// Nothing that is journaled.
    pub other_ms: u64,
}

/// A step of the critical path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CriticalStep {
    /// The task that the root's result waited for.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub task_id: RunId,
    /// What that task waited for: a word of the timeline.
    pub kind: String,
    /// How long.
    pub ms: u64,
}

words! {
    /// What siblings did more than once.
    DuplicateKind {
        File = "file",
        Folder = "folder",
        Search = "search",
        Page = "page",
    }
}

/// Something that several siblings read or searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Duplicate {
    /// What it is.
    pub kind: DuplicateKind,
    /// The path, the pattern, the query or the address.
    pub what: String,
    /// The siblings that did it.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub tasks: Vec<RunId>,
    /// The calls of all of them.
    pub calls: u64,
    /// Bytes of the results beyond those of one sibling.
    pub repeated_bytes: u64,
}

/// What stayed out of the contexts of the parents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ContextSaved {
    /// Bytes that children read and wrote in their own contexts.
    pub children_bytes: u64,
    /// Bytes of instructions and results in the contexts of their parents.
    pub parents_bytes: u64,
    /// The difference; negative if the parents read more than their children worked with.
    pub saved_bytes: i64,
}

words! {
    /// Whether delegating paid off, by an estimate.
    Payoff {
        /// Nothing was delegated.
        NoChildren = "no_children",
        /// It saved time or prompt text, and cost neither.
        PaidOff = "paid_off",
        /// It saved one and cost the other.
        Mixed = "mixed",
        /// Within a tenth of doing it alone.
        Even = "even",
        /// It cost time or prompt text, and saved neither.
        CostMore = "cost_more",
        /// Journals were removed, so it cannot be estimated.
        Unknown = "unknown",
    }
}

/// An estimate of what the root would have needed without children: the same model calls and tools,
/// one after the other, in one context. It ignores prompt caches and what the root would have known
/// from its earlier work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Estimate {
    /// The conclusion.
    pub payoff: Payoff,
    /// Milliseconds of the tree, without waits for people on its critical path.
    pub delegated_ms: u64,
    /// Milliseconds of all models and tools, one after the other.
    pub alone_ms: u64,
    /// Bytes of all prompts that the tree sent.
    pub delegated_prompt_bytes: u64,
    /// Bytes of all prompts if each had contained the work of the children so far.
    pub alone_prompt_bytes: u64,
}
