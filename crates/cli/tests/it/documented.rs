//! Runs the commands of the documents, in a fresh home, with a scripted model.
//!
//! Every command of every shell block is run, or it is listed in [`NOT_RUN`] with a reason. A block
//! whose fence names a file, such as "```markdown .sortie/agents/reviewer.md", is written to that
//! file before the commands behind it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::world::World;

/// Commands that are not run here: how they begin, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("sortie", "a conversation at a terminal: chat.rs"),
    ("sortie top", "the whole screen of a terminal: top.rs"),
    (
        "sortie run --model openai-compatible/our-model",
        "a server in the network: providers.rs",
    ),
    ("sortie worker", "a PostgreSQL store: workers.rs"),
    (
        "sortie spawn \"Train it\"",
        "a worker on a PostgreSQL store: workers.rs",
    ),
    ("sortie store copy", "a PostgreSQL store: postgres.rs"),
    ("git clone", "the network"),
    (
        "cargo",
        "builds this project; `cargo xtask test` is run by CI",
    ),
    ("ollama", "a program that is not part of this project"),
    ("sudo -u postgres", "an account of this machine"),
    ("podman", "a program that is not part of this project"),
    ("mkdir /tmp/start", "an earlier commit of this repository"),
];

/// What stands for something else in a document: its text, and what is run instead.
const REPLACED: &[(&str, &str)] = &[
    // Tasks in the state that the command needs.
    ("sortie tasks diff ID", "sortie tasks diff $(changed)"),
    ("sortie tasks diff k7q2", "sortie tasks diff $(changed)"),
    ("sortie tasks apply ID", "sortie tasks apply $(changed)"),
    ("sortie tasks apply k7q2", "sortie tasks apply $(changed)"),
    ("sortie tasks discard ID", "sortie tasks discard $(changed)"),
    ("sortie tasks pause ID", "sortie tasks pause $(queued)"),
    ("sortie tasks cancel ID", "sortie tasks cancel $(queued)"),
    (
        "sortie tasks steer ID",
        "sortie tasks steer $(queued) 'also the tests'",
    ),
    (
        "sortie tasks resume ID",
        "id=$(queued); sortie tasks pause $id; sortie tasks resume $id",
    ),
    (" ID", " $(ended)"),
    ("/ID/", "/$(ended)/"),
    (" HANDLE", " $(ended)"),
    ("--model openai/gpt-5", "--model \"$SORTIE_MODEL\""),
    // Programs and folders of the reader.
    ("sortie serve", "served sortie serve"),
    ("served sortie serve &", "served sortie serve"),
    ("sortie stop", "running; sortie stop"),
    ("curl -H", "running; curl -H"),
    ("k3v8x0pa", "$(key)"),
    ("/backup/sortie", "$HOME/backup"),
    ("0 6 * * *  cd /srv/app &&", ""),
    ("file:/srv/", "file:$HOME/"),
    ("\"cargo test\"", "\"true\""),
];

/// What the commands of a block find.
const PRELUDE: &str = r#"
set -euo pipefail
field() { sed -n "s/^ *\"$1\": \"\(.*\)\",*$/\1/p" | head -n 1; }
served() {
  "$@" >"$HOME/serve.log" 2>&1 &
  for _ in $(seq 300); do
    if sortie status >"$HOME/status.log" 2>&1; then return; fi
    sleep 0.1
  done
  cat "$HOME/serve.log" >&2
  return 1
}
running() { sortie status >"$HOME/status.log" 2>&1 || served sortie serve; }
curl() { command curl --fail --no-progress-meter "$@"; }
ended() { sortie tasks list --all --status completed --limit 1 --json | field handle; }
changed() { sortie spawn "change a file $RANDOM" --agent code --isolation worktree --yes --json 2>>"$HOME/aside.log" | field handle; }
queued() { sortie spawn "wait in the queue" --detach --json 2>>"$HOME/aside.log" | field handle; }
key() { sortie keys create --name "key $RANDOM" --role viewer --json | field id; }
trap 'status=$?; if sortie status >/dev/null 2>&1; then sortie stop >/dev/null 2>&1; fi; exit $status' EXIT
"#;

/// The model that answers: it changes a file where the task says so, and reads folders otherwise.
const RULES: &str = r#"
  - when: { task: "*change a file*", turn: 1 }
    calls: [{ tool: write_file, args: { path: "changed.txt", content: "{{task}}\n" } }]
  - when: { task: "*failing test*", turn: 1 }
    calls: [{ tool: read_file, args: { path: "src/lib.rs" } }]
  - when: { task: "*failing test*", turn: 2 }
    calls: [{ tool: write_file, args: { path: "src/lib.rs", content: "pub fn fixed() {}\n" } }]
  - when: { turn: "1..3" }
    calls:
      - { tool: list_dir, args: { path: "." } }
      - { tool: list_dir, args: { path: "src" } }
      - { tool: list_dir, args: { path: "crates" } }
  - say: "done"
