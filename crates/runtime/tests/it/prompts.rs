//! What is sent to a model: small, and the same bytes again and again, so that a provider's cache
//! keeps it.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use sortie_core::agent::{AgentDefinition, ToolSelection};
use sortie_core::id::RunId;
use sortie_core::ports::model::ModelRequest;
use sortie_core::ports::tool::Touches;
use sortie_core::ports::workspace::{Collected, Skills, Worktrees};
use sortie_core::run::{Changes, Isolation, Status, Worktree};
use sortie_core::skill::{SkillRef, SkillSource};
use sortie_core::words::Lang;
use sortie_runtime::NewRun;
use sortie_test_support::stage::{MODEL, Play, Stage};

use crate::props::Canary;

const EVERYBODY: &str = r#"
  - when: { agent: main, turn: 1 }
    calls:
      - tool: task
        args: { description: explore, prompt: "Find where users log in.", subagent_type: explore }
      - tool: task
        args: { description: explore again, prompt: "Find where users log out.", subagent_type: explore }
      - tool: task
        args: { description: plan, prompt: "Plan a second factor for the login.", subagent_type: plan }
      - tool: task
        args: { description: code, prompt: "Rename login to sign_in everywhere.", subagent_type: code }
      - tool: task
        args: { description: general, prompt: "Find out which tests are slow.", subagent_type: general }
  - when: { agent: main }
    say: "All are back."
  - when: { turn: "1..2" }
    say: "Turn {{turn}}."
    calls:
      - { tool: list_dir, args: { path: ".", depth: "{{turn}}" } }
      - { tool: glob, args: { pattern: "*.{{turn}}" } }
  - say: "Nothing there."
"#;

async fn everybody(lang: Lang) -> Stage {
    let stage = Play::speaking(lang, EVERYBODY).begin().await;
    stage.play("Look after the login.").await;
    stage
}

fn tools_json(request: &ModelRequest) -> String {
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            })
        })
        .collect();
    Value::from(tools).to_string()
}

fn messages_json(request: &ModelRequest) -> Vec<String> {
    let messages = request.messages.iter();
    messages
        .map(|message| serde_json::to_string(message.as_ref()).expect("a message is JSON"))
        .collect()
}

#[tokio::test]
async fn system_and_tools_are_the_same_bytes_at_every_turn() {
    let stage = everybody(Lang::En).await;
    for label in ["main", "explore", "plan", "code", "general"] {
        let requests = stage.model().requests_of(label);
        assert!(requests.len() > 1, "{label} has only one turn");
        for request in &requests {
            assert_eq!(request.system, requests[0].system, "{label}");
            assert_eq!(tools_json(request), tools_json(&requests[0]), "{label}");
        }
    }
}

#[tokio::test]
async fn siblings_share_system_and_tools() {
    let stage = everybody(Lang::En).await;
    let one = stage.model().request("explore", 1).expect("the first");
    let other = stage
        .model()
        .request("explore again", 1)
        .expect("the second");
    assert_eq!(one.system, other.system);
    assert_eq!(tools_json(&one), tools_json(&other));
    assert_ne!(messages_json(&one), messages_json(&other));
}

#[tokio::test]
async fn each_turn_begins_with_the_messages_of_the_turn_before() {
    let stage = everybody(Lang::En).await;
    for label in ["main", "explore", "plan", "code", "general"] {
        let turns: Vec<Vec<String>> = stage
            .model()
            .requests_of(label)
            .iter()
            .map(|request| messages_json(request))
            .collect();
        for pair in turns.windows(2) {
            assert!(pair[1].len() > pair[0].len(), "{label} learned nothing");
            assert_eq!(pair[1][..pair[0].len()], pair[0], "{label}");
        }
    }
}

#[tokio::test]
async fn a_child_reads_nothing_of_its_parents_conversation() {
    let stage = everybody(Lang::En).await;
    insta::assert_snapshot!(stage.seen("plan", 1).await, @"user: Plan a second factor for the login.");
    let request = stage.model().request("plan", 1).expect("its first request");
    assert!(!request.system.contains("explore"), "{}", request.system);
}

