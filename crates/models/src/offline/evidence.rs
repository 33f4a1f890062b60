//! What was asked and answered since the last instruction.

use serde_json::Value;

use sortie_core::message::{Arguments, Block, Message, ResultStatus, ToolCall, ToolResult};
use sortie_core::ports::model::ModelRequest;

use super::Call;

/// The calls of this run since its instruction, with their answers.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    /// What the run is to do.
    pub instruction: &'a str,
    offered: Vec<&'a str>,
    exchanges: Vec<Exchange<'a>>,
}

/// A call and its answer.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    /// The tool.
    pub tool: &'a str,
    /// What it was asked.
    pub arguments: &'a Value,
    /// What it said.
    pub answer: Answer<'a>,
}

/// How a tool answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// With this text; `cut` if the runtime left some of it out.
    Text { text: &'a str, cut: bool },
    /// It did not: this is what it said instead.
    Failed(&'a str),
    /// Nobody asked it.
    Absent,
}

impl<'a> Evidence<'a> {
    /// What a request shows.
    pub(super) fn of(request: &'a ModelRequest) -> Self {
        let mut evidence = Self {
            instruction: &request.asker.task,
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

    /// Whether a tool may be called now.
    pub(super) fn offers(&self, tool: &str) -> bool {
        self.offered.contains(&tool)
    }

    /// The answer to a planned call.
    pub(super) fn answer(&self, call: &Call) -> Answer<'a> {
        let found = self
            .exchanges
            .iter()
            .find(|one| one.tool == call.tool && *one.arguments == call.arguments);
        found.map_or(Answer::Absent, |one| one.answer)
    }

    /// All exchanges with one tool, in order.
    pub(super) fn with<'b>(&'b self, tool: &'b str) -> impl Iterator<Item = &'b Exchange<'a>> {
        self.exchanges.iter().filter(move |one| one.tool == tool)
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
