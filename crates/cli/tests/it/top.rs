//! `sortie top` on a real pseudo-terminal, beside a server and beside a plain run.

use crate::screen::Screen;
use crate::terminal::at_terminal;
use crate::world::World;

const CHILD_ASKS: &str = r#"
  - when: { label: dig deep, turn: 1 }
    calls: [{ tool: write_file, args: { path: found.txt, content: "x" } }]
  - when: { label: dig deep }
    say: dug it up
  - when: { agent: main, turn: 1 }
    say: I send one out.
    calls: [{ tool: task, args: { description: dig deep, prompt: Dig., subagent_type: code } }]
  - when: { agent: main }
    say: "**All** done."
"#;

#[test]
fn top_shows_a_run_of_another_process_and_approves_its_call() {
    let world = World::new();
    let model = world.scenario(CHILD_ASKS);
    let never = "subagents.approve_spawn=never";
    let mut run = at_terminal(&world, &["run", "Dig", "-c", never, "--model", &model]);
    run.exp_string("Allow code").unwrap();
    let mut screen = Screen::open(&world, &["top"]);
    screen.shows("one task needs you");
    screen.shows("└ dig deep");
    // The root is selected first; its child asks.
    screen.presses("j");
    screen.shows("a approves this call");
    screen.shows("found.txt");
    screen.presses("a");
    screen.shows("Approved.");
    run.exp_string(" done.").unwrap();
    run.exp_eof().unwrap();
    assert!(world.workspace().join("found.txt").exists());
    screen.until("the end", |text| {
        text.lines().next().unwrap().contains("0 running")
    });
    screen.presses("k");
    screen.shows("All done.");
    screen.presses("2");
    screen.until("the timeline", |text| text.matches('█').count() > 10);
    screen.presses("3");
    screen.shows("finished");
    screen.presses("?");
    screen.shows("cancel the task and its subagents; asks first");
    screen.presses("qq");
    assert_eq!(screen.exit_code(), 0);
    // The lines of the shell come back.
    assert!(String::from_utf8_lossy(&screen.raw).ends_with("\u{1b}[?1049l"));
}

const SLOW: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - when: { turn: 2 }
    latency_ms: 60000
    say: done
"#;

#[test]
fn top_pauses_steers_and_cancels_a_task_of_a_server() {
    let world = World::new();
    let model = world.scenario(SLOW);
    let _server = world.serve();
    world.ok(&["spawn", "Look", "around", "--detach", "--model", &model]);
    let mut screen = Screen::sized(&world, &["top"], (24, 60), "xterm-256color");
    screen.shows("Look around");
    screen.shows("running");
    screen.presses("s");
    screen.shows("Message for ");
    screen.presses("mind the gap\r");
    screen.shows("Sent; the task reads it");
    screen.presses("p");
    screen.shows("Paused.");
    screen.shows("paused");
    screen.presses("p");
    screen.shows("Resumed.");
    screen.presses("c");
    screen.shows("and its subagents? [y/N]");
    screen.presses("\r");
    screen.shows("Nothing was done.");
    screen.presses("cy\r");
    screen.shows("Cancelled.");
    world.until("it is cancelled", |world| {
        world.task("Look around")["status"] == "cancelled"
    });
    screen.presses("a");
    screen.shows("This task asks for nothing.");
    // No row is wider than the terminal, also after a change of its size.
    screen.resize((12, 40));
    screen.until("a narrow screen", |text| {
        text.lines().count() <= 12 && text.lines().all(|line| line.chars().count() <= 40)
    });
    screen.presses("q");
    assert_eq!(screen.exit_code(), 0);
}

#[test]
fn top_controls_a_plain_run() {
    let world = World::new();
    let model = world.scenario(SLOW);
    let run = world.start(&["run", "Look", "around", "--model", &model]);
    world.until("it runs", |world| {
        world
            .tasks()
            .first()
            .is_some_and(|task| task["status"] == "running")
    });
    let mut screen = Screen::sized(&world, &["top"], (24, 60), "xterm-256color");
    screen.shows("model");
    screen.presses("s");
    screen.shows("Message for ");
    screen.presses("mind the gap\r");
    screen.shows("Sent; the task reads it");
    screen.presses("p");
    screen.shows("Paused.");
    screen.presses("p");
    screen.shows("Resumed.");
    screen.presses("cy\r");
    screen.shows("Cancelled.");
    assert_eq!(run.end().code, Some(130));
    assert_eq!(world.task("Look around")["status"], "cancelled");
    screen.presses("q");
    assert_eq!(screen.exit_code(), 0);
}

#[test]
fn top_without_a_terminal_names_another_command() {
    let world = World::new();
    let output = world.sortie(&["top"]);
    assert_eq!(output.code, Some(6), "{output:#?}");
    assert!(output.err.contains("sortie tasks watch"), "{output:#?}");
    let mut dumb = Screen::sized(&world, &["top"], (24, 80), "dumb");
    dumb.shows("sortie tasks watch");
    assert_eq!(dumb.exit_code(), 6);
}