defaults:
  usage: { input_tokens: 10, output_tokens: 1 }
  price: { input: 1, output: 1 }
"#;

/// A block of commands, or a file.
#[derive(Debug)]
enum Block {
    Commands { line: usize, commands: Vec<String> },
    File { path: String, text: String },
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the documents with the commands of a user or a contributor.
fn documents() -> Vec<String> {
    let mut found: Vec<String> = [
        "README.md",
        "README.zh-CN.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
    ]
    .iter()
    .map(|path| (*path).to_owned())
    .collect();
    for folder in ["docs", "packaging"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    found.sort();
    found
}

/// Returns the blocks of a document, in their order.
fn blocks(document: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| !line.starts_with("```"))
            .collect();
        let mut words = info.split_whitespace();
        let language = words.next().unwrap_or_default();
        if let Some(path) = words.next() {
            blocks.push(Block::File {
                path: path.to_owned(),
                text: format!("{}\n", body.join("\n")),
            });
            continue;
        }
        let commands = match language {
            "sh" | "bash" => commands(&body),
            "console" => commands(&prompted(&body)),
            "" => commands(&bare(&body)),
            _ => continue,
        };
        if !commands.is_empty() {
            blocks.push(Block::Commands {
                line: index + 1,
                commands,
            });
        }
    }
    blocks
}

/// Returns what a person typed at the prompts of a recorded session.
fn prompted<'a>(body: &[&'a str]) -> Vec<&'a str> {
    let mut typed = Vec::new();
    let mut continues = false;
    for line in body {
        let command = line.strip_prefix("$ ");
        if let Some(command) = command.or(continues.then_some(*line)) {
            continues = command.ends_with('\\');
            typed.push(command);
        }
    }
    typed
}

/// Returns the lines of a block without a language that are commands.
fn bare<'a>(body: &[&'a str]) -> Vec<&'a str> {
    let lines = body.iter().copied();
    let is_command = |line: &&str| line.starts_with("cargo ") || line.starts_with("sortie ");
    lines.filter(is_command).collect()
}

/// Joins lines to commands: after a backslash, inside of quotes, and with a function or a loop.
fn commands(lines: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = String::new();
    for line in lines {
        open.push_str(without_comment(line));
        let continues = open.ends_with('\\');
        let quotes = open.matches('"').count();
        if continues || quotes % 2 == 1 {
            open.push('\n');
            continue;
        }
        let command = std::mem::take(&mut open).trim().to_owned();
        if !command.is_empty() {
            found.extend(alternatives(&command));
        }
    }
    assert!(open.trim().is_empty(), "an open quote: {open}");
    found
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.split_once(" #").map_or(line, |(command, _)| command)
}

/// Returns `sortie tasks show|result ID` as two commands.
fn alternatives(command: &str) -> Vec<String> {
    let Some(word) = command.split(' ').take(3).find(|word| {
        let mut names = word.split('|');
        word.contains('|')
            && names.all(|name| !name.is_empty() && name.chars().all(char::is_alphabetic))
    }) else {
        return vec![command.to_owned()];
    };
    let each = word.split('|');
    each.map(|name| command.replacen(word, name, 1)).collect()
}

/// Returns why a command is not run.
fn not_run(command: &str) -> Option<&'static (&'static str, &'static str)> {
    NOT_RUN.iter().find(|(start, _)| {
        // `sortie` alone is a conversation; `sortie run` is not.
        let rest = command.strip_prefix(start);
        rest.is_some_and(|rest| rest.is_empty() || (*start != "sortie" && rest.starts_with(' ')))
    })
}

fn replaced(command: &str) -> String {
    REPLACED
        .iter()
        .fold(command.to_owned(), |command, (shown, run)| {
            // What was replaced by an earlier row is not replaced again.
            let is_done = run.contains(shown) && command.contains(run);
            if is_done {
                command
            } else {
                command.replace(shown, run)
            }
        })
}

