//! Reports on delegation: what a tree of tasks cost, waited for and did twice, and what it kept out
//! of the contexts of its parents.
//!
//! A fold over journals, one at a time: each becomes a [`TaskFacts`] that is small however long the
//! run was, and [`delegation_report`] combines them. The same journals give the same report.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sortie_core::event::{ChildWait, Event, JournalEntry};
use sortie_core::id::{CallId, RunId};
use sortie_core::inbox::InboxItem;
use sortie_core::message::{Arguments, Block, ResultStatus, ToolCall};
use sortie_core::report::{
    ContextSaved, CriticalStep, DelegationReport, Duplicate, DuplicateKind, Estimate, Payoff,
    ReportTask, TimeByActivity,
};
use sortie_core::run::RunRecord;
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_text::first_chars;

use crate::render::announced_bytes;
use crate::timeline::{SpanKind, TaskTimeline, Timeline, task_timeline, timeline};

/// Tasks of a tree in a report: more than a tree has by default.
pub const MAX_REPORT_TASKS: u32 = 1_000;
/// Intervals of one task.
const MAX_SPANS: usize = 2_000;
/// Files and searches of one task that are compared with those of its siblings.
const MAX_LOOKUPS: usize = 2_000;
/// Characters of a path, a pattern or a query.
const LOOKUP_CHARS: usize = 200;
/// Steps of one task for the estimate; later ones are ignored.
const MAX_STEPS: usize = 20_000;
/// Duplicates in a report.
const MAX_DUPLICATES: usize = 50;
/// Siblings of one duplicate that are named.
const MAX_NAMED: usize = 20;
/// Steps of the critical path in a report.
const MAX_CRITICAL_STEPS: usize = 200;
/// How deep descendants are followed: more than any tree is allowed to be.
const MAX_DEPTH: usize = 64;

/// A file, folder, page or search that a task looked up.
type Lookup = (DuplicateKind, String);

/// What a report needs of one task.
#[derive(Debug)]
pub struct TaskFacts {
    record: RunRecord,
    /// Missing if the journal was removed.
    journal: Option<JournalFacts>,
}

#[derive(Debug)]
struct JournalFacts {
    line: TaskTimeline,
    completions: u32,
    instruction_bytes: u64,
    system_bytes: u64,
    context_bytes: u64,
    /// The bytes of its children's results that it read.
    announced: BTreeMap<RunId, u64>,
    lookups: BTreeMap<Lookup, Used>,
    steps: Vec<ContextStep>,
}

/// How often a task looked something up, and the bytes of the results.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    calls: u64,
    bytes: u64,
}

/// A change of a context, or a prompt that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContextStep {
    Grows(u64),
    Shrinks(u64),
    Prompt,
    /// A child was started.
    Child(RunId),
    /// The result of a child arrived.
    Announced(RunId, u64),
}

impl TaskFacts {
    /// Folds a task. An empty journal is one that was removed.
    pub fn of(record: RunRecord, entries: &[JournalEntry], now: Timestamp) -> Self {
        let journal = JournalFacts::of(entries, now);
        Self { record, journal }
    }

    /// Returns its intervals; one without a name if its journal was removed.
    fn line(&self, now: Timestamp) -> TaskTimeline {
        if let Some(journal) = &self.journal {
            return journal.line.clone();
        }
        let record = &self.record;
        let until = record.ended_at.unwrap_or(now).max(record.created_at);
        TaskTimeline {
            run: record.run_id,
            parent: record.parent,
            label: record.label.clone(),
            agent: record.agent.clone(),
            status: record.status,
            depth: record.depth,
            admitted: record.created_at,
            started: record.started_at,
            ended: record.ended_at,
            spans: vec![crate::timeline::Span {
                from: record.created_at,
                until,
                kind: SpanKind::Other,
                name: None,
                critical: false,
            }],
        }
    }
}

