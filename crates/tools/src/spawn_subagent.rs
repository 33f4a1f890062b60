//! `spawn_subagent`: a child in the background.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_core::{
    Announce, Budget, Cleanup, EdgeMode, Lang, Priority, Recovery, SpawnRequest, Spawned, Spelling,
    Tool, ToolAnswer, ToolContext, ToolFailure, ToolNarrowing, ToolReply, ToolSpec, Touches,
};

use crate::arguments::{at_most, parse, spec, whole};
use crate::text::cut;

/// The longest task.
pub(crate) const MAX_TASK_BYTES: usize = 256 * 1024;
/// How many characters of a label are kept.
const MAX_LABEL_CHARS: usize = 100;
/// The longest name of an agent, a model or a tool.
const MAX_NAME_BYTES: usize = 200;
/// How many tools a list names at most.
const MAX_TOOL_NAMES: usize = 200;

const SPELLINGS: &[Spelling] = &[
    Spelling {
        name: "spawn",
        renames: AGENT_AND_TIME,
    },
    Spelling {
        name: "sessions_spawn",
        renames: AGENT_AND_TIME,
    },
];

const AGENT_AND_TIME: &[(&str, &str)] = &[
    ("agent_type", "agentId"),
    ("subagent_type", "agentId"),
    ("agent_id", "agentId"),
    ("agent", "agentId"),
    ("timeoutSeconds", "runTimeoutSeconds"),
    ("timeout_seconds", "runTimeoutSeconds"),
];

