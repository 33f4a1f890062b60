//! The conversation on a real pseudo-terminal, read back through a terminal emulator.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Instant;

use crate::screen::{PATIENCE, Screen};
use crate::world::World;

fn open_request(world: &World) -> String {
    let open = world.json(&["approvals", "--json"]);
    open[0]["id"].as_str().unwrap().to_owned()
}

const MARKDOWN: &str = r##"
  - when: { turn: 1 }
    say: "# Title\n\nSome **bold** text and `code`.\n\n- one\n\n```rust\nfn main() {}\n```\nThe end."
"##;

#[test]
fn a_reply_is_rendered_as_markdown() {
    let world = World::new();
    let model = world.scenario(MARKDOWN);
    let mut screen = Screen::open(&world, &["--model", &model]);
    screen.shows("/help lists commands");
    screen.types("Hello\r");
    screen.shows("The end.");
    let text = screen.text();
    assert!(text.contains("> Hello"), "{text}");
    assert!(text.contains("Some bold text and code."), "{text}");
    assert!(text.contains("• one"), "{text}");
    assert!(text.contains("    fn main() {}"), "{text}");
    assert!(!text.contains("```") && !text.contains("**"), "{text}");
    screen.types("\u{4}");
    assert_eq!(screen.exit_code(), 0);
    assert!(
        screen.text().contains("sortie --resume cli:"),
        "{}",
        screen.text()
    );
    // The terminal gets its mode back.
    assert!(String::from_utf8_lossy(&screen.raw).contains("\u{1b}[?2004l"));
}

/// The tests of children are not about approvals of their start.
const NO_SPAWN_APPROVAL: &str = "subagents.approve_spawn=never";

#[test]
fn a_message_typed_before_the_input_appears_is_sent() {
    let world = World::new();
    let model = world.scenario("  - say: You said {{task}}.\n");
    let mut screen = Screen::open(&world, &["--model", &model]);
    // The process has hardly started: the terminal still edits lines.
    screen.presses("early bird\r");
    screen.shows("You said early bird.");
    screen.types("\u{4}");
    assert_eq!(screen.exit_code(), 0);
}

const CHILD_ASKS: &str = r#"
  - when: { label: dig deep, turn: 1 }
    calls: [{ tool: write_file, args: { path: found.txt, content: "x" } }]
  - when: { label: dig deep }
    say: dug it up
  - when: { agent: main, task: "Dig", turn: 1 }
    calls: [{ tool: spawn_subagent, args: { task: Dig deep., label: dig deep, agentId: code } }]
  - when: { agent: main, task: "and then" }
    say: "Heard you."
  - when: { agent: main }
    say: "Noted."
"#;

#[test]
fn announcements_do_not_tear_what_is_typed() {
    let world = World::new().with("USER", "anna");
    let model = world.scenario(CHILD_ASKS);
    let mut screen = Screen::open(&world, &["--model", &model, "-c", NO_SPAWN_APPROVAL]);
    screen.types("Dig\r");
    screen.shows("asks to run write_file");
    screen.types("and th");
    screen.has_input("and th");
    // Typed text never answers the request that is on the screen.
    world.ok(&["approvals", "approve", &open_request(&world)]);
    screen.shows("answered elsewhere by cli:anna");
    screen.until("the end of the child", |text| {
        text.contains("dig deep - done")
    });
    screen.has_input("and th");
    assert!(world.workspace().join("found.txt").exists());
    screen.until("the report", |text| text.contains("Noted."));
    screen.types("en\r");
    screen.until("the reply", |text| {
        text.contains("Heard you.") || text.matches("Noted.").count() > 1
    });
    screen.types("\u{4}");
    screen.exit_code();
}

const CHILD_SURVIVES: &str = r#"
  - when: { label: dig deep, turn: 1 }
    calls: [{ tool: write_file, args: { path: found.txt, content: "x" } }]
  - when: { label: dig deep }
    say: dug it up
  - when: { agent: main, task: "Dig", turn: 1 }
    calls: [{ tool: spawn_subagent, args: { task: Dig deep., label: dig deep, agentId: code } }]
  - when: { agent: main, task: "Dig" }
    fault: { kind: error, message: "the account is closed" }
  - when: { agent: main }
    say: "So it was found."
"#;

#[test]
fn a_result_that_outlives_its_turn_starts_another() {
    let world = World::new();
    let model = world.scenario(CHILD_SURVIVES);
    let mut screen = Screen::open(&world, &["--model", &model, "-c", NO_SPAWN_APPROVAL]);
    screen.types("Dig\r");
    screen.shows("asks to run write_file");
    screen.shows("the account is closed");
    world.ok(&["approvals", "approve", &open_request(&world)]);
    screen.shows("So it was found.");
    screen.types("\u{4}");
    assert_eq!(screen.exit_code(), 0);
}

