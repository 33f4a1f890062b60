//! Context forks: the copy of a conversation that a new run starts with.
//!
//! A copy keeps text and reasoning. A call without a result is left out, and calls of tools that the
//! new run does not have become short summaries, so that it does not try to repeat them.

use std::sync::Arc;

use sortie_core::message::{
    Arguments, Block, Message, ResultStatus, SharedMessage, ToolCall, ToolResult,
};
use sortie_core::words::Lang;
use sortie_text::{first_chars, one_line, t};

/// The most bytes of a copied conversation, as JSON: about 250,000 tokens, more than most models
/// read. The oldest messages are left out first.
pub const MAX_CONTEXT_BYTES: usize = 1 << 20;
/// Characters of the arguments of a call that is summarized.
const ARGUMENT_CHARS: usize = 200;
/// Characters of the result of a call that is summarized.
const RESULT_CHARS: usize = 300;

/// What a new run reads between a copied conversation and its task.
#[derive(Clone, Copy, Debug)]
pub struct Separator<'a> {
    pub lang: Lang,
    pub agent: &'a str,
    /// The tools that the run may call.
    pub tools: &'a [String],
    /// Its instructions, if its system prompt is that of another run.
    pub instructions: Option<&'a str>,
}

impl Separator<'_> {
    fn message(&self) -> SharedMessage {
        let (lang, agent, tools) = (self.lang, self.agent, self.tools.join(", "));
        let text = match self.instructions {
            None => t!(lang, "notice-context-end", agent = agent, tools = tools),
            Some(instructions) => t!(
                lang,
                "notice-context-end-cached",
                agent = agent,
                tools = tools,
                instructions = instructions
            ),
        };
        Arc::new(Message::Notice { text })
    }
}

