//! The tool calls and results since the last instruction.

use serde_json::Value;

use sortie_core::message::{Arguments, Block, Message, ResultStatus, ToolCall, ToolResult};
use sortie_core::ports::model::ModelRequest;

use super::Call;

/// The tool calls of this run since its instruction, with their results.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    /// The instruction of the run.
    pub instruction: &'a str,
    offered: Vec<&'a str>,
    exchanges: Vec<Exchange<'a>>,
}

/// A tool call and its result.
#[derive(Debug)]
struct Exchange<'a> {
    tool: &'a str,
    arguments: &'a Value,
    answer: Answer<'a>,
}

/// The result of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// The tool returned this text; `cut` if the runtime truncated it.
    Text { text: &'a str, cut: bool },
    /// The tool failed with this message.
    Failed(&'a str),
    /// The tool was not called.
    Absent,
}

impl<'a> Evidence<'a> {
    /// Extracts the evidence from a request.
    pub(super) fn of(request: &'a ModelRequest) -> Self {
        let mut evidence = Self {
            instruction: &request.origin.task,
            offered: request
                .tools
                .iter()
                .map(|tool| tool.name.as_str())
                .collect(),
            exchanges: Vec::new(),
        };
        let mut open: Vec<&ToolCall> = Vec::new();
        for message in &request.messages {
            match message.as_ref() {
                Message::User { text } => {
                    evidence.instruction = text;
                    evidence.exchanges.clear();
                    open.clear();
                }
                Message::Assistant { blocks } => open.extend(blocks.iter().filter_map(call)),
                Message::Tools { results } => evidence.pair(&mut open, results),
                Message::Notice { .. } => {}
            }
        }
        evidence
    }

    fn pair(&mut self, open: &mut Vec<&'a ToolCall>, results: &'a [ToolResult]) {
        for result in results {
            let Some(at) = open.iter().position(|call| call.id == result.call) else {
                continue;
            };
            let call = open.remove(at);
            if let Arguments::Json(arguments) = &call.arguments {
                self.exchanges.push(Exchange {
                    tool: &call.name,
                    arguments,
                    answer: answer(result),
                });
            }
        }
    }

    /// Returns whether a tool may be called now.
    pub(super) fn offers(&self, tool: &str) -> bool {
        self.offered.contains(&tool)
    }

    /// Returns the result of a planned call.
    pub(super) fn answer(&self, call: &Call) -> Answer<'a> {
        let found = self
            .exchanges
            .iter()
            .find(|one| one.tool == call.tool && *one.arguments == call.arguments);
        found.map_or(Answer::Absent, |one| one.answer)
    }

    /// Returns whether a tool was called and has returned.
    pub(super) fn has_called(&self, tool: &str) -> bool {
        self.exchanges.iter().any(|one| one.tool == tool)
    }
}

fn call(block: &Block) -> Option<&ToolCall> {
    match block {
        Block::Call(call) => Some(call),
        Block::Text { .. } | Block::Reasoning { .. } => None,
    }
}

fn answer(result: &ToolResult) -> Answer<'_> {
    match result.status {
        ResultStatus::Ok => Answer::Text {
            text: &result.text,
            cut: result.full.is_some(),
        },
        ResultStatus::Error | ResultStatus::Denied | ResultStatus::Interrupted => {
            Answer::Failed(&result.text)
        }
    }
}
