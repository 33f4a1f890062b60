//! Read access to the state of a run.

use std::sync::Arc;

use sortie_core::budget::BudgetKind;
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{CallId, Epoch, RunId, Seq};
use sortie_core::message::{ChildRef, Message, SharedMessage, Todo, ToolCall, Usage};
use sortie_core::run::{Changes, Outcome, RunSpec, Summary, Worktree};
use sortie_core::time::Timestamp;
use sortie_text::text;

use super::{CountedTokens, IllegalEvent, Phase, PriorHistory, RunState};
use crate::compact::{self, Compaction};
use crate::model_chain::ModelChain;

/// Computes the summaries that a record may have, from the journal alone: that of the whole journal
/// before its end, and that of its last append. The store writes some entries by itself, a read
/// inbox among them, and leaves the summary to the next append, which a crash or a cancel can
/// prevent. Empty if the run continues another whose journal is needed to fold it.
pub fn summaries_of(entries: &[JournalEntry]) -> Result<Vec<Summary>, IllegalEvent> {
    let goes_on = matches!(
        entries.first().map(|entry| &entry.event),
        Some(Event::Admitted { spec }) if spec.fork.is_some() || spec.continues.is_some()
    );
    let ended = |entry: &JournalEntry| matches!(entry.event, Event::Finished { .. });
    let before_end = match entries.split_last() {
        Some((last, before)) if ended(last) => before,
        Some(_) | None => entries,
    };
    let appended = before_end
        .iter()
        .rposition(|entry| is_appended(&entry.event));
    // The first entry admits the run, with a summary of its own.
    let last_append = before_end.get(..=appended.unwrap_or(0)).unwrap_or_default();
    let mut summaries = Vec::new();
    for part in [before_end, last_append] {
        match RunState::fold(&PriorHistory::default(), part) {
            Ok(state) => summaries.push(state.summary()),
            Err(_) if goes_on => return Ok(Vec::new()),
            Err(illegal) => return Err(illegal),
        }
    }
    Ok(summaries)
}

/// Returns whether an executor appends such an event, together with a summary.
const fn is_appended(event: &Event) -> bool {
    match event {
        Event::Admitted { .. }
        | Event::Updated { .. }
        | Event::Paused
        | Event::Resumed
        | Event::Claimed { .. }
        | Event::InboxTaken { .. }
        | Event::Finished { .. } => false,
        Event::Asked { .. }
        | Event::ToolFinished { .. }
        | Event::Collected { .. }
        | Event::Checked { .. }
        | Event::Answered { .. }
        | Event::ModelFailed { .. }
        | Event::Compacted { .. }
        | Event::Intended { .. }
        | Event::Delegated { .. }
        | Event::BudgetLow { .. }
        | Event::BudgetSpent { .. }
        | Event::Isolated { .. } => true,
    }
}

impl RunState {
    /// Returns whether a check has sent the run back to work.
    pub fn was_sent_back(&self) -> bool {
        self.reminders.refutations > 0
    }

    pub(crate) const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Returns the id of the run.
    pub const fn run(&self) -> RunId {
        self.run
    }

