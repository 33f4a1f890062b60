//! `fan_out`: one child for each item of a list, and one combined result.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_core::fan_out::{FanOutRequest, MAX_FAN_OUT, MAX_FAN_OUT_CONCURRENCY, OnFailure};
use sortie_core::ports::tool::{
    Recovery, Tool, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};

use crate::arguments::{at_most, parse, spec};

/// The part of a template that an item replaces.
const ITEM: &str = "{item}";
/// The most bytes of a template.
const MAX_TEMPLATE_BYTES: usize = 16 * 1024;
/// The most bytes of an item.
const MAX_ITEM_BYTES: usize = 4 * 1024;
/// The most bytes of the name of an agent.
const MAX_NAME_BYTES: usize = 200;

/// The `fan_out` tool: runs one child for each item and waits for all.
#[derive(Debug)]
pub struct FanOut {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    items: Vec<String>,
    template: String,
    agent: Option<String>,
    concurrency: Option<u32>,
    on_failure: Option<OnFailure>,
}

impl Default for FanOut {
    fn default() -> Self {
        Self {
            spec: spec(
                "fan_out",
                "One subagent per item; its task is template with {item}. Waits for all results.",
                json!({
                    "type": "object",
                    "properties": {
                        "items": {"type": "array", "items": {"type": "string"}},
                        "template": {"type": "string"},
                        "agent": {"type": "string"},
                        "concurrency": {"type": "integer"},
                        "on_failure": {"enum": OnFailure::ALL}
                    },
                    "required": ["items", "template"],
                    "additionalProperties": false
                }),
            ),
        }
    }
}

#[async_trait]
impl Tool for FanOut {
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
        context.spawner.fan_out(request).await
    }
}

fn request(arguments: Arguments) -> Result<FanOutRequest, ToolFailure> {
    let Arguments {
        items,
        template,
        agent,
        concurrency,
        on_failure,
    } = arguments;
    if items.is_empty() || items.len() > MAX_FAN_OUT {
        return Err(ToolFailure::new(format!(
            "`items` has {} entries; give 1 to {MAX_FAN_OUT}, and split a longer list.",
            items.len()
        )));
    }
    if !template.contains(ITEM) {
        return Err(ToolFailure::new(
            "`template` does not contain `{item}`, so all subagents would have the same task. Write `{item}` where the item belongs.",
        ));
    }
    at_most("template", &template, MAX_TEMPLATE_BYTES)?;
    for item in items.iter().chain(&agent) {
        at_most("items", item, MAX_ITEM_BYTES)?;
    }
    if let Some(agent) = &agent {
        at_most("agent", agent, MAX_NAME_BYTES)?;
    }
    if concurrency.is_some_and(|count| !(1..=MAX_FAN_OUT_CONCURRENCY).contains(&count)) {
        return Err(ToolFailure::new(format!(
            "`concurrency` must be from 1 to {MAX_FAN_OUT_CONCURRENCY}."
        )));
    }
    Ok(FanOutRequest {
        items,
        template,
        agent,
        concurrency,
        on_failure: on_failure.unwrap_or(OnFailure::Continue),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: Value) -> Result<FanOutRequest, String> {
        let arguments = parse(arguments).map_err(|failure| failure.to_string())?;
        request(arguments).map_err(|failure| failure.to_string())
    }

    #[test]
    fn arguments_of_the_contract_are_read() {
        let read = parsed(json!({
            "items": ["a", "b"], "template": "Look at {item}.", "agent": "explore",
            "concurrency": 2, "on_failure": "retry"
        }));
        let expected = FanOutRequest {
            items: vec!["a".into(), "b".into()],
            template: "Look at {item}.".into(),
            agent: Some("explore".into()),
            concurrency: Some(2),
            on_failure: OnFailure::Retry,
        };
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn what_cannot_be_fanned_out_is_refused_with_the_parameter_to_change() {
        let many: Vec<String> = vec!["x".into(); MAX_FAN_OUT + 1];
        for (arguments, expected) in [
            (
                json!({"items": [], "template": "{item}"}),
                "`items` has 0 entries",
            ),
            (
                json!({"items": many, "template": "{item}"}),
                "`items` has 101 entries",
            ),
            (
                json!({"items": ["a"], "template": "all"}),
                "`template` does not contain `{item}`",
            ),
            (
                json!({"items": ["a"], "template": "{item}", "concurrency": 0}),
                "`concurrency` must be from 1 to 32",
            ),
            (
                json!({"items": ["x".repeat(5000)], "template": "{item}"}),
                "`items` has 5000 bytes",
            ),
        ] {
            let failure = parsed(arguments).unwrap_err();
            assert!(failure.starts_with(expected), "{failure}");
        }
    }
}
