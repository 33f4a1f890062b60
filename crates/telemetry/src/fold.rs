//! Folds the journal of an ended run into spans. Pure: the same journal gives the same spans.
//!
//! There is one span for the run, one for each model call, and one for each tool call. A model call begins with
//! the journal entry before its completion, which caused it. A tool call begins where the journal
//! first mentions it; one that starts a child begins with the completion that contains it, so
//! that the span of the child never begins before it. A background child outlives the call
//! that started it, and so does its span.

use std::collections::{BTreeMap, BTreeSet};

use sortie_core::event::{ChildWait, Event, JournalEntry, StopReason};
use sortie_core::id::{CallId, RunId};
use sortie_core::inbox::{Announcement, InboxItem};
use sortie_core::message::{Block, ResultStatus, ToolCall, ToolResult, Usage};
use sortie_core::policy::Ruling;
use sortie_core::ports::model::Fault;
use sortie_core::run::{EdgeMode, Outcome, RunSpec};
use sortie_core::time::Timestamp;

use crate::content;
use crate::names;
use crate::span::{Attributes, Span, SpanEvent, SpanId, SpanKind, SpanStatus, TraceId, Value};

/// Limit of events per span: a run that is restarted for days is still one span.
const MAX_EVENTS: usize = 128;

/// What may leave the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Numbers, names and states.
    Facts,
    /// Also prompts, arguments, results and completions.
    Content,
}

/// Returns the spans of an ended run, its own first; none for a run that has not ended.
pub fn spans(entries: &[JournalEntry], capture: Capture) -> Vec<Span> {
    let Some((first, rest)) = entries.split_first() else {
        return Vec::new();
    };
    let Event::Admitted { spec } = &first.event else {
        return Vec::new();
    };
    let mut fold = Fold::new(first, spec, capture);
    for entry in rest {
        fold.take(entry);
    }
    fold.end()
}

/// A tool call without a result.
#[derive(Debug)]
struct Open<'a> {
    call: &'a ToolCall,
    requested_at: Timestamp,
    begun: Option<Timestamp>,
    ruling: Option<&'a Ruling>,
    waited_for: Option<&'static str>,
    wait: Option<&'a ChildWait>,
}

/// The result of a tool call.
#[derive(Debug)]
struct Answer<'a> {
    status: &'static str,
    failed: bool,
    elapsed_ms: Option<u64>,
    ruling: Option<&'a Ruling>,
    child: Option<RunId>,
    text: Option<&'a str>,
}

#[derive(Debug)]
struct Fold<'a> {
    run: RunId,
    spec: &'a RunSpec,
    capture: Capture,
    admitted_at: Timestamp,
    /// Time of the previous entry.
    last: Timestamp,
    first_claim: Option<Timestamp>,
    claims: i64,
    tool_calls: i64,
    usage: Usage,
    /// Whether the cost of a completion is unknown.
    unpriced: bool,
    /// Whether a model has failed since the last completion.
    failed: bool,
    open: BTreeMap<CallId, Open<'a>>,
    /// Children that have not reported.
    expected: BTreeSet<RunId>,
    reported: BTreeSet<RunId>,
    events: Vec<SpanEvent>,
    spans: Vec<Span>,
    ended: Option<(&'a Outcome, Timestamp)>,
}

impl<'a> Fold<'a> {
    fn new(first: &JournalEntry, spec: &'a RunSpec, capture: Capture) -> Self {
        Self {
            run: first.run,
            spec,
            capture,
            admitted_at: first.at,
            last: first.at,
            first_claim: None,
            claims: 0,
            tool_calls: 0,
            usage: Usage::default(),
            unpriced: false,
            failed: false,
            open: BTreeMap::new(),
            expected: BTreeSet::new(),
            reported: BTreeSet::new(),
            events: Vec::new(),
            spans: Vec::new(),
            ended: None,
        }
    }

