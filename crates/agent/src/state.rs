//! The fold: computes the state of a run from its journal.

mod checks;
mod fan_out;
mod inbox;
mod view;

pub(crate) use checks::unchecked;
pub use view::summaries_of;

use checks::completed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sortie_core::budget::{Balance, BudgetKind};
use sortie_core::event::{CompactedPart, Event, JournalEntry, StopReason};
use sortie_core::id::{CallId, Epoch, RunId, Seq};
use sortie_core::inbox::Announcement;
use sortie_core::message::{
    Arguments, Block, ChildRef, Message, SharedMessage, Todo, TodoStatus, ToolCall, ToolResult,
    Usage,
};
use sortie_core::ports::model::Fault;
use sortie_core::request::Request;
use sortie_core::run::{Changes, Outcome, Reason, RunSpec, Worktree};
use sortie_core::time::Timestamp;
use sortie_text::{Arg, text};

use crate::batch::{Batch, CallStatus};
use crate::compact;
use crate::model_chain::{ModelChain, Verdict};
use crate::render;
use crate::repeats::{REPEATS_BEFORE_END, REPEATS_BEFORE_NOTICE, Repeats};
use crate::schema;

/// How often a run is sent back to work because a check of its result failed.
const MAX_SENT_BACK: u32 = 2;
/// Results that do not fit their schema before the run ends.
const MAX_SCHEMA_FAILURES: u32 = 3;
/// Completions in a row without a readable call before the run ends.
const MAX_UNREADABLE: u32 = 5;
/// Calls of one completion: more are a mistake or an attack.
const MAX_CALLS: usize = 1_000;
/// Progress for each completion with tool calls.
const PROGRESS_PER_ITERATION: u8 = 5;
/// The most progress of a run that has not ended.
const PROGRESS_BEFORE_END: u8 = 90;

/// A notice that waits for the results of open calls. An announcement is rendered only when it enters
/// the history, so that its list of running children is that of the same moment.
#[derive(Clone, Debug, PartialEq)]
enum PendingNotice {
    Text(String),
    Announced(Box<Announcement>),
}

/// The state of a run, computed from its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct RunState {
    run: RunId,
    spec: Arc<RunSpec>,
    phase: Phase,
    history: Vec<SharedMessage>,
    /// Notices that arrived while calls were open; they follow the results.
    pending_notices: Vec<PendingNotice>,
    /// The notice about finished children at the end of the history, and what it announces. Until
    /// the model reads it, further announcements are added to it.
    unread_notice: Option<(SharedMessage, Vec<Announcement>)>,
    turn: u32,
    iterations: u32,
    tool_calls: u32,
    usage: Usage,
    /// Completions whose cost is unknown.
    unpriced: u32,
    model: Option<String>,
    progress: u8,
    todos: Vec<Todo>,
    children: BTreeMap<RunId, ChildRef>,
    announced: BTreeSet<RunId>,
    repeats: Repeats,
    model_chain: ModelChain,
    reminders: Reminders,
    /// How often the run continued after its final answer, because a message had arrived.
    continuations: u32,
    /// The result before the run continued, until there is another.
    result: Option<Outcome>,
    last_text: Option<String>,
    /// How much of the history a provider has counted, and the model that did.
    counted: Option<(String, CountedTokens)>,
    /// Kinds of budget that the model was warned about.
    warned: BTreeSet<BudgetKind>,
    worktree: Option<Worktree>,
    /// The collected changes; `Some(None)` if there were none.
    collected: Option<Option<Changes>>,
    started_at: Option<Timestamp>,
    head: Seq,
    epoch: Epoch,
}

/// The phase of a run between its events.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Phase {
    /// The model is called next.
    AwaitingModel,
    /// Calls of the last completion have no result yet.
    RunningCalls(Batch),
    /// The model has given its final answer, but children have not reported.
    AwaitingChildren,
    /// The model has given its final answer, and the host has not checked it yet.
    Checking(String),
    /// The outcome is decided, not yet written.
    Concluding(Outcome),
    /// The outcome is written.
    Ended(Outcome),
}

/// How much of a history a provider has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedTokens {
    /// The number of messages from the beginning.
    pub messages: usize,
    /// The tokens of these messages and of everything before them.
    pub tokens: u64,
}

