//! Tasks: creating, finding, steering, pausing, cancelling, retrying and deleting them.

use std::collections::BTreeMap;
use std::time::Duration;

use sortie_agent::RunState;
use sortie_core::budget::Budget;
use sortie_core::id::{RunId, Seq, SessionKey};
use sortie_core::inbox::{InboxItem, MAX_MESSAGE_CHARS, Sender};
use sortie_core::notification::Notification;
use sortie_core::ports::store::{
    Admission, AdmissionRefusal, Admit, CancelReport, ListFilter, RetentionRule, RunRef,
    StoreError, Unblock, Undelivered, Update,
};
use sortie_core::run::{
    Cancellation, CancelledBy, ContextFork, Lane, Priority, RunRecord, RunSpec, Status,
};
use sortie_core::stats::Stats;
use sortie_core::tenant::Tenant;
use tokio::sync::broadcast;

use super::{Runtime, RuntimeError};
use crate::engine::millis;
use crate::fork::{self, Fork};
use crate::journal_load::{self, Unreadable};
use crate::new_run::NewRun;
use crate::planner::{Conversation, label_of};
use crate::refusal::{Refusal, RefusalReason};
use crate::spawn::refusal_text;

/// Attempts to delete records whose results are being delivered.
const MAX_DELIVERY_POLLS: u32 = 50;
/// Interval between two such attempts, unless a notification arrives.
const DELIVERY_POLL: Duration = Duration::from_millis(50);

impl Runtime {
    /// Admits a run. It starts as soon as its lane has a slot, and survives this process.
    pub async fn create(&self, new: NewRun) -> Result<RunId, RuntimeError> {
        self.create_as(self.new_run_id(), new).await
    }

    /// Returns a new id, for [`Runtime::create_as`].
    pub fn new_run_id(&self) -> RunId {
        self.engine.clock.new_run_id()
    }

    /// Admits a run under an id that was chosen before. Repeating the call creates one run.
    pub async fn create_as(&self, run: RunId, new: NewRun) -> Result<RunId, RuntimeError> {
        if let Some(earlier) = new.continues {
            self.require_ended(earlier).await?;
        }
        let forked = match new.fork {
            Some(ContextFork::Last(_) | ContextFork::Cached) => {
                self.conversation_of(&new.session, new.tenant.as_ref())
                    .await?
            }
            Some(ContextFork::Clean) | None => None,
        };
        let conversation = forked.as_ref().map(Conversation::of);
        let spec = self.engine.planner.root_spec(run, new, conversation)?;
        self.register(run, spec).await
    }

    /// Folds the conversation of a session up to its last turn, if it has one.
    async fn conversation_of(
        &self,
        session: &SessionKey,
        tenant: Option<&Tenant>,
    ) -> Result<Option<RunState>, RuntimeError> {
        let last = self
            .engine
            .store
            .last_turn(session.clone(), tenant.cloned(), None);
        let Some(last) = last.await?.filter(|last| last.cleaned_at.is_none()) else {
            return Ok(None);
        };
        let entries = self.engine.store.read(last.run_id, Seq(0)).await;
        match journal_load::load(&self.engine, entries).await {
            Ok(state) => Ok(Some(state)),
            Err(Unreadable::Failed(error)) => Err(error.into()),
            Err(Unreadable::Damaged(what)) => {
                Err(Refusal::new(RefusalReason::NoJournal, what).into())
            }
        }
    }

    /// Admits a run with a complete spec, under this id.
    pub async fn register(&self, run: RunId, spec: RunSpec) -> Result<RunId, RuntimeError> {
        let admission = self
            .engine
            .store
            .admit(Admit {
                run,
                spec: spec.clone(),
                at: self.engine.clock.now(),
                parent: None,
            })
            .await?;
        match admission {
            Admission::Admitted { .. } => {
                self.engine.publish_admission(run, &spec);
                Ok(run)
            }
            Admission::Existing { run } => Ok(run),
            Admission::Refused(refusal) => {
                let message = refusal_text(spec.lang, &refusal);
                let reason = match refusal {
                    AdmissionRefusal::Quota(reached) => RefusalReason::QuotaReached {
                        resets_at: reached.resets_at,
                    },
                    AdmissionRefusal::TreeFull { .. }
                    | AdmissionRefusal::TooDeep { .. }
                    | AdmissionRefusal::ParentEnding
                    | AdmissionRefusal::BudgetSpent { .. } => RefusalReason::LimitReached,
                };
                Err(Refusal::new(reason, message).into())
            }
        }
    }

