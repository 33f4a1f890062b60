//! The task that subscribes to the runtime.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use sortie_core::id::RunId;
use sortie_core::notification::{Notification, NotificationKind};
use sortie_core::ports::store::ListFilter;
use sortie_core::run::RunRecord;
use sortie_protocol::Task;
use sortie_runtime::Runtime;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::Instant;

use super::frame::{Frame, Source};
use super::{Hub, TEXTS_KEPT};

/// Changed records are read this long after the first of them changed: an event may be ahead of the
/// store, and several changes of one record become one message.
const READ_DELAY: Duration = Duration::from_millis(250);
/// The pause after a failed read.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The number of records read at once.
const BATCH: usize = 500;
/// The number of changed records that are remembered while no client listens. Beyond that they are
/// dropped, and returning clients get a snapshot.
const MAX_CHANGED: usize = 10_000;
/// The number of runs whose session, tree and tenant are remembered for streamed text.
const MAX_SOURCES: usize = 10_000;

pub(super) struct HubPublisher {
    hub: Hub,
    runtime: Arc<Runtime>,
    notifications: broadcast::Receiver<Notification>,
    /// The text of completions, while a client subscribes to it.
    deltas: Option<broadcast::Receiver<(RunId, Arc<str>)>>,
    changed: BTreeSet<RunId>,
    /// When the changed records are read.
    due: Option<Instant>,
    sources: HashMap<RunId, Source>,
}

enum Input {
    Notification(Result<Notification, RecvError>),
    Delta(Result<(RunId, Arc<str>), RecvError>),
    RecordsDue,
    ListenerJoined,
    TextWanted,
}

impl HubPublisher {
    pub(super) fn new(
        hub: Hub,
        runtime: Arc<Runtime>,
        notifications: broadcast::Receiver<Notification>,
    ) -> Self {
        Self {
            hub,
            runtime,
            notifications,
            deltas: None,
            changed: BTreeSet::new(),
            due: None,
            sources: HashMap::new(),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            match self.next().await {
                Input::Notification(Ok(notification)) => {
                    self.publish_pending_text().await;
                    self.handle(notification);
                }
                Input::Notification(Err(RecvError::Lagged(missed))) => self.missed(missed),
                Input::Notification(Err(RecvError::Closed)) => return,
                Input::Delta(Ok((run, text))) => self.publish_text(run, &text).await,
                // The record has the text of lost pieces later.
                Input::Delta(Err(RecvError::Lagged(_))) => {}
                Input::Delta(Err(RecvError::Closed)) => self.deltas = None,
                Input::RecordsDue => self.publish_records().await,
                Input::ListenerJoined => self.plan(),
                Input::TextWanted => {
                    if self.deltas.is_none() {
                        self.deltas = Some(self.runtime.subscribe_text());
                    }
                }
            }
        }
    }

    async fn next(&mut self) -> Input {
        let due = self.due;
        let records_due = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let delta = async {
            match &mut self.deltas {
                Some(deltas) => deltas.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            notification = self.notifications.recv() => Input::Notification(notification),
            () = records_due => Input::RecordsDue,
            delta = delta => Input::Delta(delta),
            () = self.hub.0.text_wanted.notified() => Input::TextWanted,
            () = self.hub.0.listener_joined.notified() => Input::ListenerJoined,
        }
    }

    fn handle(&mut self, notification: Notification) {
        let run = notification.task_id;
        let is_deleted = matches!(notification.kind, NotificationKind::Deleted);
        if is_deleted || notification.kind.is_end() {
            self.sources.remove(&run);
        }
        if is_deleted {
            self.changed.remove(&run);
        } else {
            self.mark(run);
        }
        if !notification.kind.is_internal() {
            self.hub.publish(|seq| Frame::event(seq, notification));
        }
    }

    fn mark(&mut self, run: RunId) {
        if self.changed.len() >= MAX_CHANGED && !self.changed.contains(&run) {
            self.reset();
        }
        self.changed.insert(run);
        self.plan();
    }

    /// Schedules the read of changed records; never while no client listens.
    fn plan(&mut self) {
        if self.due.is_none() && !self.changed.is_empty() && self.has_listeners() {
            self.due = Some(Instant::now() + READ_DELAY);
        }
    }

    fn has_listeners(&self) -> bool {
        self.hub.0.event_added.receiver_count() > 0
    }

    /// Handles events that this task was too slow for: the records have their effect.
    fn missed(&mut self, missed: u64) {
        tracing::warn!(missed, "the hub fell behind; clients get snapshots");
        self.reset();
    }

    /// Makes every client, present or returning, start with a snapshot.
    fn reset(&mut self) {
        self.changed.clear();
        self.due = None;
        self.hub.reset();
    }

    async fn publish_records(&mut self) {
        self.due = None;
        let runs: Vec<RunId> = self.changed.iter().take(BATCH).copied().collect();
        let filter = ListFilter {
            runs: runs.clone(),
            archived: true,
            ..ListFilter::default()
        };
        let records = match self.runtime.list(filter).await {
            Ok(records) => records,
            Err(error) => {
                // They stay marked and are read after a pause.
                self.due = Some(Instant::now() + RETRY_PAUSE);
                tracing::error!(error = %sortie_core::error::with_causes(&error), "cannot read changed records");
                return;
            }
        };
        for run in &runs {
            self.changed.remove(run);
        }
        if !self.changed.is_empty() {
            self.due = Some(Instant::now());
        }
        for (source, tasks) in by_tree(&records) {
            self.hub.publish(|seq| Frame::records(seq, source, tasks));
        }
    }

    /// Publishes the text that a run streamed before its next event, so that clients get them in
    /// order.
    async fn publish_pending_text(&mut self) {
        for _ in 0..TEXTS_KEPT {
            match self.deltas.as_mut().map(broadcast::Receiver::try_recv) {
                Some(Ok((run, text))) => self.publish_text(run, &text).await,
                // The record has the text of lost pieces later.
                Some(Err(TryRecvError::Lagged(_))) => {}
                Some(Err(TryRecvError::Empty | TryRecvError::Closed)) | None => return,
            }
        }
    }

    async fn publish_text(&mut self, run: RunId, text: &str) {
        if self.hub.0.texts.receiver_count() == 0 {
            self.deltas = None;
            return;
        }
        let Some(source) = self.source(run).await else {
            return;
        };
        self.hub.publish_text(Frame::text(run, source, text));
    }

    async fn source(&mut self, run: RunId) -> Option<Source> {
        if let Some(source) = self.sources.get(&run) {
            return Some(source.clone());
        }
        let record = match self.runtime.get(run).await {
            Ok(record) => record,
            Err(error) => {
                tracing::debug!(error = %sortie_core::error::with_causes(&error), "cannot find the run of a streamed text");
                return None;
            }
        };
        if self.sources.len() >= MAX_SOURCES {
            self.sources.clear();
        }
        let source = Source::of(&record);
        self.sources.insert(run, source.clone());
        Some(source)
    }
}

/// Groups records by tree: the records of one tree share everything that clients filter by.
fn by_tree(records: &[RunRecord]) -> Vec<(Source, Vec<Task>)> {
    let mut trees: BTreeMap<RunId, (Source, Vec<Task>)> = BTreeMap::new();
    for record in records {
        let (_, tasks) = trees
            .entry(record.root)
            .or_insert_with(|| (Source::of(record), Vec::new()));
        tasks.push(Task::from(record).summary());
    }
    trees.into_values().collect()
}