/// What the model was already reminded of; each reminder comes once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reminders {
    empty: bool,
    truncated: bool,
    schema_failures: u32,
    refutations: u32,
    unreadable: u32,
}

/// The history of the run that another continues or is forked from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PriorHistory {
    /// The messages that the model has read and written.
    pub history: Vec<SharedMessage>,
    pub todos: Vec<Todo>,
    /// Whether earlier messages are missing; the model reads so.
    pub is_truncated: bool,
}

impl PriorHistory {
    /// The history of a run whose earlier runs cannot be read any more.
    pub fn missing() -> Self {
        Self {
            is_truncated: true,
            ..Self::default()
        }
    }
}

/// An event that cannot follow the entries before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IllegalEvent {
    /// Sequence number of the illegal entry.
    pub seq: Seq,
    /// Why it is illegal.
    pub what: String,
}

impl std::fmt::Display for IllegalEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "entry {} is illegal: {}", self.seq, self.what)
    }
}

impl std::error::Error for IllegalEvent {}

impl RunState {
    /// Folds a whole journal. `prior` is the history that the run continues or is forked from.
    pub fn fold(prior: &PriorHistory, entries: &[JournalEntry]) -> Result<Self, IllegalEvent> {
        let Some((first, rest)) = entries.split_first() else {
            return Err(IllegalEvent {
                seq: Seq(0),
                what: "the journal is empty".to_owned(),
            });
        };
        let Event::Admitted { spec } = &first.event else {
            return Err(illegal(first, "the first event is not an admission"));
        };
        let spec = Arc::new((**spec).clone());
        Self::admitted(first.run, spec, prior).followed_by(first.seq, rest)
    }

    /// The same for a journal that the caller does not need: the spec, which is most of a short
    /// journal, is not copied.
    pub fn fold_owned(
        prior: &PriorHistory,
        mut entries: Vec<JournalEntry>,
    ) -> Result<Self, IllegalEvent> {
        let rest = entries.split_off(entries.len().min(1));
        match entries.pop() {
            Some(JournalEntry {
                run,
                seq,
                event: Event::Admitted { spec },
                ..
            }) => Self::admitted(run, Arc::new(*spec), prior).followed_by(seq, &rest),
            // Returns the error that describes what is wrong.
            other => Self::fold(prior, &Vec::from_iter(other)),
        }
    }

    fn followed_by(mut self, head: Seq, rest: &[JournalEntry]) -> Result<Self, IllegalEvent> {
        self.head = head;
        for entry in rest {
            self.apply(entry)?;
        }
        Ok(self)
    }

    fn admitted(run: RunId, spec: Arc<RunSpec>, prior: &PriorHistory) -> Self {
        let mut history = Vec::with_capacity(prior.history.len() + 2);
        if prior.is_truncated {
            history.push(Arc::new(Message::Notice {
                text: text(spec.lang, "notice-beginning-missing", &[]),
            }));
        }
        history.extend(prior.history.iter().cloned());
        let todos = match spec.fork {
            // A fork continues in the middle of its history, but never right after an answer of the
            // model.
            Some(_) if !prior.history.is_empty() => {
                if let Some(Message::Assistant { .. }) = history.last().map(|last| &**last) {
                    history.push(Arc::new(Message::Notice {
                        text: text(spec.lang, "notice-fork", &[]),
                    }));
                }
                prior.todos.clone()
            }
            // The run that this one was forked from may have been removed since.
            Some(_) | None => {
                history.extend(context_of(&spec));
                history.push(Arc::new(Message::User {
                    text: spec.task.clone(),
                }));
                Vec::new()
            }
        };
        Self {
            run,
            spec,
            phase: Phase::AwaitingModel,
            history,
            pending_notices: Vec::new(),
            unread_notice: None,
            turn: 0,
            iterations: 0,
            tool_calls: 0,
            usage: Usage::default(),
            unpriced: 0,
            model: None,
            progress: 0,
            todos,
            children: BTreeMap::new(),
            announced: BTreeSet::new(),
            repeats: Repeats::default(),
            model_chain: ModelChain::default(),
            reminders: Reminders::default(),
            continuations: 0,
            result: None,
            last_text: None,
            counted: None,
            warned: BTreeSet::new(),
            worktree: None,
            collected: None,
            started_at: None,
            head: Seq(0),
            epoch: Epoch(0),
        }
    }

