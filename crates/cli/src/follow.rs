//! Waits for runs: shows progress while they execute, and handles signals.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sortie_base::hidden::write_out_line;
use sortie_core::id::RunId;
use sortie_core::notification::{Notification, NotificationKind};
use sortie_core::ports::store::{ListFilter, Replied};
use sortie_core::request::{OpenRequest, Reply, RequestFilter, RequestId};
use sortie_core::run::{Delivery, RunRecord, Status, WaitingOn};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_text::t;
use tokio::time::Instant;

use crate::approval::replied_elsewhere;
use crate::colors::Colors;
use crate::engine::{Engine, Feed, FeedItem};
use crate::ids::short_label;
use crate::output;
use crate::person::{Answer, Person};
use crate::problem::Problem;
use crate::progress::Progress;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::signals::{Signal, Signals};

/// How often lines that change with time are redrawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);
/// How often the store is read in case an event was lost.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long deliveries to external destinations may take once every run has ended. The next process
/// retries a delivery that takes longer.
const DELIVERY_GRACE: Duration = Duration::from_secs(5);

/// How long a server that is gone is waited for, in case it is being restarted.
const RETURN_GRACE: Duration = Duration::from_secs(5);

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// A run, its descendants, and its delivery.
    Tree(RunId),
    /// These runs and their descendants. Another command started them: Ctrl-C only stops waiting.
    Others(BTreeSet<RunId>),
    Everything,
}

/// Reason why the waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    Ended,
    /// The runs ended because the user cancelled them.
    Cancelled,
    /// The user does not want to wait for the cancellation either.
    Abandoned,
    /// The process has to terminate.
    Terminated,
    /// The server that executed the runs is gone.
    ServerGone,
}

/// Whether events are also written to stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// They are not written.
    Off,
    /// One line of JSON each.
    JsonLines,
}

/// Follows runs until they have ended or a signal arrives.
#[derive(Debug)]
pub(crate) struct Follow<'a> {
    settings: &'a Settings,
    screen: &'a Screen,
    engine: &'a Engine,
    progress: Progress,
    goal: Goal,
    stream: Stream,
    cancelled: bool,
    prompts: OpenPrompts,
    /// Whether the root of the tree that is waited for has ended.
    root_ended: bool,
    /// When only deliveries were left.
    ended_at: Option<Instant>,
    /// Since when no process has held the lock of the store.
    gone_at: Option<Instant>,
    /// Whether everything was paused at the last look.
    paused: PauseSeen,
}

/// What was seen of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseSeen {
    /// Nothing was read yet.
    Unknown,
    /// Something is executed.
    No,
    /// Everything was paused before this process looked.
    Before,
    /// Another terminal has paused what this process executes, and can resume it.
    Meanwhile,
}

/// The requests that the user at the terminal is asked about.
#[derive(Debug)]
struct OpenPrompts {
    person: Option<Person>,
    shown: BTreeSet<RequestId>,
}

impl OpenPrompts {
    /// Returns the next answer; never, if there is no terminal.
    async fn next(&mut self) -> Answer {
        match &mut self.person {
            Some(person) => person.next().await,
            None => std::future::pending().await,
        }
    }
}

impl<'a> Follow<'a> {
    /// Prepares to follow. Runs that ended before `since` are not shown.
    pub(crate) fn new(
        settings: &'a Settings,
        screen: &'a Arc<Screen>,
        engine: &'a Engine,
        goal: Goal,
        stream: Stream,
        since: Timestamp,
    ) -> Self {
        let colors = Colors::of(engine.agents());
        Self {
            settings,
            screen,
            engine,
            progress: Progress::new(settings.lang, Arc::clone(screen), colors, since),
            goal,
            stream,
            cancelled: false,
            prompts: OpenPrompts {
                person: Person::at(settings, screen),
                shown: BTreeSet::new(),
            },
            root_ended: false,
            ended_at: None,
            gone_at: None,
            paused: PauseSeen::Unknown,
        }
    }

    /// Follows the runs. `events` was subscribed to before they were created.
    pub(crate) async fn until_ended(
        mut self,
        events: &mut Feed,
        signals: &mut Signals,
    ) -> Result<Stopped, Problem> {
        let mut next_look = Instant::now();
        loop {
            if Instant::now() >= next_look {
                if self.look().await? {
                    return self.ended(events).await;
                }
                if self.is_gone() {
                    return Ok(Stopped::ServerGone);
                }
                next_look = Instant::now() + LOOK_INTERVAL;
            }
            self.progress.draw(self.engine.now());
            let next_draw = Instant::now() + self.pause();
            tokio::select! {
                biased;
                signal = signals.next() => {
                    if let Some(stopped) = self.signalled(signal, signals).await? {
                        return Ok(stopped);
                    }
                    next_look = Instant::now();
                }
                item = events.next() => {
                    if self.receive(item).await? {
                        next_look = Instant::now();
                    }
                }
                answer = self.prompts.next() => {
                    if let Some(stopped) = self.answered(answer, signals).await? {
                        return Ok(stopped);
                    }
                }
                () = tokio::time::sleep_until(next_draw.min(next_look)) => {}
            }
        }
    }

