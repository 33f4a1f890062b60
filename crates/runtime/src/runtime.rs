//! The runtime and everything that can be asked of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sortie_agent::{TranscriptLine, transcript};
use sortie_core::{
    Admission, Admit, Budget, CancelReport, Cancellation, CancelledBy, Clock, Delivery, EndReport,
    InboxItem, Isolation, JournalEntry, Lane, Lang, ListFilter, MAX_MESSAGE_CHARS, Mode,
    ModelDirectory, NoSkills, NoWorktrees, Notification, NotificationKind, Outcome, Priority,
    RecoverReport, RecoverScope, RunId, RunRecord, RunSpec, Sampling, Sender, Seq, SessionKey,
    SinkAddress, Skills, Stats, Status, Store, StoreError, StoreResult, Tenant, Timestamp, Tool,
    Unblock, Update, VerifyReport, Worktrees,
};
use sortie_text::Redactor;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agents::Agents;
use crate::authority::Policies;
use crate::clock::ProcessClock;
use crate::fork::{self, Fork};
use crate::live::Live;
use crate::log::{ToolCallLog, tool_calls};
use crate::particulars::Looks;
use crate::scheduler;
use crate::setback::Setbacks;
use crate::settings::Settings;
use crate::sinks::Sink;
use crate::spawn::{Planner, SpawnRefused, label_of};
use crate::spawner::not_admitted;
use crate::toolbox::ToolboxError;

/// Notifications kept for a slow subscriber before it misses some.
const NOTIFICATIONS_KEPT: usize = 4096;
/// How often, at most, a delivery is looked for before a record is removed.
const MAX_LOOKS_FOR_DELIVERY: u32 = 50;
/// Between two such looks, unless there is news.
const LOOK_FOR_DELIVERY: Duration = Duration::from_millis(50);
/// Pieces of text kept for a slow watcher before it misses some.
const DELTAS_KEPT: usize = 1024;

/// What a runtime is made of.
#[derive(Debug)]
pub struct Parts {
    /// The durable registry.
    pub store: Arc<dyn Store>,
    /// The models.
    pub models: Arc<dyn ModelDirectory>,
    /// The tools.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The agents.
    pub agents: Agents,
    /// Time and ids.
    pub clock: Arc<dyn Clock>,
    /// Places outside that want results.
    pub sinks: Vec<Arc<dyn Sink>>,
    /// Makes worktrees for runs that want one of their own.
    pub worktrees: Arc<dyn Worktrees>,
    /// Finds skills.
    pub skills: Arc<dyn Skills>,
    /// What is never written down.
    pub redactor: Redactor,
}

impl Parts {
    /// The parts of a runtime with nothing around it: built-in agents in English, the time of this
    /// process, no worktrees, no skills, and no place outside that wants results.
    pub fn new(
        store: Arc<dyn Store>,
        models: Arc<dyn ModelDirectory>,
        tools: Vec<Arc<dyn Tool>>,
    ) -> Self {
        Self {
            store,
            models,
            tools,
            agents: Agents::built_in(Lang::En),
            clock: Arc::new(ProcessClock::start()),
            sinks: Vec::new(),
            worktrees: Arc::new(NoWorktrees),
            skills: Arc::new(NoSkills),
            redactor: Redactor::default(),
        }
    }
}

