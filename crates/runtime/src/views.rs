//! What people look at: conversations, time lines, policies, queues, models.

use serde_json::Value;
use sortie_agent::{Timeline, task_timeline, timeline};
use sortie_core::{
    Begun, BlobId, JournalEntry, Lane, ListFilter, Mode, ModelState, PolicyLayer, Ruling, RunId,
    RunSpec, Seq, SessionFilter, SessionSummary, Timestamp, Usage, UsageLine, UsagePlace,
    UsagePoint,
};
use sortie_policy::Explanation;

use crate::runtime::{NewRun, Runtime, RuntimeError};

/// How many runs of a tree a time line shows: more than a tree has by default.
const MAX_TIMELINE_RUNS: u32 = 1_000;
/// How many stretches they have together, and how many one of them has at most: some megabytes as
/// JSON, and more than a screen has dots.
const MAX_TIMELINE_SPANS: usize = 30_000;
const MAX_TASK_SPANS: usize = 3_000;

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

/// What a run may do, and who says so.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyView {
    /// The hash by which audits name the policy.
    pub hash: String,
    /// How calls that change something are treated.
    pub mode: Mode,
    /// Whether nothing may change.
    pub read_only: bool,
    /// Whether commands that look dangerous are treated like all others.
    pub allow_dangerous: bool,
    /// The rules, in the order in which they are asked.
    pub layers: Vec<PolicyLayer>,
    /// What holds for each tool, as far as that does not depend on arguments.
    pub tools: Vec<(String, Ruling)>,
}

/// Whose policy is asked about a call.
#[derive(Clone, Debug)]
pub enum Whose {
    /// That of a run, as it was admitted.
    Run(RunId),
    /// That of a run which would be admitted now.
    Agent {
        /// Its agent.
        name: String,
        /// Everything else about it; for a subagent, about its parent.
        new: Box<NewRun>,
    },
}

/// What would become of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The run that would make it.
    pub spec: RunSpec,
    /// What was decided, and what every layer says.
    pub explanation: Explanation,
    /// Who keeps the tool from a run that was not given it.
    pub taken_away_by: Option<String>,
}

impl Runtime {
    /// Conversations, the one with the latest turn first.
    pub async fn sessions(
        &self,
        filter: SessionFilter,
    ) -> Result<Vec<SessionSummary>, RuntimeError> {
        Ok(self.shared.store.sessions(filter).await?)
    }

    /// What the runs of a tree waited for, and what made the whole take as long as it did; and how many
    /// runs are not shown. Of a very large tree those are the older ones, though never its root. A tree
    /// whose journals are gone has no time line, and one that never was is an error.
    pub async fn timeline(&self, root: RunId) -> Result<(Timeline, u64), RuntimeError> {
        self.get(root).await?;
        let filter = ListFilter {
            root: Some(root),
            archived: true,
            limit: MAX_TIMELINE_RUNS,
            ..ListFilter::default()
        };
        let all = self.stats(filter.clone()).await?.total;
        let listed = self.list(filter).await?;
        let newest = listed.iter().map(|record| record.run_id);
        let runs = with_root(root, newest, MAX_TIMELINE_RUNS as usize);
        let each = (MAX_TIMELINE_SPANS / runs.len()).min(MAX_TASK_SPANS);
        let now = self.now();
        let mut tasks = Vec::with_capacity(runs.len());
        for run in &runs {
            // One journal at a time: together they may be larger than memory.
            let entries = self.events(*run, Seq(0)).await?;
            let folded = on_a_thread(move || task_timeline(&entries, now, each)).await?;
            tasks.extend(folded);
        }
        let line = on_a_thread(move || timeline(root, tasks, now)).await?;
        Ok((line, all.saturating_sub(runs.len() as u64)))
    }

    /// What a run may do, and who says so.
    pub async fn policy_view(&self, run: RunId) -> Result<PolicyView, RuntimeError> {
        let spec = self.spec(run).await?;
        Ok(self.shared.planner.policy_view(&spec))
    }

    /// What would become of a call, and what every layer says about it. Nothing is run.
    pub async fn explain(
        &self,
        whose: Whose,
        tool: &str,
        arguments: &Value,
    ) -> Result<Explained, RuntimeError> {
        let spec = match whose {
            Whose::Run(run) => self.spec(run).await?,
            Whose::Agent { name, new } => self.shared.planner.preview(&name, *new)?,
        };
        self.shared.planner.explained(spec, tool, arguments)
    }

    /// What runs that began since a moment came to, in stretches of `bucket_ms`, oldest first.
    pub async fn usage_series(
        &self,
        filter: ListFilter,
        bucket_ms: u64,
        since: Timestamp,
    ) -> Result<Vec<UsagePoint>, RuntimeError> {
        Ok(self
            .shared
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
        Ok(self.shared.store.usage(filter, after, limit).await?)
    }

    /// What runs used, all together.
    pub async fn used(&self, filter: ListFilter) -> Result<Usage, RuntimeError> {
        Ok(self.shared.store.used(filter).await?)
    }

    /// The journal of a run after `after`: as many entries as have so many bytes, at least one.
    pub async fn events_part(
        &self,
        run: RunId,
        after: Seq,
        max_bytes: usize,
    ) -> Result<Vec<JournalEntry>, RuntimeError> {
        Ok(self.shared.store.read_part(run, after, max_bytes).await?)
    }

    /// How full the lanes are.
    pub async fn lanes(&self) -> Result<Vec<LaneState>, RuntimeError> {
        let limits = self.shared.planner.settings.lanes;
        let counts = self.shared.store.lanes().await?;
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
        self.shared.models.states(self.now())
    }

    /// A long output of a run.
    pub async fn blob(&self, run: RunId, id: &BlobId) -> Result<Option<Vec<u8>>, RuntimeError> {
        Ok(self.shared.store.blob(run, id).await?)
    }

    /// Notes that a request begins which is to take effect once; tells what is known of its key.
    pub async fn begin_once(
        &self,
        key: &str,
        fingerprint: &str,
        run: RunId,
    ) -> Result<Begun, RuntimeError> {
        Ok(self
            .shared
            .store
            .begin(key, fingerprint, run, self.now())
            .await?)
    }

    /// Notes how such a request was answered.
    pub async fn complete_once(
        &self,
        key: &str,
        status: u16,
        body: Vec<u8>,
    ) -> Result<(), RuntimeError> {
        Ok(self.shared.store.complete(key, status, body).await?)
    }

    /// Forgets such a request, which changed nothing.
    pub async fn forget_once(&self, key: &str) -> Result<(), RuntimeError> {
        Ok(self.shared.store.forget(key).await?)
    }
}

/// The first so many of these, the root always among them: everything else is told by how it belongs
/// to it.
fn with_root(root: RunId, newest: impl Iterator<Item = RunId>, most: usize) -> Vec<RunId> {
    let others = newest.filter(|run| *run != root);
    std::iter::once(root).chain(others).take(most).collect()
}

/// Does what takes a processor long where nobody else waits for it.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RuntimeError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| RuntimeError::Refused(format!("a time line could not be made: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_line_never_loses_its_root() {
        let run = |number: u128| RunId::from_uuid(uuid::Uuid::from_u128(number));
        let tree = || (1..=5).rev().map(run);
        assert_eq!(with_root(run(1), tree(), 3), [run(1), run(5), run(4)]);
        assert_eq!(with_root(run(1), tree(), 9).len(), 5);
    }
}
