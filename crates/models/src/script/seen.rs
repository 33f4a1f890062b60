//! The view of a request on which rules are evaluated.

use sortie_base::truncate::truncate;
use sortie_core::message::{Arguments, Block, Message, ToolResult};
use sortie_core::ports::model::ModelRequest;

/// The number of last messages that an error shows.
const SHOWN_MESSAGES: usize = 6;
/// The maximum length of each message in an error.
const SHOWN_CHARS: usize = 200;

/// A request, as rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptRequest<'a> {
    pub request: &'a ModelRequest,
}

impl<'a> ScriptRequest<'a> {
    pub(super) const fn new(request: &'a ModelRequest) -> Self {
        Self { request }
    }

    /// Returns the results of the last calls; empty before the first.
    pub(super) fn last_results(self) -> &'a [ToolResult] {
        let last = self.messages().rev().find_map(|message| match message {
            Message::Tools { results } => Some(results.as_slice()),
            Message::User { .. } | Message::Assistant { .. } | Message::Notice { .. } => None,
        });
        last.unwrap_or_default()
    }

    /// Returns the concatenated text of the last results.
    pub(super) fn last_result(self) -> Option<String> {
        let texts: Vec<&str> = self
            .last_results()
            .iter()
            .map(|r| r.text.as_str())
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Returns the runtime's notices since the last message of the model.
    pub(super) fn notices(self) -> Vec<&'a str> {
        let mut notices: Vec<&str> = self
            .messages()
            .rev()
            .take_while(|message| !matches!(message, Message::Assistant { .. }))
            .filter_map(|message| match message {
                Message::Notice { text } => Some(text.as_str()),
                Message::User { .. } | Message::Assistant { .. } | Message::Tools { .. } => None,
            })
            .collect();
        notices.reverse();
        notices
    }

    /// Returns whether any message contains the text.
    pub(super) fn history_contains(self, wanted: &str) -> bool {
        self.messages()
            .any(|message| parts(message).iter().any(|part| part.contains(wanted)))
    }

    /// Returns the names of the offered tools.
    pub(super) fn tools(self) -> Vec<&'a str> {
        let tools = &self.request.tools;
        tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    /// Describes the run for a message.
    pub(super) fn origin(self) -> String {
        let origin = &self.request.origin;
        format!(
            "turn {} of run {} (agent {}, label {:?}, depth {})",
            origin.turn, origin.run, origin.agent, origin.label, origin.depth
        )
    }

    /// Returns the end of the history and the tools, truncated, for an error.
    pub(super) fn shown(self) -> String {
        let count = self.request.messages.len();
        let skipped = count.saturating_sub(SHOWN_MESSAGES);
        let mut lines = vec![format!("  tools: [{}]", self.tools().join(", "))];
        if skipped > 0 {
            lines.push(format!("  … {skipped} earlier messages"));
        }
        lines.extend(self.messages().skip(skipped).map(show));
        lines.join("\n")
    }

    fn messages(self) -> impl DoubleEndedIterator<Item = &'a Message> {
        self.request.messages.iter().map(AsRef::as_ref)
    }
}

fn show(message: &Message) -> String {
    let role = match message {
        Message::User { .. } => "user",
        Message::Assistant { .. } => "assistant",
        Message::Tools { .. } => "tools",
        Message::Notice { .. } => "notice",
    };
    let text = parts(message).join(" | ").replace('\n', "⏎");
    format!("  {role}: {}", truncate(&text, SHOWN_CHARS))
}

fn parts(message: &Message) -> Vec<String> {
    match message {
        Message::User { text } | Message::Notice { text } => vec![text.clone()],
        Message::Tools { results } => results.iter().map(|result| result.text.clone()).collect(),
        Message::Assistant { blocks } => blocks.iter().map(block).collect(),
    }
}

fn block(block: &Block) -> String {
    match block {
        Block::Text { text } | Block::Reasoning { text, .. } => text.clone(),
        Block::Call(call) => match &call.arguments {
            Arguments::Json(value) => format!("{}({value})", call.name),
            Arguments::Malformed { raw, .. } => format!("{}({raw})", call.name),
        },
    }
}
