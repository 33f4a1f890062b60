//! Invariants, checked from outside after everything has ended.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};
use sortie_agent::{PriorHistory, RunState};
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{EffectId, RunId, Seq, hex};
use sortie_core::inbox::InboxItem;
use sortie_core::message::{Block, Message, ResultStatus};
use sortie_core::ports::store::{Archive as _, ListFilter};
use sortie_core::run::{Delivery, EdgeMode, Lane, RunRecord};
use sortie_runtime::Runtime;
use sortie_store::InlineStore;

use super::world::World;
use super::{Report, TERMINAL};

/// Checks that ended runs hold no slots.
pub(crate) async fn nothing_under_way(runtime: &Runtime) -> Result<(), String> {
    let running = runtime.count().await.map_err(|error| error.to_string())?;
    ensure(running == 0, || format!("{running} runs still run"))
}

/// Describes all runs, to find out why some have not ended.
pub(crate) async fn what_is_left(database: &InlineStore) -> String {
    let records = database
        .list(ListFilter::default())
        .await
        .unwrap_or_default();
    let mut lines = Vec::new();
    for record in &records {
        let events: Vec<&str> = database
            .read(record.run_id, Seq(0))
            .await
            .unwrap_or_default()
            .iter()
            .map(|entry| entry.event.name())
            .collect();
        lines.push(format!(
            "{} of {:?}: {} {:?}, delivery {}, cancel {}, outcome {:?}\n    {}",
            record.label,
            record.parent,
            record.status,
            record.summary.waiting_on,
            record.delivery,
            record.cancel_requested,
            record.outcome,
            events.join(" ")
        ));
    }
    lines.join("\n")
}

/// Checks all other invariants.
pub(crate) async fn everything(
    database: &InlineStore,
    world: &World,
    roots: &[RunId],
    crashes: u32,
) -> Result<Report, String> {
    let story = Story::read(database).await?;
    story.no_root_is_lost(roots)?;
    story.every_run_ended_once()?;
    story.records_match_their_journals()?;
    story.every_call_has_one_result()?;
    story.children_are_admitted_once_and_within_caps()?;
    story.results_arrive_exactly_once()?;
    story.no_child_outlives_its_parent()?;
    story.effects_match_the_journal(world)?;
    let verified = database.verify().await.map_err(|error| error.to_string())?;
    ensure(verified.problems.is_empty(), || {
        verified.problems.join("; ")
    })?;
    let broken = world.broken();
    ensure(broken.is_empty(), || broken.join("; "))?;
    Ok(story.report(crashes))
}

struct Story {
    runs: BTreeMap<RunId, RunHistory>,
}

struct RunHistory {
    record: RunRecord,
    entries: Vec<JournalEntry>,
    state: RunState,
}

impl Story {
    async fn read(database: &InlineStore) -> Result<Self, String> {
        let records = database
            .list(ListFilter {
                archived: true,
                ..ListFilter::default()
            })
            .await
            .map_err(|error| error.to_string())?;
        let mut runs = BTreeMap::new();
        for record in records {
            let entries = database
                .read(record.run_id, Seq(0))
                .await
                .map_err(|error| error.to_string())?;
            let state = RunState::fold(&PriorHistory::default(), &entries)
                .map_err(|error| error.to_string())?;
            runs.insert(
                record.run_id,
                RunHistory {
                    record,
                    entries,
                    state,
                },
            );
        }
        Ok(Self { runs })
    }

    fn no_root_is_lost(&self, roots: &[RunId]) -> Result<(), String> {
        for root in roots {
            ensure(self.runs.contains_key(root), || {
                format!("root {root} is lost")
            })?;
        }
        Ok(())
    }

    fn every_run_ended_once(&self) -> Result<(), String> {
        for (run, history) in &self.runs {
            let ends = history
                .entries
                .iter()
                .filter(|entry| matches!(entry.event, Event::Finished { .. }))
                .count();
            ensure(ends == 1, || format!("run {run} ended {ends} times"))?;
            ensure(TERMINAL.contains(&history.record.status), || {
                format!("run {run} is {}", history.record.status)
            })?;
        }
        Ok(())
    }

