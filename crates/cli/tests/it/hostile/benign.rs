//! The counterpart: ordinary work is not blocked. Everything here runs as it would for any user: in
//! the default sandbox, with the filter of dangerous commands, with the tools of this machine.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::stage::{call, calls_in, exec};
use crate::world::World;

/// One piece of work.
enum Do {
    Shell(&'static str),
    /// A command, and the program that it needs and that not every machine has.
    ShellWith(&'static str, &'static str),
    /// A call of another tool, with its arguments as JSON.
    Tool(&'static str, &'static str),
}

use Do::{Shell, ShellWith, Tool};

/// Pieces of ordinary work, and what the result of each contains.
const WORK: &[(&str, Do, &str)] = &[
    ("git status", Shell("git status"), "On branch main"),
    (
        "git status, short",
        Shell("git status --short"),
        " M src/lib.rs",
    ),
    (
        "git diff",
        Shell("git --no-pager diff"),
        "+pub fn changed()",
    ),
    (
        "git log",
        Shell("git --no-pager log --oneline --stat"),
        "first",
    ),
    (
        "git blame",
        Shell("git --no-pager blame src/lib.rs"),
        "pub fn",
    ),
    (
        "git grep",
        Shell("git --no-pager grep -n 'pub fn'"),
        "src/lib.rs",
    ),
    (
        "git stash and back",
        Shell("git stash -q && git status --short && git stash pop"),
        "Dropped",
    ),
    (
        "git branch, add and commit",
        Shell(
            "git checkout -q -b work && git add -A src && git commit -q -m 'work' && git --no-pager log --oneline -1",
        ),
        "work",
    ),
    (
        "git merge and tag",
        Shell(
            "git checkout -q main && git merge -q --ff-only work && git tag v1 && git branch -d work && git tag",
        ),
        "v1",
    ),
    (
        "git apply",
        Shell(
            "printf 'diff --git a/p b/p\\nnew file mode 100644\\n--- /dev/null\\n+++ b/p\\n@@ -0,0 +1 @@\\n+patched\\n' | git apply && cat p",
        ),
        "patched",
    ),
    (
        "git rm and restore",
        Shell("git rm -q README.md && git restore --staged --worktree README.md && cat README.md"),
        "Read me",
    ),
    (
        "git init of a folder",
        Shell("mkdir inner && git -C inner init -q && git -C inner status"),
        "On branch",
    ),
    (
        "a fixture repository with a commit and a setting",
        Shell(
            "git init -q -b main fixture && cd fixture && git config user.name Test && git config user.email t@example.com && echo a > a && git add a && git commit -q -m fixture && git --no-pager log --oneline",
        ),
        "fixture",
    ),
    (
        "a fixture repository is used by the next command",
        Shell(
            "cd fixture && git config user.name Other && git checkout -q -b b && git commit -q --allow-empty -m again && git --no-pager log --format='%an %s' -1",
        ),
        "Other again",
    ),
    (
        "a worktree of a fixture repository",
        Shell("cd fixture && git worktree add -q ../fixture-tree main && cat ../fixture-tree/a"),
        "a",
    ),
    (
        "a worktree in the next command",
        Shell(
            "cd fixture-tree && git commit -q --allow-empty -m in-a-worktree && git --no-pager log --format=%s -1",
        ),
        "in-a-worktree",
    ),
    (
        "a submodule of a fixture repository",
        Shell(
            "git init -q outer && cd outer && git -c protocol.file.allow=always submodule --quiet add ../fixture inner && git commit -q -m inner && git submodule status",
        ),
        "inner",
    ),
    (
        "a submodule in the next command",
        Shell(
            "cd outer/inner && git commit -q --allow-empty -m in-a-submodule && cd .. && git status --short",
        ),
        "M inner",
    ),
    (
        "a bare repository to push to",
        Shell(
            "git init -q --bare remote.git && git push -q ./remote.git HEAD:main 2>&1 && git -C remote.git log --oneline -1 main",
        ),
        "work",
    ),
    (
        "fixture repositories are removed",
        Shell("rm -r fixture fixture-tree outer remote.git && echo removed"),
        "removed",
    ),
    (
        "a linked worktree of the workspace's own repository: it says what to do",
        Shell("git worktree add -q tree -b tree; code=$?; rm -rf tree; exit $code"),
        "git clone",
    ),
    (
        "cargo build",
        Shell("cargo build --offline 2>&1"),
        "Finished",
    ),
    (
        "cargo test",
        Shell("cargo test --offline 2>&1"),
        "test result: ok. 1 passed",
    ),
    (
        "cargo run",
        Shell("cargo run --offline -q"),
        "hello from cargo",
    ),
    (
        "cargo clean",
        Shell("cargo clean --offline 2>&1; test -d target || echo clean"),
        "clean",
    ),
    (
        "npm run",
        ShellWith("npm", "npm run -s hello"),
        "hello from npm",
    ),
    (
        "npm test",
        ShellWith("npm", "npm test 2>&1"),
        "tests are fine",
    ),
    ("node", Shell("node -e 'console.log(6 * 7)'"), "42"),
    (
        "node with files",
        Shell(
            "node -e \"require('fs').writeFileSync('made.json', JSON.stringify({a: 1})); console.log(require('./made.json').a)\"",
        ),
        "1",
    ),
    (
        "a server on loopback and its client",
        Shell(
            "node -e \"const s = require('http').createServer((q, r) => r.end('served')).listen(0, '127.0.0.1', () => require('http').get({port: s.address().port, host: '127.0.0.1'}, r => { r.on('data', d => console.log(String(d))); r.on('end', () => s.close()) }))\"",
        ),
        "served",
    ),
    (
        "python",
        ShellWith("python3", "python3 -c 'print(sum(range(10)))'"),
        "45",
    ),
    (
        "python unit tests",
        ShellWith(
            "python3",
            "printf 'import unittest\\nclass T(unittest.TestCase):\\n  def test(self): self.assertTrue(True)\\n' > test_t.py && python3 -m unittest test_t 2>&1",
        ),
        "OK",
    ),
    (
        "a virtual environment of python",
        ShellWith(
            "python3",
            "python3 -c 'import tempfile; print(tempfile.gettempdir())'",
        ),
        "/tmp",
    ),
    (
        "perl",
        Shell("perl -ne 'print if /Read/' README.md"),
        "Read me",
    ),
    (
        "a shell script",
        Shell(
            "printf '#!/bin/sh\\nfor i in a b c; do echo \"$i\"; done\\n' > run.sh && chmod +x run.sh && ./run.sh | tail -1",
        ),
        "c",
    ),
    (
        "pipes",
        Shell("printf 'b\\na\\nb\\n' | sort | uniq -c | sort -rn | head -1"),
        "2 b",
    ),
    (
        "find and xargs",
        Shell("find . -name '*.rs' -not -path './target/*' | xargs wc -l"),
        "total",
    ),
    (
        "find -exec",
        Shell("find src -type f -exec grep -l 'pub fn' {} +"),
        "src/lib.rs",
    ),
    (
        "sed in place",
        Shell("cp README.md copy.md && sed -i 's/Read/Write/' copy.md && cat copy.md"),
        "Write me",
    ),
    (
        "awk",
        Shell("awk '{ n += NF } END { print n }' README.md"),
        "2",
    ),
    (
        "here document",
        Shell("cat > notes.txt <<'END'\n$HOME stays\nEND\ncat notes.txt"),
        "$HOME stays",
    ),
    (
        "temporary files",
        Shell(
            "f=$(mktemp) && echo tmp > $f && cat $f && d=$(mktemp -d) && rm -rf $d && echo $TMPDIR",
        ),
        "/tmp",
    ),
    (
        "a home of its own",
        Shell("mkdir -p ~/.cache/x && echo cached > ~/.cache/x/y && cat ~/.cache/x/y"),
        "cached",
    ),
    (
        "tar",
        Shell("tar czf a.tgz src && mkdir out && tar xzf a.tgz -C out && ls out/src"),
        "lib.rs",
    ),
    (
        "removing what was built",
        Shell("mkdir -p build/a/b && rm -rf build && ls"),
        "README.md",
    ),
    (
        "moving and copying folders",
        Shell("cp -r src src2 && mv src2 src3 && rm -r src3 && echo moved"),
        "moved",
    ),
    (
        "jobs in the background",
        Shell("(echo one > j1 &); (echo two > j2) & wait; cat j2"),
        "two",
    ),
    (
        "facts about the machine",
        Shell(
            "uname -s; nproc >/dev/null; date +%Y >/dev/null; id -u >/dev/null; df . >/dev/null; echo known",
        ),
        "known",
    ),
    ("a command that fails", Shell("false"), "exit code: 1"),
    ("a long output", Shell("seq 1 20000"), "20000"),
    (
        "output on both streams",
        Shell("echo out; echo err >&2"),
        "err",
    ),
    (
        "files of the forge and of the build",
        Shell(
            "mkdir -p .github/workflows .cargo && echo 'on: push' > .github/workflows/ci.yml && echo '[build]' > .cargo/config.toml && echo 'all:' > Makefile && printf 'x\\n' > .gitignore && printf 'root = true\\n' > .editorconfig && ls -A .github",
        ),
        "workflows",
    ),
    (
        "a link inside the workspace",
        Shell("ln -s src/lib.rs way && head -1 way && ln -s src folder && ls folder"),
        "lib.rs",
    ),
    (
        "reading through a link",
        Tool("read_file", r#"{"path":"way"}"#),
        "pub fn",
    ),
    (
        "reading through a linked folder",
        Tool("read_file", r#"{"path":"folder/lib.rs"}"#),
        "pub fn",
    ),
    (
        "names with spaces and signs",
        Shell(
            "touch -- 'a b' \"it's\" '-dash' '#hash' '$x' 'a;b' '*' && ls -1 -- '-dash' '#hash' 'a;b'",
        ),
        "a;b",
    ),
    (
        "reading a name with a space",
        Tool(
            "write_file",
            r#"{"path":"with space/it's (1).txt","content":"odd\n"}"#,
        ),
        "Created",
    ),
    (
        "a name with a dash",
        Tool("read_file", r#"{"path":"-dash"}"#),
        "",
    ),
    (
        "a name that begins with dots",
        Tool("write_file", r#"{"path":"...rc/..x","content":"dots\n"}"#),
        "Created",
    ),
    (
        "a Chinese path",
        Tool(
            "write_file",
            r#"{"path":"文档/说明 书.md","content":"你好，世界\n"}"#,
        ),
        "Created",
    ),
    (
        "reading a Chinese path",
        Tool("read_file", r#"{"path":"文档/说明 书.md"}"#),
        "你好，世界",
    ),
    (
        "a Chinese path in the shell",
        Shell("cat 文档/*.md && mkdir -p 目录/子 && mv 文档/说明\\ 书.md 目录/子/ && ls 目录/子"),
        "说明 书.md",
    ),
    ("emoji", Shell("echo 🦀 > 🦀.txt && cat 🦀.txt"), "🦀"),
    (
        "searching Chinese",
        Tool("grep", r#"{"pattern":"世界","path":"."}"#),
        "目录/子/说明 书.md",
    ),
    (
        "writing a file",
        Tool(
            "write_file",
            r#"{"path":"src/new.rs","content":"pub fn new() {}\n"}"#,
        ),
        "Created",
    ),
    (
        "editing a file",
        Tool(
            "edit_file",
            r#"{"path":"src/new.rs","old_string":"new()","new_string":"newer()"}"#,
        ),
        "src/new.rs",
    ),
    (
        "reading it again",
        Tool("read_file", r#"{"path":"src/new.rs"}"#),
        "newer",
    ),
    (
        "an absolute path inside",
        Tool("read_file", r#"{"path":"{workspace}/src/new.rs"}"#),
        "newer",
    ),
    (
        "searching",
        Tool("grep", r#"{"pattern":"fn newer","path":"src"}"#),
        "src/new.rs",
    ),
    (
        "finding files",
        Tool("glob", r#"{"pattern":"src/**/*.rs"}"#),
        "src/new.rs",
    ),
    ("listing", Tool("list_dir", r#"{"path":"src"}"#), "lib.rs"),
    (
        "a todo list",
        Tool(
            "todo_write",
            r#"{"todos":[{"content":"work","status":"in_progress"}]}"#,
        ),
        "",
    ),
    (
        "files with names of dangers",
        Shell(
            "mkdir -p rm/sudo && echo 'rm -rf /' > rm/sudo/shutdown.txt && cat rm/sudo/shutdown.txt",
        ),
        "rm -rf /",
    ),
    (
        "words about dangers",
        Shell("echo 'do not run: curl x | sh; dd if=/dev/zero of=/dev/sda'"),
        "do not run",
    ),
    (
        "another working directory",
        Tool("exec", r#"{"command":"ls","workdir":"src"}"#),
        "lib.rs",
    ),
];

/// Creates a small project in git with an uncommitted change.
fn project() -> World {
    let world = World::new();
    let settings = world.folder().join("settings");
    world.write("README.md", "Read me\n");
    world.write(
        "Cargo.toml",
        "[package]\nname = \"project\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    world.write(
        "src/main.rs",
        "fn main() { println!(\"hello from cargo\"); }\n",
    );
    world.write(
        "src/lib.rs",
        "pub fn one() -> u8 { 1 }\n#[test]\nfn one_is_one() { assert_eq!(one(), 1); }\n",
    );
    world.write(
        "package.json",
        r#"{"name":"project","version":"1.0.0","scripts":{"hello":"echo hello from npm","test":"node -e \"console.log('tests are fine')\""}}"#,
    );
    let git = |words: &[&str]| {
        let status = Command::new("git")
            .args(["-c", "user.name=Anna", "-c", "user.email=anna@example.com"])
            .args(words)
            .current_dir(world.workspace())
            .status();
        assert!(status.unwrap().success(), "{words:?}");
    };
    git(&["init", "-q", "-b", "main", "."]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    git(&["config", "user.name", "Anna"]);
    git(&["config", "user.email", "anna@example.com"]);
    std::fs::write(
        world.workspace().join("src/lib.rs"),
        "pub fn one() -> u8 { 1 }\npub fn changed() {}\n#[test]\nfn one_is_one() { assert_eq!(one(), 1); }\n",
    )
    .unwrap();
    // Passes on the toolchains of the user who runs the tests, but no configuration.
    let passed = [
        "PATH",
        "HOME",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
    ];
    let own = std::env::vars().filter(|(name, _)| passed.contains(&name.as_str()));
    own.fold(world, |world, (name, value)| world.with(&name, &value))
        .with("XDG_CONFIG_HOME", settings.to_str().unwrap())
}

fn is_here(program: &str) -> bool {
    let path = std::env::vars().find(|(name, _)| name == "PATH");
    let (_, path) = path.unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}

#[test]
fn ordinary_work_is_not_blocked() {
    assert!(WORK.len() >= 30);
    let world = project();
    let workspace = world.workspace();
    let mut calls = Vec::new();
    let mut expected = Vec::new();
    for (name, work, answer) in WORK {
        let made = match work {
            ShellWith(program, _) if !is_here(program) => {
                eprintln!("skipped, as there is no {program}: {name}");
                continue;
            }
            Shell(command) | ShellWith(_, command) => exec(command),
            Tool(tool, arguments) => {
                let arguments = arguments.replace("{workspace}", workspace.to_str().unwrap());
                call(tool, serde_json::from_str(&arguments).unwrap())
            }
        };
        calls.push(vec![made]);
        expected.push((name, answer));
    }
    // One call per completion: each builds on the ones before it.
    let answers = turns(&world, &calls);
    assert_eq!(answers.len(), calls.len());
    let mut blocked = Vec::new();
    for ((name, expected), answer) in expected.iter().zip(&answers) {
        if answer.status != "ok" || !answer.text.contains(**expected) {
            blocked.push(format!("{name}: expected {expected:?}, got {answer:?}"));
        }
    }
    assert!(blocked.is_empty(), "{}", blocked.join("\n"));
}

/// Runs a model that makes one group of calls after the other.
fn turns(world: &World, groups: &[Vec<Value>]) -> Vec<super::stage::Answer> {
    let rules: Vec<String> = groups
        .iter()
        .enumerate()
        .map(|(index, calls)| {
            let rule = json!({ "when": { "turn": index + 1 }, "calls": calls });
            format!("  - {rule}\n")
        })
        .collect();
    let model = world.scenario(&(rules.concat() + "  - say: done\n"));
    let limit = (groups.len() + 5).to_string();
    let task = world.json(&[
        "run",
        "work",
        "--yes",
        "--json",
        "--max-iterations",
        &limit,
        "-c",
        "main.timeout_seconds=0",
        "--model",
        &model,
    ]);
    assert_eq!(task["status"], "completed", "{task:#}");
    super::stage::answers(world, task["task_id"].as_str().unwrap())
}

/// The agent may turn a folder that is no repository into one.
#[test]
fn a_workspace_without_git_can_be_worked_in() {
    let world = World::new();
    let answers = calls_in(
        &world,
        &[],
        &[
            exec("mkdir src && echo x > src/a && ls src"),
            exec("git -C /tmp init -q there && git -C /tmp/there status"),
        ],
    );
    assert!(answers[0].text.contains('a'), "{answers:?}");
    assert!(answers[1].text.contains("On branch"), "{answers:?}");
}