    /// Admits a run that branches off another after one of its entries, and continues from there,
    /// possibly with another model or mode. The effects of the other run stay.
    pub async fn fork(&self, fork: Fork) -> Result<RunId, RuntimeError> {
        self.fork_as(fork, self.new_run_id()).await
    }

    /// The same under an id that was chosen before. Repeating the call creates one run.
    pub async fn fork_as(&self, fork: Fork, run: RunId) -> Result<RunId, RuntimeError> {
        let other = fork.point.run;
        let mut spec = self.spec(other).await?;
        spec.limits.budget = self.budget_alone(other, &spec).await?;
        let head = self.get(other).await?.head;
        let spec = fork::spec_of(fork, spec, head, run)
            .map_err(|problem| Refusal::new(RefusalReason::UnknownForkPoint, problem))?;
        self.register(run, spec).await
    }

    /// Admits a new root run with the spec of another: task, agent, model, folder, session, limits
    /// and authority.
    pub async fn retry(&self, run: RunId) -> Result<RunId, RuntimeError> {
        self.retry_as(run, self.new_run_id()).await
    }

    /// The same under an id that was chosen before. Repeating the call creates one run.
    pub async fn retry_as(&self, run: RunId, again: RunId) -> Result<RunId, RuntimeError> {
        self.require_ended(run).await?;
        let mut spec = self.spec(run).await?;
        spec.limits.budget = self.budget_alone(run, &spec).await?;
        let account = spec.limits.budget.needs_account().then_some(again);
        let retried = RunSpec {
            lane: match spec.parent {
                Some(_) => Lane::Subagent,
                None => spec.lane,
            },
            parent: None,
            root: again,
            depth: 0,
            account,
            not_after: None,
            ..spec
        };
        // The retry is a turn of its conversation: a message sent at the same time continues from
        // the turn before or after it.
        let (tenant, session) = (retried.tenant.clone(), retried.session.clone());
        let one_at_a_time = self.engine.session_locks.lock(tenant, session).await;
        let admitted = self.register(again, retried).await;
        drop(one_at_a_time);
        admitted
    }

    /// Returns the budget of a run that runs again, or is forked, as a root: what was granted to
    /// the run itself, and of everything else what is left in its tree, time included.
    pub(crate) async fn budget_alone(
        &self,
        run: RunId,
        spec: &RunSpec,
    ) -> Result<Budget, RuntimeError> {
        let mut budget = spec.limits.budget;
        if spec.parent.is_none() {
            return Ok(budget);
        }
        let own_account = spec.account == Some(run);
        for balance in self.engine.store.balances(run).await? {
            let limit = if own_account && spec.limits.budget.limit(balance.kind).is_some() {
                balance.limit
            } else {
                balance.left()
            };
            budget = budget.within(Budget::of(balance.kind, limit));
        }
        let time_left = spec.not_after.map(|end| end.ms_since(self.now()));
        budget = budget.within(Budget {
            wall_ms: time_left,
            ..Budget::default()
        });
        Ok(budget.or(self.engine.settings().child.budget))
    }

    /// Waits until a run has ended.
    pub async fn wait_for(&self, run: RunId) -> Result<RunRecord, RuntimeError> {
        let mut notifications = self.subscribe();
        loop {
            let record = self.engine.store.get(run).await?;
            if record.status.is_terminal() {
                return Ok(record);
            }
            wait_for_notification(
                &mut notifications,
                run,
                self.engine.settings().poll_interval,
            )
            .await;
        }
    }