impl JournalFacts {
    fn of(entries: &[JournalEntry], now: Timestamp) -> Option<Self> {
        let line = task_timeline(entries, now, MAX_SPANS)?;
        let (first, rest) = entries.split_first()?;
        let Event::Admitted { spec } = &first.event else {
            return None;
        };
        let mut facts = Self {
            line,
            completions: 0,
            instruction_bytes: spec.task.len() as u64,
            system_bytes: spec.agent.prompt.len() as u64,
            context_bytes: 0,
            announced: BTreeMap::new(),
            lookups: BTreeMap::new(),
            steps: Vec::new(),
        };
        let workspace = spec.workspace.to_string_lossy();
        let mut open: BTreeMap<CallId, Lookup> = BTreeMap::new();
        for entry in rest {
            facts.take(&entry.event, &workspace, spec.lang, &mut open);
        }
        Some(facts)
    }

    fn take(
        &mut self,
        event: &Event,
        workspace: &str,
        lang: Lang,
        open: &mut BTreeMap<CallId, Lookup>,
    ) {
        if let Event::Answered { blocks, .. } = event {
            self.completions = self.completions.saturating_add(1);
            self.step(ContextStep::Prompt);
            self.grow(blocks.iter().map(block_bytes).sum());
            for block in blocks {
                if let Block::Call(call) = block
                    && let Some(lookup) = lookup(call, workspace)
                {
                    open.insert(call.id.clone(), lookup);
                }
            }
        } else if let Event::ToolFinished {
            result, spawned, ..
        } = event
        {
            let bytes = result.text.len() as u64;
            let lookup = open.remove(&result.call);
            if let Some(lookup) = lookup
                && result.status == ResultStatus::Ok
            {
                self.look_up(lookup, bytes);
            }
            self.grow(bytes);
            if let Some(child) = spawned {
                self.step(ContextStep::Child(child.run));
            }
        } else if let Event::Delegated {
            wait: ChildWait::Result { child },
            ..
        } = event
        {
            self.step(ContextStep::Child(child.run));
        } else if let Event::InboxTaken {
            items,
            unread: false,
        } = event
        {
            for item in items {
                self.take_item(item, lang);
            }
        } else if let Event::Compacted {
            chars_before,
            chars_after,
            ..
        } = event
        {
            self.step(ContextStep::Shrinks(
                chars_before.saturating_sub(*chars_after),
            ));
        }
    }

    fn take_item(&mut self, item: &InboxItem, lang: Lang) {
        match item {
            InboxItem::Announcement(announcement) => {
                let bytes = announced_bytes(lang, announcement);
                *self.announced.entry(announcement.child).or_default() += bytes;
                self.context_bytes += bytes;
                self.step(ContextStep::Announced(announcement.child, bytes));
            }
            InboxItem::Steer { text, .. } => self.grow(text.len() as u64),
            InboxItem::Question { question, .. } => self.grow(question.text.len() as u64),
            // Its text arrives as the result of the call.
            InboxItem::Reply { .. } => {}
        }
    }

    fn grow(&mut self, bytes: u64) {
        self.context_bytes += bytes;
        match self.steps.last_mut() {
            Some(ContextStep::Grows(before)) => *before += bytes,
            Some(_) | None => self.step(ContextStep::Grows(bytes)),
        }
    }

    fn step(&mut self, step: ContextStep) {
        if self.steps.len() < MAX_STEPS {
            self.steps.push(step);
        }
    }

    fn look_up(&mut self, lookup: Lookup, bytes: u64) {
        let is_full = self.lookups.len() >= MAX_LOOKUPS;
        if is_full && !self.lookups.contains_key(&lookup) {
            return;
        }
        let used = self.lookups.entry(lookup).or_default();
        used.calls += 1;
        used.bytes += bytes;
    }
}