    fn pause(&self) -> Duration {
        if self.screen.is_live() {
            DRAW_INTERVAL
        } else {
            LOOK_INTERVAL
        }
    }

    /// Asks the user about every open request that was not asked yet.
    async fn show_requests(&mut self) -> Result<(), Problem> {
        // A command that only waits for runs of another command does not ask about them. Without a
        // terminal, only a server can wait for an approver elsewhere.
        let waits_elsewhere = self.engine.runtime().is_none();
        if matches!(self.goal, Goal::Others(_))
            || (self.prompts.person.is_none() && !waits_elsewhere)
        {
            return Ok(());
        }
        let open = self.engine.requests(RequestFilter::default()).await?;
        self.withdraw(&open).await?;
        for request in open {
            let is_new = self.is_goal(request.root_id)
                && self.prompts.shown.insert(request.request.id.clone());
            if !is_new {
                continue;
            }
            match &mut self.prompts.person {
                Some(person) => person.enqueue(request),
                None => self.screen.line(&t!(
                    self.settings.lang,
                    "asked-elsewhere",
                    agent = write_out_line(&request.agent),
                    label = short_label(&request.label),
                    id = request.request.id.as_str()
                )),
            }
        }
        Ok(())
    }

    /// Withdraws prompts whose requests are no longer open, and shows who replied.
    async fn withdraw(&mut self, open: &[OpenRequest]) -> Result<(), Problem> {
        let Some(person) = &mut self.prompts.person else {
            return Ok(());
        };
        for (request, run) in person.pending() {
            if open.iter().any(|open| open.request.id == request) {
                continue;
            }
            let reason = replied(self.engine, self.settings.lang, &request, run).await?;
            person.withdraw(&request, &reason);
        }
        Ok(())
    }

    /// Sends an answer. A signal interrupts the sending: the client waits up to a minute for a server
    /// that is away.
    async fn answered(
        &mut self,
        answer: Answer,
        signals: &mut Signals,
    ) -> Result<Option<Stopped>, Problem> {
        let sent = match answer {
            Answer::Reply(request, reply) => {
                let sent = tokio::select! {
                    biased;
                    signal = signals.next() => Err(signal),
                    sent = self.reply(&request, reply) => Ok(sent),
                };
                match sent {
                    Ok(sent) => sent,
                    Err(signal) => {
                        // If the reply did not arrive and the request stays open, the user is asked again.
                        self.prompts.shown.remove(&request);
                        return self.signalled(signal, signals).await;
                    }
                }
            }
            Answer::None => Ok(()),
        };
        if let Some(person) = &mut self.prompts.person {
            person.show_next();
        }
        sent.map(|()| None)
    }

    async fn reply(&mut self, request: &RequestId, reply: Reply) -> Result<(), Problem> {
        match self.engine.reply(request, reply).await {
            Ok(Replied::Accepted { .. }) => Ok(()),
            Ok(Replied::TooLate { earlier }) => {
                let at = self.replied_at(request).await?;
                let reason = replied_elsewhere(self.settings.lang, earlier.as_ref(), at);
                if let Some(person) = &self.prompts.person {
                    person.report_late(&reason);
                }
                Ok(())
            }
            // The server is away for a moment: the user is asked again.
            Err(Problem::Server(error)) if error.is_transient() => {
                let problem = error.to_string();
                let words = t!(self.settings.lang, "reply-not-sent", problem = problem);
                self.screen.line(&words);
                self.prompts.shown.remove(request);
                Ok(())
            }
            Err(problem) => Err(problem),
        }
    }

    async fn replied_at(&self, request: &RequestId) -> Result<Option<Timestamp>, Problem> {
        let all = RequestFilter {
            replied: true,
            ..RequestFilter::default()
        };
        let known = self.engine.requests(all).await?;
        let known = known.iter().find(|known| known.request.id == *request);
        Ok(known.and_then(|known| known.replied_at))
    }

