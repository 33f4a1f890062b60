//! Usage of runs, and load of lanes and models.

use sortie_core::message::Usage;
use sortie_core::ports::model::ModelState;
use sortie_core::ports::store::ListFilter;
use sortie_core::run::Lane;
use sortie_core::stats::{EndedUsage, UsageLine, UsagePlace, UsagePoint, UsageRange};
use sortie_core::time::Timestamp;

use super::{Runtime, RuntimeError};

/// The load of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneState {
    pub lane: Lane,
    /// How many runs may be executed at once.
    pub limit: u32,
    /// How many are executed.
    pub claimed: u64,
    /// How many wait for a slot.
    pub queued: u64,
}

impl Runtime {
    /// Returns the usage of runs that began since `since`, in intervals of `bucket_ms`, oldest
    /// first.
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

    /// Returns the usage by session, agent and model: at most `limit` lines after `after`.
    pub async fn usage(
        &self,
        filter: ListFilter,
        after: Option<UsagePlace>,
        limit: u32,
    ) -> Result<Vec<UsageLine>, RuntimeError> {
        Ok(self.engine.store.usage(filter, after, limit).await?)
    }

    /// Returns the usage of ended runs by the parts that the range names.
    pub async fn ended_usage(&self, range: UsageRange) -> Result<Vec<EndedUsage>, RuntimeError> {
        Ok(self.engine.store.ended_usage(range).await?)
    }

    /// Returns the total usage.
    pub async fn total_usage(&self, filter: ListFilter) -> Result<Usage, RuntimeError> {
        Ok(self.engine.store.used(filter).await?)
    }

    /// Returns the load of the lanes.
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

    /// Returns the load of the models that were called so far.
    pub fn models_state(&self) -> Vec<ModelState> {
        self.engine.models.states(self.now())
    }
}
