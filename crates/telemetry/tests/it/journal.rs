//! A hand-written journal, and spans as readable text.

use serde_json::{Value as Json, json};
use sortie_core::event::{Event, JournalEntry, StopReason};
use sortie_core::id::{CallId, Epoch, RunId, Seq};
use sortie_core::message::{Arguments, Block, ResultStatus, ToolCall, ToolResult, Usage};
use sortie_core::run::{Outcome, RunSpec};
use sortie_core::time::Timestamp;
use sortie_telemetry::{Span, SpanId, SpanStatus, Value};

/// Text that must never leave the machine unless content capture is enabled.
pub(crate) const PRIVATE: &str = "private-words";

pub(crate) fn run_id(number: u128) -> RunId {
    RunId::from_uuid(uuid::Uuid::from_u128(number))
}

/// Returns a spec in the form that the journal stores.
pub(crate) fn spec(change: impl FnOnce(&mut Json)) -> RunSpec {
    let mut spec = json!({
        "session": "cli:direct",
        "parent": null,
        "root": run_id(1),
        "depth": 0,
        "lane": "main",
        "priority": "normal",
        "label": format!("label {PRIVATE}"),
        "task": format!("task {PRIVATE}"),
        "agent": {
            "name": "main",
            "when_to_use": "",
            "prompt": format!("prompt {PRIVATE}"),
            "model": "inherit",
            "tools": {"allow": null, "deny": []},
            "read_only": false,
            "color": null,
            "source": "built_in",
            "max_iterations": null,
        },
        "model": "anthropic/big",
        "fallbacks": ["openai-chat/other"],
        "thinking": null,
        "workspace": "/ws",
        "lang": "en",
        "limits": {"max_iterations": 15, "timeout_ms": null, "exec_timeout_ms": 1000, "budget": {}},
        "announce": "steer",
        "cleanup": "keep",
        "tools": [],
        "continues": null,
        "report_to": [],
        "caps": {"max_children_per_tree": 200, "max_depth": 1},
        "policy_hash": "abc",
    });
    change(&mut spec);
    serde_json::from_value(spec).expect("a spec")
}

/// A journal that a test writes event by event.
#[derive(Debug)]
pub(crate) struct Pen {
    pub(crate) entries: Vec<JournalEntry>,
}

impl Pen {
    /// Creates the journal of run 1, admitted at 1,000.
    pub(crate) fn new(spec: RunSpec) -> Self {
        let mut pen = Self {
            entries: Vec::new(),
        };
        pen.write(
            1_000,
            Event::Admitted {
                spec: Box::new(spec),
            },
        );
        pen
    }

    pub(crate) fn write(&mut self, at: i64, event: Event) -> &mut Self {
        let seq = Seq(self.entries.len() as i64 + 1);
        self.entries.push(JournalEntry {
            run: run_id(1),
            seq,
            at: Timestamp(at),
            epoch: Epoch(1),
            event,
        });
        self
    }

    pub(crate) fn claimed(&mut self, at: i64) -> &mut Self {
        self.write(
            at,
            Event::Claimed {
                epoch: Epoch(1),
                recovered: false,
            },
        )
    }

    /// Appends a completion with these tool calls, at this turn.
    pub(crate) fn answered(&mut self, at: i64, turn: u32, tools: &[&str]) -> &mut Self {
        let calls = tools.iter().enumerate();
        let mut blocks: Vec<Block> = calls
            .map(|(index, name)| {
                Block::Call(ToolCall {
                    id: CallId::new(turn, index),
                    provider_id: None,
                    name: (*name).to_owned(),
                    arguments: Arguments::Json(json!({"words": PRIVATE})),
                })
            })
            .collect();
        blocks.push(Block::Text {
            text: format!("answer {PRIVATE}"),
        });
        self.write(
            at,
            Event::Answered {
                turn,
                blocks,
                stop: if tools.is_empty() {
                    StopReason::EndTurn
                } else {
                    StopReason::ToolUse
                },
                usage: Usage {
                    input_tokens: Some(100),
                    output_tokens: Some(10),
                    cost_usd: Some(0.25),
                    ..Usage::default()
                },
                model: "anthropic/big".to_owned(),
                held_ms: 0,
            },
        )
    }

    pub(crate) fn tool_finished(&mut self, at: i64, call: &CallId, elapsed_ms: u64) -> &mut Self {
        self.write(
            at,
            Event::ToolFinished {
                result: ToolResult {
                    call: call.clone(),
                    provider_id: None,
                    text: format!("result {PRIVATE}"),
                    status: ResultStatus::Ok,
                    full: None,
                    images: Vec::new(),
                },
                elapsed_ms,
                spawned: None,
                todos: None,
                ruling: None,
                sandbox: None,
            },
        )
    }

    pub(crate) fn completed(&mut self, at: i64) -> &mut Self {
        self.write(
            at,
            Event::Finished {
                outcome: Outcome::Completed {
                    text: format!("done {PRIVATE}"),
                    checked: None,
                },
            },
        )
    }
}

/// Writes one line for each span: its times, parent, name, status, and the given attributes.
pub(crate) fn lines(spans: &[Span], attributes: &[&str]) -> String {
    let name_of = |id: SpanId| {
        spans
            .iter()
            .find(|span| span.id == id)
            .map_or("elsewhere", |span| span.name.as_str())
    };
    let line = |span: &Span| {
        let under = span.parent.map_or("-", name_of);
        let failed = matches!(span.status, SpanStatus::Error(_));
        let shown: Vec<String> = attributes
            .iter()
            .filter_map(|name| Some(format!("{name}={}", show(span.attribute(name)?))))
            .collect();
        format!(
            "{}..{} {} < {under}{} {}",
            span.start.0,
            span.end.0,
            span.name,
            if failed { " FAILED" } else { "" },
            shown.join(" ")
        )
        .trim_end()
        .to_owned()
    };
    spans.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn show(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Texts(texts) => texts.join(","),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(yes) => yes.to_string(),
    }
}
