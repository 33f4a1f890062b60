//! Recording exchanges and playing them back.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sortie_core::id::RunId;
use sortie_core::message::Message;
use sortie_core::ports::model::{ModelDirectory as _, ModelRequest, NoDeltas};
use sortie_models::{Directory, DirectorySettings, Environment};

use crate::support::{request, run_id, shown};

const KEY: &str = "the-key-of-a-provider";

fn directory(base: &Path, record: bool) -> Directory {
    Directory::new(DirectorySettings {
        base: base.to_owned(),
        record: record.then(|| "tape".into()),
        environment: Environment::from([("GROQ_API_KEY".to_owned(), KEY.to_owned())]),
        ..DirectorySettings::default()
    })
}

/// Returns a request of a run about a child, which mentions both ids.
fn question(run: RunId, task: &str, child: RunId, turn: u32) -> ModelRequest {
    let mut question = request("main", "l", task, &[]);
    question.origin.run = run;
    question.origin.turn = turn;
    question.messages.push(std::sync::Arc::new(Message::Notice {
        text: format!("{child} is done, says {run}"),
    }));
    question
}

async fn prompt(directory: &Directory, name: &str, question: ModelRequest) -> String {
    let model = directory.find(name).unwrap();
    match model.turn(question, &NoDeltas).await {
        Ok(answer) => shown(&answer),
        Err(error) => format!("{}: {error}", error.fault.name()),
    }
}

#[tokio::test]
async fn a_recording_replays_with_the_ids_of_the_present_run() {
    let folder = tempfile::tempdir().unwrap();
    let (run, child) = (run_id(0x1111), run_id(0x2222));
    let script = format!(
        "version: 1\nrules:\n\
         - when: {{ turn: 1 }}\n  fault: {{ kind: rate_limited, retry_after_ms: 7, times: 1 }}\n  say: 'look at {child}'\n\
         - when: {{ turn: 2 }}\n  say: 'my key is {KEY} or sk-abcdefghijklmnopqrst'\n"
    );
    std::fs::write(folder.path().join("s.yaml"), script).unwrap();
    let recorded = directory(folder.path(), true);
    let task = format!("watch {child}");
    let mut first = Vec::new();
    for turn in [1, 1, 2] {
        let question = question(run, &task, child, turn);
        first.push(prompt(&recorded, "script:s.yaml", question).await);
    }
    assert_eq!(first[1], format!("say look at {child}"));

    let tape = folder.path().join("tape").join("exchanges.jsonl");
    let text = std::fs::read_to_string(&tape).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(!text.contains(KEY) && !text.contains("sk-abc"), "{text}");
    let mode = std::fs::metadata(&tape).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let today = directory(folder.path(), false);
    let (run, child) = (run_id(0x3333), run_id(0x4444));
    let task = format!("watch {child}");
    for (turn, expected) in [
        (1, "rate_limited: scripted fault".to_owned()),
        (1, format!("say look at {child}")),
        (2, "say my key is [redacted] or [redacted]".to_owned()),
        (
            2,
            format!(
                "bad_request: the recording {} has no exchange for agent main, task \"watch {{id}}\", turn 2, time 2",
                folder.path().join("tape").display()
            ),
        ),
    ] {
        let question = question(run, &task, child, turn);
        assert_eq!(prompt(&today, "replay:tape", question).await, expected);
    }
}

#[tokio::test]
async fn two_runs_with_one_task_do_not_mix_their_answers() {
    let folder = tempfile::tempdir().unwrap();
    let script = "version: 1\nrules:\n- when: { turn: 1 }\n  say: 'one of {{run}}'\n- say: 'two of {{run}}'\n";
    // A script cannot distinguish runs: each run is recorded with a text of its own instead.
    for (name, word) in [("a", "first"), ("b", "second")] {
        let script = script.replace("{{run}}", word);
        std::fs::write(folder.path().join(format!("{name}.yaml")), script).unwrap();
    }
    let recorded = directory(folder.path(), true);
    let other = run_id(9);
    for (name, run) in [("script:a.yaml", 1), ("script:b.yaml", 2)] {
        for turn in [1, 2] {
            prompt(&recorded, name, question(run_id(run), "same", other, turn)).await;
        }
    }
    let today = directory(folder.path(), false);
    for (run, turn, expected) in [
        (11, 1, "say one of first"),
        (12, 1, "say one of second"),
        (12, 2, "say two of second"),
        (11, 2, "say two of first"),
    ] {
        let question = question(run_id(run), "same", other, turn);
        assert_eq!(prompt(&today, "replay:tape", question).await, expected);
    }
    let question = question(run_id(13), "same", other, 1);
    let third = prompt(&today, "replay:tape", question).await;
    assert!(
        third.contains("has no exchange for agent main, task \"same\", turn 1"),
        "{third}"
    );
}

#[tokio::test]
async fn a_torn_recording_continues_on_a_new_line() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("tape");
    std::fs::create_dir(&tape).unwrap();
    std::fs::write(tape.join("exchanges.jsonl"), "{\"version\":1,").unwrap();
    let script = folder.path().join("s.yaml");
    std::fs::write(&script, "version: 1\nrules: [{ say: kept }]").unwrap();
    let recording = Directory::new(DirectorySettings {
        base: folder.path().to_owned(),
        record: Some(tape),
        ..DirectorySettings::default()
    });
    let prompted = request("main", "l", "hello", &[]);
    let model = recording.find("script:s.yaml").unwrap();
    model.turn(prompted.clone(), &NoDeltas).await.unwrap();
    let model = directory(folder.path(), false).find("replay:tape").unwrap();
    let answer = model.turn(prompted, &NoDeltas).await.unwrap();
    assert_eq!(shown(&answer), "say kept");
}

#[test]
fn a_missing_or_damaged_recording_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, expected) in [
        ("none", None, "No such file"),
        ("garbled", Some("{\"version\":1,]\n"), "line 1: "),
        (
            "later",
            Some(
                "{\"version\":9,\"run\":\"0190a0b1-0000-7000-8000-00000000000a\",\"agent\":\"a\",\"task\":\"t\",\"turn\":1,\"ids\":[],\"error\":{\"fault\":{\"kind\":\"transient\"},\"message\":\"m\",\"shown\":false}}",
            ),
            "line 1 has version 9, this build understands 1",
        ),
    ] {
        if let Some(text) = text {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("exchanges.jsonl"), text).unwrap();
        }
        let error = directory(folder.path(), false)
            .find(&format!("replay:{name}"))
            .unwrap_err();
        assert!(error.message.contains(expected), "{error}");
    }
}