    fn records_match_their_journals(&self) -> Result<(), String> {
        for (run, history) in &self.runs {
            let outcome = history.state.outcome().cloned();
            ensure(history.record.outcome == outcome, || {
                format!(
                    "run {run}: record says {:?}, journal {outcome:?}",
                    history.record.outcome
                )
            })?;
            ensure(history.record.head == history.state.head(), || {
                format!("run {run}: heads differ")
            })?;
            // The same comparison of journal and record that `sortie doctor` makes.
            let folded =
                sortie_agent::summaries_of(&history.entries).map_err(|error| error.to_string())?;
            let found = &history.record.summary;
            let is_found = |folded: &sortie_core::run::Summary| {
                found.model == folded.model
                    && found.last_text == folded.last_text
                    && found.tool_calls == folded.tool_calls
                    && found.unpriced == folded.unpriced
                    && found.usage.input_tokens == folded.usage.input_tokens
                    && found.usage.output_tokens == folded.usage.output_tokens
            };
            ensure(folded.is_empty() || folded.iter().any(is_found), || {
                format!("run {run}: record says {found:?}, journal {folded:?}")
            })?;
        }
        Ok(())
    }

    fn every_call_has_one_result(&self) -> Result<(), String> {
        for (run, history) in &self.runs {
            let mut open = BTreeSet::new();
            for message in history.state.messages() {
                match &**message {
                    Message::Assistant { blocks } => {
                        for block in blocks {
                            if let Block::Call(call) = block {
                                ensure(open.insert(call.id.clone()), || {
                                    format!("run {run}: call {} twice", call.id)
                                })?;
                            }
                        }
                    }
                    Message::Tools { results } => {
                        for result in results {
                            ensure(open.remove(&result.call), || {
                                format!("run {run}: result of {} without a call", result.call)
                            })?;
                        }
                    }
                    Message::User { .. } | Message::Notice { .. } => {}
                }
            }
            ensure(open.is_empty(), || {
                format!("run {run}: calls without a result: {open:?}")
            })?;
        }
        Ok(())
    }

    fn children_are_admitted_once_and_within_caps(&self) -> Result<(), String> {
        let mut edges = BTreeSet::new();
        for (run, history) in &self.runs {
            let spec = history.state.spec();
            ensure(spec.depth <= 2, || {
                format!("run {run} is {} deep", spec.depth)
            })?;
            if let Some(parent) = &spec.parent {
                ensure(edges.insert((parent.run, parent.call.clone())), || {
                    format!("call {} of {} has two children", parent.call, parent.run)
                })?;
                ensure(self.runs.contains_key(&parent.run), || {
                    format!("run {run} has no parent")
                })?;
            }
        }
        Ok(())
    }

    fn results_arrive_exactly_once(&self) -> Result<(), String> {
        let mut arrivals: BTreeMap<RunId, Vec<RunId>> = BTreeMap::new();
        for (run, history) in &self.runs {
            for entry in &history.entries {
                if let Event::InboxTaken { items, .. } = &entry.event {
                    for item in items {
                        if let InboxItem::Announcement(announcement) = item {
                            arrivals.entry(announcement.child).or_default().push(*run);
                        }
                    }
                }
            }
        }
        for (run, history) in &self.runs {
            let arrived = arrivals.get(run).map_or(&[][..], Vec::as_slice);
            let Some(parent) = history.state.spec().parent.as_ref().map(|link| link.run) else {
                ensure(arrived.is_empty(), || {
                    format!("root {run} was announced to {arrived:?}")
                })?;
                continue;
            };
            ensure(arrived.len() <= 1, || {
                format!("the result of {run} arrived {} times", arrived.len())
            })?;
            let receives = |at: &RunId| *at == parent || self.succeeds(*at, parent);
            ensure(arrived.iter().all(receives), || {
                format!("the result of {run} went to a stranger")
            })?;
            if !history.state.spec().announce.reaches_parent() {
                ensure(arrived.is_empty(), || format!("silent {run} was announced"))?;
                continue;
            }
            self.delivery_matches_arrival(history, parent, !arrived.is_empty())?;
        }
        Ok(())
    }

    /// Whether a run is a turn of its session.
    fn is_turn(&self, run: RunId) -> bool {
        let record = &self.runs[&run].record;
        record.parent.is_none() && record.lane == Lane::Main
    }

