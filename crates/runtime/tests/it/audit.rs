//! Every call is in the audit, with its approver, and no secret is.

use sortie_base::redact::Redactor;
use sortie_core::audit::AuditStage;
use sortie_core::policy::{Decision, Mode};
use sortie_core::ports::store::AuditFilter;
use sortie_test_support::stage::Play;

const RULES: &str = r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: list_dir, args: { path: "." } }
      - { tool: write_file, args: { path: a.txt, content: "hunter22-very-secret" } }
      - { tool: exec, args: { command: "git push --force" } }
      - { tool: nonsense, args: { } }
      - { tool: task, args: { description: kid, prompt: look, subagent_type: explore } }
  - when: { agent: explore, turn: 1 }
    calls: [{ tool: write_file, args: { path: b.txt, content: x } }]
  - say: "done"
"#;

#[tokio::test]
async fn every_call_is_audited_with_its_ruling() {
    let mut play = Play::new(RULES).set(|settings| {
        settings.policy.deny = vec!["exec(git push *)".to_owned()];
    });
    play.redactor = Redactor::new(["hunter22-very-secret".to_owned()]);
    let stage = play.begin().await;
    let run = stage.start("go").await;
    stage.end_of(run).await;
    let lines = stage
        .runtime()
        .audit(AuditFilter::default())
        .await
        .expect("an audit");
    let shown: Vec<String> = lines
        .iter()
        .map(|line| {
            let entry = &line.entry;
            let ruling = entry.ruling.as_ref().map_or("-".to_owned(), |ruling| {
                format!(
                    "{} by {}{}",
                    ruling.decision,
                    ruling.layer,
                    ruling
                        .rule
                        .as_ref()
                        .map(|rule| format!(" {rule}"))
                        .unwrap_or_default()
                )
            });
            let stage = match &entry.stage {
                AuditStage::Begun => "begun".to_owned(),
                AuditStage::Waits => "waits".to_owned(),
                AuditStage::Ended { status, .. } => format!("{status:?}"),
            };
            format!(
                "{} {} {} {ruling}: {stage}",
                entry.depth, entry.agent, entry.tool
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    0 main list_dir allow by mode: Ok
    0 main write_file allow by mode: begun
    0 main write_file allow by mode: Ok
    0 main exec deny by global exec(git push *): Denied
    0 main nonsense -: Error
    0 main task allow by mode: waits
    1 explore write_file deny by grant: Denied
    0 main task -: Ok
    "#);
    let whole = serde_json::to_string(&lines).expect("json");
    assert!(!whole.contains("hunter22"), "{whole}");
    assert!(whole.contains("[redacted]"), "{whole}");
    let report = stage.runtime().verify_audit().await.expect("a report");
    assert_eq!(
        (report.problems, report.entries),
        (Vec::<String>::new(), lines.len() as u64)
    );
}

#[tokio::test]
async fn secrets_in_tool_results_are_redacted_in_the_journal() {
    let rules = r#"
  - when: { turn: 1 }
    calls:
      - { tool: read_file, args: { path: env } }
      - { tool: exec, args: { command: "cat env" } }
  - say: "I read {{last_result}}"
"#;
    let mut play = Play::new(rules);
    play.redactor = Redactor::new(["hunter22-very-secret".to_owned()]);
    let stage = play.begin().await;
    let shaped = format!("ghp_{}", "a".repeat(36));
    stage.put(
        "env",
        &format!("KEY=hunter22-very-secret\nTOKEN={shaped}\n"),
    );
    let record = stage.play("go").await;
    let log = stage.log(record.run_id).await;
    let entries = stage
        .runtime()
        .events(record.run_id, sortie_core::id::Seq(0))
        .await
        .expect("a journal");
    let journal = serde_json::to_string(&entries).expect("json");
    for secret in ["hunter22", shaped.as_str()] {
        assert!(!journal.contains(secret), "{journal}");
        assert!(!log.contains(secret), "{log}");
        assert!(!record.result().unwrap_or_default().contains(secret));
    }
    assert!(journal.contains("[redacted]"));
}

#[tokio::test]
async fn mode_decides_and_is_named_in_the_ruling() {
    for (mode, expected) in [
        (Mode::Plan, "deny by grant"),
        (Mode::DontAsk, "deny by mode"),
        (Mode::AcceptEdits, "allow by mode"),
        (Mode::Yolo, "allow by mode"),
    ] {
        let stage = Play::new(
            r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: a.txt, content: x } }]
  - say: "done"
"#,
        )
        .begin()
        .await;
        let mut new = stage.new_run("go");
        new.mode = mode;
        let run = stage.create(new).await;
        stage.end_of(run).await;
        let lines = stage
            .runtime()
            .audit(AuditFilter::default())
            .await
            .expect("an audit");
        let ruling = lines
            .last()
            .and_then(|line| line.entry.ruling.clone())
            .expect("a ruling");
        let shown = format!("{} by {}", ruling.decision, ruling.layer);
        assert_eq!(shown, expected, "{mode}");
        let written = stage.file("a.txt").is_some();
        assert_eq!(written, ruling.decision == Decision::Allow, "{mode}");
    }
}