    async fn signalled(
        &mut self,
        signal: Signal,
        signals: &mut Signals,
    ) -> Result<Option<Stopped>, Problem> {
        match signal {
            Signal::Terminate => Ok(Some(Stopped::Terminated)),
            Signal::Interrupt if matches!(self.goal, Goal::Others(_)) => {
                Ok(Some(Stopped::Terminated))
            }
            Signal::Interrupt if self.cancelled => Ok(Some(Stopped::Abandoned)),
            Signal::Interrupt => {
                self.cancelled = true;
                self.screen.line(&t!(self.settings.lang, "stopping"));
                // A second signal ends the command, also while the server is away.
                tokio::select! {
                    biased;
                    signal = signals.next() => Ok(Some(match signal {
                        Signal::Interrupt => Stopped::Abandoned,
                        Signal::Terminate => Stopped::Terminated,
                    })),
                    cancelled = self.cancel() => cancelled.map(|()| None),
                }
            }
        }
    }

    /// Cancels what is waited for, durably and with all descendants.
    async fn cancel(&self) -> Result<(), Problem> {
        let reason = t!(self.settings.lang, "cancel-reason-interrupt");
        let roots = match &self.goal {
            Goal::Tree(root) => vec![*root],
            Goal::Others(_) => Vec::new(),
            Goal::Everything => {
                let mut roots: Vec<RunId> =
                    self.active().await?.iter().map(|run| run.root).collect();
                roots.sort_unstable();
                roots.dedup();
                roots
            }
        };
        for root in roots {
            self.engine.cancel(root, &reason).await?;
        }
        Ok(())
    }

    /// Handles an item of the feed. Returns whether the store should be read now.
    async fn receive(&mut self, item: FeedItem) -> Result<bool, Problem> {
        match item {
            FeedItem::Event(notification) => self.event(&notification).await,
            FeedItem::Text { .. } => Ok(false),
            FeedItem::Missed(missed) => {
                self.missed(missed)?;
                Ok(true)
            }
            // The runtime is gone; the store has the records.
            FeedItem::Closed => {
                tokio::time::sleep(LOOK_INTERVAL).await;
                Ok(true)
            }
        }
    }

    /// Writes that lines of the stream are missing.
    fn missed(&self, count: Option<u64>) -> Result<(), Problem> {
        match self.stream {
            Stream::JsonLines => output::json_line(&json!({"type": "missed", "count": count})),
            Stream::Off => Ok(()),
        }
    }

    async fn event(&mut self, notification: &Notification) -> Result<bool, Problem> {
        if !self.is_goal(notification.root_id) {
            return Ok(false);
        }
        if self.stream == Stream::JsonLines && !notification.kind.is_internal() {
            output::json_line(notification)?;
        }
        if self.progress.event(notification) {
            let record = self.engine.get(notification.task_id).await?;
            self.progress.record(&record);
        }
        if let NotificationKind::Asked { .. } | NotificationKind::Replied { .. } = notification.kind
        {
            self.show_requests().await?;
        }
        Ok(may_be_the_last(&notification.kind) && self.may_be_over(notification.task_id))
    }

    /// Returns whether the end of this run may be the end of what is waited for. A tree does not end
    /// before its root: reading all its records at the end of each child would make the cost of many
    /// children quadratic.
    fn may_be_over(&mut self, ended: RunId) -> bool {
        match &self.goal {
            Goal::Tree(root) => {
                self.root_ended |= ended == *root;
                self.root_ended
            }
            Goal::Others(_) | Goal::Everything => true,
        }
    }

    /// Returns whether a tree is waited for.
    fn is_goal(&self, root: RunId) -> bool {
        match &self.goal {
            Goal::Tree(goal) => root == *goal,
            Goal::Others(goals) => goals.contains(&root),
            Goal::Everything => true,
        }
    }

    /// Returns whether the server is gone for good. A restarted server takes the lock of the store
    /// again soon.
    fn is_gone(&mut self) -> bool {
        if !self.engine.is_gone() {
            self.gone_at = None;
            return false;
        }
        let since = *self.gone_at.get_or_insert_with(Instant::now);
        since.elapsed() >= RETURN_GRACE
    }

    /// Reads the records. Returns whether there is nothing left to wait for.
    async fn look(&mut self) -> Result<bool, Problem> {
        let records = self.active().await?;
        for record in &records {
            self.progress.record(record);
        }
        // Only active runs are read: a tree without its root has an ended root.
        self.root_ended |= records.iter().all(|run| run.parent.is_some());
        self.record_missed(&records).await?;
        self.show_requests().await?;
        if !records.is_empty() && self.has_to_wait(&records) {
            self.ended_at = None;
            return Ok(false);
        }
        let since = *self.ended_at.get_or_insert_with(Instant::now);
        Ok(since.elapsed() >= DELIVERY_GRACE || !self.owes_delivery().await?)
    }

