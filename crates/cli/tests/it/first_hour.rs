//! The first hour with the binary: `sortie init`, and the mistakes that newcomers make. Each message
//! says what is wrong with which object, and what to do next.

use sortie_test_support::provider::{Provider, Reply};

use crate::hostile::bare_machine;
use crate::screen::Screen;
use crate::world::World;

/// Runs a command and compares its exit code and stderr. `{home}` and `{workspace}` are replaced.
fn check(world: &World, arguments: &[&str], code: i32, expected: &str) {
    let output = world.sortie(arguments);
    let expected = expected
        .replace("{home}", &world.home().display().to_string())
        .replace(
            "{workspace}",
            &world
                .workspace()
                .canonicalize()
                .unwrap()
                .display()
                .to_string(),
        );
    assert_eq!(
        (output.code, output.err.as_str()),
        (Some(code), expected.as_str()),
        "{arguments:?}"
    );
}

/// Returns a world in which no local model server answers.
fn without_models() -> World {
    World::new()
        .with("OLLAMA_HOST", "127.0.0.1:9")
        .with("LLAMACPP_BASE_URL", "http://127.0.0.1:9/v1")
        .with("LMSTUDIO_BASE_URL", "http://127.0.0.1:9/v1")
        .with("VLLM_BASE_URL", "http://127.0.0.1:9/v1")
}

/// Makes a mistake in both languages. Each message names the problem and a command to go on with.
fn mistake(world: &World, arguments: &[&str], code: i32, problem: &str, command: &str) {
    let english = world.sortie(arguments);
    assert_eq!(english.code, Some(code), "{arguments:?}: {english:#?}");
    let text = format!("{}{}", english.out, english.err);
    assert!(text.contains(problem), "{problem}: {text}");
    assert!(text.contains(command), "{command}: {text}");
    let chinese = world.sortie(&[&["--lang", "zh"], arguments].concat());
    assert_eq!(chinese.code, Some(code), "{arguments:?}: {chinese:#?}");
    let text = format!("{}{}", chinese.out, chinese.err);
    let is_chinese = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
    assert!(text.chars().any(is_chinese), "{text}");
    assert!(text.contains(command), "{command}: {text}");
}

/// Returns a world whose only provider replies with this status.
fn at_a_provider(status: u16) -> (World, Provider) {
    let provider = Provider::in_turn(vec![Reply::Status(status, None); 8]);
    let world = without_models()
        .with("ANTHROPIC_BASE_URL", &provider.base_url())
        .with("ANTHROPIC_API_KEY", "sk-wrong-0123456789abcdef");
    (world, provider)
}

const MODEL: &str = "anthropic/claude-sonnet-5-5";

#[test]
fn mistake_1_no_key() {
    let world = without_models();
    let problem = "error: No model is configured";
    mistake(
        &world,
        &["run", "x"],
        2,
        problem,
        "export ANTHROPIC_API_KEY=",
    );
    let named = ["run", "x", "--model", MODEL];
    mistake(
        &world,
        &named,
        2,
        "set ANTHROPIC_API_KEY",
        "sortie models list",
    );
}

#[test]
fn mistake_2_a_wrong_key() {
    let (world, _provider) = at_a_provider(401);
    let command = format!("sortie models check {MODEL}");
    let run = ["run", "x", "--model", MODEL];
    mistake(&world, &run, 1, "error: The model call failed", &command);
}

#[test]
fn mistake_3_an_unknown_model() {
    let (world, _provider) = at_a_provider(404);
    let run = ["run", "x", "--model", MODEL];
    mistake(
        &world,
        &run,
        1,
        "error: The model call failed",
        "sortie models list",
    );
    let vendor = ["run", "x", "--model", "antropic/claude-sonnet-5-5"];
    mistake(
        &world,
        &vendor,
        2,
        "did you mean `anthropic`",
        "sortie models list",
    );
}

#[test]
fn mistake_4_a_misspelled_command() {
    mistake(&World::new(), &["rnu", "x"], 2, "rnu", "'run'");
}

#[test]
fn mistake_5_an_unknown_agent() {
    let run = ["spawn", "x", "--agent", "expolre", "--model", "offline"];
    mistake(&World::new(), &run, 4, "expolre", "explore");
}

#[test]
fn mistake_6_a_worktree_outside_of_a_repository() {
    let world = World::new();
    let problem = "--isolation worktree needs a git repository";
    for command in ["run", "spawn"] {
        let run = [
            command,
            "x",
            "--isolation",
            "worktree",
            "--model",
            "offline",
        ];
        mistake(&world, &run, 2, problem, "git init");
    }
    // No task was created that could only fail.
    assert!(world.tasks().is_empty());
}