/// Worktrees that are always the same folder.
#[derive(Debug)]
struct OneFolder(tempfile::TempDir);

#[async_trait]
impl Worktrees for OneFolder {
    async fn create(&self, _: RunId, workspace: &Path) -> Result<Worktree, String> {
        Ok(Worktree {
            repository: workspace.to_owned(),
            root: self.0.path().to_owned(),
            workspace: self.0.path().to_owned(),
            branch: "sortie/test".to_owned(),
            base: "0".repeat(40),
            git_dirs: Vec::new(),
            git_reads: Vec::new(),
        })
    }

    async fn collect(&self, _: RunId) -> Result<Option<Collected>, String> {
        Ok(None)
    }

    async fn apply(&self, _: &Worktree, _: &Changes) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    async fn discard(&self, _: &Worktree, _: &Changes) -> Result<(), String> {
        Ok(())
    }

    async fn runs(&self) -> Result<Vec<RunId>, String> {
        Ok(Vec::new())
    }

    async fn sweep(&self, _: &[RunId]) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn worktree_path_replaces_only_the_workspace_of_the_prompt() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    let mut play = Play::new("  - say: \"done\"\n");
    play.worktrees = Arc::new(OneFolder(folder));
    let general = play.agents.find("general").expect("it is built in").clone();
    play.agents.add(AgentDefinition {
        name: "judge".to_owned(),
        prompt: "Answer yes/no and/or a/b.".to_owned(),
        ..general
    });
    let stage = play.begin().await;
    let run = stage
        .create(NewRun {
            agent: Some("judge".to_owned()),
            label: Some("judge".to_owned()),
            isolation: Some(Isolation::Worktree),
            ..NewRun::new("decide", "/", MODEL)
        })
        .await;
    assert_eq!(stage.end_of(run).await.status, Status::Completed);
    let request = stage.model().request("judge", 1).expect("its request");
    let system = &*request.system;
    let place = format!("# Workspace\nYou work in {path}. Relative paths start there.");
    assert!(
        system.starts_with("Answer yes/no and/or a/b.\n\n"),
        "{system}"
    );
    assert!(system.ends_with(&place), "{system}");
}

/// One skill, in every workspace.
#[derive(Debug)]
struct OneSkill;

impl Skills for OneSkill {
    fn in_workspace(&self, workspace: &Path) -> Vec<SkillRef> {
        vec![SkillRef {
            name: "release-notes".to_owned(),
            description: "Writes release notes.".to_owned(),
            folder: workspace.to_owned(),
            source: SkillSource::Project,
        }]
    }

    fn in_operators_folder(&self, _: &Path, _: &str) -> Result<Vec<SkillRef>, String> {
        Ok(Vec::new())
    }

    fn in_folder(&self, _: &Path, _: &str) -> Result<Vec<SkillRef>, String> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_child_is_shown_only_skills_and_tools_that_it_can_use() {
    for lang in Lang::ALL {
        let mut play = Play::speaking(
            *lang,
            r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: task, args: { description: reader, prompt: p, subagent_type: reader } }
      - { tool: task, args: { description: general, prompt: p, subagent_type: general } }
  - say: "done"
"#,
        );
        play.skills = Arc::new(OneSkill);
        play.more_tools = vec![Canary::new("skill", Touches::Nothing)];
        let general = play.agents.find("general").expect("it is built in").clone();
        play.agents.add(AgentDefinition {
            name: "reader".to_owned(),
            tools: ToolSelection {
                allow: Some(vec!["read_file".to_owned()]),
                deny: Vec::new(),
            },
            ..general
        });
        let stage = play.begin().await;
        stage.play("send two").await;
        for (label, shows_skill, shows_changes) in [
            ("main", true, true),
            ("general", true, false),
            ("reader", false, false),
        ] {
            let request = stage.model().request(label, 1).expect("its request");
            let has = |name: &str| request.tools.iter().any(|tool| tool.name == name);
            let shown = request.system.contains("release-notes");
            assert_eq!((shown, has("skill")), (shows_skill, shows_skill), "{label}");
            assert_eq!(has("changes"), shows_changes, "{label}");
        }
    }
}
