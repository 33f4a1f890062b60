//! Tests that nothing an agent leaves behind runs later: random layouts of repositories, random
//! payloads, and then the commands of a user outside the sandbox.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use sortie_tools::WriteFile;

use crate::support::{Scene, shell};

/// The number of layouts in one test; there are six tests, so that they run in parallel.
const LAYOUTS: u64 = 30;
/// The number of layouts that are also tried without a sandbox.
const CONTROLS: u64 = 20;

/// Random numbers from a seed: the same seed gives the same layout.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// What a user has in a workspace before an agent starts. Each entry leaves a tracked file with a
/// change.
const LAYOUT: &[&str] = &[
    // Only the repository at the top.
    ":",
    "repo nested && git -C nested config alias.x status",
    "repo deep/er/nested",
    // A repository with the user's own settings, which the agent must not lose or change.
    "repo special && git -C special config core.pager cat && git -C special config alias.l log",
    "repo ../lib-source && git -c protocol.file.allow=always submodule --quiet add ../lib-source lib && git commit -qm lib",
    "git init -q --bare origin.git",
    "git worktree add -q wt -b wt 2>/dev/null && echo changed >> wt/f",
    "mv .git realgit && ln -s realgit .git",
    "repo linked && mv linked/.git linked-store && ln -s ../linked-store linked/.git",
    "repo sep && mv sep/.git sep-store && echo 'gitdir: ../sep-store' > sep/.git",
    "git config core.hooksPath .githooks && mkdir .githooks",
    "git config include.path ../.gitconfig-shared",
];

/// Ways in which an agent gets a git folder: each sets `W`, a working tree, and `G`, its git
/// folder.
const PLACES: &[&str] = &[
    "repo NEW; W=$PWD/NEW; G=$W/.git",
    "repo NEW; W=$PWD/NEW; G=$W/.git; git add NEW",
    "repo NEW; git -C NEW worktree add -q ../WT -b other; W=$PWD/WT; G=$PWD/NEW/.git; echo x >> WT/f",
    "repo NEW; git -C NEW worktree add -q ../WT -b other; W=$PWD/WT; G=$PWD/NEW/.git/worktrees/WT; echo x >> WT/f",
    // Nested repositories and submodules that exist already.
    "W=$PWD/nested; G=$W/.git",
    "W=$PWD/special; G=$W/.git",
    "W=$PWD/deep/er/nested; G=$W/.git",
    "W=$PWD/lib; G=$PWD/.git/modules/lib",
    "repo NEW; mv NEW/.git hidden; rm -f lib/.git; echo \"gitdir: $PWD/hidden\" > lib/.git; W=$PWD/lib; G=$PWD/hidden",
    "W=$PWD/wt; G=$PWD/.git/worktrees/wt",
    "W=$PWD/linked; G=$PWD/linked-store",
    "W=$PWD/sep; G=$PWD/sep-store",
    "W=$PWD; G=$PWD/.git",
    "W=$PWD; G=$PWD/realgit",
    "W=$PWD/origin.git; G=$W",
    // A folder, or the workspace, as a repository without a `.git`.
    "repo NEW; cp -r NEW/.git/. NEW/; rm -rf NEW/.git; W=$PWD/NEW; G=$W; printf '[core]\\n\\tbare = false\\n\\tworktree = .\\n' >> $G/config",
    "repo NEW; rm -f .git/HEAD; cp -r NEW/.git/. .; rm -rf NEW; W=$PWD; G=$PWD; printf '[core]\\n\\tbare = false\\n\\tworktree = .\\n' >> config",
    // Pointers and links to a git folder elsewhere.
    "repo NEW; mv NEW/.git store; echo 'gitdir: ../store' > NEW/.git; W=$PWD/NEW; G=$PWD/store",
    "repo NEW; mv NEW/.git store; ln -s ../store NEW/.git; W=$PWD/NEW; G=$PWD/store",
    "repo NEW; mv NEW/.git .git/evil; echo 'gitdir: ../.git/evil' > NEW/.git; W=$PWD/NEW; G=$PWD/.git/evil; git add NEW",
    "repo NEW; mkdir -p .git/objects/zz; mv NEW/.git .git/objects/zz/e; ln -s ../.git/objects/zz/e NEW/.git; W=$PWD/NEW; G=$PWD/.git/objects/zz/e",
    "repo NEW; mv NEW NEW2; repo NEW; mv NEW2/.git NEW/.git/modules-x; echo \"gitdir: $PWD/NEW/.git/modules-x\" > NEW2/.git; W=$PWD/NEW2; G=$PWD/NEW/.git/modules-x",
];

