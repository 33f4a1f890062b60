//! The operator's settings apply, whatever a model asks for and whichever process continues a tree.

use sortie_core::config::AgentConfig;
use sortie_core::event::Event;
use sortie_core::id::Seq;
use sortie_core::policy::{Mode, Rules};
use sortie_core::run::{Isolation, RunSpec, Status};
use sortie_test_support::stage::{Play, Stage};

async fn spec_of(stage: &Stage, label: &str) -> RunSpec {
    let run = stage.run_of(label).await;
    let entries = stage.runtime().events(run, Seq(0)).await;
    let entries = entries.expect("a journal");
    let Some(Event::Admitted { spec }) = entries.first().map(|entry| &entry.event) else {
        panic!("a journal begins with the admission");
    };
    (**spec).clone()
}

#[tokio::test]
async fn a_spawn_call_cannot_turn_off_isolation_or_deadline() {
    let rules = r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: kid, agentId: code, isolation: none, runTimeoutSeconds: 0 } }
  - say: "done"
"#;
    let stage = Play::new(rules)
        .set(|settings| {
            let code = AgentConfig {
                isolation: Some(Isolation::Worktree),
                timeout_seconds: Some(60),
                ..AgentConfig::default()
            };
            settings.agents.insert("code".to_owned(), code);
        })
        .begin()
        .await;
    stage.play("go").await;
    let kid = spec_of(&stage, "kid").await;
    assert_eq!(kid.isolation, Isolation::Worktree);
    assert_eq!(kid.limits.timeout_ms, Some(60_000));
}

#[tokio::test]
async fn provider_rules_apply_to_fallback_models() {
    let stage = Play::new("  - say: done\n")
        .set(|settings| {
            let rules = Rules {
                deny: vec!["exec".to_owned()],
                ..Rules::default()
            };
            settings.policy.providers.insert("other".to_owned(), rules);
        })
        .begin()
        .await;
    for (fallbacks, has_shell) in [(vec![], true), (vec!["other/model".to_owned()], false)] {
        let mut new = stage.new_run("go");
        new.label = Some(format!("{fallbacks:?}"));
        new.fallbacks = Some(fallbacks.clone());
        let run = stage.create(new).await;
        stage.end_of(run).await;
        let spec = spec_of(&stage, &format!("{fallbacks:?}")).await;
        assert_eq!(
            spec.tools.contains(&"exec".to_owned()),
            has_shell,
            "{fallbacks:?}"
        );
    }
}

#[tokio::test]
async fn a_child_under_other_settings_gets_no_approvals_of_them() {
    let rules = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: kid, prompt: p, subagent_type: code } }]
  - when: { agent: code, turn: 1 }
    calls: [{ tool: write_file, args: { path: a.txt, content: x } }]
  - say: "done"
"#;
    for (approve_from_the_start, written) in [(true, true), (false, false)] {
        let approve = |settings: &mut sortie_runtime::Settings| {
            settings.policy.approve = vec!["write_file".to_owned()];
        };
        let mut play = Play::new(rules);
        if approve_from_the_start {
            play = play.set(approve);
        }
        let stage = play.begin().await;
        stage.model().block("main");
        let mut new = stage.new_run("go");
        new.mode = Mode::Default;
        let run = stage.create(new).await;
        stage.until_prompted("main", 1).await;
        let stage = stage.restart_as(|play| play.set(approve)).await;
        stage.model().release("main");
        assert_eq!(stage.end_of(run).await.status, Status::Completed);
        assert_eq!(
            stage.file("a.txt").is_some(),
            written,
            "{approve_from_the_start}"
        );
    }
}

#[tokio::test]
async fn an_unreadable_policy_names_the_rule() {
    let stage = Play::new("  - say: done\n")
        .set(|settings| settings.policy.deny = vec!["exec((".to_owned()])
        .begin()
        .await;
    let refused = stage.runtime().create(stage.new_run("go")).await;
    let words = refused.expect_err("nothing may run").to_string();
    assert!(words.contains("exec(("), "{words}");
}

#[tokio::test]
async fn a_completion_with_too_many_calls_runs_none() {
    let call = "      - { tool: write_file, args: { path: a.txt, content: x } }\n";
    let rules = format!(
        "  - when: {{ turn: 1 }}\n    calls:\n{}  - say: \"done\"\n",
        call.repeat(1_001)
    );
    let stage = Play::new(&rules).begin().await;
    let record = stage.play("go").await;
    assert_eq!(record.status, Status::Completed);
    assert_eq!(stage.file("a.txt"), None);
}