    /// Changes the label or priority of a queued run.
    pub async fn update(
        &self,
        run: RunId,
        label: Option<&str>,
        priority: Option<Priority>,
    ) -> Result<(), RuntimeError> {
        self.engine
            .store
            .update(Update {
                run,
                label: label
                    .map(|label| label_of(Some(label), ""))
                    .filter(|label| !label.is_empty()),
                priority,
                at: self.engine.clock.now(),
            })
            .await?;
        self.engine.wakeups.scheduler.notify_one();
        self.engine.publisher.record_changed(run).await;
        Ok(())
    }

    /// Cancels a run and all its descendants.
    pub async fn cancel(&self, run: RunId, reason: &str) -> Result<CancelReport, RuntimeError> {
        let cancellation = Cancellation {
            by: CancelledBy::Person,
            reason: reason.to_owned(),
        };
        Ok(self.engine.cancel(run, cancellation).await?)
    }

    /// Sends a message to a run, as a person.
    pub async fn steer(&self, run: RunId, text: &str) -> Result<(), RuntimeError> {
        check_message(text)?;
        let item = InboxItem::Steer {
            from: Sender::Person,
            text: text.to_owned(),
        };
        Ok(self.engine.steer(run, item).await?)
    }

    /// Pauses a run and all its descendants; returns those that were not paused before.
    ///
    /// A waiting run is paused at once. A run that is executed completes its present tool call or
    /// model call and then releases its slot; nothing is repeated. It stays paused, also after a
    /// restart, until [`Runtime::unpause`]. Its deadlines continue to count, its requests can
    /// expire, and its inbox keeps messages. It can be cancelled as usual.
    pub async fn pause(&self, run: RunId) -> Result<Vec<RunId>, RuntimeError> {
        let report = self.engine.store.pause(run, self.now()).await?;
        Ok(self.engine.paused(report))
    }

    /// Resumes a run and all its descendants; returns those that were paused.
    pub async fn unpause(&self, run: RunId) -> Result<Vec<RunId>, RuntimeError> {
        let report = self.engine.store.resume(run, self.now()).await?;
        Ok(self.engine.resumed(report))
    }

    pub async fn get(&self, run: RunId) -> Result<RunRecord, RuntimeError> {
        Ok(self.engine.store.get(run).await?)
    }

    /// Finds a run by its handle, or by a prefix of its id.
    pub async fn resolve(&self, prefix: &str) -> Result<RunId, RuntimeError> {
        Ok(self.engine.store.resolve(prefix).await?)
    }

    /// Returns the handles of these runs; runs that do not exist are left out.
    pub async fn handles(&self, runs: Vec<RunId>) -> Result<BTreeMap<RunId, String>, RuntimeError> {
        Ok(self.engine.store.handles(runs).await?)
    }

    /// Counts the results that were not delivered.
    pub async fn undelivered(&self) -> Result<Undelivered, RuntimeError> {
        Ok(self.engine.store.undelivered().await?)
    }

    /// Lists records, newest first.
    pub async fn list(&self, filter: ListFilter) -> Result<Vec<RunRecord>, RuntimeError> {
        Ok(self.engine.store.list(filter).await?)
    }

    /// Lists the runs that have started and not ended.
    pub async fn running(&self) -> Result<Vec<RunRecord>, RuntimeError> {
        self.list(ListFilter {
            statuses: vec![Status::Running],
            ..ListFilter::default()
        })
        .await
    }

    /// Returns how many runs have started and not ended.
    pub async fn count(&self) -> Result<u64, RuntimeError> {
        Ok(self.stats(ListFilter::default()).await?.running)
    }

    /// Returns how many runs are in which state.
    pub async fn stats(&self, filter: ListFilter) -> Result<Stats, RuntimeError> {
        Ok(self.engine.store.stats(filter).await?)
    }

    /// Retries a blocked delivery, or gives it up for good.
    pub async fn unblock(&self, run: RunId, choice: Unblock) -> Result<(), RuntimeError> {
        self.engine
            .store
            .unblock(run, choice, self.engine.clock.now())
            .await?;
        self.engine.wakeups.scheduler.notify_one();
        self.engine.wakeups.outside.notify_one();
        self.engine.publisher.delivery_changed(run).await;
        Ok(())
    }

