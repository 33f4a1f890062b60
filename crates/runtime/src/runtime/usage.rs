//! What runs used, and how busy lanes and models are.

use sortie_core::{
    Lane, ListFilter, ModelState, Timestamp, Usage, UsageLine, UsagePlace, UsagePoint,
};

use super::{Runtime, RuntimeError};

/// How full a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneState {
    /// The lane.
    pub lane: Lane,
    /// How many runs may be executed at once.
    pub limit: u32,
    /// How many are.
    pub claimed: u64,
    /// How many wait for a slot.
    pub queued: u64,
}

impl Runtime {
    /// What runs that began since a moment came to, in stretches of `bucket_ms`, oldest first.
    pub async fn usage_series(
        &self,
        filter: ListFilter,
        bucket_ms: u64,
        since: Timestamp,
    ) -> Result<Vec<UsagePoint>, RuntimeError> {
        Ok(self
            .engine
            .store
            .usage_series(filter, bucket_ms, since)
            .await?)
    }

    /// What runs used, by session, agent and model: the lines after a place, at most so many.
    pub async fn usage(
        &self,
        filter: ListFilter,
        after: Option<UsagePlace>,
        limit: u32,
    ) -> Result<Vec<UsageLine>, RuntimeError> {
        Ok(self.engine.store.usage(filter, after, limit).await?)
    }

    /// What runs used, all together.
    pub async fn used(&self, filter: ListFilter) -> Result<Usage, RuntimeError> {
        Ok(self.engine.store.used(filter).await?)
    }

    /// How full the lanes are.
    pub async fn lanes(&self) -> Result<Vec<LaneState>, RuntimeError> {
        let limits = self.engine.settings().lanes;
        let counts = self.engine.store.lanes().await?;
        let states = counts.into_iter().map(|count| LaneState {
            lane: count.lane,
            limit: match count.lane {
                Lane::Main => limits.main,
                Lane::Subagent => limits.subagent,
            },
            claimed: count.claimed,
            queued: count.queued,
        });
        Ok(states.collect())
    }

    /// How busy the models are that were asked so far.
    pub fn models_state(&self) -> Vec<ModelState> {
        self.engine.models.states(self.now())
    }
}