/// Settings and files that make git run a program. `EVIL` is the program.
const PAYLOADS: &[&str] = &[
    "printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' >> $G/config",
    "printf '[CORE]FsMonitor=\"EVIL\"\\n' >> $G/config",
    "printf '[core]\\n\\tfsmoni\\\\\\ntor = x\\n[core]\\n\\tfsmonitor = EV\\\\\\nIL\\n' | sed 's|EV.$|touch RAN \\\\|; s|^IL|#|' >> $G/config",
    "rm -f $G/config.lock; git --git-dir=$G config core.fsmonitor 'EVIL'",
    "mkdir -p $W/hk; hooks $W/hk; printf '[core]\\n\\thooksPath = '\"$W\"'/hk\\n' >> $G/config",
    "mkdir -p $G/hooks; hooks $G/hooks",
    "mkdir -p $W/hk; hooks $W/hk; rm -rf $G/hooks; ln -s $W/hk $G/hooks",
    "printf '[diff]\\n\\texternal = \"EVIL\"\\n' >> $G/config",
    "printf '* diff=x\\n' > $W/.gitattributes; printf '[diff \"x\"]\\n\\ttextconv = \"EVIL\"\\n\\tcommand = \"EVIL\"\\n' >> $G/config",
    "printf '* filter=x\\n' > $W/.gitattributes; printf '[filter \"x\"]\\n\\tclean = \"EVIL\"\\n\\tsmudge = cat\\n' >> $G/config; touch $W/f",
    "mkdir -p $G/info; printf '* filter=y\\n' > $G/info/attributes; printf '[filter \"y\"]\\n\\tprocess = \"EVIL\"\\n' >> $G/config; touch $W/f",
    "printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' > $W/inc; printf '[include]\\n\\tpath = '\"$W\"'/inc\\n' >> $G/config",
    "printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' > $W/inc; printf '[includeIf \"gitdir:/\"]\\n\\tpath = '\"$W\"'/inc\\n' >> $G/config",
    "printf '[core]\\n\\trepositoryformatversion = 1\\n[extensions]\\n\\tworktreeConfig = true\\n' >> $G/config; printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' > $G/config.worktree",
    "mkdir -p $W/common; cp -r $G/. $W/common/; rm -f $W/common/commondir; printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' >> $W/common/config; rm -f $G/commondir; echo $W/common > $G/commondir",
    "cp $G/config $W/conf; printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' >> $W/conf; rm -f $G/config; ln -s $W/conf $G/config",
    "mkdir -p .githooks; hooks .githooks; printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' > .gitconfig-shared",
    "printf '[submodule \"lib\"]\\n\\tpath = lib\\n\\turl = ./lib\\n\\tupdate = !EVIL\\n' >> $G/config; printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' >> $G/config",
];

/// What an agent does after placing the payload.
const ENDINGS: &[&str] = &[
    ":",
    ":",
    "git add NEW nested lib",
    "chmod 111 $W",
    "chmod 555 $G",
    "mv $W moved-away && git add moved-away",
    "printf '[submodule \"n\"]\\n\\tpath = NEW\\n\\turl = ./NEW\\n' > .gitmodules; git add NEW .gitmodules",
];

/// Shell functions for all scripts.
const FUNCTIONS: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
repo() { mkdir -p $1 && git -C $1 init -q -b main && echo f > $1/f && git -C $1 add f && git -C $1 commit -qm first && echo changed >> $1/f; }
hooks() { for hook in post-index-change pre-commit post-checkout reference-transaction fsmonitor-watchman pre-auto-gc; do printf '#!/bin/sh\\nEVIL\\n' > $1/$hook; chmod 755 $1/$hook; done; }
";