fn block_bytes(block: &Block) -> u64 {
    let bytes = match block {
        Block::Text { text } | Block::Reasoning { text, .. } => text.len(),
        Block::Call(call) => match &call.arguments {
            Arguments::Json(value) => call.name.len() + value.to_string().len(),
            Arguments::Malformed { raw, .. } => call.name.len() + raw.len(),
        },
    };
    bytes as u64
}

/// Returns what a call looks up, if it is one that reads or searches.
fn lookup(call: &ToolCall, workspace: &str) -> Option<Lookup> {
    let Arguments::Json(arguments) = &call.arguments else {
        return None;
    };
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let path = |default: &str| {
        let path = text("path").or_else(|| text("file_path"));
        relative(path.unwrap_or(default), workspace).to_owned()
    };
    let (kind, what) = match call.name.to_ascii_lowercase().as_str() {
        "read_file" | "read" => (DuplicateKind::File, path("")),
        "list_dir" | "ls" => (DuplicateKind::Folder, path(".")),
        "grep" | "glob" => {
            let pattern = text("pattern")?;
            (DuplicateKind::Search, format!("{pattern} in {}", path(".")))
        }
        "web_search" | "websearch" => (DuplicateKind::Search, text("query")?.to_owned()),
        "web_fetch" | "webfetch" => (DuplicateKind::Page, text("url")?.to_owned()),
        _ => return None,
    };
    let is_named = !what.is_empty();
    is_named.then(|| (kind, first_chars(&what, LOOKUP_CHARS).to_owned()))
}

/// Returns a path as one relative to the workspace, so that two spellings are one file.
fn relative<'a>(path: &'a str, workspace: &str) -> &'a str {
    let inside = path
        .strip_prefix(workspace)
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let path = inside.map_or(path, |rest| rest.trim_start_matches('/'));
    let path = path.strip_prefix("./").unwrap_or(path);
    let path = path.trim_end_matches('/');
    if path.is_empty() && inside.is_some() {
        return ".";
    }
    path
}

/// Returns the tasks below `root`, and itself first, each parent before its children and siblings
/// by age. Tasks whose parent is missing are left out.
pub fn report_subtree(root: &RunRecord, listed: Vec<RunRecord>) -> Vec<RunRecord> {
    let mut children: BTreeMap<RunId, Vec<RunRecord>> = BTreeMap::new();
    for record in listed {
        if let Some(parent) = record.parent
            && record.run_id != root.run_id
        {
            children.entry(parent).or_default().push(record);
        }
    }
    let mut ordered = Vec::new();
    let mut ahead = vec![root.clone()];
    while let Some(record) = ahead.pop() {
        let mut below = children.remove(&record.run_id).unwrap_or_default();
        // The last one is taken first.
        below.sort_by_key(|child| std::cmp::Reverse(child.run_id));
        ahead.extend(below);
        ordered.push(record);
    }
    ordered.truncate(MAX_REPORT_TASKS as usize);
    ordered
}

/// Combines the facts of a tree, whose first task is the root.
pub fn delegation_report(
    facts: &[TaskFacts],
    left_out: u64,
    now: Timestamp,
) -> Option<DelegationReport> {
    let root = facts.first()?.record.run_id;
    let lines = facts.iter().map(|task| task.line(now)).collect();
    let line = timeline(root, lines, now);
    let tasks = report_tasks(facts, &line);
    let (critical_path, steps_left_out) = critical_steps(&line);
    let (duplicates, duplicates_left_out) = duplicates(facts);
    // A task that was never prompted cost nothing.
    let asked = tasks.iter().filter(|task| task.tokens.is_some());
    let costs = asked.map(|task| task.cost_usd);
    Some(DelegationReport {
        task_id: root,
        ended: facts.first()?.record.status.is_terminal(),
        elapsed_ms: line.until.ms_since(line.from),
        tokens: tasks
            .iter()
            .filter_map(|task| task.tokens)
            .reduce(u64::saturating_add),
        // The sum of nothing is unknown, and not zero.
        cost_usd: costs.reduce(|sum, cost| Some(sum? + cost?)).flatten(),
        left_out,
        critical_path,
        steps_left_out,
        duplicates,
        duplicates_left_out,
        context: context(&tasks),
        estimate: estimate(facts, &tasks, &line),
        tasks,
    })
}

