//! Checks of a result: the host runs them after the final answer, and a refuted run is sent back.

use sortie_core::check::{Check, CheckStatus, Verdict};
use sortie_core::policy::Mode;
use sortie_core::run::{RunRecord, Status};
use sortie_runtime::NewRun;
use sortie_test_support::stage::{Play, Stage};

fn checks(text: &str) -> Vec<Check> {
    serde_json::from_str(text).expect("checks")
}

async fn checked(stage: &Stage, text: &str, mode: Mode) -> RunRecord {
    let new = NewRun {
        checks: checks(text),
        mode,
        ..stage.new_task("code", "work")
    };
    let run = stage.create(new).await;
    stage.end_of(run).await
}

/// Renders the verdict and what each check found.
fn shown(record: &RunRecord) -> String {
    let checked = record
        .outcome
        .as_ref()
        .and_then(|outcome| outcome.checked());
    let checked = checked.expect("a verdict");
    let mut lines = vec![checked.verdict.to_string()];
    for result in &checked.results {
        lines.push(format!(
            "{}: {}: {}",
            result.status,
            result.check,
            result.evidence.replace('\n', " / ")
        ));
    }
    lines.join("\n")
}

const WRITES: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: a.txt, content: "hello\nworld\n" } }]
  - say: "I wrote it."
"#;

#[tokio::test]
async fn every_kind_of_check_is_run_by_the_host() {
    let stage = Play::new(WRITES).begin().await;
    stage.put("same.txt", "same");
    let record = checked(
        &stage,
        r#"[{"command": "grep -c hello a.txt"}, {"file_exists": "a.txt"}, {"file_changed": "a.txt"},
            {"matches": {"file": "a.txt", "regex": "^w.rld$"}},
            {"sha256": {"file": "same.txt", "hash": "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5"}}]"#,
        Mode::Yolo,
    )
    .await;
    assert_eq!(record.status, Status::Completed);
    insta::assert_snapshot!(shown(&record), @r#"
    verified
    passed: command `grep -c hello a.txt`: 1 / exit code: 0
    passed: file_exists a.txt: 12 bytes
    passed: file_changed a.txt: new, 12 bytes
    passed: matches a.txt /^w.rld$/: found "world"
    passed: sha256 same.txt 0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5: the hash is 0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5
    "#);
}

#[tokio::test]
async fn a_refuted_run_is_sent_back_with_the_evidence() {
    let stage = Play::new(
        r#"
  - when: { turn: 1 }
    say: "All tests pass."
  - when: { turn: 2 }
    calls: [{ tool: write_file, args: { path: a.txt, content: x } }]
  - say: "Now it is written."
"#,
    )
    .begin()
    .await;
    let record = checked(&stage, r#"[{"file_exists": "a.txt"}]"#, Mode::Yolo).await;
    assert_eq!(record.result(), Some("Now it is written."));
    assert_eq!(
        shown(&record),
        "verified\npassed: file_exists a.txt: 1 bytes"
    );
    let seen = stage.seen("work", 2).await;
    assert!(
        seen.contains("[Result refuted]")
            && seen.contains("file_exists a.txt failed: there is no such file"),
        "{seen}"
    );
    let log = stage.log(record.run_id).await;
    assert!(log.contains("checked file_exists a.txt: failed"), "{log}");
}

#[tokio::test]
async fn a_run_is_sent_back_twice_and_then_reported_as_refuted() {
    let stage = Play::new(
        r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: lies, prompt: p, subagent_type: code, checks: [{ file_exists: a.txt }] } }]
  - when: { agent: main }
    say: "I do not believe it."
  - say: "Everything is done."
"#,
    )
    .begin()
    .await;
    stage.play("go").await;
    let child = stage.record(stage.run_of("lies").await).await;
    assert_eq!(child.status, Status::Completed);
    assert_eq!(
        shown(&child),
        "refuted\nfailed: file_exists a.txt: there is no such file"
    );
    let prompts = stage
        .log(child.run_id)
        .await
        .matches("checked file_exists")
        .count();
    assert_eq!(prompts, 3);
    let seen = stage.seen("main", 2).await;
    assert!(seen.contains("Verdict: refuted."), "{seen}");
}

#[tokio::test]
async fn a_check_does_no_more_than_the_run_may_do() {
    let stage = Play::new("  - say: done\n")
        .set(|settings| settings.policy.deny = vec!["read_file(secret/**)".to_owned()])
        .begin()
        .await;
    std::fs::create_dir(stage.workspace().join("secret")).expect("a folder");
    stage.put("secret/key", "k");
    let record = checked(
        &stage,
        r#"[{"matches": {"file": "secret/key", "regex": "k"}}, {"file_exists": "../outside"},
            {"command": "touch made-by-check"}]"#,
        Mode::Default,
    )
    .await;
    let outcome = record
        .outcome
        .as_ref()
        .and_then(|outcome| outcome.checked());
    let outcome = outcome.expect("a verdict");
    assert_eq!(outcome.verdict, Verdict::Unverified, "{outcome:?}");
    for result in &outcome.results {
        assert_ne!(result.status, CheckStatus::Passed, "{result:?}");
    }
    assert_eq!(stage.file("made-by-check"), None);
}

#[tokio::test]
async fn a_check_reads_no_secret_of_a_person() {
    let home = tempfile::tempdir().expect("a home folder");
    std::fs::create_dir(home.path().join(".ssh")).expect("a folder");
    std::fs::write(home.path().join(".ssh/id"), "very secret").expect("a key");
    std::os::unix::fs::symlink(".ssh/id", home.path().join("link")).expect("a link");
    let hidden = vec![home.path().join(".ssh")];
    let stage = Play::new("  - say: done\n")
        .set(|settings| settings.hidden = hidden)
        .begin()
        .await;
    let new = NewRun {
        checks: checks(
            r#"[{"matches": {"file": ".ssh/id", "regex": ".*"}},
                {"matches": {"file": "link", "regex": ".*"}}, {"file_exists": ".ssh/id"}]"#,
        ),
        workspace: home.path().to_owned(),
        ..stage.new_task("code", "work")
    };
    let run = stage.create(new).await;
    let record = stage.end_of(run).await;
    let rendered = shown(&record);
    assert!(rendered.starts_with("unverified\n"), "{rendered}");
    assert_eq!(
        rendered.matches("belongs to the secrets").count(),
        3,
        "{rendered}"
    );
    assert!(!rendered.contains("very secret"), "{rendered}");
}