#[test]
fn mistake_7_a_second_server() {
    let world = World::new();
    let server = world.serve();
    let again = ["serve", "--listen", "127.0.0.1:0"];
    mistake(
        &world,
        &again,
        6,
        "error: A server already listens at",
        "sortie stop",
    );
    world.ok(&["stop"]);
    server.end();
}

#[test]
fn mistake_8_a_store_that_another_process_has() {
    let world = World::new();
    let model = world.scenario("  - say: done\n    latency_ms: 60000\n");
    let first = world.start(&["run", "slow", "--model", &model]);
    world.until("the first one runs", |world| !world.tasks().is_empty());
    let second = ["run", "another", "--model", &model];
    mistake(
        &world,
        &second,
        3,
        "error: The store is in use by",
        "sortie serve",
    );
    drop(first);
}

#[test]
fn mistake_9_a_machine_without_a_sandbox() {
    let world = World::new();
    for lang in ["en", "zh"] {
        let output = bare_machine::run(&world, &["--lang", lang, "doctor"]);
        assert!(output.out.contains("apt install bubblewrap"), "{output:#?}");
    }
}

#[test]
fn mistake_10_a_misspelled_key_in_a_file() {
    let world = World::new();
    let file = world.folder().join("config.toml");
    let world = world.with("SORTIE_CONFIG", file.to_str().unwrap());
    let run = ["run", "x", "--model", "offline"];
    std::fs::write(&file, "[subagents]\nmax_concurent = 3\n").unwrap();
    let near = "subagents.max_concurrent";
    mistake(&world, &run, 0, "unknown key subagents.max_concurent", near);
    std::fs::write(&file, "[subagents]\nmax_concurrent = \"three\"\n").unwrap();
    let place = "config.toml:2";
    mistake(&world, &run, 2, place, "sortie config schema");
}

#[test]
fn a_run_without_a_model_names_ways_to_get_one() {
    let output = without_models().sortie(&["run", "hello", "there"]);
    assert_eq!(output.code, Some(2), "{output:#?}");
    for expected in [
        "error: No model is configured, no key is set, and no local server answers.\n",
        "`sortie init` finds what is there and remembers it",
        "export ANTHROPIC_API_KEY=",
        "sortie demo",
    ] {
        assert!(output.err.contains(expected), "{expected}: {output:#?}");
    }
}

#[test]
fn a_misspelled_command_gets_a_suggestion() {
    let output = World::new().sortie(&["rnu", "x"]);
    assert_eq!(output.code, Some(2), "{output:#?}");
    assert!(output.err.contains("'run'"), "{output:#?}");
}

#[test]
fn a_home_that_is_a_file_is_not_an_empty_store() {
    let world = World::new();
    std::fs::write(world.home(), "").unwrap();
    check(
        &world,
        &["tasks", "list"],
        2,
        "error: The folder {home} cannot hold the store of Sortie.\n  because: not a directory\n  \
         hint: Choose a folder that you can write with --home or SORTIE_HOME.\n",
    );
}

#[test]
fn a_misspelled_agent_gets_a_suggestion() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    for command in ["run", "spawn"] {
        check(
            &world,
            &[command, "x", "--agent", "expolre", "--model", &model],
            4,
            "error: There is no agent 'expolre'; did you mean 'explore'?\n  hint: Known agents: \
             explore, plan, code, general.\n",
        );
    }
    assert!(world.tasks().is_empty());
}

#[test]
fn a_model_without_a_vendor_gets_an_example() {
    check(
        &World::new(),
        &["run", "x", "--model", "gpt-5"],
        2,
        "error: The model cannot be used: there is no model \"gpt-5\": write vendor/model, for \
         example `anthropic/claude-sonnet-5-5`; or `offline`, `script:FILE`, `replay:FOLDER`\n  \
         hint: `sortie models list` shows what can be used; `sortie demo` needs no model.\n",
    );
}

#[test]
fn a_missing_workspace_is_named() {
    check(
        &World::new(),
        &["run", "x", "--workspace", "nowhere"],
        2,
        "error: The folder {workspace}/nowhere cannot be used as the workspace.\n  because: No such \
         file or directory (os error 2)\n  hint: Name an existing folder with --workspace.\n",
    );
}

#[test]
fn an_unknown_handle_says_where_handles_are() {
    check(
        &World::new(),
        &["tasks", "show", "zzzz"],
        4,
        "error: There is no task zzzz.\n  hint: `sortie tasks list --all` shows the handles.\n",
    );
}

