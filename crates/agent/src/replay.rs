//! Replays journals without calling any model or tool.
//!
//! The machine decides everything a second time: which model to call, which turn it is, which calls
//! run, what is shortened, how a run ends, what its parent reads. Only input from outside is taken
//! from the recorded journal: completions, results, messages of people, claims and the clock. If
//! the replayed journal differs from the recorded one in one byte, the machine or the record has
//! changed.

use std::collections::BTreeMap;
use std::fmt;

use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{CallId, RunId, Seq};
use sortie_core::inbox::{Announcement, InboxItem};
use sortie_core::message::Block;
use sortie_core::run::{Outcome, Reason};

use crate::state::{Phase, PriorHistory, RunState, unchecked};
use crate::step::Step;

/// How many runs back a continued history goes. Compaction bounds its size; this bounds the work of
/// a turn, which reads the journals of the runs before it. The model reads that older ones are
/// missing.
pub const MAX_EARLIER_RUNS: usize = 10_000;

/// The journals of a tree, and of the runs that its runs continue.
pub type Tapes = BTreeMap<RunId, Vec<JournalEntry>>;

/// The result of replaying a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The number of runs in the tree.
    pub runs: u64,
    /// The replayed journal: a line of JSON for each entry, run by run.
    pub projection: String,
}

/// Where a replayed journal differs from the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The run that differs.
    pub run: RunId,
    /// The first entry that differs.
    pub seq: Seq,
    pub recorded: String,
    /// The replayed entry, or what is wrong with it.
    pub replayed: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "run {} differs at event {}: recorded {}, replayed {}",
            self.run, self.seq, self.recorded, self.replayed
        )
    }
}

impl std::error::Error for Divergence {}

/// Returns a journal as text, for comparison.
pub fn projection(entries: &[JournalEntry]) -> String {
    entries.iter().map(line).collect()
}

fn line(entry: &JournalEntry) -> String {
    // The journal was written by the same code, so it can be written again.
    let mut line = serde_json::to_string(entry).unwrap_or_else(|error| error.to_string());
    line.push('\n');
    line
}

/// Replays a tree, children before parents: a parent reads the replayed result of its child.
pub fn replay_tree(tapes: &Tapes, tree: &[RunId]) -> Result<Replayed, Divergence> {
    let mut states = BTreeMap::new();
    let mut projections = BTreeMap::new();
    let mut order: Vec<RunId> = tree.to_vec();
    // Ids grow with time, so the children of a run have been replayed before it.
    order.sort();
    for run in order.iter().rev() {
        let tape = tapes.get(run).map_or(&[][..], Vec::as_slice);
        let replay = Replay::of(tapes, *run, tape)?;
        let (state, entries) = replay.run(&states)?;
        projections.insert(*run, projection(&entries));
        states.insert(*run, (state, entries));
    }
    Ok(Replayed {
        runs: projections.len() as u64,
        projection: projections.into_values().collect(),
    })
}

type Ended = BTreeMap<RunId, (RunState, Vec<JournalEntry>)>;

/// The replay of one run.
struct Replay<'a> {
    state: RunState,
    entries: Vec<JournalEntry>,
    tape: &'a [JournalEntry],
}

impl<'a> Replay<'a> {
    fn of(tapes: &Tapes, run: RunId, tape: &'a [JournalEntry]) -> Result<Self, Divergence> {
        let Some(first) = tape.first() else {
            return Err(Divergence {
                run,
                seq: Seq(0),
                recorded: "nothing".to_owned(),
                replayed: "an admission".to_owned(),
            });
        };
        let prior = prior_history(tapes, first, MAX_EARLIER_RUNS)?;
        let state = RunState::fold(&prior, &tape[..1])
            .map_err(|illegal| differs(first, &illegal.to_string()))?;
        Ok(Self {
            state,
            entries: vec![first.clone()],
            tape,
        })
    }

