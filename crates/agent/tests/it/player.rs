//! Builds a journal by hand, the way a driver would, and renders what a reader wants to see.

use std::sync::Arc;

use serde_json::{Value, json};
use sortie_agent::{PriorHistory, RunState, Step, Tapes, builtin_agents, replay_tree};
use sortie_core::budget::Budget;
use sortie_core::event::{ChildWait, Event, JournalEntry, StopReason};
use sortie_core::id::{CallId, Epoch, RunId, Seq, SessionKey};
use sortie_core::inbox::{Announcement, InboxItem, Sender};
use sortie_core::message::{
    Arguments, Block, ChildRef, Message, ResultStatus, Todo, TodoStatus, ToolCall, ToolResult,
    Usage,
};
use sortie_core::policy::Policy;
use sortie_core::ports::model::Fault;
use sortie_core::ports::store::AdmissionCaps;
use sortie_core::run::{
    Announce, Cancellation, CancelledBy, Cleanup, Confinement, EdgeMode, Isolation, Lane, Limits,
    Outcome, Priority, RunSpec, Sampling,
};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use uuid::Uuid;

pub(crate) const RUN: RunId = RunId::from_uuid(Uuid::from_u128(1));

pub(crate) fn run_id(number: u128) -> RunId {
    RunId::from_uuid(Uuid::from_u128(number))
}

pub(crate) fn spec() -> RunSpec {
    let agent = builtin_agents(Lang::En).remove(0);
    RunSpec {
        session: SessionKey::cli(),
        tenant: None,
        parent: None,
        root: RUN,
        depth: 0,
        lane: Lane::Main,
        priority: Priority::Normal,
        label: "look".to_owned(),
        task: "look around".to_owned(),
        agent,
        model: "script".to_owned(),
        fallbacks: Vec::new(),
        thinking: None,
        sampling: Sampling::default(),
        result_schema: None,
        checks: Vec::new(),
        watched: std::collections::BTreeMap::new(),
        workspace: "/ws".into(),
        lang: Lang::En,
        limits: Limits {
            max_iterations: 3,
            timeout_ms: Some(60_000),
            exec_timeout_ms: 30_000,
            budget: Budget::default(),
        },
        announce: Announce::Steer,
        cleanup: Cleanup::Keep,
        tools: vec!["read_file".to_owned()],
        continues: None,
        fork: None,
        context: None,
        report_to: Vec::new(),
        hooks: Vec::new(),
        policy: Policy::default(),
        policy_hash: String::new(),
        operator: String::new(),
        skills: Vec::new(),
        confinement: Confinement::default(),
        isolation: Isolation::None,
        account: None,
        not_after: None,
        caps: AdmissionCaps {
            max_children_per_tree: 200,
            max_depth: 1,
        },
        requires: Vec::new(),
    }
}

/// A journal that grows by hand.
#[derive(Clone)]
pub(crate) struct Player {
    pub(crate) entries: Vec<JournalEntry>,
    pub(crate) state: RunState,
    pub(crate) now: Timestamp,
}

impl Player {
    pub(crate) fn new(spec: RunSpec) -> Self {
        Self::after(&PriorHistory::default(), spec)
    }

    /// A run that continues from the history of another.
    pub(crate) fn after(prior: &PriorHistory, spec: RunSpec) -> Self {
        let first = JournalEntry {
            run: RUN,
            seq: Seq(1),
            at: Timestamp(0),
            epoch: Epoch(0),
            event: Event::Admitted {
                spec: Box::new(spec),
            },
        };
        let entries = vec![first];
        let state = RunState::fold(prior, &entries).expect("an admission is a journal");
        let mut player = Self {
            entries,
            state,
            now: Timestamp(0),
        };
        player.claim();
        player
    }

    pub(crate) fn with(change: impl FnOnce(&mut RunSpec)) -> Self {
        let mut spec = spec();
        change(&mut spec);
        Self::new(spec)
    }

    pub(crate) fn push(&mut self, event: Event) -> &mut Self {
        self.push_as(Epoch(1), event)
    }

    /// Appends under another claim.
    pub(crate) fn push_as(&mut self, epoch: Epoch, event: Event) -> &mut Self {
        let entry = JournalEntry {
            run: RUN,
            seq: self.state.head().next(),
            at: self.now,
            epoch,
            event,
        };
        self.state.apply(&entry).expect("the event fits");
        self.entries.push(entry);
        self
    }

    pub(crate) fn claim(&mut self) -> &mut Self {
        self.push(Event::Claimed {
            epoch: Epoch(1),
            recovered: false,
        })
    }