#[test]
fn an_empty_prompt_gets_an_example() {
    check(
        &World::new(),
        &["run", ""],
        2,
        "error: The instruction is empty.\n  hint: Give an instruction: sortie run \"Explain this \
         project\".\n",
    );
}

#[test]
fn a_misspelled_key_of_the_configuration_gets_a_suggestion() {
    let output = World::new().sortie(&["config", "set", "modle", "x/y"]);
    assert_eq!(output.code, Some(2), "{output:#?}");
    assert!(output.err.contains("did you mean model?"), "{output:#?}");
}

#[test]
fn a_result_that_is_not_there_yet_says_so() {
    let world = World::new();
    world.ok(&["spawn", "wait", "here", "--detach", "--model", "offline"]);
    let id = world.task("wait here")["handle"]
        .as_str()
        .unwrap()
        .to_owned();
    let output = world.sortie(&["tasks", "result", &id]);
    assert_eq!(output.code, Some(4), "{output:#?}");
    let expected = format!("Task {id} has no result yet: it is pending.\n");
    assert_eq!(output.err, expected);
}

#[test]
fn doctor_counts_its_warnings_and_indents_their_hints() {
    let output = without_models().ok(&["doctor"]).out;
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines.last().unwrap().contains("warning"), "{output}");
    let at = lines
        .iter()
        .position(|line| line.contains("Three ways"))
        .unwrap();
    for line in &lines[at..at + 5] {
        assert!(line.starts_with("     "), "{line:?}: {output}");
    }
    assert!(output.contains(" configuration: "), "{output}");
}

#[test]
fn init_takes_the_model_of_a_key() {
    let world = without_models().with("ANTHROPIC_API_KEY", "sk-test");
    let report = world.json(&["init", "--yes", "--json"]);
    assert_eq!(report["keys"], serde_json::json!(["anthropic"]));
    assert_eq!(report["model"], "anthropic/claude-sonnet-5-5");
    assert_eq!(report["trusted"], false);
    assert!(report["sandbox"]["found"].is_string(), "{report}");
    // The choice reaches the runs, and the agent is found.
    let shown = world.json(&["config", "show", "model", "--json"]);
    assert_eq!(shown[0]["value"], "anthropic/claude-sonnet-5-5", "{shown}");
    let agents = world.json(&["agents", "list", "--json"]).to_string();
    assert!(agents.contains("\"reviewer\""), "{agents}");
    world.ok(&["agents", "check"]);
    // A second time nothing changes, and nothing is written over.
    world.write(".sortie/agents/reviewer.md", "mine");
    let again = world.ok(&["init", "--yes", "--model", "anthropic/other"]);
    assert!(again.err.contains("Model: anthropic/other"), "{again:#?}");
    let kept = std::fs::read_to_string(world.workspace().join(".sortie/agents/reviewer.md"));
    assert_eq!(kept.unwrap(), "mine");
}

#[test]
fn init_without_a_model_says_how_to_get_one() {
    let world = without_models();
    let output = world.sortie(&["init", "--yes", "--no-agent"]);
    assert_eq!(output.code, Some(2), "{output:#?}");
    for expected in [
        "API keys in the environment: none\n",
        "Model servers on this machine: none\n",
        "Model: none can be used yet.\n",
        "Three ways to get going",
        "Run `sortie init` again when you have one.\n",
    ] {
        assert!(output.err.contains(expected), "{expected}: {output:#?}");
    }
    assert!(!world.workspace().join(".sortie").exists());
}

#[test]
fn init_asks_at_a_terminal() {
    let world = without_models()
        .with("ANTHROPIC_API_KEY", "sk-test")
        .with("DEEPSEEK_API_KEY", "sk-test");
    let mut screen = Screen::sized(&world, &["init"], (40, 100), "xterm-256color");
    screen.shows("Which model? [1-2, Enter is 1]");
    screen.presses("3\r");
    screen.shows("Type a number from 1 to 2.");
    screen.presses("2\r");
    screen.shows("Create an example agent, .sortie/agents/reviewer.md? [y/N]");
    screen.presses("y\r");
    screen.shows("Trust ");
    screen.presses("y\r");
    screen.shows("is trusted");
    assert_eq!(screen.exit_code(), 0);
    let trusted = world.json(&["trust", "--list", "--json"]);
    assert_eq!(trusted.as_array().unwrap().len(), 1, "{trusted}");
    let shown = world.json(&["config", "show", "model", "--json"]);
    assert!(
        shown[0]["value"].as_str().unwrap().starts_with("deepseek/"),
        "{shown}"
    );
}
