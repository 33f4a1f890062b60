//! The world outside the process: it survives a crash.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sortie_core::id::{EffectId, RunId};

/// One process. After its death, none of its tasks acts any more.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    dead: AtomicBool,
}

impl Generation {
    pub(crate) fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// Never returns after the death of the process.
    pub(crate) async fn only_the_living(&self) {
        if self.dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }
}

/// The world outside the process.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// How often each effect of a `once` tool happened.
    ledger: BTreeMap<String, u32>,
    /// How often each effect of a `reconcilable` tool happened.
    notes: BTreeMap<String, u32>,
    /// Children with a prompt in flight in this process.
    thinking: BTreeMap<RunId, u32>,
    limit: u32,
    broken: Vec<String>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            inner: Mutex::default(),
        }
    }

    pub(crate) fn set_limit(&self, limit: u32) {
        self.lock().limit = limit;
    }

    pub(crate) fn write_ledger(&self, effect: &EffectId) {
        *self.lock().ledger.entry(effect.to_string()).or_default() += 1;
    }

    pub(crate) fn write_note(&self, effect: &EffectId) {
        *self.lock().notes.entry(effect.to_string()).or_default() += 1;
    }

    pub(crate) fn has_note(&self, effect: &EffectId) -> bool {
        self.lock().notes.contains_key(&effect.to_string())
    }

    pub(crate) fn ledger(&self) -> BTreeMap<String, u32> {
        self.lock().ledger.clone()
    }

    pub(crate) fn notes(&self) -> BTreeMap<String, u32> {
        self.lock().notes.clone()
    }

    /// Counts a child that prompts its model; checks the slots.
    pub(crate) fn begins_to_think(&self, run: RunId) {
        let mut inner = self.lock();
        let times = {
            let times = inner.thinking.entry(run).or_default();
            *times += 1;
            *times
        };
        if times > 1 {
            inner
                .broken
                .push(format!("run {run} is executed twice at once"));
        }
        if inner.thinking.len() > inner.limit as usize {
            let message = format!(
                "{} children run at once, {} may",
                inner.thinking.len(),
                inner.limit
            );
            inner.broken.push(message);
        }
    }

    pub(crate) fn stops_to_think(&self, run: RunId) {
        self.lock().thinking.remove(&run);
    }

    pub(crate) fn process_died(&self) {
        self.lock().thinking.clear();
    }

    pub(crate) fn broken(&self) -> Vec<String> {
        self.lock().broken.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
