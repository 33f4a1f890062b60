//! How the world hears that records changed. Hints: the records are the truth.

use sortie_core::{Notification, NotificationKind, RunId, RunRecord, RunRef};

use crate::runtime::Shared;

impl Shared {
    /// Tells of a run by what its record says.
    pub(crate) async fn tell(&self, run: RunId, kind: impl FnOnce(&RunRecord) -> NotificationKind) {
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
            Err(error) => self.store_failed("telling of a change", &error),
        }
    }

    /// Tells that something about a run changed that has no word of its own.
    pub(crate) async fn record_changed(&self, run: RunId) {
        self.tell(run, |record| NotificationKind::Changed {
            waiting_on: record.summary.waiting_on,
        })
        .await;
    }

    /// Tells how the delivery of a run stands.
    pub(crate) async fn delivery_changed(&self, run: RunId) {
        self.tell(run, |record| NotificationKind::Delivery {
            delivery: record.delivery,
        })
        .await;
    }

    /// Tells that a run has come to rest, unless it may go on by now.
    pub(crate) async fn rested(&self, run: RunId) {
        self.tell(run, |record| {
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

    /// Tells that records are gone.
    pub(crate) fn deleted(&self, removed: Vec<RunRef>) {
        for about in removed {
            self.about(about, NotificationKind::Deleted);
        }
    }

    /// Tells of a run that the store has told of.
    pub(crate) fn about(&self, about: RunRef, kind: NotificationKind) {
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