    pub(crate) fn complete(&mut self, words: &str) -> &mut Self {
        self.answer(words, &[], StopReason::EndTurn)
    }

    pub(crate) fn call(&mut self, calls: &[(&str, Value)]) -> &mut Self {
        self.answer("", calls, StopReason::ToolUse)
    }

    pub(crate) fn answer(
        &mut self,
        words: &str,
        calls: &[(&str, Value)],
        stop: StopReason,
    ) -> &mut Self {
        let turn = self.state.turn() + 1;
        let mut blocks = Vec::new();
        if !words.is_empty() {
            blocks.push(Block::Text {
                text: words.to_owned(),
            });
        }
        for (index, (name, arguments)) in calls.iter().enumerate() {
            blocks.push(Block::Call(ToolCall {
                id: CallId::new(turn, index),
                provider_id: None,
                name: (*name).to_owned(),
                arguments: Arguments::Json(arguments.clone()),
            }));
        }
        self.push(Event::Answered {
            turn,
            blocks,
            stop,
            usage: Usage {
                input_tokens: Some(10),
                output_tokens: Some(5),
                ..Usage::default()
            },
            model: "script".to_owned(),
            held_ms: 0,
        })
    }

    pub(crate) fn fail(&mut self, fault: Fault) -> &mut Self {
        let model = self.state.next_model().to_owned();
        self.push(Event::ModelFailed {
            model,
            fault,
            message: "the provider's words".to_owned(),
            shown: false,
        })
    }

    /// A call whose arguments the token limit truncated.
    pub(crate) fn cut_call(&mut self) -> &mut Self {
        let turn = self.state.turn() + 1;
        self.push(Event::Answered {
            turn,
            blocks: vec![Block::Call(ToolCall {
                id: CallId::new(turn, 0),
                provider_id: None,
                name: "write_file".to_owned(),
                arguments: Arguments::Malformed {
                    raw: "{\"path\": \"a".to_owned(),
                    error: "it was cut off".to_owned(),
                },
            })],
            stop: StopReason::MaxTokens,
            usage: Usage::default(),
            model: "script".to_owned(),
            held_ms: 0,
        })
    }

    pub(crate) fn result(&mut self, call: &str, words: &str) -> &mut Self {
        self.finish_call(call, words, None, None)
    }

    pub(crate) fn spawned(&mut self, call: &str, child: u128) -> &mut Self {
        self.finish_call(call, "started", Some(child_ref(child)), None)
    }

    pub(crate) fn todos(&mut self, call: &str, done: usize, total: usize) -> &mut Self {
        let todos = (0..total)
            .map(|index| Todo {
                content: format!("step {index}"),
                status: if index < done {
                    TodoStatus::Completed
                } else {
                    TodoStatus::Pending
                },
            })
            .collect();
        self.finish_call(call, "noted", None, Some(todos))
    }

    fn finish_call(
        &mut self,
        call: &str,
        words: &str,
        spawned: Option<ChildRef>,
        todos: Option<Vec<Todo>>,
    ) -> &mut Self {
        self.push(Event::ToolFinished {
            result: ToolResult {
                call: CallId::from_stored(call),
                provider_id: None,
                text: words.to_owned(),
                status: ResultStatus::Ok,
                full: None,
                images: Vec::new(),
            },
            elapsed_ms: 1,
            spawned,
            todos,
            ruling: None,
            sandbox: None,
        })
    }

    pub(crate) fn delegate(&mut self, call: &str, child: u128) -> &mut Self {
        self.push(Event::Delegated {
            call: CallId::from_stored(call),
            ruling: None,
            wait: ChildWait::Result {
                child: child_ref(child),
            },
        })
    }

    pub(crate) fn wait_for(&mut self, call: &str, children: &[u128]) -> &mut Self {
        self.push(Event::Delegated {
            call: CallId::from_stored(call),
            ruling: None,
            wait: ChildWait::Finished {
                children: children.iter().map(|child| run_id(*child)).collect(),
            },
        })
    }

    pub(crate) fn announce(&mut self, child: u128, mode: EdgeMode, call: &str) -> &mut Self {
        self.push(Event::InboxTaken {
            unread: false,
            items: vec![announcement(
                child,
                mode,
                call,
                Outcome::Completed {
                    text: format!("result of {child}"),
                    checked: None,
                },
            )],
        })
    }

    pub(crate) fn steer(&mut self, words: &str) -> &mut Self {
        self.push(Event::InboxTaken {
            unread: false,
            items: vec![InboxItem::Steer {
                from: Sender::Person,
                text: words.to_owned(),
            }],
        })
    }

