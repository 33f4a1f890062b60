//! The processes that execute the runs of the store.

use sortie_core::worker::{WorkerId, WorkerRecord, WorkerState};

use super::{Runtime, RuntimeError};

impl Runtime {
    /// Returns the id of this process in the list of workers.
    pub fn worker_id(&self) -> &WorkerId {
        &self.engine.worker.id
    }

    /// Returns the processes that share the store, the oldest first. A store with one owner has
    /// this one only.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>, RuntimeError> {
        let engine = &self.engine;
        if engine.store.is_shared() {
            return Ok(engine.store.workers(engine.lease_now()).await?);
        }
        let now = engine.clock.now();
        Ok(vec![WorkerRecord {
            worker: engine.worker.clone(),
            state: WorkerState::Active,
            joined_at: self.started_at,
            heartbeat_at: now,
            runs: engine.active_runs.fences().len() as u64,
        }])
    }
}
