//! One call to a model: loads pictures, publishes text as it arrives, and publishes how long the
//! call waits for its provider.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sortie_core::id::{BlobId, Fence, RunId, Seq};
use sortie_core::message::{Message, SharedMessage};
use sortie_core::notification::NotificationKind;
use sortie_core::ports::model::{
    DeltaSink, Images, ModelAnswer, ModelError, ModelRequest, RateLimitWait,
};
use sortie_core::ports::store::{RunDelay, StoreError};
use sortie_core::run::RunSpec;
use tokio::sync::watch;

use crate::active_runs::Signals;
use crate::engine::{Engine, store_failed};
use crate::journal_load;

/// Shortest interval between two updates of the queue position in the record.
const WAIT_UPDATE_INTERVAL: Duration = Duration::from_millis(500);

/// The run that calls a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelCaller {
    pub(crate) engine: Arc<Engine>,
    pub(crate) fence: Fence,
    pub(crate) spec: Arc<RunSpec>,
    pub(crate) head: Seq,
}

/// How a model call ended.
pub(crate) enum CallOutcome {
    /// The model has replied, or failed.
    Completed(Result<ModelAnswer, ModelError>),
    /// The run pauses, and nothing was sent.
    NotSent,
}

impl ModelCaller {
    /// Calls the model after `delay_ms`, unless a pause is requested before the prompt is sent.
    /// Dropping the future cancels the call.
    pub(crate) async fn call(
        self,
        request: ModelRequest,
        delay_ms: u64,
        signals: watch::Receiver<Signals>,
    ) -> CallOutcome {
        // `Some` while the call waits at its provider: nothing was sent yet.
        let (wait, changes) = watch::channel(None);
        if delay_ms > 0 {
            tokio::select! {
                biased;
                () = pause_requested(signals.clone()) => return CallOutcome::NotSent,
                () = tokio::time::sleep(Duration::from_millis(delay_ms)) => {}
            }
        }
        let paused = paused_while_waiting(signals, changes.clone());
        tokio::select! {
            biased;
            completed = self.send(request, wait, changes) => CallOutcome::Completed(completed),
            () = paused => CallOutcome::NotSent,
        }
    }

    async fn send(
        &self,
        request: ModelRequest,
        wait: watch::Sender<Option<RateLimitWait>>,
        changes: watch::Receiver<Option<RateLimitWait>>,
    ) -> Result<ModelAnswer, ModelError> {
        let model = self.engine.models.find(&request.model)?;
        let question = async {
            // Dropped with the call, which also ends `publish_waits`.
            let deltas = DeltaPublisher {
                engine: &self.engine,
                run: self.fence.run,
                wait,
            };
            model.turn(request, &deltas).await
        };
        let (answer, ()) = futures::join!(question, self.publish_waits(changes));
        answer
    }

    /// Publishes whether the call waits for its provider, in the record and to subscribers.
    async fn publish_waits(&self, mut changes: watch::Receiver<Option<RateLimitWait>>) {
        while changes.changed().await.is_ok() {
            let wait = *changes.borrow_and_update();
            self.engine.publisher.notify(
                self.fence.run,
                &self.spec,
                self.head,
                NotificationKind::Held {
                    position: wait.map(|wait| wait.position),
                    resumes_in_ms: wait.and_then(|wait| wait.resumes_in_ms),
                },
            );
            let update = RunDelay {
                fence: self.fence,
                position: wait.map(|wait| wait.position),
            };
            match self.engine.store.record_delay(update).await {
                // Another process has claimed the run; the next append fails for that reason.
                Ok(()) | Err(StoreError::Fenced { .. }) => {}
                Err(error) => store_failed("record a rate-limit wait", &error),
            }
            tokio::select! {
                biased;
                () = closed(&changes) => return,
                () = tokio::time::sleep(WAIT_UPDATE_INTERVAL) => {}
            }
        }
    }
}

/// Returns when a pause is requested.
async fn pause_requested(mut signals: watch::Receiver<Signals>) {
    let requested = signals.wait_for(|signals| signals.pause).await.is_ok();
    if !requested {
        // The claim is over; the executor drops this future.
        std::future::pending::<()>().await;
    }
}

/// Returns when a pause is requested while the call waits for its provider.
async fn paused_while_waiting(
    signals: watch::Receiver<Signals>,
    mut wait: watch::Receiver<Option<RateLimitWait>>,
) {
    loop {
        if wait.wait_for(Option::is_some).await.is_err() {
            // The call is over.
            return std::future::pending().await;
        }
        tokio::select! {
            biased;
            // The call was sent, or has another position: check again.
            changed = wait.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
            () = pause_requested(signals.clone()) => return,
        }
    }
}

/// Returns when the call is over.
async fn closed(changes: &watch::Receiver<Option<RateLimitWait>>) {
    let mut changes = changes.clone();
    while changes.changed().await.is_ok() {}
}

struct DeltaPublisher<'a> {
    engine: &'a Engine,
    run: RunId,
    wait: watch::Sender<Option<RateLimitWait>>,
}

impl DeltaSink for DeltaPublisher<'_> {
    fn text(&self, delta: &str) {
        self.engine.publisher.delta(self.run, delta);
    }

    fn rate_limited(&self, wait: Option<RateLimitWait>) {
        self.wait.send_if_modified(|before| {
            let changed = *before != wait;
            *before = wait;
            changed
        });
    }
}

/// The pictures of a history, each loaded once.
#[derive(Debug, Default)]
pub(crate) struct ImageCache {
    images: Images,
}

impl ImageCache {
    /// Returns whether `messages` refer to a picture that is not loaded.
    pub(crate) fn lacks(&self, messages: &[SharedMessage]) -> bool {
        shown(messages)
            .iter()
            .any(|id| !self.images.contains_key(*id))
    }

    /// Returns the bytes of all pictures that `messages` refer to and the store still has.
    pub(crate) async fn of(
        &mut self,
        engine: &Engine,
        run: RunId,
        spec: &RunSpec,
        messages: &[SharedMessage],
    ) -> Images {
        let shown = shown(messages);
        if shown.len() == self.images.len() && shown.iter().all(|id| self.images.contains_key(*id))
        {
            return Arc::clone(&self.images);
        }
        let mut images = BTreeMap::new();
        for id in shown {
            let bytes = match self.images.get(id) {
                Some(bytes) => Some(Arc::clone(bytes)),
                None => journal_load::blob(engine, run, spec, id)
                    .await
                    .map(Arc::from),
            };
            if let Some(bytes) = bytes {
                images.insert(id.clone(), bytes);
            }
        }
        self.images = Arc::new(images);
        Arc::clone(&self.images)
    }
}

fn shown(messages: &[SharedMessage]) -> Vec<&BlobId> {
    let mut shown: Vec<&BlobId> = messages
        .iter()
        .filter_map(|message| match &**message {
            Message::Tools { results } => Some(results),
            Message::User { .. } | Message::Assistant { .. } | Message::Notice { .. } => None,
        })
        .flatten()
        .flat_map(|result| &result.images)
        .map(|image| &image.blob)
        .collect();
    shown.sort();
    shown.dedup();
    shown
}