/// The commands of the user, at the top and wherever git would recognize a folder as a repository.
const PERSON: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat
{ echo .; find . -name .git -o -name HEAD | sed 's|/[^/]*$||' | grep -v '/\\.git\\(/\\|$\\)' | sort -u | head -n 20; } | while read -r folder; do
  (cd \"$folder\" && for command in status diff 'log -1 -p' 'stash list' 'add -n .' 'submodule status'; do git $command; done) </dev/null >/dev/null 2>&1
done; true";

/// One layout, and what an agent does in it, in one or more commands.
struct Story {
    layout: String,
    commands: Vec<String>,
}

fn story(seed: u64) -> Story {
    let mut dice = Dice::new(seed);
    let mut layout = String::from("repo .\n");
    for _ in 0..dice.below(3) + 1 {
        layout.push_str(dice.one(LAYOUT));
        layout.push('\n');
    }
    let mut commands = Vec::new();
    for number in 0..dice.below(2) + 1 {
        let name = dice.one(&["new", "a/b/new", "src/fixture"]);
        let name = format!("{name}{number}");
        let place = dice
            .one(PLACES)
            .replace("NEW", &name)
            .replace("WT", &format!("wt{number}"));
        let mut steps = vec![place];
        for _ in 0..dice.below(2) + 1 {
            steps.push(dice.one(PAYLOADS).to_owned());
        }
        steps.push(dice.one(ENDINGS).replace("NEW", &name));
        // Sometimes each step is a separate command.
        if dice.below(3) == 0 {
            let mut earlier = String::new();
            for step in steps {
                commands.push(format!("{earlier}{step}"));
                if step.contains("W=") {
                    // Only the variables are set again: the files exist already.
                    let names = step
                        .split(';')
                        .filter(|part| part.trim_start().starts_with(['W', 'G']));
                    earlier = names.collect::<Vec<_>>().join(";") + "\n";
                }
            }
        } else {
            commands.push(steps.join("\n"));
        }
    }
    Story { layout, commands }
}

/// Creates a workspace whose name needs no quotes in scripts.
fn plain() -> Scene {
    Scene::named("work")
}

/// Runs a script as the user, outside the sandbox.
fn outside(scene: &Scene, script: &str) {
    let status = Command::new("/bin/bash")
        .args(["-c", script])
        .current_dir(&scene.workspace)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success(), "{script}");
}

/// Runs a story, and returns whether a program of the agent ran for the user.
async fn runs(scene: &Scene, story: &Story) -> bool {
    let proof = scene.outside().join("ran");
    let touch = format!("touch {}", proof.display());
    let fill = |text: &str| {
        let functions = FUNCTIONS.replace("EVIL", &format!("{touch}; false"));
        let text = text
            .replace("touch RAN", &touch)
            .replace("EVIL", &format!("{touch}; false"));
        format!("{functions}{text}\ntrue")
    };
    outside(scene, &fill(&story.layout));
    assert!(!proof.exists());
    let shell = shell();
    for command in &story.commands {
        scene.run(&shell, &fill(command)).await.unwrap();
    }
    // Without a sandbox the agent itself may have run it.
    std::fs::remove_file(&proof).ok();
    outside(scene, PERSON);
    proof.exists()
}

/// Tries one share of the layouts.
async fn check(share: u64) {
    for seed in share * LAYOUTS..(share + 1) * LAYOUTS {
        let story = story(seed);
        let scene = plain();
        assert!(
            !runs(&scene, &story).await,
            "seed {seed}\n{}\n---\n{}",
            story.layout,
            story.commands.join("\n---\n")
        );
    }
}

#[tokio::test]
async fn no_layout_makes_git_run_what_an_agent_left_1() {
    check(0).await;
}

#[tokio::test]
async fn no_layout_makes_git_run_what_an_agent_left_2() {
    check(1).await;
}

#[tokio::test]
async fn no_layout_makes_git_run_what_an_agent_left_3() {
    check(2).await;
}

#[tokio::test]
async fn no_layout_makes_git_run_what_an_agent_left_4() {
    check(3).await;
}

#[tokio::test]
async fn no_layout_makes_git_run_what_an_agent_left_5() {
    check(4).await;
}

#[tokio::test]
async fn no_layout_makes_git_run_what_an_agent_left_6() {
    check(5).await;
}

/// Positive control: without the neutralisation, many of the same stories do run a program.
#[tokio::test]
async fn the_same_layouts_run_programs_without_a_sandbox() {
    let mut ran = 0;
    for seed in 0..CONTROLS {
        ran += u64::from(runs(&plain().bare(), &story(seed)).await);
    }
    assert!(ran * 3 > CONTROLS, "{ran} of {CONTROLS}");
}

/// Tries every payload alone in a repository that the agent created.
#[tokio::test]
async fn each_payload_in_a_new_repository_runs_nothing() {
    for payload in PAYLOADS {
        let story = Story {
            layout: "repo .".to_owned(),
            commands: vec![format!("{}\n{payload}", PLACES[1].replace("NEW", "new"))],
        };
        assert!(!runs(&plain(), &story).await, "{payload}");
    }
}

/// Checks that one command in a plain workspace leaves nothing that runs for the user.
async fn check_command(command: &str) {
    let story = |command: &str| Story {
        layout: "repo .".to_owned(),
        commands: vec![command.to_owned()],
    };
    assert!(runs(&plain().bare(), &story(command)).await, "the control");
    assert!(!runs(&plain(), &story(command)).await, "{command}");
}