fn report_tasks(facts: &[TaskFacts], line: &Timeline) -> Vec<ReportTask> {
    let by_run: BTreeMap<RunId, &TaskTimeline> =
        line.tasks.iter().map(|task| (task.run, task)).collect();
    let mut critical: BTreeMap<RunId, u64> = BTreeMap::new();
    for step in &line.critical_path {
        *critical.entry(step.run).or_default() += step.until.ms_since(step.from);
    }
    let announced: BTreeMap<RunId, u64> = facts
        .iter()
        .filter_map(|task| task.journal.as_ref())
        .flat_map(|journal| journal.announced.iter().map(|(run, bytes)| (*run, *bytes)))
        .collect();
    let mut depths: BTreeMap<RunId, u32> = BTreeMap::new();
    let mut tasks = Vec::with_capacity(facts.len());
    for (index, task) in facts.iter().enumerate() {
        let record = &task.record;
        let run = record.run_id;
        let parent = record.parent.filter(|_| index > 0);
        let depth = parent
            .and_then(|parent| depths.get(&parent))
            .map_or(0, |above| above + 1);
        depths.insert(run, depth);
        let own = by_run.get(&run);
        let journal = task.journal.as_ref();
        let usage = record.summary.usage;
        tasks.push(ReportTask {
            task_id: run,
            handle: record.handle.clone(),
            parent_id: parent,
            depth,
            label: own.map_or(&record.label, |own| &own.label).clone(),
            agent: record.agent.clone(),
            model: record.summary.model.clone(),
            status: record.status,
            from_ms: own.map_or(0, |own| own.admitted.ms_since(line.from)),
            elapsed_ms: own.map_or(0, |own| lifetime(own)),
            critical_ms: critical.get(&run).copied().unwrap_or(0),
            time: own.map_or_else(TimeByActivity::default, |own| time_of(own)),
            completions: journal.map_or(0, |journal| journal.completions),
            tool_calls: record.summary.tool_calls,
            tokens: usage.total_tokens(),
            cost_usd: usage.cost_usd.filter(|_| record.summary.unpriced == 0),
            context_bytes: journal.map_or(0, |journal| journal.context_bytes),
            instruction_bytes: journal.map_or(0, |journal| journal.instruction_bytes),
            announced_bytes: announced.get(&run).copied().unwrap_or(0),
            journal_removed: journal.is_none(),
        });
    }
    tasks
}

fn lifetime(task: &TaskTimeline) -> u64 {
    task.spans
        .last()
        .map_or(0, |last| last.until.ms_since(task.admitted))
}

fn time_of(task: &TaskTimeline) -> TimeByActivity {
    let mut time = TimeByActivity::default();
    for span in &task.spans {
        let ms = span.until.ms_since(span.from);
        *match span.kind {
            SpanKind::Slot => &mut time.slot_ms,
            SpanKind::Model => &mut time.model_ms,
            SpanKind::RateLimit => &mut time.rate_limit_ms,
            SpanKind::Tool => &mut time.tool_ms,
            SpanKind::Approval => &mut time.approval_ms,
            SpanKind::Question => &mut time.question_ms,
            SpanKind::Children => &mut time.children_ms,
            SpanKind::Paused => &mut time.paused_ms,
            SpanKind::Other => &mut time.other_ms,
        } += ms;
    }
    time
}