    /// Returns the spec that the run was admitted with.
    pub const fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// Returns the outcome, if the run has ended.
    pub const fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Ended(outcome) => Some(outcome),
            Phase::AwaitingModel
            | Phase::RunningCalls(_)
            | Phase::AwaitingChildren
            | Phase::Checking(_)
            | Phase::Concluding(_) => None,
        }
    }

    /// Returns the messages that the model has read and written.
    pub fn messages(&self) -> &[SharedMessage] {
        &self.history
    }

    /// Returns the number of completions.
    pub const fn turn(&self) -> u32 {
        self.turn
    }

    /// Returns the number of calls with a result.
    pub const fn tool_calls(&self) -> u32 {
        self.tool_calls
    }

    /// Returns the usage. A sum of costs of which one is unknown is unknown.
    pub const fn usage(&self) -> Usage {
        if self.unpriced > 0 {
            return Usage {
                cost_usd: None,
                ..self.usage
            };
        }
        self.usage
    }

    /// Returns the progress from 0 to 100, which never decreases.
    pub const fn progress(&self) -> u8 {
        self.progress
    }

    /// Returns the todo list.
    pub fn todos(&self) -> &[Todo] {
        &self.todos
    }

    /// Returns the sequence number of the last entry.
    pub const fn head(&self) -> Seq {
        self.head
    }

    /// Returns whether the model has given its final answer and the run only waits for children.
    pub const fn awaits_children(&self) -> bool {
        matches!(self.phase, Phase::AwaitingChildren)
    }

    /// Returns the outcome, if it is decided and only has to be written.
    pub const fn conclusion(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Concluding(outcome) => Some(outcome),
            Phase::AwaitingModel
            | Phase::RunningCalls(_)
            | Phase::AwaitingChildren
            | Phase::Checking(_)
            | Phase::Ended(_) => None,
        }
    }

    /// Returns the result that the run had before it continued because of a message.
    pub(crate) const fn result(&self) -> Option<&Outcome> {
        self.result.as_ref()
    }

    /// Returns what is left of the run if it is stopped now: a result that it had, or its last
    /// text.
    pub(crate) fn partial(&self) -> Option<String> {
        let result = self.result.as_ref().and_then(Outcome::text);
        result.map(str::to_owned).or_else(|| self.last_text())
    }

    /// Returns the epoch of the claim under which the run is executed.
    pub(crate) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns when the run was first claimed.
    pub const fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// Returns the deadline: the run's own, or that of the whole tree.
    pub fn deadline(&self) -> Option<Timestamp> {
        let own = self.after_start(self.spec.limits.timeout_ms);
        own.into_iter().chain(self.tree_deadline()).min()
    }

    /// Returns the deadline of all descendants, from the time in the budget.
    pub fn tree_deadline(&self) -> Option<Timestamp> {
        let own = self.after_start(self.spec.limits.budget.wall_ms);
        own.into_iter().chain(self.spec.not_after).min()
    }

    fn after_start(&self, limit_ms: Option<u64>) -> Option<Timestamp> {
        let limit = i64::try_from(limit_ms?).unwrap_or(i64::MAX);
        Some(self.started_at?.plus_ms(limit))
    }

    /// Returns a call of the last completion that has no result yet.
    pub fn find_open_call(&self, id: &CallId) -> Option<&ToolCall> {
        match &self.phase {
            Phase::RunningCalls(batch) => batch.open_call(id),
            Phase::AwaitingModel
            | Phase::AwaitingChildren
            | Phase::Checking(_)
            | Phase::Concluding(_)
            | Phase::Ended(_) => None,
        }
    }

    /// Returns the calls that were about to run when an earlier process died, and have no result
    /// yet.
    pub fn interrupted_calls(&self) -> Vec<CallId> {
        match &self.phase {
            Phase::RunningCalls(batch) => batch.interrupted(),
            Phase::AwaitingModel
            | Phase::AwaitingChildren
            | Phase::Checking(_)
            | Phase::Concluding(_)
            | Phase::Ended(_) => Vec::new(),
        }
    }

    /// Returns the worktree that was created for the run.
    pub const fn worktree(&self) -> Option<&Worktree> {
        self.worktree.as_ref()
    }

    /// Returns what the run changed in its worktree, once that was collected.
    pub const fn changes(&self) -> Option<&Changes> {
        match &self.collected {
            Some(changes) => changes.as_ref(),
            None => None,
        }
    }

    /// Returns how much of the history this model has counted; another model counts differently.
    pub fn counted(&self, model: &str) -> Option<CountedTokens> {
        let (by, counted) = self.counted.as_ref()?;
        (by == model).then_some(*counted)
    }

    /// Returns whether the model was warned that most of this budget is spent.
    pub fn was_warned(&self, kind: BudgetKind) -> bool {
        self.warned.contains(&kind)
    }

    /// Returns the children that have not reported.
    pub fn open_children(&self) -> Vec<ChildRef> {
        self.children.values().cloned().collect()
    }

    /// Returns the last text of the model.
    pub fn last_text(&self) -> Option<String> {
        self.last_text.clone()
    }

    /// Returns whether the next completion is the last, without tools.
    pub fn must_wrap_up(&self) -> bool {
        self.iterations >= self.spec.limits.max_iterations
    }

    /// Returns whether the model repeats a call although it has the result: only its answer is
    /// wanted.
    pub(crate) const fn must_answer(&self) -> bool {
        self.repeats.must_answer()
    }

    /// Returns the summary for the record while the run is active.
    pub fn summary(&self) -> Summary {
        Summary {
            waiting_on: self.waiting_on(),
            progress: self.progress,
            tool_calls: self.tool_calls,
            usage: self.usage(),
            unpriced: self.unpriced,
            model: self
                .model
                .clone()
                .unwrap_or_else(|| self.spec.model.clone()),
            last_text: self.partial(),
        }
    }

    pub(crate) fn wrap_up_notice(&self) -> SharedMessage {
        Arc::new(Message::Notice {
            text: text(
                self.spec.lang,
                "notice-wrap-up",
                &[("count", u64::from(self.spec.limits.max_iterations).into())],
            ),
        })
    }

    /// Returns the history for a run that continues from here; open calls get a result.
    pub fn into_prior_history(mut self) -> PriorHistory {
        self.close_batch("call-forked");
        PriorHistory {
            history: self.history,
            todos: self.todos,
            is_truncated: false,
        }
    }

    /// Returns the model that is called next.
    pub fn next_model(&self) -> &str {
        self.model_chain
            .model(&self.spec.model, &self.spec.fallbacks)
    }

    pub(crate) const fn model_chain(&self) -> ModelChain {
        self.model_chain
    }

    pub(crate) fn compaction(&self) -> Option<Compaction> {
        compact::plan(self.spec.lang, &self.history)
    }
}
