//! `spawn_subagent`: starts a child in the background.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_base::truncate::truncate;
use sortie_core::check::Check;
use sortie_core::ports::tool::{
    Recovery, Spawned, Spelling, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply, ToolSpec,
    Touches,
};
use sortie_core::run::{
    Announce, Cleanup, ContextFork, EdgeMode, Isolation, Priority, SkillNarrowing, SpawnRequest,
    ToolNarrowing,
};
use sortie_core::words::Lang;

use crate::arguments::{at_most, parse, spec, whole};
use crate::budget::{self, Account};

/// The most bytes of a task.
pub(crate) const MAX_TASK_BYTES: usize = 256 * 1024;
/// The most characters of a label that are kept.
const MAX_LABEL_CHARS: usize = 100;
/// The most bytes of the name of an agent, a model or a tool.
const MAX_NAME_BYTES: usize = 200;
/// The most tools, skills or folders in a list.
const MAX_NAMES: usize = 200;

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

/// The `spawn_subagent` tool: starts children in the background.
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
    isolation: Option<Isolation>,
    fork: Option<ContextFork>,
    #[serde(default)]
    skills: Skills,
    #[serde(rename = "result_schema")]
    result_schema: Option<Value>,
    #[serde(default)]
    checks: Vec<Check>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tools {
    allow: Option<Vec<String>>,
    #[serde(default)]
    deny: Vec<String>,
    inherit: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Skills {
    inherit: Option<bool>,
    #[serde(default)]
    extra_dirs: Vec<String>,
    allow: Option<Vec<String>>,
    #[serde(default)]
    deny: Vec<String>,
}

impl Default for SpawnSubagent {
    fn default() -> Self {
        Self {
            spec: spec(
                "spawn_subagent",
                "Start a subagent in the background; its result is announced to you when it finishes. It sees only task: put all it needs there, and say what to report.",
                json!({
                    "type": "object",
                    "properties": {
                        "task": {"type": "string"},
                        "label": {"type": "string"},
                        "agentId": {"type": "string"},
                        "model": {"type": "string"},
                        "thinking": {"type": "string"},
                        "runTimeoutSeconds": {"type": "number", "description": "lowers the limit"},
                        "cleanup": {"enum": ["keep", "delete"]},
                        "tools": {"type": "object", "description": "narrows its tools: allow, deny, inherit"},
                        "announce": {"enum": Announce::ALL},
                        "priority": {"enum": ["low", "normal", "high"]},
                        "result_schema": {"type": "object"},
                        "checks": {"type": "array", "description": "run by the host at its end: {command}, {file_exists}, {file_changed}, {matches: {file, regex}}, {sha256: {file, hash}}, {http: {url, status}}"},
                        "budget": budget::schema(),
                        "fork": {"type": "string", "description": "last:N or cached: it sees N messages or all of your conversation"},
                        "isolation": {"enum": ["none", "worktree"], "description": "worktree: its own copy of the repository; see changes"},
                        "skills": {"type": "object", "description": "as tools; extraDirs"}
                    },
                    "required": ["task"],
                    "additionalProperties": false
                }),
            ),
        }
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

/// Returns the immediate result of a call that starts a child in the background.
pub(crate) fn started(lang: Lang, spawned: Spawned) -> ToolAnswer {
    let (label, id) = (&spawned.child.label, spawned.child.run);
    // The text of a child that started and reports is a contract.
    let state = match (lang, spawned.queue_position) {
        (Lang::En, None) => format!("Subagent [{label}] started (ID: {id})."),
        (Lang::En, Some(position)) => {
            format!("Subagent [{label}] is queued at position {position} (ID: {id}).")
        }
        (Lang::Zh, None) => format!("子 Agent [{label}] 已启动 (ID: {id})。"),
        (Lang::Zh, Some(position)) => {
            format!("子 Agent [{label}] 正在排队，位置：{position} (ID: {id})。")
        }
    };
    let text = match (lang, spawned.announces) {
        (Lang::En, true) => format!("{state} I will notify you when it finishes."),
        (Lang::En, false) => format!(
            "{state} No notice follows when it finishes; read its result with subagents, action get."
        ),
        (Lang::Zh, true) => format!("{state}完成后我会通知你。"),
        (Lang::Zh, false) => {
            format!("{state}完成后不会通知；用 subagents 的 get 查看结果。")
        }
    };
    ToolAnswer {
        text,
        spawned: spawned.announces.then_some(spawned.child),
        ..ToolAnswer::default()
    }
}

/// Returns the request if it is within the limits.
pub(crate) fn bounded(request: SpawnRequest) -> Result<SpawnRequest, ToolFailure> {
    at_most("task", &request.task, MAX_TASK_BYTES)?;
    if request.task.trim().is_empty() {
        return Err(ToolFailure::new(
            "The task is empty. Say what the subagent is to do and what to report.",
        ));
    }
    let lists = [
        request.tools.allow.as_deref().unwrap_or_default(),
        &request.tools.deny,
        request.skills.allow.as_deref().unwrap_or_default(),
        &request.skills.deny,
        &request.skills.extra_dirs,
    ];
    if lists.iter().any(|list| list.len() > MAX_NAMES) {
        return Err(ToolFailure::new(format!(
            "At most {MAX_NAMES} tools, skills or folders can be named in a list. Use `*` to name several at once."
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
        .chain(lists.into_iter().flatten());
    for name in names {
        at_most("name", name, MAX_NAME_BYTES)?;
    }
    Ok(SpawnRequest {
        label: request
            .label
            .map(|label| truncate(label.trim(), MAX_LABEL_CHARS))
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
        tools: ToolNarrowing {
            allow: arguments.tools.allow,
            deny: arguments.tools.deny,
            inherit: arguments.tools.inherit,
        },
        announce: arguments.announce,
        priority: arguments.priority,
        budget: arguments.budget.into(),
        isolation: arguments.isolation,
        fork: arguments.fork,
        skills: SkillNarrowing {
            inherit: arguments.skills.inherit,
            extra_dirs: arguments.skills.extra_dirs,
            allow: arguments.skills.allow,
            deny: arguments.skills.deny,
        },
        result_schema: arguments.result_schema,
        checks: arguments.checks,
        ..SpawnRequest::new(arguments.task, EdgeMode::Background)
    }
}

#[cfg(test)]
mod tests {
    use sortie_core::budget::Budget;

    use super::*;
    use crate::testing::{Delegation, Folder, answer_with, rename};

    async fn spawn(arguments: Value, delegation: &Delegation) -> Result<ToolAnswer, ToolFailure> {
        answer_with(
            &SpawnSubagent::default(),
            &Folder::with(&[]),
            arguments,
            delegation,
        )
        .await
    }

    #[tokio::test]
    async fn every_argument_reaches_the_request() {
        let delegation = Delegation::default();
        let arguments = json!({
            "task": "t", "label": " 分析 ", "agentId": "explore", "model": "m", "thinking": "high",
            "runTimeoutSeconds": 2.5, "cleanup": "delete",
            "tools": {"allow": ["grep"], "deny": ["exec"]},
            "announce": "silent", "priority": "high", "budget": {"tokens": 10, "usd": 0.5},
            "isolation": "worktree",
            "skills": {"inherit": false, "extraDirs": ["kit"], "allow": ["a"], "deny": ["b"]}
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
                inherit: None,
            },
            announce: Some(Announce::Silent),
            priority: Some(Priority::High),
            budget: Budget {
                tokens: Some(10),
                usd_micros: Some(500_000),
                ..Budget::default()
            },
            isolation: Some(Isolation::Worktree),
            skills: SkillNarrowing {
                inherit: Some(false),
                extra_dirs: vec!["kit".into()],
                allow: Some(vec!["a".into()]),
                deny: vec!["b".into()],
            },
            ..SpawnRequest::new("t", EdgeMode::Background)
        };
        assert_eq!(delegation.requests(), [expected]);
        assert_eq!(answer.spawned, Some(delegation.child()));
    }

    #[tokio::test]
    async fn tool_narrowing_reaches_the_request() {
        let check = async |tools: Value, allow: Option<&[&str]>, inherit: Option<bool>| {
            let delegation = Delegation::default();
            spawn(json!({"task": "t", "tools": tools}), &delegation)
                .await
                .unwrap();
            let allow = allow.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            let tools = delegation.requests().remove(0).tools;
            assert_eq!((tools.allow, tools.inherit), (allow, inherit));
        };
        check(json!({}), None, None).await;
        check(json!({"inherit": true}), None, Some(true)).await;
        check(json!({"inherit": false}), None, Some(false)).await;
        check(json!({"allow": []}), Some(&[]), None).await;
        let one = json!({"inherit": false, "allow": ["grep"]});
        check(one, Some(&["grep"]), Some(false)).await;
    }

    #[tokio::test]
    async fn answer_reports_start_or_queue_position_and_whether_a_notice_follows() {
        let check = async |lang: Lang, queue_position: Option<u32>, announces, expected: &str| {
            let delegation = Delegation {
                lang,
                queue_position,
                announces,
                ..Delegation::default()
            };
            let answer = spawn(json!({"task": "t"}), &delegation).await.unwrap();
            let text = answer
                .text
                .replace(&delegation.child().run.to_string(), "ID");
            assert_eq!(text, expected);
            assert_eq!(answer.spawned.is_some(), announces);
        };
        let (en, zh) = (Lang::En, Lang::Zh);
        let started = "Subagent [child] started (ID: ID). I will notify you when it finishes.";
        check(en, None, true, started).await;
        let started = "子 Agent [child] 已启动 (ID: ID)。完成后我会通知你。";
        check(zh, None, true, started).await;
        let queued = "Subagent [child] is queued at position 3 (ID: ID). I will notify you when it finishes.";
        check(en, Some(3), true, queued).await;
        let queued = "子 Agent [child] 正在排队，位置：3 (ID: ID)。完成后我会通知你。";
        check(zh, Some(3), true, queued).await;
        let silent = "Subagent [child] started (ID: ID). No notice follows when it finishes; read its result with subagents, action get.";
        check(en, None, false, silent).await;
        let silent =
            "子 Agent [child] 已启动 (ID: ID)。完成后不会通知；用 subagents 的 get 查看结果。";
        check(zh, None, false, silent).await;
        let both = "Subagent [child] is queued at position 3 (ID: ID). No notice follows when it finishes; read its result with subagents, action get.";
        check(en, Some(3), false, both).await;
        let both = "子 Agent [child] 正在排队，位置：3 (ID: ID)。完成后不会通知；用 subagents 的 get 查看结果。";
        check(zh, Some(3), false, both).await;
    }

    #[tokio::test]
    async fn invalid_arguments_fail_without_a_request() {
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
            json!({"task": "t", "isolation": "moon"}),
            "The arguments do not fit",
        )
        .await;
        check(
            json!({"task": "t", "skills": {"extraDirs": vec!["x"; 201]}}),
            "At most 200 tools, skills or folders",
        )
        .await;
        check(
            json!({"task": "t", "cleanup": "burn"}),
            "The arguments do not fit",
        )
        .await;
        check(
            json!({"task": "t", "tools": {"deny": vec!["x"; 201]}}),
            "At most 200 tools, skills or folders",
        )
        .await;
    }

    #[tokio::test]
    async fn refusal_of_the_spawner_is_returned() {
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
    async fn other_spellings_are_accepted() {
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