    /// Applies one more entry.
    pub fn apply(&mut self, entry: &JournalEntry) -> Result<(), IllegalEvent> {
        if entry.seq != self.head.next() {
            return Err(illegal(entry, "its sequence number is not the next one"));
        }
        if let Phase::Ended(_) = self.phase {
            return Err(illegal(entry, "the run has ended"));
        }
        match &entry.event {
            Event::Admitted { .. } => return Err(illegal(entry, "the run is already admitted")),
            Event::Updated { label, priority } => {
                let spec = Arc::make_mut(&mut self.spec);
                if let Some(label) = label {
                    spec.label.clone_from(label);
                }
                spec.priority = priority.unwrap_or(spec.priority);
            }
            // A paused run is not executed: its state does not change.
            Event::Paused | Event::Resumed => {}
            Event::Claimed { epoch, .. } => self.claimed(*epoch, entry.at),
            Event::InboxTaken {
                items,
                unread: false,
            } => self.inbox_taken(items),
            Event::InboxTaken {
                items,
                unread: true,
            } => self.inbox_unread(items),
            Event::Answered {
                blocks,
                stop,
                usage,
                model,
                ..
            } => {
                let Phase::AwaitingModel = self.phase else {
                    return Err(illegal(entry, "no model call is pending"));
                };
                self.spent(*usage);
                self.model = Some(model.clone());
                let prompted = self.next_model().to_owned();
                let read = self.history.len();
                self.answered(blocks, *stop);
                self.counted = usage.total_tokens().map(|tokens| {
                    let completion = usize::from(self.history.len() > read);
                    let counted = CountedTokens {
                        messages: read + completion,
                        tokens,
                    };
                    (prompted, counted)
                });
            }
            Event::ModelFailed { fault, message, .. } => self.model_failed(*fault, message),
            Event::Compacted {
                parts, messages, ..
            } => self.compacted(parts, *messages),
            Event::Intended {
                call, fingerprint, ..
            } => {
                let open = self.open_call(entry, call)?;
                open.status = CallStatus::Intended {
                    fingerprint: fingerprint.clone(),
                };
            }
            Event::Asked { call, request } => self.request_opened(entry, call, request)?,
            Event::Delegated { call, wait, .. } => self.delegated(entry, call, wait)?,
            Event::ToolFinished {
                result,
                spawned,
                todos,
                ..
            } => {
                self.open_call(entry, &result.call)?.status = CallStatus::Answered(result.clone());
                self.tool_calls += 1;
                if let Some(child) = spawned {
                    self.expect_child(child);
                }
                if let Some(todos) = todos {
                    self.todos.clone_from(todos);
                }
                self.close_batch_if_answered();
            }
            Event::BudgetLow { balances } => self.budget_low(balances),
            Event::BudgetSpent { kind, limit, left } => self.budget_spent(*kind, *limit, *left),
            Event::Isolated { worktree } => self.worktree = Some(worktree.clone()),
            Event::Collected { changes } => self.collected = Some(changes.clone()),
            Event::Checked { results } => self.checked(entry, results)?,
            Event::Finished { outcome } => self.finished(outcome),
        }
        self.head = entry.seq;
        Ok(())
    }

    fn claimed(&mut self, epoch: Epoch, at: Timestamp) {
        self.epoch = epoch;
        self.started_at.get_or_insert(at);
        if let Phase::RunningCalls(batch) = &mut self.phase {
            batch.interrupt();
        }
    }

    fn spent(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
        self.unpriced += u32::from(usage.cost_usd.is_none());
    }

    fn answered(&mut self, blocks: &[Block], stop: StopReason) {
        let wrapping_up = self.must_wrap_up();
        self.turn += 1;
        let message = spoken(blocks);
        let calls: Vec<ToolCall> = blocks.iter().filter_map(call_of).cloned().collect();
        self.model_chain.answered(unreadable(&calls).is_none());
        if message.is_some() {
            self.last_text.clone_from(&message);
        }
        if message.is_some() || !calls.is_empty() {
            self.push(Message::Assistant {
                blocks: blocks.to_vec(),
            });
        }
        if wrapping_up {
            self.refuse_calls(calls, "call-cancelled");
            self.conclude_failed(
                Reason::MaxIterations,
                "fail-max-iterations",
                &[("count", u64::from(self.spec.limits.max_iterations).into())],
            );
        } else if stop == StopReason::MaxTokens && calls.iter().any(is_truncated) {
            self.refuse_calls(calls, "call-cut-off");
            self.truncated_answer();
        } else if !calls.is_empty() {
            self.reminders.truncated = false;
            self.begin_batch(calls);
        } else {
            self.answered_without_calls(message, stop);
        }
    }