/// Starts children in the background.
#[derive(Debug)]
pub struct SpawnSubagent {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    task: String,
    label: Option<String>,
    agent_id: Option<String>,
    model: Option<String>,
    thinking: Option<String>,
    #[serde(default, deserialize_with = "whole")]
    run_timeout_seconds: Option<u64>,
    cleanup: Option<Cleanup>,
    #[serde(default)]
    tools: Tools,
    announce: Option<Announce>,
    priority: Option<Priority>,
    #[serde(default)]
    budget: Account,
    #[serde(rename = "result_schema")]
    result_schema: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Tools {
    allow: Option<Vec<String>>,
    #[serde(default)]
    deny: Vec<String>,
    inherit: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
struct Account {
    #[serde(default, deserialize_with = "whole")]
    tokens: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    tool_calls: Option<u64>,
}

impl SpawnSubagent {
    /// The tool.
    pub fn new() -> Self {
        let names = json!({"type": "array", "items": {"type": "string"}});
        Self {
            spec: spec(
                "spawn_subagent",
                "Start a subagent in the background and go on working; its result is announced to you when it finishes. Start several for independent work. It sees nothing of this conversation: put all it needs into task, and say what to report. To wait for the result use `task`; to see, steer or stop it use `subagents`.",
                json!({
                    "type": "object",
                    "properties": {
                        "task": {"type": "string"},
                        "label": {"type": "string", "description": "short name"},
                        "agentId": {"type": "string", "description": "agent to run"},
                        "model": {"type": "string"},
                        "thinking": {"type": "string"},
                        "runTimeoutSeconds": {"type": "number", "description": "0: none"},
                        "cleanup": {"enum": ["keep", "delete"]},
                        "tools": {
                            "type": "object",
                            "description": "narrows its tools",
                            "properties": {
                                "allow": names,
                                "deny": names,
                                "inherit": {"type": "boolean"}
                            },
                            "additionalProperties": false
                        },
                        "announce": {"enum": ["steer", "silent"]},
                        "priority": {"enum": ["low", "normal", "high"]},
                        "result_schema": {"type": "object", "description": "JSON schema its result has to fit"},
                        "budget": {
                            "type": "object",
                            "properties": {
                                "tokens": {"type": "integer"},
                                "tool_calls": {"type": "integer"}
                            },
                            "additionalProperties": false
                        }
                    },
                    "required": ["task"],
                    "additionalProperties": false
                }),
            ),
        }
    }
}

impl Default for SpawnSubagent {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for SpawnSubagent {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Runs
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    fn spellings(&self) -> &[Spelling] {
        SPELLINGS
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let request = bounded(request(parse(arguments)?))?;
        let spawned = context.spawner.spawn(request).await?;
        Ok(started(context.lang, spawned).into())
    }
}

/// What is answered at once when a child runs in the background.
pub(crate) fn started(lang: Lang, spawned: Spawned) -> ToolAnswer {
    let (label, id) = (&spawned.child.label, spawned.child.run);
    let mut text = match lang {
        Lang::En => {
            format!("Subagent [{label}] started (ID: {id}). I will notify you when it finishes.")
        }
        Lang::Zh => format!("子 Agent [{label}] 已启动 (ID: {id})。完成后我会通知你。"),
    };
    if let Some(position) = spawned.queue_position {
        text.push_str(&match lang {
            Lang::En => format!("\nIt waits in the queue at position {position}."),
            Lang::Zh => format!("\n正在排队，位置：{position}。"),
        });
    }
    ToolAnswer {
        text,
        spawned: spawned.announces.then_some(spawned.child),
        ..ToolAnswer::default()
    }
}

/// The request, if a runtime can be troubled with it.
pub(crate) fn bounded(request: SpawnRequest) -> Result<SpawnRequest, ToolFailure> {
    at_most("task", &request.task, MAX_TASK_BYTES)?;
    if request.task.trim().is_empty() {
        return Err(ToolFailure::new(
            "The task is empty. Say what the subagent is to do and what to report.",
        ));
    }
    let allowed = request.tools.allow.as_deref().unwrap_or_default();
    if allowed.len() > MAX_TOOL_NAMES || request.tools.deny.len() > MAX_TOOL_NAMES {
        return Err(ToolFailure::new(format!(
            "At most {MAX_TOOL_NAMES} tools can be named. Use `*` to name several at once."
        )));
    }
    let names = [
        &request.agent,
        &request.model,
        &request.thinking,
        &request.resume,
    ];
    let names = names
        .into_iter()
        .flatten()
        .chain(allowed)
        .chain(&request.tools.deny);
    for name in names {
        at_most("name", name, MAX_NAME_BYTES)?;
    }
    Ok(SpawnRequest {
        label: request
            .label
            .map(|label| cut(label.trim(), MAX_LABEL_CHARS))
            .filter(|label| !label.is_empty()),
        ..request
    })
}

fn request(arguments: Arguments) -> SpawnRequest {
    SpawnRequest {
        label: arguments.label,
        agent: arguments.agent_id,
        model: arguments.model,
        thinking: arguments.thinking,
        timeout_seconds: arguments.run_timeout_seconds,
        cleanup: arguments.cleanup,
        tools: narrowing(arguments.tools),
        announce: arguments.announce,
        priority: arguments.priority,
        budget: Budget {
            tokens: arguments.budget.tokens,
            tool_calls: arguments.budget.tool_calls,
        },
        result_schema: arguments.result_schema,
        ..SpawnRequest::new(arguments.task, EdgeMode::Background)
    }
}

/// Not inheriting leaves only what is allowed by name.
fn narrowing(tools: Tools) -> ToolNarrowing {
    let allow = match tools.inherit {
        Some(false) => Some(tools.allow.unwrap_or_default()),
        Some(true) | None => tools.allow,
    };
    ToolNarrowing {
        allow,
        deny: tools.deny,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Delegation, Folder, answer_with, rename};

    async fn spawn(arguments: Value, delegation: &Delegation) -> Result<ToolAnswer, ToolFailure> {
        answer_with(
            &SpawnSubagent::new(),
            &Folder::with(&[]),
            arguments,
            delegation,
        )
        .await
    }

    #[tokio::test]
    async fn understands_every_wish() {
        let delegation = Delegation::default();
        let arguments = json!({
            "task": "t", "label": " 分析 ", "agentId": "explore", "model": "m", "thinking": "high",
            "runTimeoutSeconds": 2.5, "cleanup": "delete",
            "tools": {"allow": ["grep"], "deny": ["exec"]},
            "announce": "silent", "priority": "high", "budget": {"tokens": 10, "tool_calls": 2}
        });
        let answer = spawn(arguments, &delegation).await.unwrap();
        let expected = SpawnRequest {
            label: Some("分析".into()),
            agent: Some("explore".into()),
            model: Some("m".into()),
            thinking: Some("high".into()),
            timeout_seconds: Some(3),
            cleanup: Some(Cleanup::Delete),
            tools: ToolNarrowing {
                allow: Some(vec!["grep".into()]),
                deny: vec!["exec".into()],
            },
            announce: Some(Announce::Silent),
            priority: Some(Priority::High),
            budget: Budget {
                tokens: Some(10),
                tool_calls: Some(2),
            },
            ..SpawnRequest::new("t", EdgeMode::Background)
        };
        assert_eq!(delegation.requests(), [expected]);
        assert_eq!(answer.spawned, Some(delegation.child()));
    }

    #[tokio::test]
    async fn tools_only_narrow() {
        let check = async |tools: Value, allow: Option<&[&str]>| {
            let delegation = Delegation::default();
            spawn(json!({"task": "t", "tools": tools}), &delegation)
                .await
                .unwrap();
            let allow = allow.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(delegation.requests()[0].tools.allow, allow);
        };
        check(json!({}), None).await;
        check(json!({"inherit": true}), None).await;
        check(json!({"inherit": false}), Some(&[])).await;
        check(json!({"allow": []}), Some(&[])).await;
        check(
            json!({"inherit": false, "allow": ["grep"]}),
            Some(&["grep"]),
        )
        .await;
    }

    #[tokio::test]
    async fn says_that_it_started() {
        let check = async |lang: Lang, queue_position: Option<u32>, expected: &str| {
            let delegation = Delegation {
                lang,
                queue_position,
                ..Delegation::default()
            };
            let answer = spawn(json!({"task": "t"}), &delegation).await.unwrap();
            assert_eq!(
                answer
                    .text
                    .replace(&delegation.child().run.to_string(), "ID"),
                expected
            );
        };
        check(
            Lang::En,
            None,
            "Subagent [child] started (ID: ID). I will notify you when it finishes.",
        )
        .await;
        check(
            Lang::Zh,
            None,
            "子 Agent [child] 已启动 (ID: ID)。完成后我会通知你。",
        )
        .await;
        check(Lang::En, Some(3), "Subagent [child] started (ID: ID). I will notify you when it finishes.\nIt waits in the queue at position 3.").await;
        check(
            Lang::Zh,
            Some(3),
            "子 Agent [child] 已启动 (ID: ID)。完成后我会通知你。\n正在排队，位置：3。",
        )
        .await;
    }

    #[tokio::test]
    async fn refuses_before_it_troubles_anybody() {
        let check = async |arguments: Value, expected: &str| {
            let delegation = Delegation::default();
            let failure = spawn(arguments, &delegation).await.unwrap_err().to_string();
            assert!(failure.starts_with(expected), "{failure}");
            assert!(delegation.requests().is_empty());
        };
        check(json!({"task": " \n"}), "The task is empty.").await;
        check(
            json!({"task": "x".repeat(MAX_TASK_BYTES + 1)}),
            "`task` has 262145 bytes",
        )
        .await;
        check(
            json!({"task": "t", "runTimeoutSeconds": -1}),
            "The arguments do not fit",
        )
        .await;
        check(
            json!({"task": "t", "cleanup": "burn"}),
            "The arguments do not fit",
        )
        .await;
        check(
            json!({"task": "t", "tools": {"deny": vec!["x"; 201]}}),
            "At most 200 tools",
        )
        .await;
    }

    #[tokio::test]
    async fn passes_refusals_on() {
        let delegation = Delegation {
            refusal: Some("Error: Unknown agent type 'x'".into()),
            ..Delegation::default()
        };
        let failure = spawn(json!({"task": "t", "agentId": "x"}), &delegation)
            .await
            .unwrap_err();
        assert_eq!(failure.to_string(), "Error: Unknown agent type 'x'");
    }

    #[tokio::test]
    async fn answers_to_other_names() {
        let delegation = Delegation::default();
        for spelling in SPELLINGS {
            let theirs = json!({"task": "t", "label": "l", "agent_type": "code"});
            spawn(rename(spelling, &theirs), &delegation).await.unwrap();
        }
        for request in delegation.requests() {
            assert_eq!(request.agent.as_deref(), Some("code"));
            assert_eq!(request.label.as_deref(), Some("l"));
        }
    }
}