/// Points git to a repository that the agent prepared in `.git/evil` of the top.
const EVIL_AT_TOP: &str = "repo new; mv new/.git .git/evil; printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' >> .git/evil/config; git add new";

#[tokio::test]
async fn a_repository_below_the_names_of_a_git_folder_runs_nothing() {
    for part in ["objects", "hooks", "modules", "worktrees"] {
        check_command(&format!(
            "mkdir -p x/objects x/refs; echo x > x/HEAD; repo x/{part}/sub; printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' >> x/{part}/sub/.git/config; git add -f x/{part}/sub"
        ))
        .await;
    }
}

#[tokio::test]
async fn a_pointer_with_a_trailing_blank_runs_nothing() {
    check_command(&format!(
        "{EVIL_AT_TOP}; repo other; mkdir x; mv other/.git x/good; ln -s ../.git/evil 'x/good '; printf 'gitdir: ../x/good ' > new/.git"
    ))
    .await;
    // The same for the redirect of a git folder.
    check_command(
        "repo new; git add new; cd new/.git; mkdir '. '; mv config objects refs '. '; printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' >> '. /config'; printf '. \\n' > commondir",
    )
    .await;
}

#[tokio::test]
async fn names_of_moved_files_cannot_be_occupied_beforehand() {
    let take = "for n in '' $(seq -f '-%g' 1 1100); do : > config.sortie-quarantine$n; mkdir hooks.sortie-quarantine$n; : > ../../link/.git.sortie-quarantine$n; done";
    check_command(&format!(
        "repo new; mkdir link; ln -s ../new/.git link/.git; git add new; cd new/.git; mkdir -p hooks; hooks hooks; printf '[core]\\n\\tfsmonitor = \"EVIL\"\\n' >> config; {take}"
    ))
    .await;
}

#[tokio::test]
async fn a_pointer_in_a_read_only_folder_runs_nothing() {
    if rustix::process::geteuid().is_root() {
        eprintln!("as root a read-only folder does not keep anything from being renamed");
    }
    check_command(&format!(
        "{EVIL_AT_TOP}; echo 'gitdir: ../.git/evil' > new/.git; chmod 555 new"
    ))
    .await;
}

/// Processes that make a repository hostile again and again until they are killed.
const WRITERS: &str = r#"repo new; git add new
for n in 1 2 3 4 5 6 7 8; do
    setsid sh -c 'trap "" TERM; while :; do printf "[core]\n\tfsmonitor = \"EVIL\"\n" > new/.git/config.$$; mv new/.git/config.$$ new/.git/config; done' &
done
touch started; sleep 60"#;

/// Fills in the program that the user must not run, and the shell functions.
fn filled(scene: &Scene, command: &str) -> String {
    let evil = format!("touch {}; false", scene.outside().join("ran").display());
    format!("{FUNCTIONS}{command}").replace("EVIL", &evil)
}

#[tokio::test]
async fn nothing_is_written_after_the_check_of_a_command_that_timed_out() {
    for _ in 0..3 {
        let mut scene = plain();
        scene.time = Duration::from_secs(2);
        outside(&scene, &filled(&scene, "repo ."));
        let command = filled(&scene, WRITERS);
        let answer = scene.run(&shell(), &command).await.unwrap();
        assert!(answer.text.contains("timed out"), "{}", answer.text);
        assert!(answer.text.contains("core.fsmonitor"), "{}", answer.text);
        let config = scene.read("new/.git/config").unwrap();
        assert!(!config.contains("fsmonitor"), "{config}");
        outside(&scene, PERSON);
        assert!(!scene.outside().join("ran").exists());
    }
}

