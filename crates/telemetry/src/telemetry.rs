//! The service: subscribes to ended runs, reads their journals, sends their spans.
//!
//! The engine never waits for it: notifications are a broadcast, the queue contains ids
//! and not spans, and a journal is read only when the collector is ready. What does not fit
//! is dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sortie_core::id::{RunId, Seq};
use sortie_core::notification::Notification;
use sortie_core::ports::store::{Journal, StoreError};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::{Target, TelemetryConfig, TelemetryError};
use crate::fold;
use crate::otlp::{Collector, Sent};
use crate::span::Span;

/// Limit of queued runs. Ids only: 160 kB when full, and more than an hour of a busy
/// server without a collector.
const MAX_WAITING: usize = 10_000;
/// Spans of one request, unless a single run has more.
const SPANS_PER_REQUEST: usize = 512;
/// Limit of spans in one request: some 4 MB, which collectors accept by default.
const MAX_SPANS_PER_REQUEST: usize = 4_096;
/// The first wait after a failure. It doubles up to the limit below.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// Limit of attempts before the spans of a request are dropped: about a quarter of an hour.
const MAX_TRIES: u32 = 20;
/// Interval of log lines about a full queue.
const COMPLAIN_EVERY: u64 = 1_000;

/// Counters of the export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Spans that the collector accepted.
    pub spans: u64,
    /// Spans that the collector rejected, or that were dropped.
    pub dropped_spans: u64,
    /// Runs without spans: the queue was full, or the journal could not be read.
    pub dropped_runs: u64,
    /// Missed notifications, some of which may have been the end of a run.
    pub missed_notifications: u64,
}

/// A running export. It ends by [`Telemetry::stop`]; dropping it stops it at once.
#[derive(Debug)]
pub struct Telemetry {
    counts: Arc<Counts>,
    stopping: CancellationToken,
    listener: JoinHandle<()>,
    exporter: JoinHandle<()>,
}

impl Telemetry {
    /// Starts to export runs that end from now on. Call it inside a tokio runtime.
    pub fn start(
        config: &TelemetryConfig,
        notifications: broadcast::Receiver<Notification>,
        journals: Arc<dyn Journal>,
    ) -> Result<Self, TelemetryError> {
        let collector = Collector::new(Target::parse(config)?)?;
        let counts = Arc::new(Counts::default());
        let stopping = CancellationToken::new();
        let (sender, waiting) = mpsc::channel(MAX_WAITING);
        let listener = EndedRuns {
            notifications,
            sender,
            counts: Arc::clone(&counts),
            stopping: stopping.clone(),
        };
        let exporter = Exporter {
            collector,
            journals,
            waiting,
            counts: Arc::clone(&counts),
            stopping: stopping.clone(),
        };
        Ok(Self {
            counts,
            stopping,
            listener: tokio::spawn(listener.run()),
            exporter: tokio::spawn(exporter.run()),
        })
    }

    /// Returns the counters so far.
    pub fn exported(&self) -> Exported {
        self.counts.read()
    }

    /// Flushes pending spans within the timeout and stops. Call it after the runtime has shut down.
    pub async fn stop(mut self, limit: Duration) -> Exported {
        self.stopping.cancel();
        let deadline = Instant::now() + limit;
        for task in [&mut self.listener, &mut self.exporter] {
            match tokio::time::timeout_at(deadline, &mut *task).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "telemetry died"),
                Err(_) => {
                    task.abort();
                    tracing::warn!("telemetry was not sent in time; the rest is dropped");
                }
            }
        }
        let exported = self.counts.read();
        tracing::debug!(?exported, "telemetry is shut down");
        exported
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.listener.abort();
        self.exporter.abort();
    }
}

#[derive(Debug, Default)]
struct Counts {
    spans: AtomicU64,
    dropped_spans: AtomicU64,
    dropped_runs: AtomicU64,
    missed_notifications: AtomicU64,
}

impl Counts {
    fn read(&self) -> Exported {
        Exported {
            spans: self.spans.load(Ordering::Relaxed),
            dropped_spans: self.dropped_spans.load(Ordering::Relaxed),
            dropped_runs: self.dropped_runs.load(Ordering::Relaxed),
            missed_notifications: self.missed_notifications.load(Ordering::Relaxed),
        }
    }
}