/// Returns the steps of the critical path in order, the longest if there are too many, and how many
/// are left out.
fn critical_steps(line: &Timeline) -> (Vec<CriticalStep>, u64) {
    let steps: Vec<CriticalStep> = line
        .critical_path
        .iter()
        .map(|span| CriticalStep {
            task_id: span.run,
            kind: span.kind.as_str().to_owned(),
            ms: span.until.ms_since(span.from),
        })
        .collect();
    let mut by_length: Vec<usize> = (0..steps.len()).collect();
    by_length.sort_by_key(|index| std::cmp::Reverse(steps.get(*index).map(|step| step.ms)));
    let kept: BTreeSet<usize> = by_length.into_iter().take(MAX_CRITICAL_STEPS).collect();
    let left_out = steps.len() - kept.len();
    let listed = steps
        .into_iter()
        .enumerate()
        .filter(|(index, _)| kept.contains(index))
        .map(|(_, step)| step)
        .collect();
    (listed, left_out as u64)
}

/// Returns what several children of one parent looked up, and how many of these are left out.
fn duplicates(facts: &[TaskFacts]) -> (Vec<Duplicate>, u64) {
    let mut by_parent: BTreeMap<(RunId, &Lookup), Vec<(RunId, Used)>> = BTreeMap::new();
    // The first task is the root, whose siblings are not part of the report.
    for task in facts.iter().skip(1) {
        let (Some(parent), Some(journal)) = (task.record.parent, &task.journal) else {
            continue;
        };
        for (lookup, used) in &journal.lookups {
            let by = by_parent.entry((parent, lookup)).or_default();
            by.push((task.record.run_id, *used));
        }
    }
    let mut found: Vec<Duplicate> = by_parent
        .into_iter()
        .filter(|(_, by)| by.len() > 1)
        .map(|((_, (kind, what)), by)| {
            let all: u64 = by.iter().map(|(_, used)| used.bytes).sum();
            let needed = by.iter().map(|(_, used)| used.bytes).max().unwrap_or(0);
            Duplicate {
                kind: *kind,
                what: what.clone(),
                calls: by.iter().map(|(_, used)| used.calls).sum(),
                repeated_bytes: all.saturating_sub(needed),
                tasks: by.into_iter().map(|(run, _)| run).take(MAX_NAMED).collect(),
            }
        })
        .collect();
    found.sort_by(|one, other| {
        let key = |duplicate: &Duplicate| {
            let size = std::cmp::Reverse((duplicate.repeated_bytes, duplicate.calls));
            (size, duplicate.kind, duplicate.what.clone())
        };
        key(one).cmp(&key(other))
    });
    let left_out = found.len().saturating_sub(MAX_DUPLICATES);
    found.truncate(MAX_DUPLICATES);
    (found, left_out as u64)
}

