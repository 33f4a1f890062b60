//! Follows what other processes do to a shared store: signals to the executors of this one, and
//! journal entries as notifications.
//!
//! Everything here is a hint that makes this process faster; leases, deadlines and queues in the
//! store are the truth. An entry is published once: this process publishes its own when it writes
//! them, and the feed contains only those of others.

use std::sync::Arc;
use std::time::Duration;

use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::RunId;
use sortie_core::inbox::InboxItem;
use sortie_core::message::Block;
use sortie_core::notification::NotificationKind;
use sortie_core::ports::store::{FeedEntry, FeedPlace, StoreResult};
use sortie_core::request::OpenRequest;
use sortie_core::request_view::RequestView;
use sortie_core::run::Delivery;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, store_failed};
use crate::publish::ended_kind;
use crate::scheduler::signal_executors;

/// How often the store is read: the longest that a cancellation takes to reach another process.
const INTERVAL: Duration = Duration::from_millis(250);

/// Follows the other processes until `stop`.
pub(crate) async fn follow(engine: Arc<Engine>, stop: CancellationToken) {
    let mut place = FeedPlace::default();
    loop {
        let wait = match look(&engine, &mut place).await {
            Ok(()) => INTERVAL,
            Err(error) => {
                store_failed("follow other processes", &error);
                engine.settings().poll_interval
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn look(engine: &Engine, place: &mut FeedPlace) -> StoreResult<()> {
    let fences = engine.active_runs.fences();
    if !fences.is_empty() {
        let report = engine.store.signals(fences.clone()).await?;
        signal_executors(engine, &fences, report);
    }
    loop {
        let feed = engine.store.feed(*place).await?;
        *place = feed.next;
        if feed.entries.is_empty() {
            return Ok(());
        }
        for entry in feed.entries {
            wake(engine, &entry.entry);
            publish(engine, entry).await;
        }
    }
}

/// Wakes the services of this process that the entry may concern.
fn wake(engine: &Engine, entry: &JournalEntry) {
    match entry.event {
        // A run may be claimable, or a slot of its tree may be free.
        Event::Admitted { .. } | Event::Resumed | Event::Updated { .. } => {
            engine.wakeups.scheduler.notify_one();
        }
        Event::Finished { .. } => {
            engine.wakeups.scheduler.notify_one();
            engine.wakeups.outside.notify_one();
            engine.wakeups.sessions.notify_one();
        }
        Event::Paused
        | Event::Claimed { .. }
        | Event::InboxTaken { .. }
        | Event::Answered { .. }
        | Event::ModelFailed { .. }
        | Event::Compacted { .. }
        | Event::Intended { .. }
        | Event::Asked { .. }
        | Event::Delegated { .. }
        | Event::ToolFinished { .. }
        | Event::BudgetLow { .. }
        | Event::BudgetSpent { .. }
        | Event::Isolated { .. }
        | Event::Collected { .. }
        | Event::Checked { .. } => {}
    }
}

/// Publishes the notifications of an entry, and that the record has changed.
async fn publish(engine: &Engine, feed: FeedEntry) {
    let about = feed.about.clone();
    for kind in kinds(engine, feed).await {
        engine.publisher.publish_about(about.clone(), kind);
    }
}

async fn kinds(engine: &Engine, feed: FeedEntry) -> Vec<NotificationKind> {
    let FeedEntry {
        entry,
        about,
        agent,
        label,
        depth,
        progress,
        tool_calls,
    } = feed;
    let changed = NotificationKind::Changed { waiting_on: None };
    match entry.event {
        Event::Admitted { .. } => vec![NotificationKind::Queued { agent, label }],
        Event::Claimed { epoch, .. } if epoch.0 == 1 => {
            vec![NotificationKind::Started { agent, label }]
        }
        Event::Answered { blocks, .. } => {
            let mut kinds = vec![changed];
            let calls = blocks.into_iter().filter_map(|block| match block {
                Block::Call(call) => Some(call.name),
                Block::Text { .. } | Block::Reasoning { .. } => None,
            });
            kinds.extend(calls.map(|tool| NotificationKind::Tool { tool, tool_calls }));
            kinds
        }
        Event::ToolFinished { .. } => vec![NotificationKind::Progress {
            progress,
            tool_calls,
        }],
        Event::Compacted {
            chars_before,
            chars_after,
            ..
        } => vec![NotificationKind::Compacted {
            chars_before,
            chars_after,
        }],
        Event::Asked { request, .. } => {
            let open = OpenRequest {
                request: *request,
                task_id: about.run,
                root_id: about.root,
                session_id: about.session,
                tenant: about.tenant,
                agent,
                label,
                depth,
                asked_at: entry.at,
                reply: None,
                replied_at: None,
            };
            vec![NotificationKind::Asked {
                request: Box::new(RequestView::from(&open).summary()),
            }]
        }
        Event::InboxTaken { items, .. } => {
            let mut kinds = vec![changed];
            for item in items {
                match item {
                    InboxItem::Reply { request, .. } => {
                        kinds.push(NotificationKind::Replied { request });
                    }
                    InboxItem::Announcement(announcement) => {
                        delivered(engine, announcement.child).await;
                    }
                    InboxItem::Steer { .. } | InboxItem::Question { .. } => {}
                }
            }
            kinds
        }
        Event::BudgetLow { balances } => vec![NotificationKind::BudgetLow { balances }],
        Event::Paused => vec![NotificationKind::Paused],
        Event::Resumed => vec![NotificationKind::Resumed],
        Event::Finished { outcome } => vec![ended_kind(&outcome)],
        Event::Claimed { .. }
        | Event::Updated { .. }
        | Event::ModelFailed { .. }
        | Event::Intended { .. }
        | Event::Delegated { .. }
        | Event::BudgetSpent { .. }
        | Event::Isolated { .. }
        | Event::Collected { .. }
        | Event::Checked { .. } => vec![changed],
    }
}

/// Publishes that the result of a child was delivered to the run that took it.
async fn delivered(engine: &Engine, child: RunId) {
    engine
        .publisher
        .publish_record(child, |_| NotificationKind::Delivery {
            delivery: Delivery::Delivered,
        })
        .await;
}
