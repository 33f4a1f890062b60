//! Journals, and the views that are computed from them.

use std::sync::Arc;

use sortie_agent::{
    MAX_REPORT_TASKS, TaskFacts, Timeline, TranscriptLine, delegation_report, report_subtree,
    task_timeline, timeline, transcript,
};
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{BlobId, RunId, Seq};
use sortie_core::ports::store::{ListFilter, VerifyReport};
use sortie_core::report::DelegationReport;
use sortie_core::run::{RunDetails, RunRecord, RunSpec};

use super::{Runtime, RuntimeError};
use crate::refusal::{Refusal, RefusalReason};
use crate::tool_call_log::{ToolCallLog, tool_calls};

/// Runs of a tree that a timeline shows: more than a tree has by default.
const MAX_TIMELINE_RUNS: u32 = 1_000;
/// Spans of all runs together, and of one run: some megabytes as JSON, and more than a screen has
/// pixels.
const MAX_TIMELINE_SPANS: usize = 30_000;
const MAX_TASK_SPANS: usize = 3_000;

impl Runtime {
    /// Returns the spec that a run was admitted with.
    pub async fn spec(&self, run: RunId) -> Result<RunSpec, RuntimeError> {
        let first = self.engine.store.first(run).await?;
        match first.map(|entry| entry.event) {
            Some(Event::Admitted { spec }) => Ok(*spec),
            Some(_) | None => {
                self.get(run).await?;
                let message = format!(
                    "the journal of task {run} was removed, and its settings with it; create a new task instead"
                );
                Err(Refusal::new(RefusalReason::NoJournal, message).into())
            }
        }
    }

    /// Returns the journal of a run after `after`.
    pub async fn events(&self, run: RunId, after: Seq) -> Result<Vec<JournalEntry>, RuntimeError> {
        Ok(self.engine.store.read(run, after).await?)
    }

    /// Returns the journal of a run after `after`: as many entries as fit into `max_bytes`, at
    /// least one.
    pub async fn events_part(
        &self,
        run: RunId,
        after: Seq,
        max_bytes: usize,
    ) -> Result<Vec<JournalEntry>, RuntimeError> {
        Ok(self.engine.store.read_part(run, after, max_bytes).await?)
    }

    /// Returns the transcript of a run, for people.
    pub async fn transcript(&self, run: RunId) -> Result<Vec<TranscriptLine>, RuntimeError> {
        Ok(transcript(&self.events(run, Seq(0)).await?))
    }

    /// Returns the tool calls of a run.
    pub async fn tool_calls(&self, run: RunId) -> Result<Vec<ToolCallLog>, RuntimeError> {
        Ok(tool_calls(&self.events(run, Seq(0)).await?))
    }

    /// Returns a long output of a run.
    pub async fn blob(&self, run: RunId, id: &BlobId) -> Result<Option<Vec<u8>>, RuntimeError> {
        Ok(self.engine.store.blob(run, id).await?)
    }

    /// Returns what the journal of a run tells besides its record, up to the head of the record or
    /// later; `None` if the journal was removed.
    pub async fn details(
        &self,
        record: &RunRecord,
    ) -> Result<Option<Arc<RunDetails>>, RuntimeError> {
        if record.cleaned_at.is_some() {
            return Ok(None);
        }
        let cache = &self.details;
        let known = cache.known(record);
        if let Some(known) = &known
            && known.head >= record.head
        {
            return Ok(Some(Arc::clone(known)));
        }
        let after = known.as_ref().map_or(Seq(0), |known| known.head);
        let entries = self.events(record.run_id, after).await?;
        let details = match known {
            Some(known) => {
                let mut details = RunDetails::clone(&known);
                details.extend(&entries);
                Some(details)
            }
            None => RunDetails::of(&entries),
        };
        let details = details.map(Arc::new);
        if let Some(details) = &details {
            cache.keep(record, Arc::clone(details));
        }
        Ok(details)
    }

    /// Returns what the runs of a tree waited for, which waits determined the total time, and how
    /// many runs are left out. Those are the oldest of a very large tree, but never its root. A
    /// tree whose journals were removed has an empty timeline; an unknown root is an error.
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

    /// Returns the report on how the tree below a task was delegated.
    pub async fn report(&self, run: RunId) -> Result<DelegationReport, RuntimeError> {
        let record = self.get(run).await?;
        let filter = ListFilter {
            root: Some(record.root),
            archived: true,
            limit: MAX_REPORT_TASKS,
            ..ListFilter::default()
        };
        let all = self.stats(filter.clone()).await?.total;
        let listed = self.list(filter).await?;
        let left_out = all.saturating_sub(listed.len() as u64);
        let now = self.now();
        let mut facts = Vec::new();
        for record in report_subtree(&record, listed) {
            // One journal at a time: together they may be larger than memory.
            let entries = self.events(record.run_id, Seq(0)).await?;
            facts.push(on_a_thread(move || TaskFacts::of(record, &entries, now)).await?);
        }
        let report = on_a_thread(move || delegation_report(&facts, left_out, now)).await?;
        report.ok_or_else(|| {
            Refusal::new(RefusalReason::Internal, "the tree has no tasks".to_owned()).into()
        })
    }

    /// Verifies the hash chain of every journal.
    pub async fn verify(&self) -> Result<VerifyReport, RuntimeError> {
        Ok(self.engine.store.verify().await?)
    }
}

/// Returns the first `most` runs, always with the root, which all others are placed under.
fn with_root(root: RunId, newest: impl Iterator<Item = RunId>, most: usize) -> Vec<RunId> {
    let others = newest.filter(|run| *run != root);
    std::iter::once(root).chain(others).take(most).collect()
}

/// Runs a long computation on a blocking thread.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RuntimeError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        let message = format!("cannot compute the view of a tree: {error}");
        Refusal::new(RefusalReason::Internal, message).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_timeline_keeps_its_root() {
        let run = |number: u128| RunId::from_uuid(uuid::Uuid::from_u128(number));
        let tree = || (1..=5).rev().map(run);
        assert_eq!(with_root(run(1), tree(), 3), [run(1), run(5), run(4)]);
        assert_eq!(with_root(run(1), tree(), 9).len(), 5);
    }
}
