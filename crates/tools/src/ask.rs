//! `ask`: sends a question from a run to its parent, or to a person if the run has no parent.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_core::ports::tool::{
    Recovery, Tool, ToolContext, ToolFailure, ToolOutcome, ToolReply, ToolSpec, Touches,
};
use sortie_core::request::{Addressee, Question};

use crate::arguments::{at_most, parse, spec, whole};

/// The most bytes of a question.
const MAX_QUESTION_BYTES: usize = 16 * 1024;
/// The most bytes of one option.
const MAX_OPTION_BYTES: usize = 1024;
/// The most options of a question.
const MAX_OPTIONS: usize = 20;
/// The time to wait for an answer if the call sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
/// The longest time to wait for an answer.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);

/// The `ask` tool: sends a question to the parent of the run.
#[derive(Debug)]
pub struct Ask {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    question: String,
    #[serde(default)]
    options: Vec<String>,
    default: Option<String>,
    #[serde(default, deserialize_with = "whole")]
    timeout_seconds: Option<u64>,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            spec: spec(
                "ask",
                "Ask the agent or person that gave you the task, if only they can decide what blocks you. Waits; if no answer arrives in time, default applies.",
                json!({
                    "type": "object",
                    "properties": {
                        "question": {"type": "string"},
                        "options": {"type": "array", "items": {"type": "string"}},
                        "default": {"type": "string"},
                        "timeout_seconds": {"type": "integer"}
                    },
                    "required": ["question"],
                    "additionalProperties": false
                }),
            ),
        }
    }
}

#[async_trait]
impl Tool for Ask {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Nothing
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, _: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let arguments: Arguments = parse(arguments)?;
        refuse_too_much(&arguments)?;
        Ok(ToolOutcome::Asks {
            timeout: timeout(arguments.timeout_seconds),
            question: Question {
                to: Addressee::Parent,
                text: arguments.question,
                options: arguments.options,
                default: arguments.default,
            },
        })
    }
}

fn refuse_too_much(arguments: &Arguments) -> Result<(), ToolFailure> {
    if arguments.question.trim().is_empty() {
        return Err(ToolFailure::new(
            "The question is empty. Say what you need to know, and what you would do otherwise.",
        ));
    }
    at_most("question", &arguments.question, MAX_QUESTION_BYTES)?;
    if arguments.options.len() > MAX_OPTIONS {
        return Err(ToolFailure::new(format!(
            "At most {MAX_OPTIONS} options can be given. Omit the unlikely ones; an answer can also be free text."
        )));
    }
    for option in arguments.options.iter().chain(&arguments.default) {
        at_most("option", option, MAX_OPTION_BYTES)?;
    }
    Ok(())
}

fn timeout(requested_seconds: Option<u64>) -> Duration {
    match requested_seconds {
        None | Some(0) => DEFAULT_TIMEOUT,
        Some(seconds) => Duration::from_secs(seconds).min(MAX_TIMEOUT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Delegation, Folder, outcome_with};

    async fn ask(arguments: Value) -> Result<(Question, u64), String> {
        let folder = Folder::with(&[]);
        let reply = outcome_with(&Ask::default(), &folder, arguments, &Delegation::default()).await;
        match reply {
            Ok(ToolOutcome::Asks { question, timeout }) => Ok((question, timeout.as_secs())),
            Ok(other) => panic!("a question was expected: {other:?}"),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[tokio::test]
    async fn question_goes_to_the_parent() {
        let whole = json!({"question": "用哪个？", "options": ["a", "b"], "default": "a",
            "timeout_seconds": 30});
        let question = Question {
            to: Addressee::Parent,
            text: "用哪个？".into(),
            options: vec!["a".into(), "b".into()],
            default: Some("a".into()),
        };
        assert_eq!(ask(whole).await, Ok((question, 30)));
    }

    #[tokio::test]
    async fn timeout_is_bounded() {
        let check = async |seconds: Value, expected: u64| {
            let result = ask(json!({"question": "q", "timeout_seconds": seconds})).await;
            assert_eq!(result.unwrap().1, expected, "{seconds}");
        };
        check(Value::Null, 600).await;
        check(json!(0), 600).await;
        check(json!(1), 1).await;
        check(json!(1_000_000), 86_400).await;
    }

    #[tokio::test]
    async fn invalid_questions_are_rejected() {
        let check = async |arguments: Value, expected: &str| {
            let failure = ask(arguments).await.unwrap_err();
            assert!(failure.starts_with(expected), "{failure}");
        };
        check(json!({"question": " "}), "The question is empty.").await;
        check(
            json!({"question": "q", "options": vec!["x"; 21]}),
            "At most 20 options",
        )
        .await;
        check(
            json!({"question": "x".repeat(MAX_QUESTION_BYTES + 1)}),
            "`question` has 16385 bytes",
        )
        .await;
    }
}
