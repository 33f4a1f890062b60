//! Timelines: what the runs of a tree waited for, and which waits determined the total time.
//!
//! A fold over journals. Each run is divided at its entries; between two of them it waited for what
//! its state tells there. The critical path is found backwards from the end of the root: while a
//! run waits for children, the child that ended last is followed.

use std::collections::BTreeMap;

use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::RunId;
use sortie_core::run::{Outcome, Status, WaitingOn};
use sortie_core::time::Timestamp;

use crate::state::{Phase, PriorHistory, RunState};

/// How deep descendants are followed: more than any tree is allowed to be.
const MAX_DEPTH: usize = 64;

/// What the runs of a tree waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The root of the tree.
    pub root: RunId,
    /// When the root was admitted.
    pub from: Timestamp,
    /// When the root ended, or now.
    pub until: Timestamp,
    /// The runs, oldest first.
    pub tasks: Vec<TaskTimeline>,
    /// What the root's result waited for at each moment, in order and without gaps.
    pub critical_path: Vec<CriticalSpan>,
}

/// What one run waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTimeline {
    pub run: RunId,
    pub parent: Option<RunId>,
    /// The name that people see.
    pub label: String,
    pub agent: String,
    pub status: Status,
    /// Its distance from the root.
    pub depth: u32,
    /// When it was admitted.
    pub admitted: Timestamp,
    /// When it was first claimed.
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// The time from its admission to its end, or to now, in order and without gaps.
    pub spans: Vec<Span>,
}

/// An interval of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The start of the interval.
    pub from: Timestamp,
    /// The end of the interval.
    pub until: Timestamp,
    /// What the run waited for.
    pub kind: SpanKind,
    /// The tool or the model, if there is one.
    pub name: Option<String>,
    /// Whether a part of it is on the critical path.
    pub critical: bool,
}

/// An interval of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CriticalSpan {
    /// The run that the root's result waited for.
    pub run: RunId,
    /// The start of the interval.
    pub from: Timestamp,
    /// The end of the interval.
    pub until: Timestamp,
    /// What that run waited for.
    pub kind: SpanKind,
}

/// What a run waits for during an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpanKind {
    /// A slot in its lane.
    Slot,
    /// A completion of the model.
    Model,
    /// The provider's rate limit.
    RateLimit,
    Tool,
    Approval,
    /// An answer to its question.
    Question,
    Children,
    /// Waits until a person resumes it.
    Paused,
    /// Nothing that is journaled: its process was gone, or it was ending.
    Other,
}

impl SpanKind {
    /// Returns the name of the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Model => "model",
            Self::RateLimit => "rate_limit",
            Self::Tool => "tool",
            Self::Approval => "approval",
            Self::Question => "question",
            Self::Children => "children",
            Self::Paused => "paused",
            Self::Other => "other",
        }
    }
}

/// Returns the timeline of a tree from those of its runs. Runs that have not ended last until
/// `now`.
pub fn timeline(root: RunId, mut tasks: Vec<TaskTimeline>, now: Timestamp) -> Timeline {
    tasks.sort_by_key(|task| task.run);
    let walk = CriticalPath::over(&tasks);
    let mut critical_path = Vec::new();
    let lifetime = walk.lifetime(root);
    if let Some((from, until)) = lifetime {
        walk.back(root, (from, until), 0, &mut critical_path);
    }
    critical_path.reverse();
    let critical_path = merged(critical_path);
    mark(&mut tasks, &critical_path);
    let (from, until) = lifetime.unwrap_or((now, now));
    Timeline {
        root,
        from,
        until,
        tasks,
        critical_path,
    }
}

/// Where a run is, by its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Custody {
    Queued,
    Claimed,
    Paused,
}

/// Returns what one run waited for, by its journal; `None` if that was removed. Has at most
/// `max_spans` intervals.
pub fn task_timeline(
    entries: &[JournalEntry],
    now: Timestamp,
    max_spans: usize,
) -> Option<TaskTimeline> {
    let (first, rest) = entries.split_first()?;
    let Event::Admitted { spec } = &first.event else {
        return None;
    };
    let mut builder = TimelineBuilder {
        // The messages of earlier runs do not change what this run waits for.
        state: RunState::fold(&PriorHistory::default(), std::slice::from_ref(first)).ok(),
        custody: Custody::Queued,
        cursor: first.at,
        spans: Vec::new(),
    };
    let mut task = TaskTimeline {
        run: first.run,
        parent: spec.parent.as_ref().map(|parent| parent.run),
        label: spec.label.clone(),
        agent: spec.agent.name.clone(),
        status: Status::Pending,
        depth: spec.depth,
        admitted: first.at,
        started: None,
        ended: None,
        spans: Vec::new(),
    };
    for entry in rest {
        builder.take(entry);
        if let Event::Claimed { .. } = &entry.event {
            task.status = Status::Running;
            task.started.get_or_insert(builder.cursor);
        } else if let Event::Updated { label, .. } = &entry.event {
            task.label = label.clone().unwrap_or(task.label);
        } else if let Event::Finished { outcome } = &entry.event {
            task.status = Outcome::status(outcome);
            task.ended = Some(builder.cursor);
        }
    }
    if task.ended.is_none() {
        builder.until(now, None);
    }
    task.spans = coarsened(builder.spans, max_spans);
    Some(task)
}