    fn run(mut self, ended: &Ended) -> Result<(RunState, Vec<JournalEntry>), Divergence> {
        for (index, entry) in self.tape.iter().enumerate().skip(1) {
            let before = &self.tape[index - 1];
            let event = self.decide(before, entry, ended)?;
            let again = JournalEntry {
                seq: self.state.head().next(),
                event,
                ..entry.clone()
            };
            if line(&again) != line(entry) {
                return Err(differs(entry, line(&again).trim_end()));
            }
            self.state
                .apply(&again)
                .map_err(|illegal| differs(entry, &illegal.to_string()))?;
            self.entries.push(again);
        }
        Ok((self.state, self.entries))
    }

    /// Returns the event that the machine makes of the recorded input.
    fn decide(
        &self,
        before: &JournalEntry,
        entry: &JournalEntry,
        ended: &Ended,
    ) -> Result<Event, Divergence> {
        // A step is decided after the entry before it, and acted on before its own entry.
        let step = self.state.next_step(before.at, None);
        let mut event = entry.event.clone();
        match (&mut event, step) {
            // Accounts, worktrees and the queue are outside the machine. Several calls of one
            // completion open their requests at once, though each waits for the first.
            (
                Event::Claimed { .. }
                | Event::Updated { .. }
                | Event::Paused
                | Event::Resumed
                | Event::BudgetLow { .. }
                | Event::BudgetSpent { .. }
                | Event::Isolated { .. }
                | Event::Collected { .. },
                _,
            )
            | (Event::Asked { .. }, Step::CallTools(_) | Step::Wait(_))
            | (Event::Checked { .. }, Step::Check) => {}
            (Event::InboxTaken { items, .. }, _) => {
                for item in items {
                    *item = replayed_item(item, ended);
                }
            }
            (Event::Answered { turn, blocks, .. }, Step::CallModel(call)) => {
                *turn = call.turn;
                number_calls(call.turn, blocks);
            }
            (Event::ModelFailed { model, .. }, Step::CallModel(call)) => *model = call.model,
            (Event::Compacted { .. }, Step::Compact(compaction)) => return Ok(compaction.event),
            (
                Event::Intended { call, .. } | Event::Delegated { call, .. },
                Step::CallTools(open),
            ) if open.iter().any(|open| open.call.id == *call) => {}
            (Event::ToolFinished { result, .. }, Step::CallTools(open)) => {
                let Some(open) = open.into_iter().find(|open| open.call.id == result.call) else {
                    return Err(differs(entry, "the call is not open"));
                };
                result.provider_id = open.call.provider_id;
            }
            (Event::Finished { outcome }, _) => return self.end(entry, outcome),
            (
                Event::Admitted { .. }
                | Event::Answered { .. }
                | Event::ModelFailed { .. }
                | Event::Compacted { .. }
                | Event::Intended { .. }
                | Event::Asked { .. }
                | Event::Delegated { .. }
                | Event::ToolFinished { .. }
                | Event::Checked { .. },
                step,
            ) => return Err(differs(entry, name(&step))),
        }
        Ok(event)
    }

    /// Returns how the machine ends the run. A cancel comes from outside, and so does the end of a
    /// run whose process kept dying.
    fn end(&self, entry: &JournalEntry, recorded: &Outcome) -> Result<Event, Divergence> {
        let cancel = match recorded {
            Outcome::Cancelled { cancellation, .. } => Some(cancellation),
            Outcome::Failed {
                reason: Reason::Interrupted,
                ..
            } => return Ok(entry.event.clone()),
            Outcome::Completed { .. } | Outcome::Failed { .. } | Outcome::Timeout { .. } => None,
        };
        // The store ends a run without an executor under a claim of its own, and does not know what
        // the machine would have concluded.
        if entry.epoch != self.state.epoch() {
            let stopped = self.state.stopped(entry.at, cancel);
            return stopped
                .map(|outcome| Event::Finished { outcome })
                .ok_or_else(|| differs(entry, "the run is not stopped"));
        }
        match self.state.next_step(entry.at, cancel) {
            Step::Finish(outcome) => Ok(Event::Finished { outcome }),
            // The checks were stopped, and the outcome is the only trace of that.
            Step::Check => {
                let Phase::Checking(text) = self.state.phase() else {
                    return Err(differs(entry, name(&Step::Check)));
                };
                let outcome = unchecked(text.clone());
                Ok(Event::Finished { outcome })
            }
            step @ (Step::CallModel(_)
            | Step::Compact(_)
            | Step::CallTools(_)
            | Step::Wait(_)
            | Step::Done) => match (recorded, self.state.result()) {
                // A run that had continued after its result was stopped, and its outcome is the
                // only trace of that.
                (Outcome::Completed { .. }, Some(result)) => Ok(Event::Finished {
                    outcome: result.clone(),
                }),
                _ => Err(differs(entry, name(&step))),
            },
        }
    }
}

