//! `changes`: shows, applies or discards the changes that a child made in its own worktree.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_core::ports::tool::{
    ManageRequest, Recovery, Tool, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};

use crate::arguments::{at_most, parse, spec};

/// The most bytes of an id or label.
const MAX_ID_BYTES: usize = 500;

/// The `changes` tool: applies or discards the changes of a child.
#[derive(Debug)]
pub struct Changes {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    action: Action,
    id: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Diff,
    Apply,
    Discard,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            spec: spec(
                "changes",
                "What a finished subagent changed in its worktree: see the diff, apply it to your workspace, or discard it. id: id or label.",
                json!({
                    "type": "object",
                    "properties": {
                        "action": {"enum": ["diff", "apply", "discard"]},
                        "id": {"type": "string"}
                    },
                    "required": ["action", "id"],
                    "additionalProperties": false
                }),
            ),
        }
    }
}

#[async_trait]
impl Tool for Changes {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Files
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Once(None)
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let request = request(parse(arguments)?)?;
        context.spawner.manage(request).await
    }
}

fn request(arguments: Arguments) -> Result<ManageRequest, ToolFailure> {
    let Arguments { action, id } = arguments;
    at_most("id", &id, MAX_ID_BYTES)?;
    if id.trim().is_empty() {
        return Err(ToolFailure::new(
            "`id` is empty. Use subagents with action list to see the ids.",
        ));
    }
    Ok(match action {
        Action::Diff => ManageRequest::Diff { id },
        Action::Apply => ManageRequest::Apply { id },
        Action::Discard => ManageRequest::Discard { id },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Delegation, Folder, outcome_with};

    async fn check(arguments: Value, expected: Result<ManageRequest, &str>) {
        let delegation = Delegation::default();
        let folder = Folder::with(&[]);
        let reply = outcome_with(&Changes::default(), &folder, arguments, &delegation).await;
        let failure = reply.err().map(|failure| failure.to_string());
        match expected {
            Ok(request) => assert_eq!((failure, delegation.managed()), (None, vec![request])),
            Err(expected) => {
                let failure = failure.unwrap_or_default();
                assert!(failure.starts_with(expected), "{failure}");
                assert!(delegation.managed().is_empty());
            }
        }
    }

    #[tokio::test]
    async fn each_action_becomes_a_request() {
        let id = || "a".to_owned();
        let call = |action: &str| json!({"action": action, "id": "a"});
        check(call("diff"), Ok(ManageRequest::Diff { id: id() })).await;
        check(call("apply"), Ok(ManageRequest::Apply { id: id() })).await;
        check(call("discard"), Ok(ManageRequest::Discard { id: id() })).await;
        check(call("burn"), Err("The arguments do not fit")).await;
        check(json!({"action": "diff", "id": " "}), Err("`id` is empty.")).await;
    }
}
