//! `sortie approvals`: an approver in another terminal decides requests of a waiting run.

use rexpect::session::PtySession;
use serde_json::Value;

use crate::terminal::at_terminal;
use crate::world::{CommandOutput, World};

const ONE_CHANGE: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: made.txt, content: "one\n" } }]
  - when: { turn: 2 }
    say: "last: {{last_result}}"
"#;

/// Returns a world in which a run at a terminal waits for approval of a write, and the id of the
/// request.
fn waiting() -> (World, PtySession, String) {
    let world = World::new().with("USER", "anna");
    let model = world.scenario(ONE_CHANGE);
    let mut terminal = at_terminal(&world, &["run", "Make it", "--model", &model]);
    terminal
        .exp_string("Allow main [Make it] to run write_file")
        .unwrap();
    let open = world.json(&["approvals", "list", "--json"]);
    let id = open[0]["id"].as_str().unwrap().to_owned();
    (world, terminal, id)
}

fn made(world: &World) -> Option<String> {
    std::fs::read_to_string(world.workspace().join("made.txt")).ok()
}

#[test]
fn approval_from_another_process_reaches_the_run() {
    let check = |reply: &[&str], expected_reply: &str, expected_last: &str, expected_file| {
        let (world, mut terminal, id) = waiting();
        // A prefix of four characters is enough.
        let mut arguments = vec!["approvals", reply[0], &id[..4]];
        arguments.extend(&reply[1..]);
        let output = world.ok(&arguments).out;
        let start =
            format!("{id}: {expected_reply}. The process that runs the task will read it (");
        assert!(output.starts_with(&start), "{output}");
        terminal.exp_string(expected_last).unwrap();
        terminal.exp_eof().unwrap();
        assert_eq!(made(&world).as_deref(), expected_file, "{reply:?}");
        let replied = world.json(&["approvals", "list", "--all", "--json"]);
        assert_eq!(replied[0]["reply"]["by"], "cli:anna");
        assert!(replied[0]["asked_at"].as_str().unwrap().ends_with('Z'));
        assert_eq!(
            world.json(&["approvals", "--json"]),
            Value::Array(Vec::new())
        );
    };
    check(
        &["approve"],
        "approved by cli:anna",
        "last: ",
        Some("one\n"),
    );
    check(
        &["deny", "--because", "use another name"],
        "refused by cli:anna: use another name",
        "use another name",
        None,
    );
}

#[test]
fn a_request_is_listed_and_shown_with_all_it_takes_to_decide() {
    let (world, mut terminal, id) = waiting();
    let list = world.ok(&["approvals"]).out;
    assert!(
        list.contains(&format!("{id}  approval")) && list.contains("write_file: made.txt"),
        "{list}"
    );
    let page = world.ok(&["approvals", "show", &id]).out;
    for part in [
        "main",
        "Make it",
        "write_file",
        "write_file, exactly:\n    made.txt\n",
        "    content: one\\u{a}",
        "    path: made.txt",
        "Rules for --always, the narrowest first:",
    ] {
        assert!(page.contains(part), "{part:?} is missing: {page}");
    }
    let task = world.task("Make it");
    assert_eq!(task["waiting_on"], "approval");
    let shown = world
        .ok(&["tasks", "show", task["task_id"].as_str().unwrap()])
        .out;
    assert!(
        shown.contains(&format!("    {id} write_file: made.txt")),
        "{shown}"
    );
    terminal.send_line("n").unwrap();
    terminal.exp_eof().unwrap();
}

#[test]
fn reply_without_a_running_process_is_used_by_the_next_one() {
    let (world, mut terminal, id) = waiting();
    terminal
        .process_mut()
        .kill(rexpect::process::Signal::SIGKILL)
        .unwrap();
    let output = world.ok(&["approvals", "approve", &id]).out;
    assert_eq!(
        output,
        format!(
            "{id}: approved by cli:anna. No process runs the task; continue it with `sortie resume`.\n"
        )
    );
    world.ok(&["resume"]);
    assert_eq!(made(&world).as_deref(), Some("one\n"));
    assert_eq!(world.task("Make it")["status"], "completed");
}

