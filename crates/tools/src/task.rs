//! `task`: runs a child and returns its result, or starts it in the background.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_core::check::Check;
use sortie_core::event::ChildWait;
use sortie_core::ports::tool::{
    Recovery, Spelling, Tool, ToolContext, ToolOutcome, ToolReply, ToolSpec, Touches,
};
use sortie_core::run::{ContextFork, EdgeMode, Isolation, SpawnRequest};

use crate::arguments::{parse, spec};
use crate::budget::Account;
use crate::spawn_subagent::{bounded, started};

const SPELLINGS: &[Spelling] = &[
    Spelling {
        name: "Task",
        renames: TYPE_AND_BACKGROUND,
    },
    Spelling {
        name: "Agent",
        renames: TYPE_AND_BACKGROUND,
    },
];

const TYPE_AND_BACKGROUND: &[(&str, &str)] = &[
    ("agent_type", "subagent_type"),
    ("run_in_background", "background"),
];

/// The `task` tool: runs a child and waits for its result.
#[derive(Debug)]
pub struct Task {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    description: String,
    prompt: String,
    subagent_type: String,
    model: Option<String>,
    resume: Option<String>,
    #[serde(default)]
    background: bool,
    isolation: Option<Isolation>,
    fork: Option<ContextFork>,
    #[serde(default)]
    budget: Account,
    result_schema: Option<Value>,
    #[serde(default)]
    checks: Vec<Check>,
}

impl Default for Task {
    fn default() -> Self {
        Self {
            spec: spec(
                "task",
                "Hand a task to a subagent and wait for its report: broad searches, planning, changes that would fill your context. It sees only prompt: put all it needs there, and say what to report. fork, checks, budget: as in spawn_subagent.",
                json!({
                    "type": "object",
                    "properties": {
                        "description": {"type": "string", "description": "3-5 words"},
                        "prompt": {"type": "string"},
                        "subagent_type": {"type": "string"},
                        "model": {"type": "string"},
                        "resume": {"type": "string", "description": "id of an ended subagent"},
                        "background": {"type": "boolean", "description": "do not wait"},
                        "isolation": {"enum": ["none", "worktree"]},
                        "fork": {"type": "string"},
                        "result_schema": {"type": "object"},
                        "checks": {"type": "array"},
                        "budget": {"type": "object"}
                    },
                    "required": ["description", "prompt", "subagent_type"],
                    "additionalProperties": false
                }),
            ),
        }
    }
}

#[async_trait]
impl Tool for Task {
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
        let mode = request.mode;
        let spawned = context.spawner.spawn(request).await?;
        Ok(match mode {
            EdgeMode::Blocking => ToolOutcome::Waits(ChildWait::Result {
                child: spawned.child,
            }),
            EdgeMode::Background => started(context.lang, spawned).into(),
        })
    }
}

fn request(arguments: Arguments) -> SpawnRequest {
    let mode = if arguments.background {
        EdgeMode::Background
    } else {
        EdgeMode::Blocking
    };
    SpawnRequest {
        label: Some(arguments.description),
        agent: Some(arguments.subagent_type),
        model: arguments.model,
        resume: arguments.resume,
        isolation: arguments.isolation,
        fork: arguments.fork,
        budget: arguments.budget.into(),
        result_schema: arguments.result_schema,
        checks: arguments.checks,
        ..SpawnRequest::new(arguments.prompt, mode)
    }
}

#[cfg(test)]
mod tests {
    use sortie_core::budget::Budget;

    use super::*;
    use crate::testing::{Delegation, Folder, outcome_with, rename};

    async fn task(arguments: Value, delegation: &Delegation) -> ToolReply {
        outcome_with(&Task::default(), &Folder::with(&[]), arguments, delegation).await
    }

    fn expected(mode: EdgeMode) -> SpawnRequest {
        SpawnRequest {
            label: Some("find auth".into()),
            agent: Some("explore".into()),
            ..SpawnRequest::new("Find it.", mode)
        }
    }

    #[tokio::test]
    async fn task_waits_for_the_child() {
        let delegation = Delegation::default();
        let arguments = json!({"description": "find auth", "prompt": "Find it.",
            "subagent_type": "explore", "model": "m", "resume": "0190",
            "isolation": "worktree", "budget": {"seconds": 60}});
        let outcome = task(arguments, &delegation).await.unwrap();
        let child = delegation.child();
        assert_eq!(outcome, ToolOutcome::Waits(ChildWait::Result { child }));
        let expected = SpawnRequest {
            model: Some("m".into()),
            resume: Some("0190".into()),
            isolation: Some(Isolation::Worktree),
            budget: Budget {
                wall_ms: Some(60_000),
                ..Budget::default()
            },
            ..expected(EdgeMode::Blocking)
        };
        assert_eq!(delegation.requests(), [expected]);
    }

    #[tokio::test]
    async fn background_task_answers_like_spawn_subagent() {
        let delegation = Delegation::default();
        let theirs = json!({"description": "find auth", "prompt": "Find it.",
            "agent_type": "explore", "run_in_background": true});
        for spelling in SPELLINGS {
            let outcome = task(rename(spelling, &theirs), &delegation).await.unwrap();
            let ToolOutcome::Answer(answer) = outcome else {
                panic!("{outcome:?}");
            };
            assert!(
                answer.text.starts_with("Subagent [child] started (ID: "),
                "{}",
                answer.text
            );
            assert_eq!(answer.spawned, Some(delegation.child()));
        }
        assert_eq!(
            delegation.requests(),
            [
                expected(EdgeMode::Background),
                expected(EdgeMode::Background)
            ]
        );
    }
}