/// A run to be made by a person or a program.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The session that asks.
    pub session: SessionKey,
    /// The agent; the main agent, or `general` for a background task, if missing.
    pub agent: Option<String>,
    /// What it is to do.
    pub task: String,
    /// What people call it.
    pub label: Option<String>,
    /// The model, whatever the agent wants.
    pub model: Option<String>,
    /// The model if the agent wants none in particular.
    pub default_model: String,
    /// Models to ask in turn when the one before cannot answer; `None` is the configured chain.
    pub fallbacks: Option<Vec<String>>,
    /// How hard to think.
    pub thinking: Option<String>,
    /// How freely the model chooses its words, and how many.
    pub sampling: Sampling,
    /// The JSON schema that the result has to fit.
    pub result_schema: Option<Value>,
    /// The folder it works in, by a path without links.
    pub workspace: PathBuf,
    /// Its language.
    pub lang: Lang,
    /// The queue.
    pub lane: Lane,
    /// How urgent.
    pub priority: Priority,
    /// Its own iteration cap.
    pub max_iterations: Option<u32>,
    /// `None` is the default, zero is no limit.
    pub timeout: Option<Duration>,
    /// What it and everything below it may spend.
    pub budget: Budget,
    /// A finished run to go on from.
    pub continues: Option<RunId>,
    /// Places outside that want the result.
    pub report_to: Vec<SinkAddress>,
    /// How calls that change something are treated.
    pub mode: Mode,
    /// Where it works; `None` is as its agent is set.
    pub isolation: Option<Isolation>,
    /// Whose it is.
    pub tenant: Option<Tenant>,
    /// How deep its tree may be, if less than an operator has set.
    pub max_depth: Option<u32>,
}

impl NewRun {
    /// A main run in `workspace`, with every default. Links that lead there are followed now, and
    /// never again.
    pub fn new(task: impl Into<String>, workspace: impl Into<PathBuf>, model: &str) -> Self {
        let given: PathBuf = workspace.into();
        // A folder that is not there is told about by whoever works in it.
        let workspace = given.canonicalize().unwrap_or(given);
        Self::in_checked_folder(task, workspace, model)
    }

    /// The same in a folder that somebody has looked at, whose path has no links: if one is put there
    /// meanwhile, the run is refused, rather than admitted elsewhere.
    pub fn in_checked_folder(
        task: impl Into<String>,
        workspace: impl Into<PathBuf>,
        model: &str,
    ) -> Self {
        Self {
            session: SessionKey::cli(),
            agent: None,
            task: task.into(),
            label: None,
            model: None,
            default_model: model.to_owned(),
            fallbacks: None,
            thinking: None,
            sampling: Sampling::default(),
            result_schema: None,
            workspace: workspace.into(),
            lang: Lang::En,
            lane: Lane::Main,
            priority: Priority::Normal,
            max_iterations: None,
            timeout: None,
            budget: Budget::default(),
            continues: None,
            report_to: Vec::new(),
            mode: Mode::Default,
            isolation: None,
            tenant: None,
            max_depth: None,
        }
    }

    /// The same as a background task without a main agent.
    #[must_use]
    pub fn in_background(mut self) -> Self {
        self.lane = Lane::Subagent;
        self
    }
}

/// Why the runtime did not do it.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The request was refused; the sentence says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tools cannot be registered.
    #[error(transparent)]
    Toolbox(#[from] ToolboxError),
}

impl From<SpawnRefused> for RuntimeError {
    fn from(refused: SpawnRefused) -> Self {
        Self::Refused(refused.0)
    }
}

/// A running runtime. Dropping it is like killing the process; [`Runtime::shut_down`] is kinder.
#[derive(Debug)]
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
    services: JoinSet<()>,
    stop: CancellationToken,
    recovered: RecoverReport,
}

/// What all parts of the runtime share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) models: Arc<dyn ModelDirectory>,
    pub(crate) planner: Planner,
    pub(crate) policies: Policies,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sinks: Vec<Arc<dyn Sink>>,
    pub(crate) worktrees: Arc<dyn Worktrees>,
    pub(crate) redactor: Redactor,
    pub(crate) live: Live,
    /// Runs whose executors stopped.
    pub(crate) setbacks: Setbacks,
    /// Something may be claimable or deliverable.
    pub(crate) hint: Notify,
    /// Something may be deliverable outside.
    pub(crate) outside_hint: Notify,
    notifications: broadcast::Sender<Notification>,
    deltas: broadcast::Sender<(RunId, Arc<str>)>,
    /// One message at a time finds out which turn it belongs to.
    pub(crate) saying: tokio::sync::Mutex<()>,
    /// What was read of journals for people who look at tasks.
    pub(crate) looks: Looks,
}

