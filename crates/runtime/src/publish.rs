//! Live events for subscribers. They are hints: the records are the truth.

use std::sync::Arc;

use sortie_core::id::{RunId, Seq};
use sortie_core::notification::{Notification, NotificationKind};
use sortie_core::ports::store::{Ended, RunRef, Store};
use sortie_core::run::{Outcome, RunRecord, RunSpec};
use sortie_core::time::Clock;
use tokio::sync::broadcast;

use crate::engine::store_failed;

/// Notifications that are kept for a slow subscriber before it misses some.
const NOTIFICATIONS_KEPT: usize = 4096;
/// Pieces of text that are kept for a slow subscriber before it misses some.
const DELTAS_KEPT: usize = 1024;

/// Publishes what happens to runs, and what models write, to every subscriber.
#[derive(Debug)]
pub(crate) struct Publisher {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    notifications: broadcast::Sender<Notification>,
    deltas: broadcast::Sender<(RunId, Arc<str>)>,
}

impl Publisher {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            clock,
            notifications: broadcast::Sender::new(NOTIFICATIONS_KEPT),
            deltas: broadcast::Sender::new(DELTAS_KEPT),
        }
    }

    /// Subscribes to notifications from now on. A subscriber that misses some reads the records.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Notification> {
        self.notifications.subscribe()
    }

    /// Subscribes to the text that models write, as it arrives.
    pub(crate) fn subscribe_text(&self) -> broadcast::Receiver<(RunId, Arc<str>)> {
        self.deltas.subscribe()
    }

    pub(crate) fn publish(&self, notification: Notification) {
        // An error means that there is no subscriber.
        self.notifications.send(notification.truncated()).ok();
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

    pub(crate) fn delta(&self, run: RunId, text: &str) {
        if self.deltas.receiver_count() > 0 {
            // As above.
            self.deltas.send((run, text.into())).ok();
        }
    }

    /// Publishes that a run was admitted.
    pub(crate) fn admitted(&self, run: RunId, spec: &RunSpec) {
        let kind = NotificationKind::Queued {
            agent: spec.agent.name.clone(),
            label: spec.label.clone(),
        };
        self.notify(run, spec, Seq(1), kind);
    }

    /// Publishes that a run ended.
    pub(crate) fn ended(&self, ended: Ended) {
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

    /// Publishes an event of a run that is made from its record.
    pub(crate) async fn publish_record(
        &self,
        run: RunId,
        kind: impl FnOnce(&RunRecord) -> NotificationKind,
    ) {
        match self.store.get(run).await {
            Ok(record) => {
                let kind = kind(&record);
                self.publish(Notification {
                    task_id: run,
                    session_id: record.session,
                    root_id: record.root,
                    parent_id: record.parent,
                    tenant: record.tenant,
                    seq: record.head,
                    at: self.clock.now(),
                    kind,
                });
            }
            Err(error) => store_failed("publish a change", &error),
        }
    }

    /// Publishes that a record changed, where no other event tells more.
    pub(crate) async fn record_changed(&self, run: RunId) {
        self.publish_record(run, |record| NotificationKind::Changed {
            waiting_on: record.summary.waiting_on,
        })
        .await;
    }

    /// Publishes the delivery state of a run.
    pub(crate) async fn delivery_changed(&self, run: RunId) {
        self.publish_record(run, |record| NotificationKind::Delivery {
            delivery: record.delivery,
        })
        .await;
    }

    /// Publishes that a run is paused, unless it was resumed meanwhile.
    pub(crate) async fn paused(&self, run: RunId) {
        self.publish_record(run, |record| {
            if record.paused {
                NotificationKind::Paused
            } else {
                NotificationKind::Changed {
                    waiting_on: record.summary.waiting_on,
                }
            }
        })
        .await;
    }

    /// Publishes that records were deleted.
    pub(crate) fn deleted(&self, removed: Vec<RunRef>) {
        for about in removed {
            self.publish_about(about, NotificationKind::Deleted);
        }
    }

    /// Publishes an event of a run that the store has described.
    pub(crate) fn publish_about(&self, about: RunRef, kind: NotificationKind) {
        self.publish(Notification {
            task_id: about.run,
            session_id: about.session,
            root_id: about.root,
            parent_id: about.parent,
            tenant: about.tenant,
            seq: about.head,
            at: self.clock.now(),
            kind,
        });
    }
}

pub(crate) fn ended_kind(outcome: &Outcome) -> NotificationKind {
    let error = outcome.error().unwrap_or_default();
    match outcome {
        Outcome::Completed { text, .. } => NotificationKind::Completed {
            result: text.clone(),
        },
        Outcome::Failed { .. } => NotificationKind::Failed { error },
        Outcome::Timeout { .. } => NotificationKind::Timeout { error },
        Outcome::Cancelled { .. } => NotificationKind::Cancelled { error },
    }
}