    fn begin_batch(&mut self, calls: Vec<ToolCall>) {
        self.iterations += 1;
        if calls.len() > MAX_CALLS {
            let message = text(
                self.spec.lang,
                "call-too-many",
                &[("max", MAX_CALLS.into()), ("count", calls.len().into())],
            );
            let results = Batch::new(calls).close(&message);
            self.push(Message::Tools { results });
            return;
        }
        if let Some(error) = unreadable(&calls) {
            self.reminders.unreadable += 1;
            if self.reminders.unreadable >= MAX_UNREADABLE {
                let error = error.to_owned();
                self.refuse_calls(calls, "call-cancelled");
                self.conclude_failed(
                    Reason::Error,
                    "fail-unreadable",
                    &[
                        ("count", u64::from(MAX_UNREADABLE).into()),
                        ("error", error.into()),
                    ],
                );
                return;
            }
        } else {
            self.reminders.unreadable = 0;
        }
        let times = self.repeats.observe(&calls);
        if times >= REPEATS_BEFORE_END {
            let tool = calls
                .first()
                .map_or(String::new(), |call| call.name.clone());
            self.refuse_calls(calls, "call-cancelled");
            self.conclude_failed(
                Reason::Loop,
                "fail-loop",
                &[("tool", tool.into()), ("count", u64::from(times).into())],
            );
            return;
        }
        self.phase = Phase::RunningCalls(Batch::new(calls));
    }

    /// Answers calls that will never run, so that the history stays well formed.
    fn refuse_calls(&mut self, calls: Vec<ToolCall>, key: &str) {
        if calls.is_empty() {
            return;
        }
        let message = text(self.spec.lang, key, &[]);
        let results = Batch::new(calls).close(&message);
        self.push(Message::Tools { results });
    }

    fn answered_without_calls(&mut self, message: Option<String>, stop: StopReason) {
        match (stop, message) {
            (StopReason::Refusal, _) => self.conclude_failed(Reason::Error, "fail-refusal", &[]),
            (StopReason::ContentFilter, _) => {
                self.conclude_failed(Reason::Error, "fail-filter", &[]);
            }
            (StopReason::MaxTokens, _) => self.truncated_answer(),
            (StopReason::EndTurn | StopReason::ToolUse, None) if !self.reminders.empty => {
                self.reminders.empty = true;
                self.notice("notice-empty", &[]);
            }
            (StopReason::EndTurn | StopReason::ToolUse, None) => {
                self.conclude_failed(Reason::EmptyResult, "fail-empty", &[]);
            }
            (StopReason::EndTurn | StopReason::ToolUse, Some(message)) => {
                self.answered_with_text(message);
            }
        }
    }

    /// Handles a completion that reached the token limit: the model may repeat it once in a row.
    fn truncated_answer(&mut self) {
        if self.reminders.truncated {
            self.conclude_failed(Reason::Error, "fail-cut-off", &[]);
        } else {
            self.reminders.truncated = true;
            self.notice("notice-max-tokens", &[]);
        }
    }

    fn answered_with_text(&mut self, message: String) {
        if !self.children.is_empty() {
            self.phase = Phase::AwaitingChildren;
            return;
        }
        let fitting = match &self.spec.result_schema {
            None => Ok(message),
            Some(schema) => schema::fit(schema, &message),
        };
        match fitting {
            Ok(text) => {
                self.result = None;
                self.phase = if self.spec.checks.is_empty() {
                    Phase::Concluding(completed(text, None))
                } else {
                    Phase::Checking(text)
                };
            }
            Err(problem) => {
                self.reminders.schema_failures += 1;
                if self.reminders.schema_failures < MAX_SCHEMA_FAILURES {
                    self.notice("notice-schema", &[("problem", problem.into())]);
                } else {
                    self.conclude_failed(
                        Reason::Schema,
                        "fail-schema",
                        &[("problem", problem.into())],
                    );
                }
            }
        }
    }

