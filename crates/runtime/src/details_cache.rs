//! A cache of what views of tasks need besides the record.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sortie_core::id::RunId;
use sortie_core::run::{RunDetails, RunRecord};
use sortie_core::time::Timestamp;

/// Runs in one generation of the cache. Both together are a thousand tasks, the most that a page of
/// the list has; each takes a few kilobytes.
const MAX_GENERATION: usize = 512;

/// Details of runs that were viewed lately. A journal only grows, so what was folded once stays
/// right, and only later entries are read.
#[derive(Debug, Default)]
pub(crate) struct DetailsCache(Mutex<Generations>);

/// When the younger generation is full it becomes the older one, which is dropped: whatever was
/// viewed within the last `MAX_GENERATION` different runs is still there.
#[derive(Debug, Default)]
struct Generations {
    younger: HashMap<RunId, CachedDetails>,
    older: HashMap<RunId, CachedDetails>,
}

#[derive(Clone, Debug)]
struct CachedDetails {
    /// An id can be used again after its run was deleted.
    created_at: Timestamp,
    details: Arc<RunDetails>,
}

impl DetailsCache {
    pub(crate) fn known(&self, record: &RunRecord) -> Option<Arc<RunDetails>> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = match generations.younger.get(&record.run_id) {
            Some(cached) => cached.clone(),
            None => {
                let cached = generations.older.remove(&record.run_id)?;
                generations.keep(record.run_id, cached.clone());
                cached
            }
        };
        (cached.created_at == record.created_at).then_some(cached.details)
    }

    pub(crate) fn keep(&self, record: &RunRecord, details: Arc<RunDetails>) {
        let cached = CachedDetails {
            created_at: record.created_at,
            details,
        };
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Two callers may compute the details at once; the one that read more entries is right.
        let newer = generations.younger.get(&record.run_id).is_none_or(|kept| {
            kept.created_at != cached.created_at || kept.details.head < cached.details.head
        });
        if newer {
            generations.keep(record.run_id, cached);
        }
    }
}

impl Generations {
    fn keep(&mut self, run: RunId, cached: CachedDetails) {
        if self.younger.len() >= MAX_GENERATION && !self.younger.contains_key(&run) {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(run, cached);
    }
}

#[cfg(test)]
mod tests {
    use sortie_core::id::Seq;

    use super::*;

    fn run(number: usize) -> RunId {
        let text = format!("00000000-0000-7000-8000-{number:012x}");
        text.parse().expect("an id")
    }

    fn cached() -> CachedDetails {
        CachedDetails {
            created_at: Timestamp(0),
            details: Arc::new(RunDetails {
                workspace: "/w".into(),
                mode: sortie_core::policy::Mode::Default,
                sandbox: sortie_core::run::SandboxMode::Required,
                network: false,
                isolation: sortie_core::run::Isolation::None,
                policy_hash: String::new(),
                tools: Vec::new(),
                skills: Vec::new(),
                continues: None,
                wall_ms: None,
                worktree: None,
                collected: false,
                changes: None,
                sandbox_applied: None,
                todos: Vec::new(),
                neutralised: Vec::new(),
                head: Seq(1),
            }),
        }
    }

    #[test]
    fn recently_viewed_runs_stay_cached_within_the_bound() {
        let mut generations = Generations::default();
        for number in 0..MAX_GENERATION * 5 {
            generations.keep(run(number), cached());
            assert!(
                generations.younger.len() <= MAX_GENERATION
                    && generations.older.len() <= MAX_GENERATION
            );
            for earlier in number.saturating_sub(MAX_GENERATION - 1)..=number {
                let run = run(earlier);
                assert!(
                    generations.younger.contains_key(&run) || generations.older.contains_key(&run)
                );
            }
        }
    }
}