    /// Whether the results of children reach this turn after `ended`, another turn of the session.
    fn succeeds(&self, turn: RunId, ended: RunId) -> bool {
        let both = self.is_turn(turn) && self.is_turn(ended);
        both && self.runs[&turn].record.session == self.runs[&ended].record.session
    }

    fn delivery_matches_arrival(
        &self,
        history: &RunHistory,
        parent: RunId,
        arrived: bool,
    ) -> Result<(), String> {
        let run = history.record.run_id;
        let parent_end = self.runs[&parent].record.ended_at;
        match history.record.delivery {
            // The parent may have ended with the result still in its inbox.
            Delivery::Delivered => ensure(
                arrived || self.runs[&parent].record.outcome.is_some(),
                || format!("{run} is delivered but never arrived"),
            ),
            // It waits for the next turn of the session.
            Delivery::Pending => ensure(self.is_turn(parent) && !arrived, || {
                format!("the result of {run} was never delivered")
            }),
            Delivery::Blocked | Delivery::NotRequired => ensure(
                !arrived && parent_end <= history.record.ended_at.max(parent_end),
                || format!("{run} arrived although it is {}", history.record.delivery),
            ),
        }?;
        // A parent that completed has received the results of all children it waited for.
        let parent_completed =
            self.runs[&parent].record.status == sortie_core::run::Status::Completed;
        ensure(!parent_completed || arrived, || {
            format!("{parent} completed without the result of {run}")
        })
    }

    fn no_child_outlives_its_parent(&self) -> Result<(), String> {
        for (run, history) in &self.runs {
            let Some(parent) = history.state.spec().parent.as_ref() else {
                continue;
            };
            let parent = &self.runs[&parent.run].record;
            let in_background = history.record.mode == Some(EdgeMode::Background);
            if !history.state.spec().announce.reaches_parent()
                || (in_background && self.is_turn(parent.run_id))
            {
                continue;
            }
            // A leased child needs a moment to stop after its parent has ended.
            let grace = 60_000;
            let late = history
                .record
                .ended_at
                .zip(parent.ended_at)
                .is_some_and(|(child, parent)| child.ms_since(parent) > grace);
            ensure(!late, || format!("run {run} outlived its parent"))?;
        }
        Ok(())
    }

    fn effects_match_the_journal(&self, world: &World) -> Result<(), String> {
        let reported = self.reported_results();
        for (tool, happened) in [("ledger", world.ledger()), ("note", world.notes())] {
            for (effect, times) in &happened {
                ensure(*times == 1, || {
                    format!("{tool} effect {effect} happened {times} times")
                })?;
            }
            for (effect, (name, status)) in &reported {
                if name == tool && *status == ResultStatus::Ok {
                    ensure(happened.contains_key(effect), || {
                        format!("{tool} effect {effect} never happened")
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Returns every effect with its tool and the result that the model read.
    fn reported_results(&self) -> BTreeMap<String, (String, ResultStatus)> {
        let mut reported = BTreeMap::new();
        for (run, history) in &self.runs {
            let mut names = BTreeMap::new();
            for entry in &history.entries {
                if let Event::Answered { blocks, .. } = &entry.event {
                    for block in blocks {
                        if let Block::Call(call) = block {
                            names.insert(call.id.clone(), call.name.clone());
                        }
                    }
                } else if let Some(result) = entry.event.tool_result() {
                    let name = names.get(&result.call).cloned().unwrap_or_default();
                    let effect = EffectId::new(*run, &result.call).to_string();
                    reported.insert(effect, (name, result.status));
                }
            }
        }
        reported
    }

    fn report(&self, crashes: u32) -> Report {
        let mut hash = Sha256::new();
        let mut entries = 0;
        for history in self.runs.values() {
            entries += history.entries.len();
            for entry in &history.entries {
                hash.update(serde_json::to_vec(entry).unwrap_or_default());
            }
        }
        let all = self.runs.values().flat_map(|history| &history.entries);
        let pauses = all
            .filter(|entry| matches!(entry.event, Event::Paused))
            .count();
        let interruptions = self
            .reported_results()
            .values()
            .filter(|(_, status)| *status == ResultStatus::Interrupted)
            .count();
        Report {
            runs: self.runs.len(),
            crashes,
            entries,
            pauses,
            interruptions,
            digest: hex(&hash.finalize()),
        }
    }
}

fn ensure(condition: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(what()) }
}