impl Runtime {
    /// Recovers what an earlier process left behind, and starts to serve.
    pub async fn start(parts: Parts, settings: Settings) -> Result<Self, RuntimeError> {
        let shared = Arc::new(Shared {
            store: parts.store,
            models: parts.models,
            policies: Policies::default(),
            planner: Planner::new(parts.tools, parts.agents, settings, parts.skills)?,
            clock: parts.clock,
            sinks: parts.sinks,
            worktrees: parts.worktrees,
            redactor: parts.redactor,
            live: Live::default(),
            setbacks: Setbacks::default(),
            hint: Notify::new(),
            outside_hint: Notify::new(),
            notifications: broadcast::Sender::new(NOTIFICATIONS_KEPT),
            deltas: broadcast::Sender::new(DELTAS_KEPT),
            saying: tokio::sync::Mutex::new(()),
            looks: Looks::default(),
        });
        let recovered = shared.recover(RecoverScope::All).await?;
        let stop = CancellationToken::new();
        let mut services = JoinSet::new();
        services.spawn(scheduler::serve(Arc::clone(&shared), stop.clone()));
        services.spawn(scheduler::keep_leases(Arc::clone(&shared), stop.clone()));
        services.spawn(scheduler::deliver_outside(
            Arc::clone(&shared),
            stop.clone(),
        ));
        Ok(Self {
            shared,
            services,
            stop,
            recovered,
        })
    }

    /// What recovery found at the start.
    pub const fn recovered(&self) -> &RecoverReport {
        &self.recovered
    }

    /// The agents that runs can be made from.
    pub fn agents(&self) -> &Agents {
        &self.shared.planner.agents
    }

    /// Admits a run. It starts as soon as its lane has a slot, and survives this process.
    pub async fn create(&self, new: NewRun) -> Result<RunId, RuntimeError> {
        self.create_as(self.new_run_id(), new).await
    }

    /// A fresh id, for a run that is to be made with [`Runtime::create_as`].
    pub fn new_run_id(&self) -> RunId {
        self.shared.clock.new_run_id()
    }

    /// Admits a run under an id that was chosen before. Doing it twice makes one run.
    pub async fn create_as(&self, run: RunId, new: NewRun) -> Result<RunId, RuntimeError> {
        if let Some(earlier) = new.continues {
            self.require_ended(earlier).await?;
        }
        let spec = self.shared.planner.root_spec(run, new)?;
        self.register(run, spec).await
    }

    /// Admits a run that is already decided, under this id.
    pub async fn register(&self, run: RunId, spec: RunSpec) -> Result<RunId, RuntimeError> {
        let admission = self
            .shared
            .store
            .admit(Admit {
                run,
                spec: spec.clone(),
                at: self.shared.clock.now(),
                parent: None,
            })
            .await?;
        match admission {
            Admission::Admitted { .. } => {
                self.shared.admitted(run, &spec);
                Ok(run)
            }
            Admission::Existing { run } => Ok(run),
            Admission::Refused(refusal) => {
                Err(RuntimeError::Refused(not_admitted(spec.lang, &refusal)))
            }
        }
    }

    /// Admits a run that branches off another after one of its entries, and goes on from there with
    /// another model or another right to change things. What the other did stays done.
    pub async fn fork(&self, fork: Fork) -> Result<RunId, RuntimeError> {
        self.fork_as(fork, self.new_run_id()).await
    }

    /// The same under an id that was chosen before. Doing it twice makes one run.
    pub async fn fork_as(&self, fork: Fork, run: RunId) -> Result<RunId, RuntimeError> {
        let other = fork.point.run;
        let mut spec = self.spec(other).await?;
        spec.limits.budget = self.budget_alone(other, &spec).await?;
        let head = self.get(other).await?.head;
        let spec = fork::spec_of(fork, spec, head, run).map_err(RuntimeError::Refused)?;
        self.register(run, spec).await
    }

