//! How people rest runs, try them again, and go on with a conversation.

use sortie_core::{
    Budget, Event, InboxItem, Lane, NotificationKind, PauseReport, RunId, RunRecord, RunSpec,
    Sender, StoreError,
};

use crate::runtime::{NewRun, Runtime, RuntimeError, check_message};

/// Where a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The run that hears it.
    pub run: RunId,
    /// Whether that run was under way already.
    pub steered: bool,
}

impl Runtime {
    /// Wants a run and everything below it to rest; returns those that were not told so before.
    ///
    /// Whoever waits rests at once. One that is executed ends its present tool call or question and
    /// gives its slot back then; nothing that has happened happens again. It stays so, also after a
    /// restart, until [`Runtime::unpause`]. Its deadlines go on counting, requests of it expire, and
    /// messages for it are kept. Cancelling it ends it as ever.
    pub async fn pause(&self, run: RunId) -> Result<Vec<RunId>, RuntimeError> {
        let report = self.shared.store.pause(run, self.now()).await?;
        for run in &report.held {
            self.shared
                .live
                .signal(*run, |signals| signals.pause = true);
        }
        Ok(self.told_of(report, &NotificationKind::Paused))
    }

    /// Lets a run and everything below it go on; returns those that rested.
    pub async fn unpause(&self, run: RunId) -> Result<Vec<RunId>, RuntimeError> {
        let report = self.shared.store.resume(run, self.now()).await?;
        for run in &report.held {
            self.shared
                .live
                .signal(*run, |signals| signals.pause = false);
        }
        let runs = self.told_of(report, &NotificationKind::Resumed);
        self.shared.hint.notify_one();
        Ok(runs)
    }

    fn told_of(&self, report: PauseReport, kind: &NotificationKind) -> Vec<RunId> {
        let tell = |about: sortie_core::RunRef| {
            let run = about.run;
            self.shared.about(about, kind.clone());
            run
        };
        report.changed.into_iter().map(tell).collect()
    }

    /// Admits a new run, the first of a tree of its own, with everything that another was admitted
    /// with: task, agent, model, folder, session, limits and what it may do.
    pub async fn retry(&self, run: RunId) -> Result<RunId, RuntimeError> {
        self.retry_as(run, self.new_run_id()).await
    }

    /// The same under an id that was chosen before. Doing it twice makes one run.
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
        // A turn of a conversation: who speaks in it at the same time goes on from before or after.
        let one_at_a_time = self.shared.saying.lock().await;
        let admitted = self.register(again, retried).await;
        drop(one_at_a_time);
        admitted
    }

    /// What a run may spend when it, or a branch of it, runs again in a tree of its own: what it was
    /// granted for itself, and of everything else what its tree has left, time included.
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
        for balance in self.shared.store.balances(run).await? {
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
        Ok(budget.or(self.shared.planner.settings.child.budget))
    }

    /// What a run was admitted with.
    pub async fn spec(&self, run: RunId) -> Result<RunSpec, RuntimeError> {
        let first = self.shared.store.first(run).await?;
        match first.map(|entry| entry.event) {
            Some(Event::Admitted { spec }) => Ok(*spec),
            Some(_) | None => {
                self.get(run).await?;
                Err(RuntimeError::Refused(format!(
                    "the journal of task {run} was removed, so nobody knows what it was admitted with"
                )))
            }
        }
    }

    /// Says something in a conversation, as a person: to its last turn while that is under way, or
    /// in a new turn that goes on from it. `new.task` is the message.
    pub async fn say(&self, new: NewRun) -> Result<Said, RuntimeError> {
        self.say_if(None, new, |_| Ok(())).await
    }

    /// The same, if whoever speaks may go on from the last turn: that is asked about what the turn was
    /// admitted with, while nobody else can begin another.
    ///
    /// `turn` is the id of the turn that this begins, if it was chosen before. Beginning it twice
    /// makes one turn.
    pub async fn say_if<E: From<RuntimeError> + Send>(
        &self,
        turn: Option<RunId>,
        new: NewRun,
        may_go_on: impl FnOnce(&RunSpec) -> Result<(), E> + Send,
    ) -> Result<Said, E> {
        check_message(&new.task)?;
        let one_at_a_time = self.shared.saying.lock().await;
        if let Some(turn) = turn
            && self.is_there(turn).await?
        {
            return Ok(Said {
                run: turn,
                steered: false,
            });
        }
        let (session, tenant) = (new.session.clone(), new.tenant.clone());
        let last = self.shared.store.last_turn(session, tenant).await;
        let last = last.map_err(RuntimeError::from)?;
        if let Some(last) = last.as_ref().filter(|last| can_go_on(last)) {
            may_go_on(&self.spec(last.run_id).await?)?;
        }
        let turn = turn.unwrap_or_else(|| self.new_run_id());
        let said = self.say_now(turn, new, last).await?;
        drop(one_at_a_time);
        Ok(said)
    }

    async fn is_there(&self, run: RunId) -> Result<bool, RuntimeError> {
        match self.get(run).await {
            Ok(_) => Ok(true),
            Err(RuntimeError::Store(StoreError::NotFound(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn say_now(
        &self,
        turn: RunId,
        new: NewRun,
        last: Option<RunRecord>,
    ) -> Result<Said, RuntimeError> {
        if let Some(last) = last.as_ref().filter(|last| !last.status.is_terminal()) {
            let item = InboxItem::Steer {
                from: Sender::Person,
                text: new.task.clone(),
            };
            match self.shared.steer(last.run_id, item).await {
                Ok(()) => {
                    self.shared.record_changed(last.run_id).await;
                    return Ok(Said {
                        run: last.run_id,
                        steered: true,
                    });
                }
                // It ended a moment ago, so this begins the next turn.
                Err(StoreError::WrongState { status, .. }) if status.is_terminal() => {}
                Err(StoreError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let continues = last.filter(can_go_on).map(|last| last.run_id);
        let next = NewRun {
            continues,
            lane: Lane::Main,
            ..new
        };
        let run = self.create_as(turn, next).await?;
        Ok(Said {
            run,
            steered: false,
        })
    }
}

/// Whether the history of a turn is still there.
fn can_go_on(last: &RunRecord) -> bool {
    last.cleaned_at.is_none() && last.archived_at.is_none()
}