/// Merges neighbouring intervals until there are few enough; the longer one of each pair gives the
/// kind.
fn coarsened(mut spans: Vec<Span>, most: usize) -> Vec<Span> {
    while spans.len() > most.max(1) {
        let mut fewer: Vec<Span> = Vec::with_capacity(spans.len().div_ceil(2));
        for pair in spans.chunks(2) {
            let (Some(first), Some(last)) = (pair.first(), pair.last()) else {
                continue;
            };
            let longer = if last.until.ms_since(last.from) > first.until.ms_since(first.from) {
                last
            } else {
                first
            };
            let span = Span {
                from: first.from,
                until: last.until,
                ..longer.clone()
            };
            match fewer.last_mut() {
                Some(before) if (before.kind, &before.name) == (span.kind, &span.name) => {
                    before.until = span.until;
                }
                Some(_) | None => fewer.push(span),
            }
        }
        spans = fewer;
    }
    spans
}

/// Builds the timeline of one run from its journal.
struct TimelineBuilder {
    /// The state so far; `None` if an entry does not fit the ones before it.
    state: Option<RunState>,
    custody: Custody,
    /// The end of the last interval. Never goes back, whatever the clock did between two processes.
    cursor: Timestamp,
    spans: Vec<Span>,
}

impl TimelineBuilder {
    fn take(&mut self, entry: &JournalEntry) {
        self.until(entry.at, Some(&entry.event));
        if let Event::Claimed { .. } = entry.event {
            self.custody = Custody::Claimed;
        } else if let Event::Paused = entry.event {
            self.custody = Custody::Paused;
        } else if let Event::Resumed = entry.event {
            self.custody = Custody::Queued;
        }
        if let Some(state) = &mut self.state
            && state.apply(entry).is_err()
        {
            self.state = None;
        }
    }

    /// Adds the interval until a moment, at which `next` happened.
    fn until(&mut self, moment: Timestamp, next: Option<&Event>) {
        let kind = self.kind(next);
        if let Some(Event::Answered { held_ms, .. }) = next
            && kind == SpanKind::Model
        {
            let waited = i64::try_from(*held_ms).unwrap_or(i64::MAX);
            let name = self.name(kind, next);
            self.push(
                self.cursor.plus_ms(waited).min(moment),
                SpanKind::RateLimit,
                name,
            );
        }
        let name = self.name(kind, next);
        self.push(moment, kind, name);
    }

    fn push(&mut self, until: Timestamp, kind: SpanKind, name: Option<String>) {
        if until <= self.cursor {
            return;
        }
        let from = std::mem::replace(&mut self.cursor, until);
        match self.spans.last_mut() {
            Some(last) if last.kind == kind && last.name == name => last.until = until,
            Some(_) | None => self.spans.push(Span {
                from,
                until,
                kind,
                name,
                critical: false,
            }),
        }
    }

    fn kind(&self, next: Option<&Event>) -> SpanKind {
        let started = self.state.as_ref().and_then(RunState::started_at).is_some();
        let waiting = self.state.as_ref().and_then(RunState::waiting_on);
        match (self.custody, waiting) {
            (Custody::Paused, _) => SpanKind::Paused,
            (Custody::Queued, _) if !started => SpanKind::Slot,
            (_, Some(WaitingOn::Approval)) => SpanKind::Approval,
            (_, Some(WaitingOn::Question)) => SpanKind::Question,
            (_, Some(WaitingOn::Children)) => SpanKind::Children,
            (Custody::Queued, _) => SpanKind::Slot,
            // The run was claimed again: its earlier executor was gone.
            (Custody::Claimed, _) if matches!(next, Some(Event::Claimed { .. })) => SpanKind::Other,
            (Custody::Claimed, Some(WaitingOn::Model)) => SpanKind::Model,
            (Custody::Claimed, Some(WaitingOn::RateLimit)) => SpanKind::RateLimit,
            (Custody::Claimed, Some(WaitingOn::Tool)) => SpanKind::Tool,
            (Custody::Claimed, Some(WaitingOn::Slot)) => SpanKind::Slot,
            (Custody::Claimed, None) => SpanKind::Other,
        }
    }

    /// Returns the tool that ends the interval, or the first that could run; or the model.
    fn name(&self, kind: SpanKind, next: Option<&Event>) -> Option<String> {
        let state = self.state.as_ref()?;
        match kind {
            SpanKind::Model | SpanKind::RateLimit => match next {
                Some(Event::Answered { model, .. } | Event::ModelFailed { model, .. }) => {
                    Some(model.clone())
                }
                Some(_) | None => Some(state.next_model().to_owned()),
            },
            SpanKind::Tool => {
                let finished = match next {
                    Some(Event::ToolFinished { result, .. }) => state.find_open_call(&result.call),
                    Some(
                        Event::Intended { call, .. }
                        | Event::Asked { call, .. }
                        | Event::Delegated { call, .. },
                    ) => state.find_open_call(call),
                    Some(_) | None => None,
                };
                let first = match state.phase() {
                    Phase::RunningCalls(batch) => batch.runnable().next().map(|open| &open.call),
                    Phase::AwaitingModel
                    | Phase::AwaitingChildren
                    | Phase::Checking(_)
                    | Phase::Concluding(_)
                    | Phase::Ended(_) => None,
                };
                finished.or(first).map(|call| call.name.clone())
            }
            SpanKind::Slot
            | SpanKind::Approval
            | SpanKind::Question
            | SpanKind::Children
            | SpanKind::Paused
            | SpanKind::Other => None,
        }
    }
}