    fn take(&mut self, entry: &'a JournalEntry) {
        let at = entry.at;
        match &entry.event {
            Event::Claimed { recovered, .. } => self.claimed(*recovered, at),
            Event::InboxTaken {
                items,
                unread: false,
            } => self.inbox_taken(items, at),
            Event::Answered { .. } => self.answered(entry),
            Event::ModelFailed { model, fault, .. } => self.model_failed(entry, model, *fault),
            Event::Compacted { .. } => self.event(names::EVENT_COMPACTED, at, Vec::new()),
            Event::Intended { call, ruling, .. } => self.begun(call, at, ruling.as_ref()),
            Event::Asked { call, request } => {
                self.begun(call, at, None);
                if let Some(open) = self.open.get_mut(call) {
                    open.waited_for = Some(request.kind.name());
                }
            }
            Event::Delegated { call, wait, ruling } => {
                self.delegated(call, wait, ruling.as_ref(), at);
            }
            Event::ToolFinished { .. } => self.tool_finished(&entry.event, at),
            Event::BudgetLow { .. } => self.event(names::EVENT_BUDGET_LOW, at, Vec::new()),
            Event::BudgetSpent { .. } => self.close_all("budget", at),
            Event::Paused => self.event(names::EVENT_PAUSED, at, Vec::new()),
            Event::Resumed => self.event(names::EVENT_RESUMED, at, Vec::new()),
            Event::Finished { outcome } => {
                self.close_all("cancelled", at);
                self.ended = Some((outcome, at));
            }
            // An inbox message that was not read is no result of a call.
            Event::InboxTaken { unread: true, .. }
            | Event::Admitted { .. }
            | Event::Updated { .. }
            | Event::Isolated { .. }
            | Event::Collected { .. }
            | Event::Checked { .. } => {}
        }
        self.last = at;
    }

    fn claimed(&mut self, recovered: bool, at: Timestamp) {
        self.claims += 1;
        self.first_claim.get_or_insert(at);
        let attributes = vec![(names::RECOVERED, Value::Bool(recovered))];
        self.event(names::EVENT_CLAIMED, at, attributes);
    }