fn context(tasks: &[ReportTask]) -> ContextSaved {
    let children = tasks.iter().filter(|task| task.parent_id.is_some());
    let (mut own, mut above) = (0_u64, 0_u64);
    for child in children.filter(|child| !child.journal_removed) {
        own += child.context_bytes;
        above += child.instruction_bytes + child.announced_bytes;
    }
    ContextSaved {
        children_bytes: own,
        parents_bytes: above,
        saved_bytes: signed(own).saturating_sub(signed(above)),
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn estimate(facts: &[TaskFacts], tasks: &[ReportTask], line: &Timeline) -> Estimate {
    let for_people: u64 = line
        .critical_path
        .iter()
        .filter(|step| {
            matches!(
                step.kind,
                SpanKind::Approval | SpanKind::Question | SpanKind::Paused
            )
        })
        .map(|step| step.until.ms_since(step.from))
        .sum();
    let work = tasks.iter().map(|task| {
        let time = &task.time;
        time.model_ms + time.rate_limit_ms + time.tool_ms
    });
    let mut estimate = Estimate {
        payoff: Payoff::NoChildren,
        delegated_ms: line.until.ms_since(line.from).saturating_sub(for_people),
        alone_ms: work.sum(),
        delegated_prompt_bytes: facts.iter().filter_map(own_prompts).sum(),
        alone_prompt_bytes: Alone::prompts(facts),
    };
    let has_children = tasks.len() > 1;
    let is_unknown = tasks.iter().any(|task| task.journal_removed);
    estimate.payoff = match (has_children, is_unknown) {
        (false, _) => Payoff::NoChildren,
        (true, true) => Payoff::Unknown,
        (true, false) => payoff(&estimate),
    };
    estimate
}

/// Compares both sums. Less than a tenth is neither a gain nor a loss.
const fn payoff(estimate: &Estimate) -> Payoff {
    let time = gain(estimate.delegated_ms, estimate.alone_ms);
    let text = gain(estimate.delegated_prompt_bytes, estimate.alone_prompt_bytes);
    match (time, text) {
        (Gain::More, Gain::Less) | (Gain::Less, Gain::More) => Payoff::Mixed,
        (Gain::More, _) | (_, Gain::More) => Payoff::PaidOff,
        (Gain::Less, _) | (_, Gain::Less) => Payoff::CostMore,
        (Gain::Even, Gain::Even) => Payoff::Even,
    }
}

/// What one sum gains over the other.
enum Gain {
    More,
    Even,
    Less,
}

const fn gain(delegated: u64, alone: u64) -> Gain {
    let (delegated, alone) = (delegated.saturating_mul(10), alone.saturating_mul(10));
    if delegated <= alone - alone / 10 {
        Gain::More
    } else if delegated >= alone.saturating_add(alone / 10) {
        Gain::Less
    } else {
        Gain::Even
    }
}

/// Returns the bytes of all prompts of a task.
fn own_prompts(task: &TaskFacts) -> Option<u64> {
    let journal = task.journal.as_ref()?;
    let mut context = journal.system_bytes + journal.instruction_bytes;
    let mut sent = 0_u64;
    for step in &journal.steps {
        match step {
            ContextStep::Grows(bytes) | ContextStep::Announced(_, bytes) => {
                context = context.saturating_add(*bytes);
            }
            ContextStep::Shrinks(bytes) => context = context.saturating_sub(*bytes),
            ContextStep::Prompt => sent = sent.saturating_add(context),
            ContextStep::Child(_) => {}
        }
    }
    Some(sent)
}

/// One context in which the work of a whole tree happens, a child where it was started.
struct Alone<'a> {
    by_run: BTreeMap<RunId, &'a JournalFacts>,
    visited: BTreeSet<RunId>,
    context: u64,
    sent: u64,
}

impl<'a> Alone<'a> {
    fn prompts(facts: &'a [TaskFacts]) -> u64 {
        let Some((root, journal)) = facts
            .first()
            .and_then(|task| Some((task.record.run_id, task.journal.as_ref()?)))
        else {
            return 0;
        };
        let by_run = facts
            .iter()
            .filter_map(|task| Some((task.record.run_id, task.journal.as_ref()?)));
        let mut alone = Self {
            by_run: by_run.collect(),
            visited: BTreeSet::new(),
            context: journal.system_bytes + journal.instruction_bytes,
            sent: 0,
        };
        alone.walk(root, 0);
        alone.sent
    }

    fn walk(&mut self, run: RunId, depth: usize) {
        let Some(journal) = self.by_run.get(&run).copied() else {
            return;
        };
        if depth > MAX_DEPTH || !self.visited.insert(run) {
            return;
        }
        for step in &journal.steps {
            match step {
                ContextStep::Grows(bytes) => self.context = self.context.saturating_add(*bytes),
                ContextStep::Shrinks(bytes) => self.context = self.context.saturating_sub(*bytes),
                ContextStep::Prompt => self.sent = self.sent.saturating_add(self.context),
                // A child that no call names, such as one of a fan-out, works where its result
                // arrived.
                ContextStep::Child(child) | ContextStep::Announced(child, _) => {
                    self.walk(*child, depth + 1);
                }
            }
        }
    }
}