const CHANGE: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: one.txt, content: "1" } }]
  - when: { turn: 2 }
    say: "last: {{last_result}}"
"#;

#[test]
fn one_key_approves_or_denies() {
    for (key, expected) in [("y", true), ("n", false)] {
        let world = World::new();
        let model = world.scenario(CHANGE);
        let mut screen = Screen::open(&world, &["--model", &model]);
        screen.types("Make it\r");
        screen.shows("Allow? [y] yes");
        // A key right after the prompt appeared goes to the input; it is erased until a key counts.
        let deadline = Instant::now() + PATIENCE;
        while !screen.text().contains("last: ") {
            assert!(Instant::now() < deadline, "{}", screen.text());
            screen.types(key);
            screen.until("an effect", |text| {
                text.contains("→ ") || text.contains(&format!("> {key}"))
            });
            if screen.text().contains("→ ") {
                screen.shows("last: ");
            } else {
                screen.types("\u{15}");
                screen.until("an empty input", |text| !text.contains(&format!("> {key}")));
            }
        }
        assert_eq!(world.workspace().join("one.txt").exists(), expected);
        screen.types("\u{4}");
        assert_eq!(screen.exit_code(), 0);
    }
}

const SLOW: &str = r#"
  - when: { task: "again", turn: 1 }
    say: "Back again."
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: one.txt, content: "1" } }]
  - when: { turn: 2 }
    say: "last: {{last_result}}"
"#;

#[test]
fn interrupt_stops_the_turn_and_the_conversation_continues() {
    let world = World::new();
    let model = world.scenario(SLOW);
    let mut screen = Screen::open(&world, &["--model", &model]);
    screen.types("Make it\r");
    screen.shows("Allow? [y] yes");
    screen.types("\u{3}");
    screen.shows("Stopped.");
    screen.types("again\r");
    screen.shows("Back again.");
    assert_eq!(world.task("Make it")["status"], "cancelled");
    assert!(!world.workspace().join("one.txt").exists());
    screen.types("/quit\r");
    assert_eq!(screen.exit_code(), 0);
}

#[test]
fn interrupt_twice_leaves() {
    let world = World::new();
    let model = world.scenario(SLOW);
    let mut screen = Screen::open(&world, &["--model", &model]);
    screen.shows("/help lists commands");
    screen.types("\u{3}");
    screen.shows("Press Ctrl-C again to leave.");
    screen.types("\u{3}");
    assert_eq!(screen.exit_code(), 0);
    assert!(world.tasks().is_empty());
}