    fn model_failed(&mut self, fault: Fault, message: &str) {
        if let Fault::TextCall { usage } = fault {
            self.spent(usage);
        }
        let was_shortened = self.model_chain.was_shortened();
        let can_shrink = fault == Fault::ContextOverflow && self.compaction().is_some();
        let verdict = self
            .model_chain
            .failed(fault, self.spec.fallbacks.len(), can_shrink);
        match verdict {
            Verdict::Prompt | Verdict::Compact => {}
            Verdict::GiveUp => {
                let key = match fault {
                    Fault::ContextOverflow if was_shortened => "fail-context-still",
                    Fault::ContextOverflow => "fail-context",
                    Fault::ContentFilter => "fail-filter-question",
                    Fault::Transient
                    | Fault::RateLimited { .. }
                    | Fault::Auth
                    | Fault::BadRequest
                    | Fault::Cancelled => "fail-model",
                    Fault::TextCall { .. } => "fail-text-call",
                };
                self.conclude_failed(Reason::Error, key, &[("message", message.into())]);
            }
        }
    }

    fn compacted(&mut self, parts: &[CompactedPart], messages: Option<usize>) {
        compact::apply(&mut self.history, parts, messages);
        self.counted = None;
        // The event proves that the history could be shortened, even if this fold cannot tell: the
        // shortened part may be in a history that was removed since.
        self.call_model_again();
        self.model_chain.shortened();
        self.repeats.invalidate();
        let mut notice = text(
            self.spec.lang,
            "notice-compacted",
            &[("count", parts.len().into())],
        );
        if !self.todos.is_empty() {
            notice.push('\n');
            notice.push_str(&render::todo_list(self.spec.lang, &self.todos));
        }
        self.push(Message::Notice { text: notice });
    }

    fn request_opened(
        &mut self,
        entry: &JournalEntry,
        call: &CallId,
        request: &Request,
    ) -> Result<(), IllegalEvent> {
        self.open_call(entry, call)?.status = CallStatus::AwaitingReply(Box::new(request.clone()));
        Ok(())
    }

    fn budget_low(&mut self, balances: &[Balance]) {
        self.warned
            .extend(balances.iter().map(|balance| balance.kind));
        let notice = render::budget_notice(self.spec.lang, balances);
        self.push_notice(notice);
    }

    fn budget_spent(&mut self, kind: BudgetKind, limit: u64, left: u64) {
        self.close_batch("call-no-budget");
        let spent = render::amount(self.spec.lang, kind, limit.saturating_sub(left));
        let limit = render::amount(self.spec.lang, kind, limit);
        self.conclude_failed(
            Reason::Budget,
            "fail-budget",
            &[("used", spent.into()), ("limit", limit.into())],
        );
    }

    fn close_batch_if_answered(&mut self) {
        let Phase::RunningCalls(batch) = &self.phase else {
            return;
        };
        let Some(mut results) = batch.results() else {
            return;
        };
        if !self.children.is_empty() {
            // A call about children may return something else as they progress.
            self.repeats.invalidate();
        } else if self.repeats.returned(&results) {
            let message = text(self.spec.lang, "call-repeated", &[]);
            for result in &mut results {
                result.text.clone_from(&message);
                result.full = None;
                result.images.clear();
            }
        }
        self.push_results(results);
        self.phase = Phase::AwaitingModel;
        self.raise_progress();
        let times = self.repeats.count();
        if times >= REPEATS_BEFORE_NOTICE {
            self.notice("notice-loop", &[("count", u64::from(times).into())]);
        }
    }

    /// Answers the open calls, because they will not run any more.
    fn close_batch(&mut self, key: &str) {
        match std::mem::replace(&mut self.phase, Phase::AwaitingModel) {
            Phase::RunningCalls(batch) => {
                let message = text(self.spec.lang, key, &[]);
                self.push_results(batch.close(&message));
            }
            other @ (Phase::AwaitingModel
            | Phase::AwaitingChildren
            | Phase::Checking(_)
            | Phase::Concluding(_)
            | Phase::Ended(_)) => {
                self.phase = other;
            }
        }
    }