#[tokio::test]
async fn nothing_is_written_after_the_check_of_a_command_that_was_cancelled() {
    let scene = plain();
    outside(&scene, &filled(&scene, "repo ."));
    let shell = shell();
    let call = async {
        let command = filled(&scene, WRITERS);
        scene.run(&shell, &command).await.ok();
    };
    tokio::time::timeout(Duration::from_secs(2), call)
        .await
        .unwrap_err();
    assert!(scene.workspace.join("started").exists());
    // No caller waits for this check; it ends with the sandbox at the latest.
    drop(shell);
    for _ in 0..200 {
        let clean = |config: String| !config.contains("fsmonitor");
        if scene.read("new/.git/config").is_some_and(clean) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    outside(&scene, PERSON);
    assert!(!scene.outside().join("ran").exists());
}

/// Tries every way to a git folder alone, with the simplest payload and the layout that it needs.
#[tokio::test]
async fn each_place_with_the_plainest_payload_runs_nothing() {
    let words = [
        "nested", "special", "lib", "origin", "wt", "linked", "sep", "realgit",
    ];
    for place in PLACES {
        let needed = |line: &&&str| {
            words
                .iter()
                .any(|word| place.contains(word) && line.contains(word))
        };
        let layout: Vec<&str> = LAYOUT.iter().filter(needed).copied().collect();
        let story = Story {
            layout: format!("repo .\n{}", layout.join("\n")),
            commands: vec![format!(
                "{}\n{}",
                place.replace("NEW", "new").replace("WT", "wt9"),
                PAYLOADS[0]
            )],
        };
        assert!(!runs(&plain(), &story).await, "{place}");
    }
}

/// File tools create no repository, alone or together with commands.
#[tokio::test]
async fn file_tools_and_commands_together_make_no_repository_that_acts() {
    let files = [
        ("HEAD", "ref: refs/heads/main\n"),
        (
            "config",
            "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"EVIL\"\n",
        ),
        ("objects/x", "x"),
        ("refs/x", "x"),
    ];
    for folder in ["", "b/", "a/b/"] {
        // Each bit selects whether a command writes the file; file tools write the others.
        for by_command in 0..16_u32 {
            let scene = plain();
            let proof = scene.outside().join("ran");
            let shell = shell();
            let writes = WriteFile::default();
            for (bit, (name, content)) in files.iter().enumerate() {
                let path = format!("{folder}{name}");
                let content = content.replace("EVIL", &format!("touch {}; false", proof.display()));
                if by_command & (1 << bit) == 0 {
                    let arguments = json!({"path": path, "content": content});
                    // The write may fail.
                    scene.call(&writes, arguments).await.ok();
                } else {
                    let command = format!(
                        "mkdir -p $(dirname {path}); cat > {path} << 'END'\n{content}END\n"
                    );
                    scene.run(&shell, &command).await.unwrap();
                }
            }
            outside(&scene, PERSON);
            assert!(!proof.exists(), "{folder} {by_command:04b}");
        }
    }
}

/// The settings of the user's repository and the commits of an agent are kept.
#[tokio::test]
async fn user_settings_and_agent_commits_are_kept() {
    let scene = plain();
    let fill = |text: &str| format!("{}\n{text}", FUNCTIONS.replace("EVIL", "true"));
    let layout = "set -e; repo .; repo special; git -C special config alias.l log; hooks special/.git/hooks; repo plain; printf '# mine\\n[user]\\nname = me\\n' >> plain/.git/config";
    outside(&scene, &fill(layout));
    let before = ["special/.git/config", "plain/.git/config"].map(|name| scene.read(name).unwrap());
    let command = "set -e; git -C special commit -qam two; git -C plain commit -qam two; repo made; git -C made commit -qam two; git -C made remote add origin https://host/x.git; git -C made config user.name agent; hooks made/.git/hooks; git -C made config alias.x '!true'; git -C made branch b";
    let answer = scene.run(&shell(), &fill(command)).await.unwrap();
    assert!(answer.text.ends_with("exit code: 0"), "{}", answer.text);
    let after = ["special/.git/config", "plain/.git/config"].map(|name| scene.read(name).unwrap());
    assert_eq!(after, before);
    assert!(
        scene
            .workspace
            .join("special/.git/hooks/pre-commit")
            .exists()
    );
    let config = scene.read("made/.git/config").unwrap();
    assert!(config.contains("https://host/x.git"), "{config}");
    assert!(config.contains("name = agent"), "{config}");
    assert!(!config.contains("alias"), "{config}");
    assert!(!scene.workspace.join("made/.git/hooks").exists());
    outside(
        &scene,
        "set -e; for repo in special plain made; do test $(git -C $repo log --oneline | wc -l) = 2; done; git -C made rev-parse b",
    );
    // The result for the model and the record, and so the audit log, report what was neutralised.
    for part in [
        "made/.git/config",
        "alias.x",
        "made/.git/hooks was moved to",
        "git -c",
    ] {
        assert!(answer.text.contains(part), "{part}: {}", answer.text);
    }
    let record = answer.sandbox.unwrap();
    assert_eq!(record["neutralised"][0]["measure"], "reduced", "{record}");
    assert_eq!(
        record["neutralised"].as_array().unwrap().len(),
        2,
        "{record}"
    );
    // Nothing is reported twice, and the fixture can be removed.
    let answer = scene
        .run(&shell(), "rm -r made plain && echo gone")
        .await
        .unwrap();
    assert!(answer.text.starts_with("gone"), "{}", answer.text);
    assert!(answer.sandbox.unwrap().get("neutralised").is_none());
}
