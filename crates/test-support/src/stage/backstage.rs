//! A scripted model that records its prompts and can hold back completions.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use sortie_core::ports::model::{
    DeltaSink, Model, ModelAnswer, ModelDirectory, ModelError, ModelRequest, Terms, TokenPrice,
};
use sortie_models::{Script, ScriptModel};
use tokio::sync::watch;

pub type Request = Arc<ModelRequest>;

/// A scripted model under every name. It records each prompt, and can hold back completions.
pub struct Prompter {
    script: ScriptModel,
    requests: Mutex<Vec<Request>>,
    blocked: watch::Sender<BTreeSet<String>>,
    children: Mutex<Concurrency>,
}

/// How many children prompt now, and the maximum so far.
#[derive(Debug, Default)]
struct Concurrency {
    now: usize,
    most: usize,
}

impl Prompter {
    /// Returns a model that follows these rules.
    pub(super) fn new(rules: &str) -> Arc<Self> {
        let text = format!("version: 1\nrules:\n{rules}\n");
        let script = Script::named("script", &text)
            .unwrap_or_else(|error| panic!("the script cannot be read: {error:?}"));
        Arc::new(Self {
            script: ScriptModel::new(script),
            requests: Mutex::default(),
            blocked: watch::Sender::new(BTreeSet::new()),
            children: Mutex::default(),
        })
    }

    /// Holds back the completions for runs with this label, or only for one turn if it is
    /// `label#turn`.
    pub fn block(&self, label: &str) {
        self.blocked.send_modify(|blocked| {
            blocked.insert(label.to_owned());
        });
    }

    /// Releases the completions for runs with this label.
    pub fn release(&self, label: &str) {
        self.blocked.send_modify(|blocked| {
            blocked.remove(label);
        });
    }

    /// Returns the maximum of children that prompted at the same time.
    pub fn most_children_at_once(&self) -> usize {
        self.crowd().most
    }

    fn crowd(&self) -> MutexGuard<'_, Concurrency> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all prompts so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns all prompts of runs with this label.
    pub fn requests_of(&self, label: &str) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| request.origin.label == label);
        requests
    }

    /// Returns the last prompt of this label at this turn.
    pub fn request(&self, label: &str, turn: u32) -> Option<Request> {
        self.requests_of(label)
            .into_iter()
            .rev()
            .find(|request| request.origin.turn == turn)
    }

    /// Returns the labels of runs in the order of their first prompt.
    pub fn order(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        self.requests()
            .iter()
            .filter(|request| seen.insert(request.origin.run))
            .map(|request| request.origin.label.clone())
            .collect()
    }
}

impl fmt::Debug for Prompter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompter").finish_non_exhaustive()
    }
}

/// The model that a run gets from the directory.
#[derive(Debug)]
struct Voice(Arc<Prompter>);

#[async_trait]
impl Model for Voice {
    async fn turn(
        &self,
        request: ModelRequest,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError> {
        let Self(prompter) = self;
        prompter
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::new(request.clone()));
        let _counted = (request.origin.depth > 0).then(|| Counted::enter(prompter));
        let mut blocked = prompter.blocked.subscribe();
        let label = request.origin.label.clone();
        let turn = format!("{label}#{}", request.origin.turn);
        // The sender is in the prompter, which outlives this call.
        blocked
            .wait_for(|blocked| !blocked.contains(&label) && !blocked.contains(&turn))
            .await
            .map_err(|_| ModelError::fatal("the prompter is gone"))?;
        let model = request.model.clone();
        let answer = prompter.script.turn(request, deltas).await?;
        Ok(ModelAnswer { model, ..answer })
    }
}

/// Counts a child until its prompt is dropped.
struct Counted<'a>(&'a Prompter);

impl<'a> Counted<'a> {
    fn enter(prompter: &'a Prompter) -> Self {
        let mut crowd = prompter.crowd();
        crowd.now += 1;
        crowd.most = crowd.most.max(crowd.now);
        Self(prompter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.crowd().now -= 1;
    }
}

/// The directory that a runtime is given.
#[derive(Debug)]
pub(super) struct Voices(pub(super) Arc<Prompter>);

impl ModelDirectory for Voices {
    fn find(&self, _name: &str) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(Voice(Arc::clone(&self.0))))
    }

    fn terms(&self, _name: &str) -> Terms {
        Terms {
            price: Some(TokenPrice {
                input: 1.0,
                output: 1.0,
            }),
            max_output: Some(100),
        }
    }
}