    fn event(&mut self, name: &'static str, at: Timestamp, attributes: Attributes) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(SpanEvent {
                name,
                at,
                attributes,
            });
        }
    }

    fn answered(&mut self, entry: &'a JournalEntry) {
        self.close_fan_outs();
        let Event::Answered {
            turn,
            blocks,
            stop,
            usage,
            model,
            held_ms,
        } = &entry.event
        else {
            return;
        };
        // Calls of the previous completion that never ran.
        self.close_all("not_run", self.last);
        let requested = self.requested_model(model);
        let mut attributes = self.of_chat(requested.unwrap_or(model));
        if let Some(requested) = requested {
            attributes.push((names::REQUEST_MODEL, text(requested)));
        }
        attributes.extend([
            (names::RESPONSE_MODEL, text(model)),
            (names::TURN, Value::Int(i64::from(*turn))),
            (names::HELD_MS, int(*held_ms)),
            (
                names::FINISH_REASONS,
                Value::Texts(vec![content::finish_reason(*stop).to_owned()]),
            ),
        ]);
        attributes.extend(of_usage(usage));
        if self.capture == Capture::Content {
            attributes.push((
                names::OUTPUT_MESSAGES,
                text(&content::answer(blocks, *stop)),
            ));
        }
        let failed = matches!(stop, StopReason::Refusal | StopReason::ContentFilter);
        let status = if failed {
            attributes.push((names::ERROR_TYPE, text(content::finish_reason(*stop))));
            SpanStatus::Error(String::new())
        } else {
            SpanStatus::Unset
        };
        let name = format!("{} {}", names::CHAT, requested.unwrap_or(model));
        self.chat(entry, name, status, attributes);
        self.count(usage);
        self.failed = false;
        for block in blocks {
            if let Block::Call(call) = block {
                self.called(call, entry.at);
            }
        }
    }

    fn model_failed(&mut self, entry: &'a JournalEntry, model: &str, fault: Fault) {
        let mut attributes = self.of_chat(model);
        attributes.push((names::REQUEST_MODEL, text(model)));
        attributes.push((names::ERROR_TYPE, text(fault.name())));
        let words = match (&entry.event, self.capture) {
            (Event::ModelFailed { message, .. }, Capture::Content) => content::truncate(message),
            (_, Capture::Content | Capture::Facts) => String::new(),
        };
        if let Fault::TextCall { usage } = fault {
            attributes.extend(of_usage(&usage));
            self.count(&usage);
        }
        let name = format!("{} {model}", names::CHAT);
        self.chat(entry, name, SpanStatus::Error(words), attributes);
        self.failed = true;
    }

    fn chat(
        &mut self,
        entry: &JournalEntry,
        name: String,
        status: SpanStatus,
        attributes: Attributes,
    ) {
        self.spans.push(Span {
            trace: TraceId::of(self.spec.root),
            id: SpanId::of_chat(self.run, entry.seq),
            parent: Some(SpanId::of_run(self.run)),
            name,
            kind: SpanKind::Client,
            start: self.last.min(entry.at),
            end: entry.at,
            status,
            attributes,
            events: Vec::new(),
        });
    }

    fn of_chat(&self, model: &str) -> Attributes {
        let mut attributes = vec![
            (names::OPERATION_NAME, text(names::CHAT)),
            (names::PROVIDER_NAME, text(names::provider(model))),
            (names::AGENT_NAME, text(&self.spec.agent.name)),
            (names::CONVERSATION_ID, text(self.spec.session.as_str())),
            (names::TASK_ID, text(&self.run.to_string())),
        ];
        if let Some(temperature) = self.spec.sampling.temperature {
            attributes.push((names::REQUEST_TEMPERATURE, Value::Float(temperature)));
        }
        if let Some(max_tokens) = self.spec.sampling.max_tokens {
            attributes.push((names::REQUEST_MAX_TOKENS, int(max_tokens)));
        }
        attributes
    }

    /// Returns the requested model, as far as the journal tells: it records the model that answered or failed.
    fn requested_model(&self, answered: &'a str) -> Option<&'a str> {
        let spec = self.spec;
        let chain = std::iter::once(&spec.model).chain(&spec.fallbacks);
        let same = chain.map(String::as_str).find(|model| *model == answered);
        same.or_else(|| (!self.failed).then_some(spec.model.as_str()))
    }

    fn count(&mut self, usage: &Usage) {
        self.unpriced |= usage.cost_usd.is_none();
        self.usage = self.usage.plus(*usage);
    }

    fn called(&mut self, call: &'a ToolCall, at: Timestamp) {
        let open = Open {
            call,
            requested_at: at,
            begun: None,
            ruling: None,
            waited_for: None,
            wait: None,
        };
        self.open.insert(call.id.clone(), open);
    }

    fn begun(&mut self, call: &CallId, at: Timestamp, ruling: Option<&'a Ruling>) {
        if let Some(open) = self.open.get_mut(call) {
            open.begun.get_or_insert(at);
            open.ruling = ruling.or(open.ruling);
        }
    }

    fn delegated(
        &mut self,
        call: &CallId,
        wait: &'a ChildWait,
        ruling: Option<&'a Ruling>,
        at: Timestamp,
    ) {
        if let Some(open) = self.open.get_mut(call) {
            open.begun = Some(open.requested_at);
            open.ruling = ruling.or(open.ruling);
            open.waited_for = Some("children");
            open.wait = Some(wait);
        }
        match wait {
            ChildWait::Result { child } => self.expect(child.run),
            ChildWait::Finished { .. } => self.close_waits(at),
            // Closed when the model reads the combined result.
            ChildWait::FanOut { .. } => {}
        }
    }

    fn expect(&mut self, child: RunId) {
        if !self.reported.contains(&child) {
            self.expected.insert(child);
        }
    }

    fn inbox_taken(&mut self, items: &'a [InboxItem], at: Timestamp) {
        for item in items {
            match item {
                InboxItem::Announcement(announcement) => self.announced(announcement, at),
                InboxItem::Steer { .. } | InboxItem::Reply { .. } | InboxItem::Question { .. } => {}
            }
        }
        self.close_waits(at);
    }

    fn announced(&mut self, announcement: &'a Announcement, at: Timestamp) {
        self.expected.remove(&announcement.child);
        let first = self.reported.insert(announcement.child);
        let (EdgeMode::Blocking, Some(call), true) = (announcement.mode, &announcement.call, first)
        else {
            return;
        };
        let failed = !matches!(announcement.outcome, Outcome::Completed { .. });
        let answer = Answer {
            status: if failed { "error" } else { "ok" },
            failed,
            elapsed_ms: None,
            ruling: None,
            child: Some(announcement.child),
            text: announcement.outcome.text(),
        };
        self.close(call, at, &answer);
    }

    /// Returns the calls that only wait for children, all of which have reported.
    fn close_waits(&mut self, at: Timestamp) {
        let over: Vec<CallId> = self
            .open
            .iter()
            .filter(|(_, open)| match open.wait {
                Some(ChildWait::Finished { children }) => {
                    !children.iter().any(|child| self.expected.contains(child))
                }
                Some(ChildWait::Result { .. } | ChildWait::FanOut { .. }) | None => false,
            })
            .map(|(call, _)| call.clone())
            .collect();
        for call in over {
            self.close(&call, at, &Answer::bare("ok", false));
        }
    }

    /// Closes the fan-outs: a prompt follows only when every call of the completion before has its
    /// result.
    fn close_fan_outs(&mut self) {
        let is_fan_out = |open: &Open<'_>| matches!(open.wait, Some(ChildWait::FanOut { .. }));
        let over = self.open.iter().filter(|(_, open)| is_fan_out(open));
        let over: Vec<CallId> = over.map(|(call, _)| call.clone()).collect();
        for call in over {
            self.close(&call, self.last, &Answer::bare("ok", false));
        }
    }

    fn tool_finished(&mut self, event: &'a Event, at: Timestamp) {
        let Event::ToolFinished {
            result,
            elapsed_ms,
            spawned,
            ruling,
            ..
        } = event
        else {
            return;
        };
        if let Some(child) = spawned {
            self.expect(child.run);
        }
        let answer = Answer {
            status: status_word(result),
            failed: result.status != ResultStatus::Ok,
            elapsed_ms: Some(*elapsed_ms),
            ruling: ruling.as_ref(),
            child: spawned.as_ref().map(|child| child.run),
            text: Some(&result.text),
        };
        self.close(&result.call, at, &answer);
    }

    fn close_all(&mut self, status: &'static str, at: Timestamp) {
        let open: Vec<CallId> = self.open.keys().cloned().collect();
        for call in open {
            self.close(&call, at, &Answer::bare(status, true));
        }
    }

    fn close(&mut self, call: &CallId, at: Timestamp, answer: &Answer<'a>) {
        let Some(open) = self.open.remove(call) else {
            return;
        };
        self.tool_calls += 1;
        let mut attributes = vec![
            (names::OPERATION_NAME, text(names::EXECUTE_TOOL)),
            (names::TOOL_NAME, text(&open.call.name)),
            (names::TOOL_TYPE, text("function")),
            (names::CALL_ID, text(call.as_str())),
            (names::AGENT_NAME, text(&self.spec.agent.name)),
            (names::CONVERSATION_ID, text(self.spec.session.as_str())),
            (names::TASK_ID, text(&self.run.to_string())),
            (names::CALL_STATUS, text(answer.status)),
        ];
        if let Some(ruling) = answer.ruling.or(open.ruling) {
            attributes.push((names::DECISION, text(ruling.decision.as_str())));
            attributes.push((names::LAYER, text(ruling.layer.as_str())));
        }
        attributes.extend(answer.elapsed_ms.map(|ms| (names::ELAPSED_MS, int(ms))));
        attributes.extend(open.waited_for.map(|what| (names::WAITED_FOR, text(what))));
        let child = answer.child.or_else(|| awaited(open.wait));
        attributes.extend(child.map(|child| (names::CHILD, text(&child.to_string()))));
        if answer.failed {
            attributes.push((names::ERROR_TYPE, text(answer.status)));
        }
        if self.capture == Capture::Content {
            let arguments = content::arguments(&open.call.arguments);
            attributes.push((names::CALL_ARGUMENTS, text(&arguments)));
            let result = answer.text.map(content::truncate);
            attributes.extend(result.map(|words| (names::CALL_RESULT, text(&words))));
        }
        self.spans.push(Span {
            trace: TraceId::of(self.spec.root),
            id: SpanId::of_call(self.run, call),
            parent: Some(SpanId::of_run(self.run)),
            name: format!("{} {}", names::EXECUTE_TOOL, open.call.name),
            kind: SpanKind::Internal,
            start: open.start(at, answer),
            end: at,
            status: status_of(answer.failed, String::new()),
            attributes,
            events: Vec::new(),
        });
    }

    fn end(mut self) -> Vec<Span> {
        let Some((outcome, at)) = self.ended else {
            return Vec::new();
        };
        let run = self.run_span(outcome, at);
        self.spans.insert(0, run);
        self.spans
    }

    fn run_span(&mut self, outcome: &Outcome, at: Timestamp) -> Span {
        let spec = self.spec;
        let completed = matches!(outcome, Outcome::Completed { .. });
        let words = match self.capture {
            Capture::Content => outcome.error().map(|words| content::truncate(&words)),
            Capture::Facts => None,
        };
        Span {
            trace: TraceId::of(spec.root),
            id: SpanId::of_run(self.run),
            parent: spec
                .parent
                .as_ref()
                .map(|link| SpanId::of_call(link.run, &link.call)),
            name: format!("{} {}", names::INVOKE_AGENT, spec.agent.name),
            kind: SpanKind::Internal,
            start: self.admitted_at.min(at),
            end: at,
            status: status_of(!completed, words.unwrap_or_default()),
            attributes: self.of_run(outcome, at),
            events: std::mem::take(&mut self.events),
        }
    }

    fn of_run(&self, outcome: &Outcome, at: Timestamp) -> Attributes {
        let spec = self.spec;
        let queued_ms = self.first_claim.unwrap_or(at).ms_since(self.admitted_at);
        let mut attributes = vec![
            (names::OPERATION_NAME, text(names::INVOKE_AGENT)),
            (names::PROVIDER_NAME, text(names::provider(&spec.model))),
            (names::AGENT_NAME, text(&spec.agent.name)),
            (names::CONVERSATION_ID, text(spec.session.as_str())),
            (names::REQUEST_MODEL, text(&spec.model)),
            (names::TASK_ID, text(&self.run.to_string())),
            (names::ROOT_ID, text(&spec.root.to_string())),
            (names::DEPTH, Value::Int(i64::from(spec.depth))),
            (names::STATUS, text(outcome.status().as_str())),
            (names::POLICY, text(&spec.policy_hash)),
            (names::CLAIMS, Value::Int(self.claims)),
            (names::QUEUED_MS, int(queued_ms)),
            (names::TOOL_CALLS, Value::Int(self.tool_calls)),
        ];
        let reason = outcome.reason();
        attributes.extend(reason.map(|reason| (names::REASON, text(reason.as_str()))));
        if !matches!(outcome, Outcome::Completed { .. }) {
            let word = reason.map_or(outcome.status().as_str(), sortie_core::run::Reason::as_str);
            attributes.push((names::ERROR_TYPE, text(word)));
        }
        let tenant = spec.tenant.as_ref().map(|tenant| text(tenant.as_str()));
        attributes.extend(tenant.map(|tenant| (names::TENANT, tenant)));
        let continues = spec.continues.map(|run| text(&run.to_string()));
        attributes.extend(continues.map(|run| (names::CONTINUES, run)));
        attributes.extend(of_usage(&self.whole_usage()));
        if self.capture == Capture::Content {
            attributes.extend([
                (names::LABEL, text(&content::truncate(&spec.label))),
                (
                    names::SYSTEM_INSTRUCTIONS,
                    text(&content::instructions(&spec.agent.prompt)),
                ),
                (
                    names::INPUT_MESSAGES,
                    text(&content::message("user", &spec.task)),
                ),
            ]);
            let output = outcome
                .text()
                .map(|words| content::message("assistant", words));
            attributes.extend(output.map(|output| (names::OUTPUT_MESSAGES, text(&output))));
        }
        attributes
    }

    /// Returns the total cost; unknown if one part is unknown.
    fn whole_usage(&self) -> Usage {
        Usage {
            cost_usd: self.usage.cost_usd.filter(|_| !self.unpriced),
            ..self.usage
        }
    }
}