/// Turns notifications into ids of ended runs. It never waits for the exporter, so it hardly misses any.
#[derive(Debug)]
struct EndedRuns {
    notifications: broadcast::Receiver<Notification>,
    sender: mpsc::Sender<RunId>,
    counts: Arc<Counts>,
    stopping: CancellationToken,
}

impl EndedRuns {
    async fn run(mut self) {
        let stopping = self.stopping.clone();
        loop {
            let received = tokio::select! {
                biased;
                received = self.notifications.recv() => received,
                () = stopping.cancelled() => return,
            };
            match received {
                Ok(notification) => self.note(&notification),
                Err(RecvError::Lagged(missed)) => {
                    self.counts
                        .missed_notifications
                        .fetch_add(missed, Ordering::Relaxed);
                    tracing::warn!(missed, "telemetry fell behind and may miss runs");
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn note(&self, notification: &Notification) {
        if notification.kind.is_end() && self.sender.try_send(notification.task_id).is_err() {
            let dropped = self.counts.dropped_runs.fetch_add(1, Ordering::Relaxed) + 1;
            if dropped % COMPLAIN_EVERY == 1 {
                tracing::warn!(
                    dropped,
                    "telemetry drops runs: the collector does not keep up"
                );
            }
        }
    }
}

/// Reads journals and sends spans, one request after the other.
struct Exporter {
    collector: Collector,
    journals: Arc<dyn Journal>,
    waiting: mpsc::Receiver<RunId>,
    counts: Arc<Counts>,
    stopping: CancellationToken,
}

impl Exporter {
    /// Ends when the listener has ended and everything is sent.
    async fn run(mut self) {
        while let Some(run) = self.waiting.recv().await {
            let mut spans = self.spans(run).await;
            while spans.len() < SPANS_PER_REQUEST
                && let Ok(run) = self.waiting.try_recv()
            {
                spans.extend(self.spans(run).await);
            }
            for part in spans.chunks(MAX_SPANS_PER_REQUEST) {
                self.send(part).await;
            }
        }
    }

    async fn spans(&self, run: RunId) -> Vec<Span> {
        let read = self.journals.read(run, Seq(0)).await;
        let spans = read.map(|entries| fold::spans(&entries, self.collector.target().capture));
        let why = match spans {
            Ok(spans) if !spans.is_empty() => return spans,
            // A transcript may be removed as soon as the result is delivered.
            Ok(_) | Err(StoreError::NotFound(_)) => "its journal is gone".to_owned(),
            Err(error) => error.to_string(),
        };
        self.counts.dropped_runs.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%run, why, "telemetry has no spans for a run");
        Vec::new()
    }

    /// Sends with retries until the collector accepts or rejects the spans, or the attempts are used up.
    async fn send(&self, spans: &[Span]) {
        if spans.is_empty() {
            return;
        }
        let mut wait = FIRST_WAIT;
        for attempt in 1..=MAX_TRIES {
            match self.collector.send(spans).await {
                Sent::Accepted { refused, words } => return self.accepted(spans, refused, &words),
                Sent::Refused(why) => {
                    self.given_up(spans);
                    tracing::warn!(
                        collector = self.collector.target().shown(),
                        why,
                        spans = spans.len(),
                        "the collector rejected the telemetry"
                    );
                    return;
                }
                Sent::Later(why) => tracing::warn!(
                    collector = self.collector.target().shown(),
                    why,
                    attempt,
                    again_in_s = wait.as_secs(),
                    "telemetry could not be sent"
                ),
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // Shutdown: one last attempt.
                () = self.stopping.cancelled() => {
                    if let Sent::Accepted { refused, words } = self.collector.send(spans).await {
                        return self.accepted(spans, refused, &words);
                    }
                    break;
                }
            }
            wait = (wait * 2).min(LAST_WAIT);
        }
        self.given_up(spans);
        tracing::warn!(spans = spans.len(), "telemetry spans were dropped");
    }

    fn accepted(&self, spans: &[Span], refused: u64, words: &str) {
        let refused = refused.min(spans.len() as u64);
        let taken = spans.len() as u64 - refused;
        self.counts.spans.fetch_add(taken, Ordering::Relaxed);
        if refused > 0 {
            self.counts
                .dropped_spans
                .fetch_add(refused, Ordering::Relaxed);
            tracing::warn!(refused, words, "the collector rejected some spans");
        }
    }

    fn given_up(&self, spans: &[Span]) {
        let count = spans.len() as u64;
        self.counts
            .dropped_spans
            .fetch_add(count, Ordering::Relaxed);
    }
}
