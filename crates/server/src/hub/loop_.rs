//! The one task that hears the runtime.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use sortie_core::{ListFilter, Notification, NotificationKind, RunId, RunRecord};
use sortie_protocol::Task;
use sortie_runtime::Runtime;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::Instant;

use super::frame::{Frame, Place};
use super::{Hub, TEXTS_KEPT};

/// Changed records are read this long after the first of them changed: news may be a little ahead of
/// the store, and many changes of one record become one.
const TRAIL: Duration = Duration::from_millis(250);
/// After a failed read, before the next one.
const PAUSE: Duration = Duration::from_secs(1);
/// Records that are read at once.
const BATCH: usize = 500;
/// Changed records that are remembered while nobody listens. Beyond that they are forgotten, and
/// whoever comes back gets a snapshot.
const MAX_CHANGED: usize = 10_000;
/// Runs whose place is remembered, for text.
const MAX_PLACES: usize = 10_000;

pub(super) struct Loop {
    hub: Hub,
    runtime: Arc<Runtime>,
    notifications: broadcast::Receiver<Notification>,
    /// What models say, while somebody wants to hear it.
    deltas: Option<broadcast::Receiver<(RunId, Arc<str>)>>,
    changed: BTreeSet<RunId>,
    /// When the changed ones are read.
    due: Option<Instant>,
    places: HashMap<RunId, Place>,
}

enum News {
    Notification(Result<Notification, RecvError>),
    Delta(Result<(RunId, Arc<str>), RecvError>),
    RecordsDue,
    SomebodyCame,
    TextWanted,
}

impl Loop {
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
            places: HashMap::new(),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            match self.news().await {
                News::Notification(Ok(notification)) => {
                    self.say_what_came_before().await;
                    self.hear(notification);
                }
                News::Notification(Err(RecvError::Lagged(missed))) => self.missed(missed),
                News::Notification(Err(RecvError::Closed)) => return,
                News::Delta(Ok((run, text))) => self.say(run, &text).await,
                // Pieces that are missing are in the record later.
                News::Delta(Err(RecvError::Lagged(_))) => {}
                News::Delta(Err(RecvError::Closed)) => self.deltas = None,
                News::RecordsDue => self.tell_records().await,
                News::SomebodyCame => self.plan(),
                News::TextWanted => {
                    if self.deltas.is_none() {
                        self.deltas = Some(self.runtime.watch_text());
                    }
                }
            }
        }
    }

    async fn news(&mut self) -> News {
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
            notification = self.notifications.recv() => News::Notification(notification),
            () = records_due => News::RecordsDue,
            delta = delta => News::Delta(delta),
            () = self.hub.0.text_wanted.notified() => News::TextWanted,
            () = self.hub.0.somebody_came.notified() => News::SomebodyCame,
        }
    }

    fn hear(&mut self, notification: Notification) {
        let run = notification.task_id;
        match notification.kind {
            NotificationKind::Deleted => {
                self.places.remove(&run);
                self.changed.remove(&run);
            }
            NotificationKind::Completed { .. }
            | NotificationKind::Failed { .. }
            | NotificationKind::Timeout { .. }
            | NotificationKind::Cancelled { .. } => {
                self.places.remove(&run);
                self.mark(run);
            }
            NotificationKind::Queued { .. }
            | NotificationKind::Started { .. }
            | NotificationKind::Progress { .. }
            | NotificationKind::Tool { .. }
            | NotificationKind::Held { .. }
            | NotificationKind::Retrying { .. }
            | NotificationKind::Compacted { .. }
            | NotificationKind::Asked { .. }
            | NotificationKind::Replied { .. }
            | NotificationKind::BudgetLow { .. }
            | NotificationKind::Said { .. }
            | NotificationKind::Changed { .. }
            | NotificationKind::Paused
            | NotificationKind::Resumed
            | NotificationKind::Delivery { .. } => self.mark(run),
        }
        if !notification.kind.is_internal() {
            self.hub.publish(|seq| Frame::event(seq, notification));
        }
    }

    fn mark(&mut self, run: RunId) {
        if self.changed.len() >= MAX_CHANGED && !self.changed.contains(&run) {
            self.forget_the_past();
        }
        self.changed.insert(run);
        self.plan();
    }

    /// Sets when the records are read. While nobody listens that is never.
    fn plan(&mut self) {
        if self.due.is_none() && !self.changed.is_empty() && self.somebody_listens() {
            self.due = Some(Instant::now() + TRAIL);
        }
    }

    fn somebody_listens(&self) -> bool {
        self.hub.0.news.receiver_count() > 0
    }

    /// The runtime was faster than this task: what was missed is in the records.
    fn missed(&mut self, missed: u64) {
        tracing::warn!(missed, "the hub fell behind; clients get snapshots");
        self.forget_the_past();
    }

    /// Makes everybody, those who listen and those who come back, take a snapshot.
    fn forget_the_past(&mut self) {
        self.changed.clear();
        self.due = None;
        self.hub.start_over();
    }

    async fn tell_records(&mut self) {
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
                // They stay marked, and are read a little later.
                self.due = Some(Instant::now() + PAUSE);
                tracing::error!(error = %sortie_core::with_causes(&error), "records could not be read");
                return;
            }
        };
        for run in &runs {
            self.changed.remove(run);
        }
        if !self.changed.is_empty() {
            self.due = Some(Instant::now());
        }
        for (place, tasks) in by_tree(&records) {
            self.hub.publish(|seq| Frame::records(seq, place, tasks));
        }
    }

    /// What a run has said before it goes on, or ends, is told before that is.
    async fn say_what_came_before(&mut self) {
        for _ in 0..TEXTS_KEPT {
            match self.deltas.as_mut().map(broadcast::Receiver::try_recv) {
                Some(Ok((run, text))) => self.say(run, &text).await,
                // Pieces that are missing are in the record later.
                Some(Err(TryRecvError::Lagged(_))) => {}
                Some(Err(TryRecvError::Empty | TryRecvError::Closed)) | None => return,
            }
        }
    }

    async fn say(&mut self, run: RunId, text: &str) {
        if self.hub.0.texts.receiver_count() == 0 {
            self.deltas = None;
            return;
        }
        let Some(place) = self.place(run).await else {
            return;
        };
        self.hub.say(Frame::text(run, place, text));
    }

    async fn place(&mut self, run: RunId) -> Option<Place> {
        if let Some(place) = self.places.get(&run) {
            return Some(place.clone());
        }
        let record = match self.runtime.get(run).await {
            Ok(record) => record,
            Err(error) => {
                tracing::debug!(error = %sortie_core::with_causes(&error), "text of nobody");
                return None;
            }
        };
        if self.places.len() >= MAX_PLACES {
            self.places.clear();
        }
        let place = Place::of(&record);
        self.places.insert(run, place.clone());
        Some(place)
    }
}

/// Records of one tree go out together: they share everything that clients filter by.
fn by_tree(records: &[RunRecord]) -> Vec<(Place, Vec<Task>)> {
    let mut trees: BTreeMap<RunId, (Place, Vec<Task>)> = BTreeMap::new();
    for record in records {
        let (_, tasks) = trees
            .entry(record.root)
            .or_insert_with(|| (Place::of(record), Vec::new()));
        tasks.push(Task::from(record).summary());
    }
    trees.into_values().collect()
}
