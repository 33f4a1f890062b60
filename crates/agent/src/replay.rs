//! Running journals again without asking any model or tool.
//!
//! The machine decides everything a second time: whom to ask, which turn it is, which calls run,
//! what becomes short, how a run ends, what its parent hears. Only what came from outside is taken
//! from the tape: answers, results, words of people, claims and the clock. If the journal that
//! comes out differs from the tape in one byte, the machine or the tape has changed.

use std::collections::BTreeMap;
use std::fmt;

use sortie_core::{
    Announcement, Block, CallId, Event, InboxItem, JournalEntry, Outcome, Reason, RunId, Seq,
};

use crate::state::{PriorHistory, RunState};
use crate::step::Step;

/// How many runs back a continued history goes. Its size is not bounded by this but by compaction;
/// this bounds the work of a turn, which reads the journals of those before it. The model is told
/// that older ones are missing.
pub const MAX_EARLIER_RUNS: usize = 10_000;

/// The journals of a tree, and of the runs that its runs go on from.
pub type Tapes = BTreeMap<RunId, Vec<JournalEntry>>;

/// What came of running a tree again.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The runs of the tree.
    pub runs: u64,
    /// The journal that came out: a line of JSON for each entry, run by run.
    pub projection: String,
}

/// Where a journal that was run again differs from its tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The run.
    pub run: RunId,
    /// The entry.
    pub seq: Seq,
    /// What the tape says.
    pub recorded: String,
    /// What came out.
    pub replayed: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "run {} differs at event {}: the journal says {}, the machine says {}",
            self.run, self.seq, self.recorded, self.replayed
        )
    }
}

impl std::error::Error for Divergence {}

/// A journal as text: what two journals are compared by.
pub fn projection(entries: &[JournalEntry]) -> String {
    entries.iter().map(line).collect()
}

fn line(entry: &JournalEntry) -> String {
    // The journal was written by the same code, so it can be written again.
    let mut line = serde_json::to_string(entry).unwrap_or_else(|error| error.to_string());
    line.push('\n');
    line
}

/// Runs a tree again, children before parents: what a parent hears is what its child's second life
/// came to.
pub fn replay_tree(tapes: &Tapes, tree: &[RunId]) -> Result<Replayed, Divergence> {
    let mut states = BTreeMap::new();
    let mut projections = BTreeMap::new();
    let mut order: Vec<RunId> = tree.to_vec();
    // Ids grow with time, so that the youngest run has no children that were not replayed yet.
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

/// One run under way for the second time.
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
        let past = past(tapes, first, MAX_EARLIER_RUNS)?;
        let state = RunState::fold(&past, &tape[..1])
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

    /// The event that the machine makes of what came from outside.
    fn decide(
        &self,
        before: &JournalEntry,
        entry: &JournalEntry,
        ended: &Ended,
    ) -> Result<Event, Divergence> {
        // A step is decided after the entry before it and acted on before its own.
        let step = self.state.next_step(before.at, None);
        match (&entry.event, step) {
            // Accounts, worktrees and the queue are outside the machine.
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
            ) => Ok(entry.event.clone()),
            // Several calls of one answer are asked about at once, though each waits for the first.
            (Event::Asked { .. }, Step::CallTools(_) | Step::Wait(_)) => Ok(entry.event.clone()),
            (Event::InboxTaken { items, unread }, _) => Ok(Event::InboxTaken {
                items: items
                    .iter()
                    .map(|item| replayed_item(item, ended))
                    .collect(),
                unread: *unread,
            }),
            (
                Event::Answered {
                    blocks,
                    stop,
                    usage,
                    model,
                    held_ms,
                    ..
                },
                Step::CallModel(call),
            ) => Ok(Event::Answered {
                turn: call.turn,
                blocks: numbered(call.turn, blocks),
                stop: *stop,
                usage: *usage,
                model: model.clone(),
                held_ms: *held_ms,
            }),
            (
                Event::ModelFailed {
                    fault,
                    message,
                    shown,
                    ..
                },
                Step::CallModel(call),
            ) => Ok(Event::ModelFailed {
                model: call.model,
                fault: *fault,
                message: message.clone(),
                shown: *shown,
            }),
            (Event::Compacted { .. }, Step::Compact(compaction)) => Ok(compaction.event),
            (
                Event::Intended { call, .. } | Event::Delegated { call, .. },
                Step::CallTools(open),
            ) if open.iter().any(|open| open.call.id == *call) => Ok(entry.event.clone()),
            (
                Event::ToolFinished {
                    result,
                    elapsed_ms,
                    spawned,
                    todos,
                    ruling,
                    sandbox,
                },
                Step::CallTools(open),
            ) => {
                let Some(open) = open.iter().find(|open| open.call.id == result.call) else {
                    return Err(differs(entry, "the call is not open"));
                };
                let mut result = result.clone();
                result.provider_id.clone_from(&open.call.provider_id);
                Ok(Event::ToolFinished {
                    result,
                    elapsed_ms: *elapsed_ms,
                    spawned: spawned.clone(),
                    todos: todos.clone(),
                    ruling: ruling.clone(),
                    sandbox: sandbox.clone(),
                })
            }
            (Event::Finished { outcome }, _) => self.end(entry, outcome),
            (
                Event::Admitted { .. }
                | Event::Answered { .. }
                | Event::ModelFailed { .. }
                | Event::Compacted { .. }
                | Event::Intended { .. }
                | Event::Asked { .. }
                | Event::Delegated { .. }
                | Event::ToolFinished { .. },
                step,
            ) => Err(differs(entry, name(&step))),
        }
    }

    /// How the machine ends the run. A cancel comes from outside, and so does the end of a run
    /// whose process kept dying.
    fn end(&self, entry: &JournalEntry, recorded: &Outcome) -> Result<Event, Divergence> {
        let cancel = match recorded {
            Outcome::Cancelled { cancellation, .. } => Some(cancellation),
            Outcome::Failed {
                reason: Reason::Interrupted,
                ..
            } => return Ok(entry.event.clone()),
            Outcome::Completed { .. } | Outcome::Failed { .. } | Outcome::Timeout { .. } => None,
        };
        // The store ends a run that nobody holds, under a claim of its own, and does not know what the
        // machine would have concluded.
        if entry.epoch != self.state.epoch() {
            let stopped = self.state.stopped(entry.at, cancel);
            return stopped
                .map(|outcome| Event::Finished { outcome })
                .ok_or_else(|| differs(entry, "nobody stopped it"));
        }
        match self.state.next_step(entry.at, cancel) {
            Step::Finish(outcome) => Ok(Event::Finished { outcome }),
            step @ (Step::CallModel(_)
            | Step::Compact(_)
            | Step::CallTools(_)
            | Step::Wait(_)
            | Step::Done) => match (recorded, self.state.result()) {
                // Somebody stopped a run that had gone on, and nothing but its result tells of it.
                (Outcome::Completed { .. }, Some(result)) => Ok(Event::Finished {
                    outcome: result.clone(),
                }),
                _ => Err(differs(entry, name(&step))),
            },
        }
    }
}

