//! How results arrive. Takes no input: reads the outbox, so start-up and noon are the same path.
//!
//! Inside the store an announcement moves to its parent's inbox exactly once. Outside it is sent at
//! least once, always with the same key. Giving up is visible as `blocked`, never silent.

use std::sync::Arc;

use sortie_core::{
    Delivered, Delivery, DeliveryAttempt, Notification, NotificationKind, OutboxEntry, StoreResult,
    Timestamp,
};

use crate::crash::{self, Point};
use crate::runtime::Shared;

/// The wait after the first failed delivery outside; it doubles with each further one.
const FIRST_RETRY_MS: i64 = 1_000;
/// The longest wait between two deliveries outside.
const LONGEST_RETRY_MS: i64 = 10 * 60 * 1_000;

/// Moves what is due to parents inside the store.
pub(crate) async fn deliver_due(shared: &Shared) -> StoreResult<()> {
    if crash::outbox_is_broken() {
        return Ok(());
    }
    for delivered in shared.store.deliver(shared.clock.now()).await? {
        crash::point(Point::AfterDeliver);
        tell(shared, delivered).await;
    }
    Ok(())
}

async fn tell(shared: &Shared, delivered: Delivered) {
    if delivered.accepted {
        shared
            .live
            .signal(delivered.parent, |signals| signals.inbox = true);
        shared.hint.notify_one();
        // One that was parked waits for a slot now.
        shared.record_changed(delivered.parent).await;
    }
    shared.publish(Notification {
        task_id: delivered.announcement.child,
        session_id: delivered.session,
        root_id: delivered.root,
        parent_id: Some(delivered.parent),
        tenant: delivered.tenant,
        seq: delivered.head,
        at: shared.clock.now(),
        kind: NotificationKind::Delivery {
            delivery: if delivered.accepted {
                Delivery::Delivered
            } else {
                Delivery::Blocked
            },
        },
    });
}

/// Sends what is due to places outside the store.
pub(crate) async fn deliver_outside(shared: &Arc<Shared>) -> StoreResult<()> {
    for entry in shared.store.due_outside(shared.clock.now()).await? {
        let settlement = send(shared, &entry).await;
        crash::point(Point::AfterSink);
        shared.store.record_attempt(entry.id, settlement).await?;
        shared.delivery_changed(entry.announcement.child).await;
    }
    Ok(())
}

async fn send(shared: &Shared, entry: &OutboxEntry) -> DeliveryAttempt {
    let Some(sink) = shared
        .sinks
        .iter()
        .find(|sink| sink.scheme() == entry.sink.scheme)
    else {
        return DeliveryAttempt::Blocked {
            error: format!("there is no sink for {}:", entry.sink.scheme),
        };
    };
    let key = entry.announcement.child.to_string();
    match sink
        .send(&entry.sink.target, &key, &entry.announcement)
        .await
    {
        Ok(()) => DeliveryAttempt::Delivered,
        Err(error) if entry.attempts + 1 >= shared.planner.settings.max_delivery_attempts => {
            DeliveryAttempt::Blocked {
                error: sortie_core::with_causes(&error),
            }
        }
        Err(error) => DeliveryAttempt::Retry {
            at: retry_at(shared.clock.now(), entry.attempts),
            error: sortie_core::with_causes(&error),
        },
    }
}

fn retry_at(now: Timestamp, attempts: u32) -> Timestamp {
    let wait = FIRST_RETRY_MS
        .saturating_mul(1 << attempts.min(20))
        .min(LONGEST_RETRY_MS);
    now.plus_ms(wait)
}