    /// Commits a small write: fails while the store accepts none.
    pub async fn probe(&self) -> Result<(), RuntimeError> {
        Ok(self.shared.store.probe().await?)
    }

    /// Waits until a run has ended.
    pub async fn wait_for(&self, run: RunId) -> Result<RunRecord, RuntimeError> {
        let mut notifications = self.subscribe();
        loop {
            let record = self.shared.store.get(run).await?;
            if record.status.is_terminal() {
                return Ok(record);
            }
            wait_for_news(
                &mut notifications,
                run,
                self.shared.planner.settings.poll_interval,
            )
            .await;
        }
    }

    /// Changes label or priority of a run that waits in the queue.
    pub async fn update(
        &self,
        run: RunId,
        label: Option<&str>,
        priority: Option<Priority>,
    ) -> Result<(), RuntimeError> {
        self.shared
            .store
            .update(Update {
                run,
                label: label
                    .map(|label| label_of(Some(label), ""))
                    .filter(|label| !label.is_empty()),
                priority,
                at: self.shared.clock.now(),
            })
            .await?;
        self.shared.hint.notify_one();
        self.shared.record_changed(run).await;
        Ok(())
    }

    /// Wants a run and all its descendants stopped.
    pub async fn cancel(&self, run: RunId, reason: &str) -> Result<CancelReport, RuntimeError> {
        let cancellation = Cancellation {
            by: CancelledBy::Person,
            reason: reason.to_owned(),
        };
        Ok(self.shared.cancel(run, cancellation).await?)
    }

    /// Adds to a run's instruction, as a person.
    pub async fn steer(&self, run: RunId, text: &str) -> Result<(), RuntimeError> {
        check_message(text)?;
        let item = InboxItem::Steer {
            from: Sender::Person,
            text: text.to_owned(),
        };
        self.shared.steer(run, item).await?;
        self.shared.record_changed(run).await;
        Ok(())
    }

    /// One record.
    pub async fn get(&self, run: RunId) -> Result<RunRecord, RuntimeError> {
        Ok(self.shared.store.get(run).await?)
    }

    /// The run that a person means by a prefix.
    pub async fn resolve(&self, prefix: &str) -> Result<RunId, RuntimeError> {
        Ok(self.shared.store.resolve(prefix).await?)
    }

    /// Records, newest first.
    pub async fn list(&self, filter: ListFilter) -> Result<Vec<RunRecord>, RuntimeError> {
        Ok(self.shared.store.list(filter).await?)
    }

    /// Runs that have started and not ended.
    pub async fn running(&self) -> Result<Vec<RunRecord>, RuntimeError> {
        self.list(ListFilter {
            statuses: vec![Status::Running],
            ..ListFilter::default()
        })
        .await
    }

    /// How many runs have started and not ended.
    pub async fn count(&self) -> Result<u64, RuntimeError> {
        Ok(self.stats(ListFilter::default()).await?.running)
    }

    /// How many runs are in which state.
    pub async fn stats(&self, filter: ListFilter) -> Result<Stats, RuntimeError> {
        Ok(self.shared.store.stats(filter).await?)
    }

    /// Removes a run and its descendants; cancels them first if they have not ended.
    pub async fn delete(&self, run: RunId) -> Result<u64, RuntimeError> {
        if !self.get(run).await?.status.is_terminal() {
            self.cancel(run, "it is to be deleted").await?;
            for record in self.tree_of(run).await? {
                self.wait_for(record.run_id).await?;
            }
        }
        self.wait_for_deliveries(run).await?;
        let removed = self.shared.store.delete(run).await?;
        let count = removed.len() as u64;
        self.shared.deleted(removed);
        Ok(count)
    }

    /// Removes the records of trees that ended longer ago than `age`.
    pub async fn clean_up(&self, age: Duration) -> Result<u64, RuntimeError> {
        let before = self.shared.clock.now().plus_ms(-millis(age));
        let removed = self.shared.store.clean_up(before).await?;
        let count = removed.len() as u64;
        self.shared.deleted(removed);
        Ok(count)
    }

