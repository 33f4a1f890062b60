//! What a user at a terminal sees.

use rexpect::session::{PtySession, spawn_command};

use crate::world::World;

const PATIENCE_MS: u64 = 60_000;

/// Starts the binary in a pseudo-terminal.
pub(crate) fn at_terminal(world: &World, arguments: &[&str]) -> PtySession {
    let mut command = world.command(arguments);
    command.env("TERM", "xterm-256color");
    // rexpect connects only those streams to its terminal that are not set otherwise.
    command
        .stdin(std::process::Stdio::inherit())
        .stdout(std::process::Stdio::inherit())
        .stderr(std::process::Stdio::inherit());
    spawn_command(command, Some(PATIENCE_MS)).unwrap()
}

const ONE_CHILD: &str = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: find auth files, prompt: Find., subagent_type: explore } }]
  - when: { agent: main, turn: 2 }
    say: That was all.
  - when: { label: find auth files, turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - when: { label: find auth files }
    latency_ms: 600
    say: in auth.rs
"#;

#[test]
fn progress_is_shown_in_place() {
    let world = World::new();
    let model = world.scenario(ONE_CHILD);
    let mut terminal = at_terminal(&world, &["run", "Look", "--model", &model]);
    terminal
        .exp_regex(r"\[\x1b\[34mexplore\x1b\[0m\] find auth files \.\.\. 1 tool, 0\.\ds")
        .unwrap();
    terminal
        .exp_string("waiting for 1 subagent: find auth files")
        .unwrap();
    terminal
        .exp_regex(r"find auth files - done \(1 tool, \d\.\ds\)")
        .unwrap();
    terminal.exp_string("That was all.").unwrap();
    terminal.exp_eof().unwrap();
}

#[test]
fn colours_can_be_switched_off() {
    let world = World::new().with("NO_COLOR", "1");
    let model = world.scenario(ONE_CHILD);
    let mut terminal = at_terminal(&world, &["run", "Look", "--model", &model]);
    terminal
        .exp_string("  [explore] find auth files ... ")
        .unwrap();
    terminal
        .exp_string("  [explore] find auth files - done (1 tool, ")
        .unwrap();
    terminal.exp_eof().unwrap();
}

const TWO_CHANGES: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: one.txt, content: "1" } }]
  - when: { turn: 2 }
    calls: [{ tool: write_file, args: { path: two.txt, content: "2" } }]
  - when: { turn: 3 }
    say: "last: {{last_result}}"
"#;

#[test]
fn changes_need_approval_at_the_terminal() {
    let check = |answers: &[&str], expected_last: &str, expected_files: &[&str]| {
        let world = World::new();
        let model = world.scenario(TWO_CHANGES);
        let mut terminal = at_terminal(&world, &["run", "Make it", "--model", &model]);
        for (answer, word) in answers.iter().zip(["one", "two"]) {
            // What would run comes first.
            terminal
                .exp_string("main [Make it] asks to run write_file:\r\n")
                .unwrap();
            terminal.exp_string(&format!("{word}.txt")).unwrap();
            terminal
                .exp_string("a2 = always in this session: write_file\r\n")
                .unwrap();
            terminal
                .exp_string("Allow main [Make it] to run write_file? [y/N/a1")
                .unwrap();
            terminal.send_line(answer).unwrap();
        }
        terminal.exp_string(expected_last).unwrap();
        terminal.exp_eof().unwrap();
        let made = |name: &&str| world.workspace().join(name).exists();
        let files: Vec<&str> = ["one.txt", "two.txt"].into_iter().filter(made).collect();
        assert_eq!(files, expected_files, "{answers:?}");
    };
    let refused = "last: Denied: a person refused write_file";
    check(&["y", ""], refused, &["one.txt"]);
    check(&["a", "n"], refused, &["one.txt"]);
    check(&["a2"], "last: ", &["one.txt", "two.txt"]);
    check(&["n", "N"], refused, &[]);
    check(
        &["y", "n use another name"],
        "use another name",
        &["one.txt"],
    );
}

#[test]
fn interrupt_at_a_prompt_denies_the_call() {
    let world = World::new();
    let model = world.scenario(TWO_CHANGES);
    let mut terminal = at_terminal(&world, &["run", "Make it", "--model", &model]);
    terminal.exp_string("Allow main [Make it]").unwrap();
    terminal.send_control('c').unwrap();
    terminal
        .exp_string("error: Cancelled by a person: stopped with Ctrl-C")
        .unwrap();
    terminal.exp_eof().unwrap();
    assert_eq!(world.task("Make it")["status"], "cancelled");
    assert!(!world.workspace().join("one.txt").exists());
}

#[test]
fn a_watched_table_changes_in_place() {
    let world = World::new();
    let model = world.scenario(ONE_CHILD);
    let mut run = world.start(&["run", "Look", "--model", &model]);
    run.wait_for_line("[explore] find auth files ...");
    let mut terminal = at_terminal(&world, &["tasks", "watch"]);
    terminal.exp_regex("running +explore").unwrap();
    terminal.exp_regex("completed +main +Look .*100%").unwrap();
    terminal.exp_eof().unwrap();
    assert_eq!(run.end().code, Some(0));
}