    /// Deletes a run and its descendants; cancels them first if they have not ended.
    pub async fn delete(&self, run: RunId) -> Result<u64, RuntimeError> {
        let tree = self.tree_of(run).await?;
        if tree.iter().any(|record| !record.status.is_terminal()) {
            self.cancel(run, "the task is being deleted").await?;
            for record in self.tree_of(run).await? {
                self.wait_for(record.run_id).await?;
            }
        }
        let removed = self.delete_delivered(run).await?;
        let count = removed.len() as u64;
        self.engine.publisher.deleted(removed);
        Ok(count)
    }

    /// Returns the rule for all trees that ended longer ago than `age`.
    #[must_use]
    pub fn older_than(&self, age: Duration) -> RetentionRule {
        RetentionRule::before(self.engine.clock.now().plus_ms(-millis(age)))
    }

    /// Returns the number of records that [`Runtime::clean_up`] would delete.
    pub async fn count_clean_up(&self, rule: RetentionRule) -> Result<u64, RuntimeError> {
        Ok(self.engine.store.count_ended(rule).await?)
    }

    /// Deletes the records of the trees that a rule selects; returns how many. Usage and audit are
    /// kept.
    pub async fn clean_up(&self, rule: RetentionRule) -> Result<u64, RuntimeError> {
        let removed = self.engine.store.delete_ended(rule).await?;
        let count = removed.len() as u64;
        self.engine.publisher.deleted(removed);
        Ok(count)
    }

    /// Deletes an ended run and its descendants once their results are delivered. Gives up after a
    /// while, because sinks may be unreachable.
    async fn delete_delivered(&self, run: RunId) -> Result<Vec<RunRef>, RuntimeError> {
        let mut notifications = self.subscribe();
        for _ in 0..MAX_DELIVERY_POLLS {
            match self.engine.store.delete(run).await {
                Err(StoreError::WrongState { run, .. }) => {
                    wait_for_notification(&mut notifications, run, DELIVERY_POLL).await;
                }
                deleted => return Ok(deleted?),
            }
        }
        Ok(self.engine.store.delete(run).await?)
    }

    pub(crate) async fn tree_of(&self, run: RunId) -> Result<Vec<RunRecord>, RuntimeError> {
        let mut found = vec![self.get(run).await?];
        let mut next = 0;
        while let Some(record) = found.get(next) {
            let children = self
                .list(ListFilter {
                    parent: Some(record.run_id),
                    archived: true,
                    ..ListFilter::default()
                })
                .await?;
            found.extend(children);
            next += 1;
        }
        Ok(found)
    }

    pub(crate) async fn require_ended(&self, run: RunId) -> Result<(), RuntimeError> {
        if self.get(run).await?.status.is_terminal() {
            Ok(())
        } else {
            let message = format!("task {run} is still running; wait for it, or cancel it first");
            Err(Refusal::new(RefusalReason::StillRunning, message).into())
        }
    }
}

/// Refuses a message that is too long.
pub fn check_message(text: &str) -> Result<(), RuntimeError> {
    if text.chars().count() > MAX_MESSAGE_CHARS {
        let message = format!(
            "the message has more than {MAX_MESSAGE_CHARS} characters; put the rest into a file and name the file"
        );
        return Err(Refusal::new(RefusalReason::MessageTooLong, message).into());
    }
    Ok(())
}

/// Returns at the next notification about `run`, or after `poll` in case one was missed.
async fn wait_for_notification(
    notifications: &mut broadcast::Receiver<Notification>,
    run: RunId,
    poll: Duration,
) {
    let notified = async {
        loop {
            match notifications.recv().await {
                Ok(notification) if notification.task_id != run => {}
                Ok(_)
                | Err(
                    broadcast::error::RecvError::Lagged(_) | broadcast::error::RecvError::Closed,
                ) => {
                    return;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = notified => {}
        () = tokio::time::sleep(poll) => {}
    }
}
