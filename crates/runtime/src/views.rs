//! What people look at: conversations, time lines, policies, queues, models.

use serde_json::Value;
use sortie_agent::{Tapes, Timeline, timeline};
use sortie_core::{
    Begun, BlobId, Lane, ListFilter, Mode, ModelState, PolicyLayer, Ruling, RunId, RunSpec, Seq,
    SessionFilter, SessionSummary, Timestamp, UsagePoint,
};
use sortie_policy::Explanation;

use crate::runtime::{NewRun, Runtime, RuntimeError};

/// How many runs of a tree a time line shows: more than a tree has by default.
const MAX_TIMELINE_RUNS: u32 = 1_000;

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

    /// What the runs of a tree waited for, and what made the whole take as long as it did.
    pub async fn timeline(&self, root: RunId) -> Result<Timeline, RuntimeError> {
        let filter = ListFilter {
            root: Some(root),
            archived: true,
            limit: MAX_TIMELINE_RUNS,
            ..ListFilter::default()
        };
        let mut tapes = Tapes::new();
        for record in self.list(filter).await? {
            tapes.insert(record.run_id, self.events(record.run_id, Seq(0)).await?);
        }
        // A tree whose journals are gone has no time line, and one that never was is an error.
        self.get(root).await?;
        Ok(timeline(root, &tapes, self.now()))
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
        let now = self.now();
        Ok(self.shared.store.complete(key, status, body, now).await?)
    }

    /// Forgets such a request, which changed nothing.
    pub async fn forget_once(&self, key: &str) -> Result<(), RuntimeError> {
        Ok(self.shared.store.forget(key).await?)
    }
}
