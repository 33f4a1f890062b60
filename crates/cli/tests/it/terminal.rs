//! What a user at a terminal sees.

use rexpect::session::{PtySession, spawn_command};

use crate::screen::Screen;
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
    terminal
        .exp_regex(r"\x1b\[36mrunning *\x1b\[0m +explore")
        .unwrap();
    terminal
        .exp_regex(r"\x1b\[32mcompleted *\x1b\[0m +main +Look")
        .unwrap();
    terminal.exp_eof().unwrap();
    assert_eq!(run.end().code, Some(0));
}

const LONG: &str = "Please migrate our passwords from md5 to argon2, and keep old hashes valid";

const ONE_ASKS: &str = r#"
  - when: { task: "Please*", turn: 1 }
    calls: [{ tool: write_file, args: { path: one.txt, content: "1" } }]
  - when: { agent: main }
    say: done
"#;

#[test]
fn a_list_fits_the_terminal_and_shows_first_what_needs_a_person() {
    let world = World::new();
    let model = world.scenario(ONE_ASKS);
    let mut asks = at_terminal(&world, &["run", LONG, "--model", &model]);
    asks.exp_string("Allow main").unwrap();
    for (columns, whole) in [(80_u16, false), (40, false), (120, true)] {
        let size = (24, columns);
        let mut screen = Screen::sized(&world, &["tasks", "list"], size, "xterm-256color");
        assert_eq!(screen.exit_code(), 0);
        let text = screen.text();
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 2, "at {columns}: {text}");
        assert!(rows[1].contains("needs you"), "{text}");
        assert!(rows[1].contains("Please migrate"), "{text}");
        assert_eq!(rows[1].contains("argon2"), whole, "{text}");
        assert!(rows[1].contains('…'), "{text}");
    }
    // The label is stored whole.
    assert_eq!(world.task(LONG)["label"], LONG);
    let open = world.json(&["approvals", "--json"]);
    let id = open[0]["id"].as_str().unwrap();
    let mut screen = Screen::open(&world, &["approvals"]);
    assert_eq!(screen.exit_code(), 0);
    let text = screen.text();
    assert_eq!(text.lines().count(), 2, "{text}");
    world.ok(&["approvals", "deny", id]);
    asks.exp_eof().unwrap();
}

#[test]
fn a_list_says_that_no_process_runs_its_tasks() {
    let world = World::new();
    world.ok(&["spawn", "wait", "--detach", "--model", "offline"]);
    let output = world.ok(&["tasks", "list"]);
    assert_eq!(
        output.err,
        "One task has not ended, and no process runs it; continue with `sortie resume`.\n"
    );
}