    /// Returns whether a delivery to an external destination is pending.
    async fn owes_delivery(&self) -> Result<bool, Problem> {
        match &self.goal {
            Goal::Tree(root) => Ok(owes(&self.engine.get(*root).await?)),
            Goal::Others(_) => Ok(false),
            Goal::Everything => Ok(self.engine.undelivered().await?.pending > 0),
        }
    }

    /// Shows the end of runs that have a line and are not among the records: their last event was
    /// lost.
    async fn record_missed(&mut self, records: &[RunRecord]) -> Result<(), Problem> {
        for run in self.progress.running_runs() {
            if records.iter().all(|record| record.run_id != run) {
                let record = self.engine.get(run).await?;
                self.progress.record(&record);
            }
        }
        Ok(())
    }

    /// Handles the events that have already arrived.
    async fn ended(mut self, events: &mut Feed) -> Result<Stopped, Problem> {
        while let Some(item) = events.try_next() {
            match item {
                FeedItem::Event(notification) => {
                    self.event(&notification).await?;
                }
                FeedItem::Text { .. } => {}
                FeedItem::Missed(missed) => self.missed(missed)?,
                FeedItem::Closed => break,
            }
        }
        self.screen.clear();
        Ok(if self.cancelled {
            Stopped::Cancelled
        } else {
            Stopped::Ended
        })
    }

    /// Returns the runs that have not ended, oldest first, so that lines appear in the order in
    /// which runs were started. Not those that have: a tree can have had thousands.
    async fn active(&self) -> Result<Vec<RunRecord>, Problem> {
        let filter = ListFilter {
            root: match &self.goal {
                Goal::Tree(root) => Some(*root),
                Goal::Others(_) | Goal::Everything => None,
            },
            statuses: vec![Status::Running, Status::Pending],
            oldest_first: true,
            ..ListFilter::default()
        };
        let mut records = self.engine.list(filter).await?;
        records.retain(|run| self.is_goal(run.root));
        Ok(records)
    }

    /// Returns whether these runs can end while this process waits. What was paused before it started
    /// is left alone; what another terminal pauses meanwhile can be resumed from there.
    fn has_to_wait(&mut self, records: &[RunRecord]) -> bool {
        let before = self.paused;
        self.paused = match (self.is_paused(records), before) {
            (false, _) => PauseSeen::No,
            (true, PauseSeen::Unknown | PauseSeen::Before) => PauseSeen::Before,
            (true, PauseSeen::No | PauseSeen::Meanwhile) => PauseSeen::Meanwhile,
        };
        if self.paused == PauseSeen::Meanwhile
            && before == PauseSeen::No
            && let Some(paused) = records.iter().find(|run| run.paused)
        {
            let words = t!(self.settings.lang, "run-paused", id = &paused.handle);
            self.screen.line(&words);
        }
        self.paused != PauseSeen::Before
    }

    /// Returns whether every remaining run is paused or waits for a paused one. A server executes
    /// other runs too, so its clients wait.
    fn is_paused(&self, records: &[RunRecord]) -> bool {
        let waits =
            |run: &RunRecord| run.paused || run.summary.waiting_on == Some(WaitingOn::Children);
        let mut left = records.iter().filter(|run| !run.status.is_terminal());
        self.engine.runtime().is_some()
            && records
                .iter()
                .any(|run| run.paused && !run.status.is_terminal())
            && left.all(waits)
    }
}

/// Returns who replied what to a request that is no longer open.
pub(crate) async fn replied(
    engine: &Engine,
    lang: Lang,
    request: &RequestId,
    run: RunId,
) -> Result<String, Problem> {
    let of_run = RequestFilter {
        replied: true,
        run: Some(run),
        ..RequestFilter::default()
    };
    let known = engine.requests(of_run).await?;
    let known = known.iter().find(|known| known.request.id == *request);
    Ok(replied_elsewhere(
        lang,
        known.and_then(|known| known.reply.as_ref()),
        known.and_then(|known| known.replied_at),
    ))
}

/// Returns whether a run has ended and its delivery is pending.
fn owes(record: &RunRecord) -> bool {
    record.status.is_terminal() && record.delivery == Delivery::Pending
}

const fn may_be_the_last(kind: &NotificationKind) -> bool {
    kind.is_end()
        || matches!(
            kind,
            NotificationKind::Delivery { .. } | NotificationKind::Deleted
        )
}