fn git(world: &World, arguments: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(arguments)
        .current_dir(world.workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Returns a world with a small repository, and programs that do nothing.
fn reader() -> World {
    let world = World::new();
    world.write("src/lib.rs", "pub fn broken() {}\n");
    world.write("src/auth.rs", "fn hash() {}\n");
    world.write("crates/one/lib.rs", "pub fn one() {}\n");
    world.write("logs/today.log", "error\n");
    world.write("test.log", "FAILED\n");
    world.write(
        ".sortie/agents/reviewer.md",
        include_str!("../../src/commands/init/reviewer.md"),
    );
    git(&world, &["init", "--quiet", "--initial-branch", "main"]);
    git(&world, &["add", "."]);
    git(&world, &["commit", "--quiet", "--message", "start"]);
    git(&world, &["switch", "--quiet", "--create", "topic"]);
    world.write("src/lib.rs", "pub fn still_broken() {}\n");
    git(
        &world,
        &["commit", "--quiet", "--all", "--message", "change"],
    );
    let programs = world.folder().join("bin");
    std::fs::create_dir_all(&programs).unwrap();
    std::fs::create_dir_all(world.folder().join("src/my-project")).unwrap();
    let own = programs.join("sortie");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sortie"), own).unwrap();
    std::os::unix::fs::symlink("/bin/true", programs.join("xdg-open")).unwrap();
    world
}

/// Runs commands; `address` is where a server listens.
fn bash(world: &World, address: &str, script: &str) -> (bool, String) {
    let programs = world.folder().join("bin");
    let model = world.scenario(RULES);
    let output = Command::new("timeout")
        .args([
            "120",
            "bash",
            "-c",
            &format!("{PRELUDE}\nexec 2>&1\n{script}"),
        ])
        .current_dir(world.workspace())
        .env_clear()
        .env(
            "PATH",
            format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()),
        )
        .env("HOME", world.folder())
        .env("LANG", "C.UTF-8")
        .env("SORTIE_MODEL", model)
        .env("SORTIE__SERVER__LISTEN", address)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    (output.status.success(), text.into_owned())
}

/// Runs the commands of a document, block after block, in one home.
fn run(document: &str) {
    let world = reader();
    let address = free_address();
    let bash = |script: &str| {
        let script = script.replace("localhost:7878", &address);
        bash(
            &world,
            &address,
            &script.replace("127.0.0.1:7878", &address),
        )
    };
    let (ok, text) = bash("sortie trust . && sortie run prepare --yes");
    assert!(ok, "{text}");
    let mut problems = Vec::new();
    for block in blocks(document) {
        match block {
            Block::File { path, text } => {
                let path = match path.strip_prefix("~/") {
                    Some(below) => world.folder().join(below),
                    None => world.workspace().join(path),
                };
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
                let (ok, text) = bash("sortie trust .");
                assert!(ok, "{text}");
            }
            Block::Commands { line, commands } => {
                let commands = commands.iter().filter(|command| not_run(command).is_none());
                let script: Vec<String> = commands
                    .map(|command| format!("echo '$' {}\n{}", quoted(command), replaced(command)))
                    .collect();
                if script.is_empty() {
                    continue;
                }
                let (ok, text) = bash(&script.join("\n"));
                if !ok {
                    problems.push(format!("{document}:{line}:\n{text}"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// Returns an address that is free, so that commands can name it.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A test for each document that has commands.
macro_rules! documents {
    ($($name:ident = $path:literal),+ $(,)?) => {
        const TESTED: &[&str] = &[$($path),+];
        $(
            #[test]
            fn $name() {
                run($path);
            }
        )+
    };
}

documents! {
    commands_of_the_readme_run = "README.md",
    commands_of_the_chinese_readme_run = "README.zh-CN.md",
    commands_of_agents_run = "docs/agents.md",
    commands_of_api_run = "docs/api.md",
    commands_of_authority_run = "docs/authority.md",
    commands_of_coming_from_run = "docs/coming-from.md",
    commands_of_delegation_run = "docs/delegation.md",
    commands_of_models_run = "docs/models.md",
    commands_of_operations_run = "docs/operations.md",
    commands_of_quickstart_run = "docs/quickstart.md",
    commands_of_the_chinese_quickstart_run = "docs/quickstart.zh-CN.md",
    commands_of_recipes_run = "docs/recipes.md",
    commands_of_scale_run = "docs/scale.md",
    commands_of_server_run = "docs/server.md",
    commands_of_testing_run = "docs/testing.md",
}

#[test]
fn every_document_with_commands_has_a_test() {
    let mut missing = Vec::new();
    for document in documents() {
        let runs = blocks(&document).iter().any(|block| match block {
            Block::Commands { commands, .. } => {
                commands.iter().any(|command| not_run(command).is_none())
            }
            Block::File { .. } => false,
        });
        if runs && !TESTED.contains(&document.as_str()) {
            missing.push(document);
        }
    }
    assert!(missing.is_empty(), "add them to `documents!`: {missing:?}");
}

#[test]
fn every_reason_not_to_run_a_command_has_one() {
    let mut used = BTreeSet::new();
    for document in documents() {
        for block in blocks(&document) {
            if let Block::Commands { commands, .. } = block {
                let rows = commands.iter().filter_map(|command| not_run(command));
                used.extend(rows.map(|(start, _)| *start));
            }
        }
    }
    let unused: Vec<&str> = NOT_RUN
        .iter()
        .map(|(start, _)| *start)
        .filter(|start| !used.contains(start))
        .collect();
    assert!(
        unused.is_empty(),
        "no document has these commands: {unused:?}"
    );
}