#[test]
fn escape_interrupts_and_takes_a_message() {
    let world = World::new();
    let model = world.scenario(SLOW);
    let mut screen = Screen::open(&world, &["--model", &model]);
    screen.types("Make it\r");
    screen.shows("Allow? [y] yes");
    screen.types("\u{1b}");
    screen.shows("Interrupted.");
    screen.types("use another name\r");
    screen.until("the turn continues", |text| {
        text.contains("Working") && text.contains("> use another name")
    });
    world.ok(&["approvals", "deny", &open_request(&world)]);
    screen.shows("last: ");
    screen.types("\u{4}");
    assert_eq!(screen.exit_code(), 0);
    let id = world.task("Make it")["task_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let journal = world.ok(&["tasks", "events", &id, "--json"]).out;
    assert!(journal.contains("use another name"), "{journal}");
}

#[test]
fn a_resized_terminal_keeps_the_input() {
    let world = World::new();
    let model = world.scenario(MARKDOWN);
    let mut screen = Screen::open(&world, &["--model", &model]);
    screen.shows("/help lists commands");
    screen.types("a message that is longer than forty columns");
    screen.has_input("a message that is longer than forty columns");
    screen.resize((20, 40));
    screen.until("the input on two rows", |text| {
        text.contains("> a message that is longer than forty c\n  olumns")
    });
    screen.resize((24, 80));
    screen.has_input("a message that is longer than forty columns");
    screen.types("\r");
    screen.shows("The end.");
    screen.types("\u{4}");
    assert_eq!(screen.exit_code(), 0);
}

#[test]
fn forty_columns_are_enough() {
    let world = World::new();
    let model = world.scenario(CHILD_ASKS);
    let mut screen = Screen::sized(
        &world,
        &["--model", &model, "-c", NO_SPAWN_APPROVAL],
        (20, 40),
        "xterm-256color",
    );
    screen.types("Dig\r");
    screen.shows("asks to run write_file");
    screen.shows("Allow? [y] yes  [n] no");
    screen.until("the child", |text| text.contains("[code] dig deep"));
    // The live area is redrawn many times; nothing of it stays behind.
    screen.types("x");
    screen.has_input("x");
    screen.until("one footer and one prompt", |text| {
        let count = |part: &str| text.matches(part).count();
        count("· default") == 1 && count("Allow? [y]") == 1
    });
    screen.types("\u{3}");
    screen.until("the end of the turn", |text| !text.contains("Working"));
    screen.types("\u{15}\u{4}");
    screen.exit_code();
}

#[test]
fn a_dumb_terminal_gets_plain_lines() {
    let world = World::new();
    let model = world.scenario(CHANGE);
    let mut screen = Screen::sized(&world, &["--model", &model], (24, 80), "dumb");
    screen.shows("Each line is a message.");
    screen.types("Make it\r");
    screen.shows("Allow main [Make it] to run write_file? [y/N");
    screen.types("y\r");
    screen.shows("last: ");
    screen.types("/quit\r");
    assert_eq!(screen.exit_code(), 0);
    assert!(world.workspace().join("one.txt").exists());
    let raw = String::from_utf8_lossy(&screen.raw).into_owned();
    assert!(!raw.contains("\u{1b}[?2004h"), "{raw:?}");
}

#[test]
fn an_approval_answered_elsewhere_leaves_the_screen() {
    let world = World::new();
    let model = world.scenario(CHANGE);
    let mut screen = Screen::open(&world, &["--model", &model]);
    screen.types("Make it\r");
    screen.shows("Allow? [y] yes");
    world.ok(&["approvals", "approve", &open_request(&world)]);
    screen.shows("Withdrawn: answered elsewhere by");
    screen.shows("last: ");
    assert!(world.workspace().join("one.txt").exists());
    screen.types("\u{4}");
    assert_eq!(screen.exit_code(), 0);
}

#[test]
fn leaving_while_a_task_runs_can_cancel_it() {
    let world = World::new();
    let model = world.scenario(SLOW);
    let mut screen = Screen::open(&world, &["--model", &model]);
    screen.types("Make it\r");
    screen.shows("Allow? [y] yes");
    screen.types("\u{4}");
    screen.shows("[c] cancel them");
    screen.presses("\u{1b}");
    screen.until("the question is gone", |text| !text.contains("[c] cancel"));
    screen.types("\u{4}");
    screen.shows("[c] cancel them");
    screen.presses("c");
    screen.exit_code();
    assert_eq!(world.task("Make it")["status"], "cancelled");
}

/// The question for the background colour, and two replies.
const ASKS_BACKGROUND: &str = "\u{1b}]11;?";
const IS_WHITE: &str = "\u{1b}]11;rgb:ffff/ffff/ffff\u{1b}\\\u{1b}[?62;22c";

/// Returns what a conversation writes for a reply with code, with these arguments.
fn colours(world: &World, arguments: &[&str], reply: Option<&str>) -> String {
    let model = world.scenario(MARKDOWN);
    let arguments = [&["--model", model.as_str()], arguments].concat();
    let mut screen = Screen::open(world, &arguments);
    if let Some(reply) = reply {
        screen.writes(ASKS_BACKGROUND);
        // Keys that are typed meanwhile are not lost.
        screen.presses(&format!("Hel{reply}lo"));
        screen.has_input("Hello");
        screen.presses("\r");
    } else {
        screen.types("Hello\r");
    }
    screen.shows("The end.");
    screen.types("\u{4}");
    assert_eq!(screen.exit_code(), 0);
    String::from_utf8_lossy(&screen.raw).into_owned()
}

#[test]
fn colours_fit_the_background_of_the_terminal() {
    const CYAN: &str = "\u{1b}[36mcode";
    const DARK_CYAN: &str = "\u{1b}[38;5;24mcode";
    let white = colours(&World::new(), &[], Some(IS_WHITE));
    assert!(white.contains(DARK_CYAN), "{white:?}");
    // A terminal that does not reply is taken for a dark one.
    let silent = colours(&World::new(), &[], None);
    assert!(silent.contains(CYAN), "{silent:?}");
    let named = colours(&World::new().with("COLORFGBG", "0;15"), &[], None);
    assert!(named.contains(DARK_CYAN), "{named:?}");
    assert!(!named.contains(ASKS_BACKGROUND), "{named:?}");
    let set = colours(&World::new(), &["-c", "terminal.theme=light"], None);
    assert!(set.contains(DARK_CYAN), "{set:?}");
    let none = colours(&World::new().with("NO_COLOR", "1"), &[], None);
    assert!(!none.contains(ASKS_BACKGROUND), "{none:?}");
    for colour in ["\u{1b}[3", "\u{1b}[9"] {
        assert!(!none.contains(colour), "{none:?}");
    }
}

/// Runs the binary with this standard input.
fn piped(world: &World, arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = world
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_pipe_is_one_message_of_a_session() {
    let world = World::new();
    let model = world.scenario(MARKDOWN);
    let (code, out, err) = piped(&world, &["--model", &model], "one\ntwo\n");
    assert_eq!(code, Some(0), "{err}");
    // A program gets the text as it is.
    assert!(out.starts_with("# Title\n"), "{out}");
    assert!(err.contains("sortie --resume cli:"), "{err}");
    let (code, _, err) = piped(&world, &["--continue", "--model", &model], "three");
    assert_eq!(code, Some(0), "{err}");
    let tasks = world.tasks();
    assert_eq!(tasks.len(), 2);
    assert_eq!(tasks[0]["message"], "one\ntwo");
    assert_eq!(tasks[0]["session_id"], tasks[1]["session_id"]);
    let id = tasks[1]["task_id"].as_str().unwrap();
    let shown = world.json(&["tasks", "show", id, "--json"]);
    assert_eq!(shown["continues"], tasks[0]["task_id"]);
    let (code, out, err) = piped(&world, &["--model", &model], " \n");
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("hint:"), "{err}");
}

#[test]
fn a_conversation_is_continued_where_it_ended() {
    let world = World::new();
    let model = world.scenario(MARKDOWN);
    let (code, _, err) = piped(&world, &["--model", &model], "first question");
    assert_eq!(code, Some(0), "{err}");
    let session = world.tasks()[0]["session_id"].as_str().unwrap().to_owned();
    let mut screen = Screen::open(&world, &["--resume", &session, "--model", &model]);
    screen.shows("> first question");
    screen.shows("The end.");
    screen.types("\u{4}");
    assert_eq!(screen.exit_code(), 0);
    let mut unknown = Screen::open(&world, &["--resume", "cli:none", "--model", &model]);
    assert_eq!(unknown.exit_code(), 4);
    assert!(unknown.text().contains("there is no conversation cli:none"));
}

#[test]
fn run_continues_a_session_and_takes_unquoted_words() {
    let world = World::new();
    let model = world.scenario(MARKDOWN);
    world.ok(&[
        "run",
        "fix",
        "the",
        "bug",
        "--model",
        &model,
        "--session",
        "cli:work",
    ]);
    world.ok(&["run", "--continue", "--model", &model, "and", "test", "it"]);
    let tasks = world.tasks();
    assert_eq!(tasks[0]["message"], "fix the bug");
    assert_eq!(tasks[1]["message"], "and test it");
    assert_eq!(tasks[1]["session_id"], "cli:work");
    let id = tasks[1]["task_id"].as_str().unwrap();
    let shown = world.json(&["tasks", "show", id, "--json"]);
    assert_eq!(shown["continues"], tasks[0]["task_id"]);
}

#[test]
fn commands_complete_and_answer() {
    let world = World::new();
    world.write("notes.md", "x");
    let model = world.scenario(MARKDOWN);
    let mut screen = Screen::open(&world, &["--model", &model]);
    screen.shows("/help lists commands");
    screen.types("read @no\t");
    screen.has_input("read @notes.md");
    screen.types("\u{15}/mod\t");
    screen.has_input("/mode");
    screen.types("\u{15}/mode plan\r");
    screen.shows("The next turn runs in mode plan.");
    screen.types("/mdoel\r");
    screen.shows("Did you mean /model?");
    screen.types("Hello\r");
    screen.shows("The end.");
    screen.types("/tasks\r");
    screen.until("the table", |text| {
        text.contains("completed") && text.contains("Hello")
    });
    screen.types("\u{4}");
    assert_eq!(screen.exit_code(), 0);
    // The history is there the next time.
    let mut again = Screen::open(&world, &["--model", &model]);
    again.shows("/help lists commands");
    again.types("\u{1b}[A\u{1b}[A");
    again.has_input("Hello");
    again.types("\u{15}\u{4}");
    assert_eq!(again.exit_code(), 0);
}

#[test]
fn a_conversation_uses_the_server_and_streams() {
    let world = World::new();
    let model = world.scenario(MARKDOWN);
    let _server = world.serve();
    let mut screen = Screen::open(&world, &["--model", &model]);
    screen.shows("/help lists commands");
    screen.types("Hello\r");
    screen.shows("The end.");
    assert_eq!(world.task("Hello")["status"], "completed");
    screen.types("\u{4}");
    assert_eq!(screen.exit_code(), 0);
}