impl Open<'_> {
    /// Returns when the work for the call began, as far as the journal tells.
    fn start(&self, end: Timestamp, answer: &Answer<'_>) -> Timestamp {
        if answer.child.is_some() {
            return self.requested_at.min(end);
        }
        let elapsed = answer.elapsed_ms.unwrap_or(0);
        let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
        let start = self.begun.unwrap_or(end.plus_ms(-elapsed));
        start.max(self.requested_at).min(end)
    }
}

impl Answer<'_> {
    const fn bare(status: &'static str, failed: bool) -> Self {
        Self {
            status,
            failed,
            elapsed_ms: None,
            ruling: None,
            child: None,
            text: None,
        }
    }
}

fn awaited(wait: Option<&ChildWait>) -> Option<RunId> {
    match wait {
        Some(ChildWait::Result { child }) => Some(child.run),
        Some(ChildWait::Finished { .. } | ChildWait::FanOut { .. }) | None => None,
    }
}

const fn status_word(result: &ToolResult) -> &'static str {
    match result.status {
        ResultStatus::Ok => "ok",
        ResultStatus::Error => "error",
        ResultStatus::Denied => "denied",
        ResultStatus::Interrupted => "interrupted",
    }
}

fn status_of(failed: bool, words: String) -> SpanStatus {
    if failed {
        SpanStatus::Error(words)
    } else {
        SpanStatus::Unset
    }
}

fn of_usage(usage: &Usage) -> Attributes {
    let tokens = [
        (names::INPUT_TOKENS, usage.input_tokens),
        (names::OUTPUT_TOKENS, usage.output_tokens),
        (names::CACHE_READ_TOKENS, usage.cache_read_tokens),
        (names::CACHE_WRITE_TOKENS, usage.cache_write_tokens),
    ];
    let known = tokens.into_iter();
    let mut attributes: Attributes = known
        .filter_map(|(name, count)| Some((name, int(count?))))
        .collect();
    attributes.extend(
        usage
            .cost_usd
            .map(|cost| (names::COST_USD, Value::Float(cost))),
    );
    attributes
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn int(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}
