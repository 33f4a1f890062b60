//! `subagents`: lists, reads, waits for, steers and cancels the children of a run.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_core::ports::tool::{
    ManageRequest, Recovery, Tool, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};

use crate::arguments::{at_most, parse, spec};

/// The most children that one call can name.
const MAX_IDS: usize = 200;
/// The most bytes of an id or label.
const MAX_ID_BYTES: usize = 500;
/// The most bytes of a message.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// The `subagents` tool: manages the children of a run.
#[derive(Debug)]
pub struct Subagents {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    action: Action,
    id: Option<String>,
    ids: Option<Vec<String>>,
    message: Option<String>,
    request: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Get,
    Wait,
    Steer,
    Cancel,
    Answer,
    Diff,
}

impl Default for Subagents {
    fn default() -> Self {
        Self {
            spec: spec(
                "subagents",
                "List, get, steer (with message) or cancel your subagents, see a diff, or wait for all or some (ids). answer: the question `request`, or that of subagent id, with message; without it a person is asked. id: id or label.",
                json!({
                    "type": "object",
                    "properties": {
                        "action": {"enum": ["list", "get", "wait", "steer", "cancel", "answer", "diff"]},
                        "id": {"type": "string"},
                        "ids": {"type": "array", "items": {"type": "string"}},
                        "message": {"type": "string"},
                        "request": {"type": "string"}
                    },
                    "required": ["action"],
                    "additionalProperties": false
                }),
            ),
        }
    }
}

#[async_trait]
impl Tool for Subagents {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Runs
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let request = request(parse(arguments)?)?;
        context.spawner.manage(request).await
    }
}

fn request(arguments: Arguments) -> Result<ManageRequest, ToolFailure> {
    let Arguments {
        action,
        id,
        ids,
        message,
        request,
    } = arguments;
    let mut ids: Vec<String> = ids.unwrap_or_default().into_iter().chain(id).collect();
    ids.retain(|id| !id.trim().is_empty());
    for id in &ids {
        at_most("id", id, MAX_ID_BYTES)?;
    }
    if ids.len() > MAX_IDS {
        return Err(ToolFailure::new(format!(
            "At most {MAX_IDS} subagents can be named. Leave `ids` out to wait for all."
        )));
    }
    Ok(match action {
        Action::List => ManageRequest::List,
        Action::Wait => ManageRequest::Wait { ids },
        Action::Get => ManageRequest::Get {
            id: only(ids, "get")?,
        },
        Action::Cancel => ManageRequest::Cancel {
            id: only(ids, "cancel")?,
        },
        Action::Steer => ManageRequest::Steer {
            id: only(ids, "steer")?,
            message: required_message(message)?,
        },
        Action::Answer => ManageRequest::Answer {
            request: question(request, ids)?,
            text: checked_message(message)?,
        },
        Action::Diff => ManageRequest::Diff {
            id: only(ids, "diff")?,
        },
    })
}

fn only(ids: Vec<String>, action: &str) -> Result<String, ToolFailure> {
    let count = ids.len();
    match <[String; 1]>::try_from(ids) {
        Ok([id]) => Ok(id),
        Err(_) => Err(ToolFailure::new(format!(
            "`{action}` needs exactly one `id`, and {count} were given. Use action list to see the ids."
        ))),
    }
}

fn required_message(message: Option<String>) -> Result<String, ToolFailure> {
    checked_message(message)?.ok_or_else(|| {
        ToolFailure::new(
            "`steer` needs a `message`: what the subagent should know or do differently.",
        )
    })
}

fn checked_message(message: Option<String>) -> Result<Option<String>, ToolFailure> {
    let message = message.filter(|message| !message.trim().is_empty());
    if let Some(message) = &message {
        at_most("message", message, MAX_MESSAGE_BYTES)?;
    }
    Ok(message)
}

/// Returns the id of a question, or the child that asks it.
fn question(request: Option<String>, ids: Vec<String>) -> Result<String, ToolFailure> {
    let request = request.filter(|request| !request.trim().is_empty());
    let request = request.or_else(|| only(ids, "answer").ok()).ok_or_else(|| {
        ToolFailure::new(
            "`answer` needs a `request`: the id that came with the question. Or the `id` of the subagent that asks.",
        )
    })?;
    at_most("request", &request, MAX_ID_BYTES)?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Delegation, Folder, outcome_with};

    async fn check(arguments: Value, expected: Result<ManageRequest, &str>) {
        let delegation = Delegation::default();
        let reply = outcome_with(
            &Subagents::default(),
            &Folder::with(&[]),
            arguments,
            &delegation,
        )
        .await;
        match expected {
            Ok(request) => {
                reply.unwrap();
                assert_eq!(delegation.managed(), [request]);
            }
            Err(failure) => {
                assert_eq!(reply.unwrap_err().to_string(), failure);
                assert!(delegation.managed().is_empty());
            }
        }
    }

    #[tokio::test]
    async fn each_action_becomes_a_request() {
        let id = || "a".to_owned();
        check(json!({"action": "list"}), Ok(ManageRequest::List)).await;
        check(
            json!({"action": "get", "id": "a"}),
            Ok(ManageRequest::Get { id: id() }),
        )
        .await;
        check(
            json!({"action": "get", "ids": ["a"]}),
            Ok(ManageRequest::Get { id: id() }),
        )
        .await;
        check(
            json!({"action": "wait"}),
            Ok(ManageRequest::Wait { ids: vec![] }),
        )
        .await;
        check(
            json!({"action": "wait", "id": "a"}),
            Ok(ManageRequest::Wait { ids: vec![id()] }),
        )
        .await;
        check(
            json!({"action": "cancel", "id": "a"}),
            Ok(ManageRequest::Cancel { id: id() }),
        )
        .await;
        let steer = ManageRequest::Steer {
            id: id(),
            message: "m".into(),
        };
        check(
            json!({"action": "steer", "id": "a", "message": "m"}),
            Ok(steer),
        )
        .await;
        check(
            json!({"action": "diff", "id": "a"}),
            Ok(ManageRequest::Diff { id: id() }),
        )
        .await;
        let answer = |text: Option<&str>| ManageRequest::Answer {
            request: "4f2a".into(),
            text: text.map(str::to_owned),
        };
        check(
            json!({"action": "answer", "request": "4f2a", "message": "是"}),
            Ok(answer(Some("是"))),
        )
        .await;
        check(
            json!({"action": "answer", "request": "4f2a"}),
            Ok(answer(None)),
        )
        .await;
        check(
            json!({"action": "answer", "id": "4f2a", "message": "是"}),
            Ok(answer(Some("是"))),
        )
        .await;
    }

    #[tokio::test]
    async fn failures_name_the_missing_argument() {
        check(
            json!({"action": "get"}),
            Err("`get` needs exactly one `id`, and 0 were given. Use action list to see the ids."),
        )
        .await;
        check(json!({"action": "cancel", "ids": ["a", "b"]}), Err("`cancel` needs exactly one `id`, and 2 were given. Use action list to see the ids.")).await;
        check(
            json!({"action": "steer", "id": "a", "message": " "}),
            Err("`steer` needs a `message`: what the subagent should know or do differently."),
        )
        .await;
        check(
            json!({"action": "answer", "message": "m"}),
            Err(
                "`answer` needs a `request`: the id that came with the question. Or the `id` of the subagent that asks.",
            ),
        )
        .await;
        check(
            json!({"action": "wait", "ids": vec!["x"; 201]}),
            Err("At most 200 subagents can be named. Leave `ids` out to wait for all."),
        )
        .await;
    }
}
