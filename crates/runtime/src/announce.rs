//! Delivers announcements. Takes no input but the outbox, so start-up and normal operation are the
//! same path.
//!
//! Inside the store an announcement moves exactly once to the inbox of its parent, or of a turn of its
//! session if the parent's turn has ended. Outside it is sent at
//! least once, always with the same key. A delivery that is given up is visible as `blocked`, never
//! silent.

use std::collections::BTreeSet;
use std::sync::Arc;

use sortie_core::id::RunId;
use sortie_core::inbox::OutboxEntry;
use sortie_core::notification::{Notification, NotificationKind};
use sortie_core::ports::store::{Delivered, DeliveryAttempt, Receipt, StoreResult};
use sortie_core::run::{Cleanup, Delivery};
use sortie_core::time::Timestamp;

use crate::crash::{self, Point};
use crate::engine::Engine;
use crate::sinks::Sink;

/// The wait after the first failed delivery to a sink; it doubles with each further one.
const FIRST_RETRY_MS: i64 = 1_000;
/// The longest wait between two deliveries to a sink.
const LONGEST_RETRY_MS: i64 = 10 * 60 * 1_000;

/// Moves due announcements to the inboxes of their parents.
pub(crate) async fn deliver_due(engine: &Engine) -> StoreResult<()> {
    if crash::outbox_is_broken() {
        return Ok(());
    }
    let mut receivers = BTreeSet::new();
    for delivered in engine.store.deliver(engine.clock.now()).await? {
        crash::point(Point::AfterDeliver);
        receivers.extend(publish_delivery(engine, delivered));
    }
    // A receiver that was parked waits for a slot now.
    for run in receivers {
        engine.publisher.record_changed(run).await;
    }
    Ok(())
}

/// Publishes a delivery and wakes its receiver, which is returned.
fn publish_delivery(engine: &Engine, delivered: Delivered) -> Option<RunId> {
    let mut receiver = None;
    let delivery = match delivered.receipt {
        Receipt::Accepted { by } => {
            engine
                .active_runs
                .signal(by, |signals| signals.inbox = true);
            engine.wakeups.scheduler.notify_one();
            receiver = Some(by);
            engine.transcript_is_due(delivered.cleanup);
            Delivery::Delivered
        }
        Receipt::Waiting => {
            engine.wakeups.sessions.notify_one();
            Delivery::Pending
        }
        Receipt::Blocked => Delivery::Blocked,
    };
    engine.publisher.publish(Notification {
        task_id: delivered.announcement.child,
        session_id: delivered.session,
        root_id: delivered.root,
        parent_id: delivered.parent,
        tenant: delivered.tenant,
        seq: delivered.head,
        at: engine.clock.now(),
        kind: NotificationKind::Delivery { delivery },
    });
    receiver
}

/// Sends due announcements to sinks.
pub(crate) async fn deliver_outside(engine: &Engine, sinks: &[Arc<dyn Sink>]) -> StoreResult<()> {
    for entry in engine.store.due_outside(engine.clock.now()).await? {
        let attempt = send(engine, sinks, &entry).await;
        crash::point(Point::AfterSink);
        engine.store.record_attempt(entry.id, attempt).await?;
        // The announcement does not say whether its run keeps its transcript.
        engine.transcript_is_due(Cleanup::Delete);
        engine
            .publisher
            .delivery_changed(entry.announcement.child)
            .await;
    }
    Ok(())
}

async fn send(engine: &Engine, sinks: &[Arc<dyn Sink>], entry: &OutboxEntry) -> DeliveryAttempt {
    let Some(sink) = sinks.iter().find(|sink| sink.scheme() == entry.sink.scheme) else {
        return DeliveryAttempt::Blocked {
            error: format!("no sink is registered for the scheme {}", entry.sink.scheme),
        };
    };
    let key = entry.announcement.child.to_string();
    match sink
        .send(&entry.sink.target, &key, &entry.announcement)
        .await
    {
        Ok(()) => DeliveryAttempt::Delivered,
        Err(error) if entry.attempts + 1 >= engine.settings().max_delivery_attempts => {
            DeliveryAttempt::Blocked {
                error: sortie_core::error::with_causes(&error),
            }
        }
        Err(error) => DeliveryAttempt::Retry {
            at: retry_at(engine.clock.now(), entry.attempts),
            error: sortie_core::error::with_causes(&error),
        },
    }
}

fn retry_at(now: Timestamp, attempts: u32) -> Timestamp {
    let wait = FIRST_RETRY_MS
        .saturating_mul(1 << attempts.min(20))
        .min(LONGEST_RETRY_MS);
    now.plus_ms(wait)
}