#[test]
fn first_reply_wins() {
    let (world, mut terminal, id) = waiting();
    terminal.send_line("y").unwrap();
    terminal.exp_eof().unwrap();
    let late = world.sortie(&["approvals", "deny", &id]);
    assert_eq!(late.code, Some(6), "{late:#?}");
    let start = "error: Too late, your answer changed nothing: answered elsewhere by terminal at ";
    assert!(
        late.err.starts_with(start) && late.err.ends_with("Z: approved\n"),
        "{late:#?}"
    );
    let check = |arguments: &[&str], code: i32, expected: &str| {
        let output = world.sortie(arguments);
        assert_eq!(
            (output.code, output.err.as_str()),
            (Some(code), expected),
            "{arguments:?}"
        );
    };
    check(
        &["approvals", "show", "abc"],
        4,
        "error: There is no request abc; `sortie approvals list --all` shows them.\n",
    );
    check(
        &["approvals", "answer", &id, "blue"],
        6,
        &format!(
            "error: {id} asks whether a call may run: sortie approvals approve {id}, or deny {id}\n"
        ),
    );
    let bad = world.sortie(&["approvals", "approve", &id, "--always=exec(("]);
    assert_eq!(bad.code, Some(2), "{bad:#?}");
    assert!(
        bad.err.starts_with("error: exec(( is not a rule: "),
        "{}",
        bad.err
    );
}

#[test]
fn an_identical_second_reply_over_a_server_is_too_late() {
    let world = World::new().with("USER", "anna");
    let _server = world.serve();
    let model = world.scenario(ONE_CHANGE);
    let mut terminal = at_terminal(&world, &["run", "Make it", "--model", &model]);
    terminal
        .exp_string("Allow main [Make it] to run write_file")
        .unwrap();
    let open = world.json(&["approvals", "list", "--json"]);
    let id = open[0]["id"].as_str().unwrap().to_owned();
    world.ok(&["approvals", "approve", &id]);
    terminal.exp_eof().unwrap();
    let again = world.sortie(&["approvals", "approve", &id]);
    assert_eq!(again.code, Some(6), "{again:#?}");
    let start = "error: Too late, your answer changed nothing: answered elsewhere by ";
    assert!(
        again.err.starts_with(start) && again.err.ends_with("Z: approved\n"),
        "{again:#?}"
    );
}

const TWO_CHANGES: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: made.txt, content: "one\n" } }]
  - when: { turn: 2 }
    calls: [{ tool: write_file, args: { path: made.txt, content: "two\n" } }]
  - when: { turn: 3 }
    say: "that was all"
"#;

#[test]
fn lasting_approval_grants_the_session_until_revoked() {
    let world = World::new().with("USER", "anna");
    let model = world.scenario(TWO_CHANGES);
    let mut terminal = at_terminal(&world, &["run", "Make it", "--model", &model]);
    terminal.exp_string("Allow main").unwrap();
    let open = world.json(&["approvals", "list", "--json"]);
    let id = open[0]["id"].as_str().unwrap();
    let rule = open[0]["approval"]["lasting"][0].as_str().unwrap();
    world.ok(&["approvals", "approve", id, "--always"]);
    terminal.exp_string("that was all").unwrap();
    terminal.exp_eof().unwrap();
    assert_eq!(made(&world).as_deref(), Some("two\n"));
    let grants = world.json(&["approvals", "grants", "--json"]);
    assert_eq!(grants[0]["rule"], rule);
    assert_eq!(grants[0]["by"], "cli:anna");
    let CommandOutput { out, .. } = world.ok(&["approvals", "revoke", rule]);
    assert_eq!(
        out,
        format!(
            "1 rule of session {} in {} was revoked.\n",
            world.task("Make it")["session_id"].as_str().unwrap(),
            world.workspace().canonicalize().unwrap().display()
        )
    );
    assert_eq!(
        world.json(&["approvals", "grants", "--json"]),
        Value::Array(Vec::new())
    );
}

const A_QUESTION: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: ask, args: { question: "Which\e[2K colour?", options: [red, blue] } }]
  - when: { turn: 2 }
    say: "heard: {{last_result}}"
"#;

#[test]
fn question_is_answered_by_option_number_or_text() {
    let world = World::new();
    let model = world.scenario(A_QUESTION);
    let mut terminal = at_terminal(&world, &["run", "Ask", "--model", &model]);
    terminal.exp_string("asks; your answer").unwrap();
    let open = world.json(&["approvals", "--json"]);
    let id = open[0]["id"].as_str().unwrap();
    let list = world.ok(&["approvals"]).out;
    assert!(list.contains("Which\\u{1b}[2K colour?"), "{list}");
    let refused = world.sortie(&["approvals", "approve", id]);
    assert_eq!(refused.code, Some(6), "{refused:#?}");
    let output = world.ok(&["approvals", "answer", id, "2"]).out;
    assert!(
        output.starts_with(&format!("{id}: answered: blue. ")),
        "{output}"
    );
    terminal.exp_string("blue").unwrap();
    terminal.exp_eof().unwrap();
}