/// Walks backwards through the runs of a tree.
struct CriticalPath<'a> {
    tasks: BTreeMap<RunId, &'a TaskTimeline>,
    children: BTreeMap<RunId, Vec<&'a TaskTimeline>>,
}

impl<'a> CriticalPath<'a> {
    fn over(tasks: &'a [TaskTimeline]) -> Self {
        let mut children: BTreeMap<RunId, Vec<&TaskTimeline>> = BTreeMap::new();
        for task in tasks {
            if let Some(parent) = task.parent {
                children.entry(parent).or_default().push(task);
            }
        }
        Self {
            tasks: tasks.iter().map(|task| (task.run, task)).collect(),
            children,
        }
    }

    /// Returns from when until when a run existed.
    fn lifetime(&self, run: RunId) -> Option<(Timestamp, Timestamp)> {
        let task = self.tasks.get(&run)?;
        Some((task.admitted, end_of(task)))
    }

    /// Adds the intervals of a run within bounds, from its end to its beginning.
    fn back(
        &self,
        run: RunId,
        (from, until): (Timestamp, Timestamp),
        depth: usize,
        path: &mut Vec<CriticalSpan>,
    ) {
        let Some(task) = self.tasks.get(&run) else {
            return;
        };
        for span in task.spans.iter().rev() {
            let within = (span.from.max(from), span.until.min(until));
            if within.0 >= within.1 {
                continue;
            }
            match span.kind {
                SpanKind::Children if depth < MAX_DEPTH => {
                    self.through_children(run, within, depth, path);
                }
                SpanKind::Slot
                | SpanKind::Model
                | SpanKind::RateLimit
                | SpanKind::Tool
                | SpanKind::Approval
                | SpanKind::Question
                | SpanKind::Children
                | SpanKind::Paused
                | SpanKind::Other => path.push(CriticalSpan {
                    run,
                    from: within.0,
                    until: within.1,
                    kind: span.kind,
                }),
            }
        }
    }

    /// Adds an interval in which a run waited for its children: by the child that ended last and,
    /// before that one began, by the one that had ended last then.
    fn through_children(
        &self,
        run: RunId,
        (from, until): (Timestamp, Timestamp),
        depth: usize,
        path: &mut Vec<CriticalSpan>,
    ) {
        let children = self.children.get(&run).map_or(&[][..], Vec::as_slice);
        let mut end = until;
        while end > from {
            let last = children
                .iter()
                .filter(|child| child.admitted < end && end_of(child) > from)
                .max_by_key(|child| (end_of(child).min(end), std::cmp::Reverse(child.run)));
            let Some(child) = last else {
                break;
            };
            let stopped = end_of(child).min(end);
            own(run, (stopped, end), path);
            let began = child.admitted.max(from);
            self.back(child.run, (began, stopped), depth + 1, path);
            end = began;
        }
        own(run, (from, end), path);
    }
}

fn own(run: RunId, (from, until): (Timestamp, Timestamp), path: &mut Vec<CriticalSpan>) {
    if from < until {
        path.push(CriticalSpan {
            run,
            from,
            until,
            kind: SpanKind::Children,
        });
    }
}

fn end_of(task: &TaskTimeline) -> Timestamp {
    task.spans.last().map_or(task.admitted, |last| last.until)
}

fn merged(path: Vec<CriticalSpan>) -> Vec<CriticalSpan> {
    let mut merged: Vec<CriticalSpan> = Vec::with_capacity(path.len());
    for span in path {
        match merged.last_mut() {
            Some(last) if (last.run, last.kind, last.until) == (span.run, span.kind, span.from) => {
                last.until = span.until;
            }
            Some(_) | None => merged.push(span),
        }
    }
    merged
}

/// Marks the intervals on the path. Both lists are in order of time, so each is walked once.
fn mark(tasks: &mut [TaskTimeline], path: &[CriticalSpan]) {
    let mut by_run: BTreeMap<RunId, Vec<&CriticalSpan>> = BTreeMap::new();
    for critical in path {
        by_run.entry(critical.run).or_default().push(critical);
    }
    for task in tasks {
        let mut ahead = by_run.get(&task.run).into_iter().flatten().peekable();
        for span in &mut task.spans {
            while ahead
                .next_if(|critical| critical.until <= span.from)
                .is_some()
            {}
            span.critical = ahead
                .peek()
                .is_some_and(|critical| critical.from < span.until);
        }
    }
}