    /// The journal of a run after `after`.
    pub async fn events(&self, run: RunId, after: Seq) -> Result<Vec<JournalEntry>, RuntimeError> {
        Ok(self.shared.store.read(run, after).await?)
    }

    /// The transcript of a run, for people.
    pub async fn transcript(&self, run: RunId) -> Result<Vec<TranscriptLine>, RuntimeError> {
        Ok(transcript(&self.events(run, Seq(0)).await?))
    }

    /// The tool calls of a run.
    pub async fn tool_calls(&self, run: RunId) -> Result<Vec<ToolCallLog>, RuntimeError> {
        Ok(tool_calls(&self.events(run, Seq(0)).await?))
    }

    /// Tries a blocked delivery again, or gives it up for good.
    pub async fn unblock(&self, run: RunId, choice: Unblock) -> Result<(), RuntimeError> {
        self.shared
            .store
            .unblock(run, choice, self.shared.clock.now())
            .await?;
        self.shared.hint.notify_one();
        self.shared.outside_hint.notify_one();
        self.shared.delivery_changed(run).await;
        Ok(())
    }

    /// Checks every journal.
    pub async fn verify(&self) -> Result<VerifyReport, RuntimeError> {
        Ok(self.shared.store.verify().await?)
    }

    /// Hears what happens from now on. Missing some is no loss: the records are the truth.
    pub fn subscribe(&self) -> broadcast::Receiver<Notification> {
        self.shared.notifications.subscribe()
    }

    /// Hears what models say while they say it.
    pub fn watch_text(&self) -> broadcast::Receiver<(RunId, Arc<str>)> {
        self.shared.deltas.subscribe()
    }

    /// The present moment of this runtime.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Stops serving: runs under way go back to the queue, to be resumed by the next process.
    pub async fn shut_down(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.services.join_next().await {
            if let Err(panic) = ended {
                tracing::error!(%panic, "a service died");
            }
        }
    }

    /// Waits until the results of an ended run and everything below it have arrived: a record that
    /// still owes a delivery cannot be removed. Places outside may take longer than anybody wants to
    /// wait.
    async fn wait_for_deliveries(&self, run: RunId) -> Result<(), RuntimeError> {
        let mut notifications = self.subscribe();
        for _ in 0..MAX_LOOKS_FOR_DELIVERY {
            let tree = self.tree_of(run).await?;
            let Some(owes) = tree.iter().find(|it| it.delivery == Delivery::Pending) else {
                return Ok(());
            };
            wait_for_news(&mut notifications, owes.run_id, LOOK_FOR_DELIVERY).await;
        }
        Ok(())
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
            Err(RuntimeError::Refused(format!(
                "task {run} is still running; wait for it, or cancel it first"
            )))
        }
    }
}

/// Refuses a message that nobody can have meant.
pub(crate) fn check_message(text: &str) -> Result<(), RuntimeError> {
    if text.chars().count() > MAX_MESSAGE_CHARS {
        return Err(RuntimeError::Refused(format!(
            "the message has more than {MAX_MESSAGE_CHARS} characters; put the rest into a file, and \
             say where it is"
        )));
    }
    Ok(())
}

/// Returns at the next notification about `run`, or after `poll` in case one was missed.
async fn wait_for_news(
    notifications: &mut broadcast::Receiver<Notification>,
    run: RunId,
    poll: Duration,
) {
    let news = async {
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
        () = news => {}
        () = tokio::time::sleep(poll) => {}
    }
}