/// Copies the last messages of a conversation for a run that can make the calls that `can_call`
/// accepts. A completion at the end whose calls have no results yet does not count.
pub fn copied_context(
    messages: &[SharedMessage],
    last: usize,
    can_call: impl Fn(&ToolCall) -> bool,
    separator: &Separator<'_>,
) -> Vec<SharedMessage> {
    let (before, calling) = split_calling(messages);
    let window = &before[before.len().saturating_sub(last)..];
    let mut exchanges: Vec<Vec<SharedMessage>> = Vec::new();
    let mut rest = window.iter().peekable();
    while let Some(message) = rest.next() {
        match &**message {
            Message::User { .. } | Message::Notice { .. } => {
                exchanges.push(vec![Arc::clone(message)]);
            }
            Message::Assistant { blocks } => {
                let results = match rest.peek().map(|next| &***next) {
                    Some(Message::Tools { results }) => results.as_slice(),
                    Some(_) | None => &[],
                };
                exchanges.push(exchange(separator.lang, blocks, results, &can_call));
            }
            // Read with the completion before them; without it their calls are unknown.
            Message::Tools { .. } => {}
        }
    }
    if let Some(blocks) = calling {
        exchanges.push(exchange(separator.lang, blocks, &[], &can_call));
    }
    exchanges.retain(|exchange| !exchange.is_empty());
    let mut left = MAX_CONTEXT_BYTES;
    let fits = |exchange: &&Vec<SharedMessage>| match left.checked_sub(bytes(exchange)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let kept = exchanges.iter().rev().take_while(fits).count();
    let beginning = t!(separator.lang, "notice-context-begin");
    std::iter::once(Arc::new(Message::Notice { text: beginning }))
        .chain(exchanges.drain(exchanges.len() - kept..).flatten())
        .chain(std::iter::once(separator.message()))
        .collect()
}

/// Returns the messages of the requester's last prompt unchanged, and behind them what it said when
/// it made its call. `None` if that is more than [`MAX_CONTEXT_BYTES`].
pub fn cached_context(
    messages: &[SharedMessage],
    separator: &Separator<'_>,
) -> Option<Vec<SharedMessage>> {
    let (prompt, calling) = split_calling(messages);
    let mut copy = prompt.to_vec();
    if let Some(blocks) = calling {
        copy.extend(exchange(separator.lang, blocks, &[], &|_| false));
    }
    copy.push(separator.message());
    (bytes(&copy) <= MAX_CONTEXT_BYTES).then_some(copy)
}

/// Splits off a completion at the end whose calls have no results yet.
fn split_calling(messages: &[SharedMessage]) -> (&[SharedMessage], Option<&[Block]>) {
    if let Some((last, before)) = messages.split_last()
        && let Message::Assistant { blocks } = &**last
        && blocks.iter().any(|block| matches!(block, Block::Call(_)))
    {
        return (before, Some(blocks));
    }
    (messages, None)
}

/// Returns a completion and the results of its calls as a run reads them that can make only some of
/// these calls. Empty if nothing is left.
fn exchange(
    lang: Lang,
    blocks: &[Block],
    results: &[ToolResult],
    can_call: &impl Fn(&ToolCall) -> bool,
) -> Vec<SharedMessage> {
    let mut kept_blocks = Vec::new();
    let mut kept_results = Vec::new();
    let mut summaries = Vec::new();
    for block in blocks {
        let Block::Call(call) = block else {
            kept_blocks.push(block.clone());
            continue;
        };
        match results.iter().find(|result| result.call == call.id) {
            Some(result) if can_call(call) => {
                kept_blocks.push(block.clone());
                kept_results.push(result.clone());
            }
            Some(result) => summaries.push(summary(call, result)),
            None => {}
        }
    }
    if kept_blocks.len() < blocks.len() {
        // A vendor's own item fits only the completion that it came with.
        for block in &mut kept_blocks {
            if let Block::Reasoning { native, .. } = block {
                *native = None;
            }
        }
    }
    let mut messages = Vec::new();
    let is_empty = |block: &Block| match block {
        Block::Text { text } | Block::Reasoning { text, native: None } => text.trim().is_empty(),
        Block::Reasoning { .. } | Block::Call(_) => false,
    };
    if !kept_blocks.iter().all(is_empty) {
        messages.push(Arc::new(Message::Assistant {
            blocks: kept_blocks,
        }));
    }
    if !kept_results.is_empty() {
        messages.push(Arc::new(Message::Tools {
            results: kept_results,
        }));
    }
    if !summaries.is_empty() {
        let text = t!(lang, "notice-context-calls", calls = summaries.join("\n"));
        messages.push(Arc::new(Message::Notice { text }));
    }
    messages
}

fn summary(call: &ToolCall, result: &ToolResult) -> String {
    let arguments = match &call.arguments {
        Arguments::Json(value) => value.to_string(),
        Arguments::Malformed { raw, .. } => raw.clone(),
    };
    let status = match result.status {
        ResultStatus::Ok => "ok",
        ResultStatus::Error => "error",
        ResultStatus::Denied => "denied",
        ResultStatus::Interrupted => "interrupted",
    };
    format!(
        "- {} {}: {status}: {}",
        call.name,
        one_line(first_chars(&arguments, ARGUMENT_CHARS)),
        one_line(first_chars(&result.text, RESULT_CHARS))
    )
}

fn bytes(messages: &[SharedMessage]) -> usize {
    let bytes_of = |message: &SharedMessage| serde_json::to_vec(message).map_or(0, |it| it.len());
    messages.iter().map(bytes_of).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sortie_core::id::CallId;

    use super::*;

    const TOOLS: &[&str] = &["read_file", "grep"];

    fn separator<'a>(tools: &'a [String]) -> Separator<'a> {
        Separator {
            lang: Lang::En,
            agent: "explore",
            tools,
            instructions: None,
        }
    }

    fn call(index: usize, name: &str, arguments: Value) -> Block {
        Block::Call(ToolCall {
            id: CallId::new(1, index),
            provider_id: None,
            name: name.to_owned(),
            arguments: Arguments::Json(arguments),
        })
    }

    fn result(index: usize, text: &str) -> ToolResult {
        ToolResult {
            call: CallId::new(1, index),
            provider_id: None,
            text: text.to_owned(),
            status: ResultStatus::Ok,
            full: None,
            images: Vec::new(),
        }
    }

    fn text(text: &str) -> Block {
        Block::Text {
            text: text.to_owned(),
        }
    }

    fn reasoning(text: &str) -> Block {
        Block::Reasoning {
            text: text.to_owned(),
            native: Some(json!({"wire": "x"})),
        }
    }

    fn user(text: &str) -> SharedMessage {
        Arc::new(Message::User {
            text: text.to_owned(),
        })
    }

    fn assistant(blocks: Vec<Block>) -> SharedMessage {
        Arc::new(Message::Assistant { blocks })
    }

    fn tools(results: Vec<ToolResult>) -> SharedMessage {
        Arc::new(Message::Tools { results })
    }

    /// A conversation that ends with an open call.
    fn conversation() -> Vec<SharedMessage> {
        vec![
            user("fix it"),
            assistant(vec![
                reasoning("hm"),
                text("I look."),
                call(0, "read_file", json!({"path": "a"})),
                call(1, "exec", json!({"command": "make"})),
            ]),
            tools(vec![result(0, "A"), result(1, "made\nall")]),
            assistant(vec![call(0, "exec", json!({"command": "ls"}))]),
            tools(vec![result(0, "a b")]),
            assistant(vec![text("I delegate."), call(0, "task", json!({}))]),
        ]
    }

    fn copied(messages: &[SharedMessage], last: usize) -> Vec<SharedMessage> {
        let names: Vec<String> = TOOLS.iter().map(|name| (*name).to_owned()).collect();
        let can_call = |call: &ToolCall| TOOLS.contains(&call.name.as_str());
        copied_context(messages, last, can_call, &separator(&names))
    }

    fn shown(messages: &[SharedMessage]) -> String {
        let line = |message: &SharedMessage| match &**message {
            Message::User { text } => format!("user: {text}"),
            Message::Notice { text } => format!("notice: {text}"),
            Message::Assistant { blocks } => {
                let parts = blocks.iter().map(|block| match block {
                    Block::Text { text } => format!("text {text}"),
                    Block::Reasoning { text, native } => {
                        format!("reasoning {text} native={}", native.is_some())
                    }
                    Block::Call(call) => format!("call {}", call.name),
                });
                format!("assistant: {}", parts.collect::<Vec<_>>().join(" | "))
            }
            Message::Tools { results } => {
                let parts: Vec<_> = results.iter().map(|it| it.text.clone()).collect();
                format!("results: {}", parts.join(" | "))
            }
        };
        messages.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn copy_keeps_text_and_reasoning_and_summarizes_calls_of_missing_tools() {
        let log = shown(&copied(&conversation(), 100));
        let expected = [
            "notice: [Copied context] ",
            "user: fix it\n",
            "assistant: reasoning hm native=false | text I look. | call read_file\n",
            "results: A\n",
            "- exec {\"command\":\"make\"}: ok: made all\n",
            "- exec {\"command\":\"ls\"}: ok: a b\n",
            "assistant: text I delegate.\n",
            "notice: [End of the copied context] ",
            "read_file, grep",
        ];
        let mut from = 0;
        for part in expected {
            let at = log[from..].find(part);
            from += at.unwrap_or_else(|| panic!("no {part:?} in {log}")) + part.len();
        }
        assert_eq!(log.matches("call ").count(), 1, "{log}");
    }

    #[test]
    fn copy_of_the_last_messages_has_no_result_without_its_call() {
        let log = shown(&copied(&conversation(), 3));
        assert!(
            !log.contains("results: ") && !log.contains("I look."),
            "{log}"
        );
        assert!(log.contains("ls") && log.contains("I delegate."), "{log}");
    }

    #[test]
    fn copy_is_bounded_and_leaves_out_the_oldest_messages() {
        let messages: Vec<_> = (0..40)
            .map(|n| user(&format!("{n} {}", "x".repeat(100_000))))
            .collect();
        let copy = copied(&messages, 1_000);
        assert!(bytes(&copy) < MAX_CONTEXT_BYTES + 4_000);
        let log = shown(&copy);
        assert!(log.contains("user: 39 ") && !log.contains("user: 20 "));
    }

    #[test]
    fn cached_copy_is_the_prompt_without_the_open_call() {
        let messages = conversation();
        let copy = cached_context(&messages, &separator(&[])).unwrap();
        assert_eq!(copy[..5], messages[..5]);
        assert_eq!(shown(&copy[5..6]), "assistant: text I delegate.");
        assert_eq!(copy.len(), 7);
        let huge = [user(&"x".repeat(MAX_CONTEXT_BYTES))];
        assert_eq!(cached_context(&huge, &separator(&[])), None);
    }
}