    /// Replays the journal, which has to give the same journal.
    pub(crate) fn assert_replays(&self) {
        let tapes = Tapes::from([(RUN, self.entries.clone())]);
        replay_tree(&tapes, &[RUN]).expect("the same journal");
    }

    pub(crate) fn next(&self) -> String {
        self.next_with(None)
    }

    pub(crate) fn next_cancelled(&self) -> String {
        self.next_with(Some(&Cancellation {
            by: CancelledBy::Person,
            reason: "enough".to_owned(),
        }))
    }

    fn next_with(&self, cancel: Option<&Cancellation>) -> String {
        match self.state.next_step(self.now, cancel) {
            Step::CallModel(call) => format!(
                "ask turn {}{}{}",
                call.turn,
                if call.with_tools {
                    ""
                } else {
                    " without tools"
                },
                if call.delay_ms > 0 {
                    format!(" after {} ms", call.delay_ms)
                } else {
                    String::new()
                }
            ),
            Step::Compact(compaction) => match &compaction.event {
                Event::Compacted { parts, .. } => format!(
                    "shorten {} parts, {} texts kept",
                    parts.len(),
                    compaction.blobs.len()
                ),
                other => panic!("no compaction: {other:?}"),
            },
            Step::CallTools(calls) => format!(
                "run {}",
                calls
                    .iter()
                    .map(|open| open.call.id.to_string())
                    .collect::<Vec<_>>()
                    .join(" ")
            ),
            Step::Wait(children) => format!(
                "wait for {}",
                children
                    .iter()
                    .map(|child| child.label.clone())
                    .collect::<Vec<_>>()
                    .join(" ")
            ),
            Step::Check => "check".to_owned(),
            Step::Finish(outcome) => format!("finish {}", show_outcome(&outcome)),
            Step::Done => "done".to_owned(),
        }
    }

    /// Shortens the history as the machine decides.
    pub(crate) fn shorten(&mut self) -> &mut Self {
        match self.state.next_step(self.now, None) {
            Step::Compact(compaction) => self.push(compaction.event),
            other => panic!("nothing to shorten: {other:?}"),
        }
    }

    /// Returns what the model has seen, a line for each message.
    pub(crate) fn seen(&self) -> String {
        self.state
            .messages()
            .iter()
            .map(show_message)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

pub(crate) fn child_ref(child: u128) -> ChildRef {
    ChildRef {
        run: run_id(child),
        agent: "explore".to_owned(),
        label: format!("child {child}"),
    }
}

pub(crate) fn announcement(child: u128, mode: EdgeMode, call: &str, outcome: Outcome) -> InboxItem {
    InboxItem::Announcement(Box::new(Announcement {
        child: run_id(child),
        call: Some(CallId::from_stored(call)),
        mode,
        agent: "explore".to_owned(),
        label: format!("child {child}"),
        task: format!("task of {child}"),
        outcome,
        tool_calls: 2,
        elapsed_ms: 1_500,
        usage: Usage::default(),
        changes: None,
    }))
}

pub(crate) fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({ "path": path }))
}

fn show_outcome(outcome: &Outcome) -> String {
    let reason = outcome
        .reason()
        .map(|reason| format!(" ({reason})"))
        .unwrap_or_default();
    let words = outcome
        .text()
        .map(|text| format!(": {text}"))
        .unwrap_or_default();
    format!("{}{reason}{words}", outcome.status())
}

/// Returns the first line, or the first one inside the frame.
fn within_frame(text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    match (lines.next(), lines.next()) {
        (Some(mark), Some(inside)) if mark.starts_with("-----") => format!("|{inside}|"),
        _ => first.to_owned(),
    }
}

fn show_message(message: &Arc<Message>) -> String {
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    match &**message {
        Message::User { text } => format!("user: {}", first_line(text)),
        Message::Assistant { blocks } => format!(
            "assistant:{}",
            blocks
                .iter()
                .map(|block| match block {
                    Block::Text { text } => format!(" {text}"),
                    Block::Reasoning { .. } => " (thinks)".to_owned(),
                    Block::Call(call) => format!(" {}#{}", call.name, call.id),
                })
                .collect::<String>()
        ),
        Message::Tools { results } => format!(
            "tools:{}",
            results
                .iter()
                .map(|result| format!(" #{} {}", result.call, within_frame(&result.text)))
                .collect::<String>()
        ),
        Message::Notice { text } => format!("notice: {}", first_line(text)),
    }
}
