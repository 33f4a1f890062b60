//! Requests as the runtime makes them.

use std::sync::Arc;

use serde_json::json;
use sortie_core::id::{CallId, RunId};
use sortie_core::message::{Arguments, Block, Message, ResultStatus, ToolCall, ToolResult};
use sortie_core::ports::model::{
    AnswerPart, Images, ModelAnswer, ModelRequest, PromptOrigin, TurnOptions,
};
use sortie_core::ports::tool::ToolSpec;

pub(crate) fn run_id(number: u128) -> RunId {
    RunId::from_uuid(uuid::Uuid::from_u128(number))
}

pub(crate) fn request(agent: &str, label: &str, task: &str, tools: &[&str]) -> ModelRequest {
    ModelRequest {
        origin: PromptOrigin {
            run: run_id(7),
            root: run_id(1),
            cache_key: format!("{}/{agent}", run_id(1)),
            agent: agent.to_owned(),
            label: label.to_owned(),
            task: task.to_owned(),
            depth: u32::from(agent != "main"),
            turn: 1,
        },
        model: "test".to_owned(),
        system: Arc::from("You work in a folder."),
        tools: specs(tools),
        messages: vec![Arc::new(Message::User {
            text: task.to_owned(),
        })],
        images: Images::default(),
        options: TurnOptions::default(),
    }
}

pub(crate) fn specs(names: &[&str]) -> Arc<[ToolSpec]> {
    let spec = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    names.iter().map(spec).collect()
}

/// Appends a reply to the history and returns its calls.
pub(crate) fn answered(request: &mut ModelRequest, answer: &ModelAnswer) -> Vec<ToolCall> {
    let turn = request.origin.turn;
    let mut calls = Vec::new();
    let mut blocks = Vec::new();
    for part in &answer.parts {
        match part {
            AnswerPart::Text(text) => blocks.push(Block::Text { text: text.clone() }),
            AnswerPart::Reasoning { text, native } => blocks.push(Block::Reasoning {
                text: text.clone(),
                native: native.clone(),
            }),
            AnswerPart::Call {
                provider_id,
                name,
                arguments,
            } => {
                let call = ToolCall {
                    id: CallId::new(turn, calls.len()),
                    provider_id: provider_id.clone(),
                    name: name.clone(),
                    arguments: arguments.clone(),
                };
                calls.push(call.clone());
                blocks.push(Block::Call(call));
            }
        }
    }
    request
        .messages
        .push(Arc::new(Message::Assistant { blocks }));
    request.origin.turn += 1;
    calls
}

/// Appends results of calls.
pub(crate) fn results(request: &mut ModelRequest, results: Vec<ToolResult>) {
    request.messages.push(Arc::new(Message::Tools { results }));
}

pub(crate) fn result(call: &ToolCall, status: ResultStatus, text: impl Into<String>) -> ToolResult {
    ToolResult {
        call: call.id.clone(),
        provider_id: None,
        text: text.into(),
        status,
        full: None,
        images: Vec::new(),
    }
}

/// Appends one `grep` call for each of `texts`, with that text as its result.
pub(crate) fn with_results(request: &mut ModelRequest, texts: &[&str]) {
    let parts = texts.iter().map(|_| AnswerPart::Call {
        provider_id: None,
        name: "grep".to_owned(),
        arguments: Arguments::Json(json!({"pattern": "x"})),
    });
    let answer = ModelAnswer {
        parts: parts.collect(),
        stop: sortie_core::event::StopReason::ToolUse,
        usage: sortie_core::message::Usage::default(),
        model: String::new(),
        held_ms: 0,
    };
    let calls = answered(request, &answer);
    let given = calls.iter().zip(texts);
    let given = given
        .map(|(call, text)| result(call, ResultStatus::Ok, *text))
        .collect();
    results(request, given);
}

pub(crate) fn with_notice(request: &mut ModelRequest, text: &str) {
    request.messages.push(Arc::new(Message::Notice {
        text: text.to_owned(),
    }));
}

/// Renders a reply, one line per part.
pub(crate) fn shown(answer: &ModelAnswer) -> String {
    let part = |part: &AnswerPart| match part {
        AnswerPart::Text(text) => format!("say {text}"),
        AnswerPart::Reasoning { text, .. } => format!("think {text}"),
        AnswerPart::Call {
            name, arguments, ..
        } => match arguments {
            Arguments::Json(value) => format!("call {name} {value}"),
            Arguments::Malformed { raw, error } => format!("call {name} malformed {raw} ({error})"),
        },
    };
    let lines: Vec<String> = answer.parts.iter().map(part).collect();
    lines.join("\n")
}
