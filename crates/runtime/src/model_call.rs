//! How a model is asked: its pictures are fetched, what it says is passed on while it says it, and
//! a wait for its provider is shown while it lasts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sortie_core::{
    BlobId, DeltaSink, Fence, Held, Hold, Images, Message, ModelAnswer, ModelError, ModelRequest,
    NotificationKind, RunId, RunSpec, Seq, SharedMessage, StoreError,
};
use tokio::sync::watch;

use crate::active_runs::Signals;
use crate::engine::{Engine, store_failed};
use crate::journal_load;

/// How often, at most, a new place in the provider's queue is written to the record.
const BETWEEN_HOLDS: Duration = Duration::from_millis(500);

/// The run that asks.
#[derive(Clone, Debug)]
pub(crate) struct ModelCaller {
    pub(crate) engine: Arc<Engine>,
    pub(crate) fence: Fence,
    pub(crate) spec: Arc<RunSpec>,
    pub(crate) head: Seq,
}

/// What came of a question.
pub(crate) enum CallOutcome {
    /// The model has answered, or failed.
    Completed(Result<ModelAnswer, ModelError>),
    /// The run is to rest, and nothing had been sent.
    NotSent,
}

impl ModelCaller {
    /// Asks after `delay_ms`, unless the run is to rest before the question is sent. Dropping the
    /// future stops the question.
    pub(crate) async fn call(
        self,
        request: ModelRequest,
        delay_ms: u64,
        signals: watch::Receiver<Signals>,
    ) -> CallOutcome {
        // As long as this is not empty, nothing was sent.
        let (held, changes) = watch::channel(None);
        if delay_ms > 0 {
            tokio::select! {
                biased;
                () = pause_requested(signals.clone()) => return CallOutcome::NotSent,
                () = tokio::time::sleep(Duration::from_millis(delay_ms)) => {}
            }
        }
        let rests = paused_while_held(signals, changes.clone());
        tokio::select! {
            biased;
            completed = self.send(request, held, changes) => CallOutcome::Completed(completed),
            () = rests => CallOutcome::NotSent,
        }
    }

    async fn send(
        &self,
        request: ModelRequest,
        held: watch::Sender<Option<Held>>,
        changes: watch::Receiver<Option<Held>>,
    ) -> Result<ModelAnswer, ModelError> {
        let model = self.engine.models.find(&request.model)?;
        let question = async {
            // Dropped with the question, which ends the showing too.
            let deltas = DeltaPublisher {
                engine: &self.engine,
                run: self.fence.run,
                held,
            };
            model.turn(request, &deltas).await
        };
        let (answer, ()) = futures::join!(question, self.publish_waits(changes));
        answer
    }

    /// Shows whether the question waits, in the record and to those who listen.
    async fn publish_waits(&self, mut changes: watch::Receiver<Option<Held>>) {
        while changes.changed().await.is_ok() {
            let held = *changes.borrow_and_update();
            self.engine.publisher.notify(
                self.fence.run,
                &self.spec,
                self.head,
                NotificationKind::Held {
                    position: held.map(|held| held.position),
                    resumes_in_ms: held.and_then(|held| held.resumes_in_ms),
                },
            );
            let hold = Hold {
                fence: self.fence,
                position: held.map(|held| held.position),
            };
            match self.engine.store.hold(hold).await {
                // Somebody else has the run; the next append says so.
                Ok(()) | Err(StoreError::Fenced { .. }) => {}
                Err(error) => store_failed("noting a wait", &error),
            }
            tokio::select! {
                biased;
                () = closed(&changes) => return,
                () = tokio::time::sleep(BETWEEN_HOLDS) => {}
            }
        }
    }
}

/// Returns when somebody wants the run to rest.
async fn pause_requested(mut signals: watch::Receiver<Signals>) {
    let told = signals.wait_for(|signals| signals.pause).await.is_ok();
    if !told {
        // The claim is over; whoever holds the question drops it.
        std::future::pending::<()>().await;
    }
}

/// Returns when somebody wants the run to rest while its question waits for the provider.
async fn paused_while_held(
    signals: watch::Receiver<Signals>,
    mut held: watch::Receiver<Option<Held>>,
) {
    loop {
        if held.wait_for(Option::is_some).await.is_err() {
            // The question is over.
            return std::future::pending().await;
        }
        tokio::select! {
            biased;
            // It was sent, or waits at another place: look again.
            changed = held.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
            () = pause_requested(signals.clone()) => return,
        }
    }
}

/// Returns when the question is over.
async fn closed(changes: &watch::Receiver<Option<Held>>) {
    let mut changes = changes.clone();
    while changes.changed().await.is_ok() {}
}

struct DeltaPublisher<'a> {
    engine: &'a Engine,
    run: RunId,
    held: watch::Sender<Option<Held>>,
}

impl DeltaSink for DeltaPublisher<'_> {
    fn text(&self, delta: &str) {
        self.engine.publisher.delta(self.run, delta);
    }

    fn held(&self, held: Option<Held>) {
        self.held.send_if_modified(|before| {
            let changed = *before != held;
            *before = held;
            changed
        });
    }
}

/// The pictures of a history, fetched once.
#[derive(Debug, Default)]
pub(crate) struct ImageCache {
    images: Images,
}

impl ImageCache {
    /// Whether `messages` show a picture that was not fetched yet.
    pub(crate) fn lacks(&self, messages: &[SharedMessage]) -> bool {
        shown(messages)
            .iter()
            .any(|id| !self.images.contains_key(*id))
    }

    /// The bytes of all pictures that `messages` show and that are still there.
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