/// Folds the history that a run continues, as far back as `most` runs.
fn prior_history(
    tapes: &Tapes,
    first: &JournalEntry,
    most: usize,
) -> Result<PriorHistory, Divergence> {
    let mut chain = Vec::new();
    let mut next = earlier(first);
    while let Some((run, up_to)) = next
        && chain.len() < most
    {
        let tape = tapes.get(&run).map_or(&[][..], Vec::as_slice);
        let Some(beginning) = tape.first() else {
            return Err(differs(
                first,
                &format!("the journal of run {run}, which it continues, was removed"),
            ));
        };
        let is_part = |entry: &&JournalEntry| up_to.is_none_or(|last| entry.seq <= last);
        let count = tape.iter().take_while(is_part).count();
        chain.push(&tape[..count]);
        next = earlier(beginning);
    }
    let mut prior = match next {
        None => PriorHistory::default(),
        Some(_) => PriorHistory::missing(),
    };
    for tape in chain.into_iter().rev() {
        let state = RunState::fold(&prior, tape).map_err(|illegal| {
            let beginning = tape.first().unwrap_or(first);
            differs(beginning, &illegal.to_string())
        })?;
        prior = state.into_prior_history();
    }
    Ok(prior)
}

/// Returns the run that another continues, and the last entry of it that counts; `None` is all.
fn earlier(first: &JournalEntry) -> Option<(RunId, Option<Seq>)> {
    let Event::Admitted { spec } = &first.event else {
        return None;
    };
    let forked = spec.fork.map(|point| (point.run, Some(point.at)));
    forked.or_else(|| spec.continues.map(|run| (run, None)))
}

fn number_calls(turn: u32, blocks: &mut [Block]) {
    for (index, block) in blocks.iter_mut().enumerate() {
        if let Block::Call(call) = block {
            call.id = CallId::new(turn, index);
        }
    }
}

/// Returns what a parent reads of a child that was replayed; other items come from outside.
fn replayed_item(item: &InboxItem, ended: &Ended) -> InboxItem {
    let InboxItem::Announcement(announcement) = item else {
        return item.clone();
    };
    let again = ended
        .get(&announcement.child)
        .and_then(|(state, entries)| announced(state, entries));
    again.map_or_else(
        || item.clone(),
        |announcement| InboxItem::Announcement(Box::new(announcement)),
    )
}

fn announced(state: &RunState, entries: &[JournalEntry]) -> Option<Announcement> {
    let spec = state.spec();
    let link = spec.parent.as_ref()?;
    let end = entries.last()?;
    Some(Announcement {
        child: state.run(),
        call: Some(link.call.clone()),
        mode: link.mode,
        agent: spec.agent.name.clone(),
        label: spec.label.clone(),
        task: spec.task.clone(),
        outcome: state.outcome()?.clone(),
        tool_calls: state.tool_calls(),
        elapsed_ms: state
            .started_at()
            .map_or(0, |started| end.at.ms_since(started)),
        usage: state.usage(),
        changes: state.changes().cloned(),
    })
}

fn differs(entry: &JournalEntry, replayed: &str) -> Divergence {
    Divergence {
        run: entry.run,
        seq: entry.seq,
        recorded: line(entry).trim_end().to_owned(),
        replayed: replayed.to_owned(),
    }
}

fn name(step: &Step) -> &'static str {
    match step {
        Step::CallModel(_) => "call the model",
        Step::Compact(_) => "shorten the history",
        Step::CallTools(_) => "run calls",
        Step::Wait(_) => "wait for children",
        Step::Check => "check the result",
        Step::Finish(_) => "end",
        Step::Done => "nothing more",
    }
}