impl Shared {
    pub(crate) async fn cancel(
        &self,
        run: RunId,
        cancellation: Cancellation,
    ) -> StoreResult<CancelReport> {
        let report = self
            .store
            .cancel(run, cancellation.clone(), self.clock.now())
            .await?;
        if report.signalled.contains(&run) {
            // Its descendants are told below that it ended; it has a word of its own.
            self.live
                .signal(run, |signals| signals.cancel = Some(cancellation));
        }
        self.ended(EndReport {
            ended: report.ended.clone(),
            signalled: report.signalled.clone(),
        });
        // Runs that the store ended had no executor; a crash may have left their commands running.
        // One that had ended before is looked at, too: the process may have died at this point.
        let ended = report.ended.iter().map(|ended| ended.run);
        let before = report.already_ended.is_some().then_some(run);
        self.stop_leftovers(ended.chain(before).collect()).await;
        Ok(report)
    }

    pub(crate) async fn steer(&self, run: RunId, item: InboxItem) -> StoreResult<()> {
        self.store.send(run, item, self.clock.now()).await?;
        self.live.signal(run, |signals| signals.inbox = true);
        self.hint.notify_one();
        Ok(())
    }

    /// Tells the world what ended, and stops what has to be stopped because of it.
    pub(crate) fn ended(&self, report: EndReport) {
        if report == EndReport::default() {
            return;
        }
        for run in report.signalled {
            // The intent is durable in the store; this only makes it quick.
            self.live.signal(run, |signals| {
                signals.cancel.get_or_insert_with(|| Cancellation {
                    by: CancelledBy::ParentEnded,
                    reason: "its parent ended".to_owned(),
                });
            });
        }
        for ended in report.ended {
            self.publish(Notification {
                task_id: ended.run,
                session_id: ended.session,
                root_id: ended.root,
                parent_id: ended.parent,
                tenant: ended.tenant,
                seq: ended.head,
                at: self.clock.now(),
                kind: ended_kind(&ended.outcome),
            });
        }
        self.hint.notify_one();
        self.outside_hint.notify_one();
    }

    pub(crate) fn notify(&self, run: RunId, spec: &RunSpec, seq: Seq, kind: NotificationKind) {
        self.publish(Notification {
            task_id: run,
            session_id: spec.session.clone(),
            root_id: spec.root,
            parent_id: spec.parent.as_ref().map(|parent| parent.run),
            tenant: spec.tenant.clone(),
            seq,
            at: self.clock.now(),
            kind,
        });
    }

    pub(crate) fn publish(&self, notification: Notification) {
        // An error means that nobody listens, which is nobody's loss.
        self.notifications.send(notification.truncated()).ok();
    }

    pub(crate) fn delta(&self, run: RunId, text: &str) {
        if self.deltas.receiver_count() > 0 {
            // As above: nobody listens any more.
            self.deltas.send((run, text.into())).ok();
        }
    }

    pub(crate) fn lease_until(&self) -> Timestamp {
        self.clock
            .now()
            .plus_ms(millis(self.planner.settings.lease))
    }

    /// Slots for children that are free right now, as far as this process can tell. The caller
    /// itself is under way too, in the main lane as a rule.
    pub(crate) fn free_slots(&self) -> u32 {
        let busy = u32::try_from(self.live.count().saturating_sub(1)).unwrap_or(u32::MAX);
        let lanes = self.planner.settings.lanes;
        let limit = lanes.subagent.min(lanes.per_tree).min(lanes.per_parent);
        limit.saturating_sub(busy)
    }

    pub(crate) const fn settings_lang(&self) -> Lang {
        self.planner.settings.lang
    }

    pub(crate) fn store_failed(&self, doing: &str, error: &StoreError) {
        tracing::error!(doing, error = %sortie_core::with_causes(error), "the store failed");
    }
}

fn ended_kind(outcome: &Outcome) -> NotificationKind {
    let error = outcome.error().unwrap_or_default();
    match outcome {
        Outcome::Completed { text } => NotificationKind::Completed {
            result: text.clone(),
        },
        Outcome::Failed { .. } => NotificationKind::Failed { error },
        Outcome::Timeout { .. } => NotificationKind::Timeout { error },
        Outcome::Cancelled { .. } => NotificationKind::Cancelled { error },
    }
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