/// What a run goes on from, folded from the tapes, as far back as `most` runs.
fn past(tapes: &Tapes, first: &JournalEntry, most: usize) -> Result<PriorHistory, Divergence> {
    let mut chain = Vec::new();
    let mut next = earlier(first);
    while let Some((run, up_to)) = next
        && chain.len() < most
    {
        let tape = tapes.get(&run).map_or(&[][..], Vec::as_slice);
        let Some(beginning) = tape.first() else {
            return Err(differs(
                first,
                &format!("the journal of run {run}, which it goes on from, is gone"),
            ));
        };
        let is_part = |entry: &&JournalEntry| up_to.is_none_or(|last| entry.seq <= last);
        let count = tape.iter().take_while(is_part).count();
        chain.push(&tape[..count]);
        next = earlier(beginning);
    }
    let mut past = match next {
        None => PriorHistory::default(),
        Some(_) => PriorHistory::missing(),
    };
    for tape in chain.into_iter().rev() {
        let state = RunState::fold(&past, tape).map_err(|illegal| {
            let beginning = tape.first().unwrap_or(first);
            differs(beginning, &illegal.to_string())
        })?;
        past = state.into_prior_history();
    }
    Ok(past)
}

/// The run that another goes on from, and the last of its entries that counts; `None` is all.
fn earlier(first: &JournalEntry) -> Option<(RunId, Option<Seq>)> {
    let Event::Admitted { spec } = &first.event else {
        return None;
    };
    let forked = spec.fork.map(|point| (point.run, Some(point.at)));
    forked.or_else(|| spec.continues.map(|run| (run, None)))
}

fn numbered(turn: u32, blocks: &[Block]) -> Vec<Block> {
    let mut blocks = blocks.to_vec();
    for (index, block) in blocks.iter_mut().enumerate() {
        if let Block::Call(call) = block {
            call.id = CallId::new(turn, index);
        }
    }
    blocks
}

/// What a parent hears of a child whose second life is known; everything else is from outside.
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
        Step::CallModel(_) => "ask the model",
        Step::Compact(_) => "make the history shorter",
        Step::CallTools(_) => "run calls",
        Step::Wait(_) => "wait for children",
        Step::Finish(_) => "end",
        Step::Done => "nothing more",
    }
}