    /// Appends the results of a batch, and behind them the notices that arrived meanwhile.
    fn push_results(&mut self, results: Vec<ToolResult>) {
        self.push(Message::Tools { results });
        for notice in std::mem::take(&mut self.pending_notices) {
            self.push_pending(notice);
        }
    }

    fn finished(&mut self, outcome: &Outcome) {
        self.close_batch("call-cancelled");
        if let Outcome::Completed { .. } = outcome {
            self.progress = 100;
        }
        self.phase = Phase::Ended(outcome.clone());
    }

    fn expect_child(&mut self, child: &ChildRef) {
        // The child may have reported before its parent recorded it: the parent died in between.
        if !self.announced.contains(&child.run) {
            self.children.insert(child.run, child.clone());
        }
    }

    fn notice(&mut self, key: &str, args: &[(&str, Arg)]) {
        let message = text(self.spec.lang, key, args);
        self.push(Message::Notice { text: message });
    }

    fn push(&mut self, message: Message) {
        self.history.push(Arc::new(message));
    }

    /// Decides the outcome. A result that exists is not thrown away because of what happened after
    /// it.
    fn conclude_failed(&mut self, reason: Reason, key: &str, args: &[(&str, Arg)]) {
        let outcome = self.result.take().unwrap_or_else(|| Outcome::Failed {
            reason,
            message: text(self.spec.lang, key, args),
            partial: self.last_text.clone(),
        });
        self.phase = Phase::Concluding(outcome);
    }

    fn raise_progress(&mut self) {
        let by_iterations = self
            .iterations
            .saturating_mul(u32::from(PROGRESS_PER_ITERATION));
        let done = self
            .todos
            .iter()
            .filter(|todo| todo.status == TodoStatus::Completed)
            .count();
        let reached = match self.todos.len() {
            0 => by_iterations,
            total => u32::try_from(done * usize::from(PROGRESS_BEFORE_END) / total).unwrap_or(0),
        };
        let reached = reached.min(u32::from(PROGRESS_BEFORE_END));
        self.progress = self.progress.max(u8::try_from(reached).unwrap_or(0));
    }

    fn open_call(
        &mut self,
        entry: &JournalEntry,
        call: &CallId,
    ) -> Result<&mut crate::OpenCall, IllegalEvent> {
        let Phase::RunningCalls(batch) = &mut self.phase else {
            return Err(illegal(entry, "no call is open"));
        };
        match batch.get_mut(call) {
            Some(open) if !matches!(open.status, CallStatus::Answered(_)) => Ok(open),
            Some(_) => Err(illegal(entry, &format!("call {call} already has a result"))),
            None => Err(illegal(entry, &format!("there is no call {call}"))),
        }
    }
}

/// Returns the conversation that a run was forked with.
fn context_of(spec: &RunSpec) -> impl Iterator<Item = SharedMessage> {
    let context = spec.context.iter();
    context.flat_map(|context| context.messages.iter().cloned())
}

fn illegal(entry: &JournalEntry, what: &str) -> IllegalEvent {
    IllegalEvent {
        seq: entry.seq,
        what: format!("{} ({})", what, entry.event.name()),
    }
}

fn call_of(block: &Block) -> Option<&ToolCall> {
    match block {
        Block::Call(call) => Some(call),
        Block::Text { .. } | Block::Reasoning { .. } => None,
    }
}

/// Returns what is wrong with the last of these calls, if none of them can be read.
fn unreadable(calls: &[ToolCall]) -> Option<&str> {
    let errors = calls.iter().map(|call| match &call.arguments {
        Arguments::Malformed { error, .. } => Some(error.as_str()),
        Arguments::Json(_) => None,
    });
    errors.collect::<Option<Vec<_>>>()?.pop()
}

/// Returns whether the arguments of a call were truncated.
fn is_truncated(call: &ToolCall) -> bool {
    match call.arguments {
        Arguments::Malformed { .. } => true,
        Arguments::Json(_) => false,
    }
}

fn spoken(blocks: &[Block]) -> Option<String> {
    let message: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            Block::Reasoning { .. } | Block::Call(_) => None,
        })
        .collect();
    let message = message.join("\n");
    (!message.trim().is_empty()).then_some(message)
}
