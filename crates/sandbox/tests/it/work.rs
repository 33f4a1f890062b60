//! Ordinary work succeeds as without a sandbox, and about as fast.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sortie_sandbox::linked_worktree;

use crate::support::{OFFER, World, backends, with_namespaces};

#[test]
fn git_works_while_its_settings_are_protected() {
    let script = "set -e; echo 1 > a; git add a; git commit -qm a; git branch b; git checkout -q b; \
        echo 2 > a; git stash -q; git stash pop -q; git diff --stat | wc -l; git config user.name; \
        git commit -qam c; git checkout -q main; git merge -q b; git tag t; git log --oneline | wc -l; \
        git rebase -q main; git reset -q --hard HEAD~1; git gc -q; git status --short; git log -1 --format=%an";
    for backend in with_namespaces() {
        let world = World::with_git();
        let answer = world.run(backend, &world.policy(), script);
        let lines: Vec<_> = answer.text.lines().map(str::trim).collect();
        assert_eq!(lines, ["2", "Test", "3", "Test"], "{backend:?} {answer:?}");
        assert!(answer.undone.is_empty());
    }
}

#[test]
fn a_linked_worktree_commits_and_keeps_the_hooks_of_its_repository() {
    for backend in with_namespaces() {
        let world = World::with_git();
        let linked = world.home.join("linked");
        let (code, text) = world.bare("git worktree add -q ../../linked");
        assert_eq!(code, Some(0), "{text}");
        let repository = world.workspace.join(".git");
        let mut policy = world.policy();
        policy.workspace = linked.clone();
        let folders = linked_worktree(&linked).unwrap();
        assert_eq!(folders.common_folder, repository);
        policy.extra_write = vec![folders.git_folder, folders.common_folder];
        let run = |script: &str| {
            let mut command = world.shell(script);
            command.cwd = linked.clone();
            let confined = world.sandbox(backend).confine(&policy, command).unwrap();
            let (child, mut output) = crate::support::start(&confined);
            crate::support::finish(child, &mut output)
        };
        let (code, text) = run("echo x > x; git add x; git commit -qm x; git status --short");
        assert_eq!((code, text.as_str()), (Some(0), ""), "{backend:?}");
        let at = repository.display();
        for script in [
            format!("echo evil > '{at}/hooks/pre-commit'"),
            format!("echo evil > '{at}/config'"),
            "git config core.fsmonitor evil".to_owned(),
            "echo 'gitdir: evil' > .git".to_owned(),
            "rm .git".to_owned(),
            format!("echo evil > '{at}/worktrees/linked/commondir'"),
            format!("mv '{at}/worktrees' '{at}/w'"),
            format!("mv '{at}/worktrees/linked' '{at}/worktrees/other'"),
            format!("mkdir '{at}/worktrees/evil'"),
            format!("mkdir -p '{at}/modules/evil'"),
            format!("mkdir -p '{at}/worktrees/linked/modules/evil'"),
            "cat ../code/*/file.txt".to_owned(),
        ] {
            let (code, text) = run(&script);
            assert_ne!(code, Some(0), "{backend:?} {script}: {text}");
            assert_ne!(code, Some(125), "{backend:?} {script}: {text}");
        }
        let (code, text) = world.bare("git -C ../../linked log --oneline | wc -l");
        assert_eq!((code, text.trim()), (Some(0), "2"));
    }
}

#[test]
fn git_pointer_without_back_pointer_is_rejected() {
    let world = World::with_git();
    let claimed = world.workspace.join(".git");
    let liar = world.home.join("liar");
    fs::create_dir(&liar).unwrap();
    for pointer in [
        format!("gitdir: {}\n", claimed.display()),
        format!("gitdir: {}\n", world.home.join(".ssh").display()),
        "gitdir: /\n".to_owned(),
        "nonsense".to_owned(),
    ] {
        fs::write(liar.join(".git"), pointer).unwrap();
        assert_eq!(linked_worktree(&liar), None);
    }
}

#[test]
fn exit_codes_and_output_are_passed_through() {
    let world = World::new();
    for backend in backends() {
        let check = |script: &str, code: i32, text: &str| {
            let answer = world.run(backend, &world.policy(), script);
            assert_eq!(
                (answer.code, answer.text.as_str()),
                (Some(code), text),
                "{backend:?}"
            );
        };
        check("exit 0", 0, "");
        check("exit 7", 7, "");
        check("echo out; echo err >&2", 0, "out\nerr\n");
        check("kill -TERM $$", 128 + 15, "");
        check(
            "echo a > /dev/null; echo b > /dev/stdout; : < /dev/zero",
            0,
            "b\n",
        );
        check("(exit 3) & wait $!", 3, "");
        check("cat; echo end", 0, "end\n");
    }
    let mut command = world.shell("");
    command.argv = vec!["/missing/program".into()];
    for backend in backends() {
        let confined = world
            .sandbox(backend)
            .confine(&world.policy(), command.clone());
        let confined = confined.unwrap();
        let (child, mut output) = crate::support::start(&confined);
        let (code, text) = crate::support::finish(child, &mut output);
        assert_eq!(code, Some(127), "{text}");
    }
}

#[test]
fn a_build_works_with_the_toolchain_of_a_home_folder() {
    // The toolchain that builds this test, if it lies in a home folder.
    let cargo = Path::new(env!("CARGO"));
    let home = cargo
        .ancestors()
        .find(|folder| folder.join(".cargo/bin/cargo").exists());
    let Some(home) = home else {
        return;
    };
    let world = World::new();
    world.put_in_workspace("Cargo.toml", "[package]\nname = \"x\"\n[workspace]\n");
    world.put_in_workspace("src/main.rs", "fn main() { println!(\"built\"); }");
    for backend in with_namespaces() {
        let mut command = world.shell("cargo run -q --offline; cat ~/.cargo/credentials.toml");
        let path = format!("{}:/usr/bin:/bin", home.join(".cargo/bin").display());
        command.env = vec![("PATH".into(), path.into())];
        let sandbox = world.sandbox_at_home(backend, home);
        let confined = sandbox.confine(&world.policy(), command).unwrap();
        let (child, mut output) = crate::support::start(&confined);
        let (code, text) = crate::support::finish(child, &mut output);
        assert!(text.starts_with("built\n"), "{backend:?} {text}");
        assert_eq!(code, Some(1), "{backend:?} {text}");
    }
}

#[test]
fn probe_findings_are_explained() {
    let lines = OFFER.explain();
    assert_eq!(lines.len(), 5);
    assert!(lines[0].starts_with("sandbox: "), "{lines:?}");
}

/// Prints the cost of a sandbox; run it alone, with `--no-capture`.
#[test]
#[ignore = "a measurement, for a quiet machine"]
fn what_it_costs() {
    const TRIES: usize = 100;
    let world = World::with_git();
    let bare = time(TRIES, || {
        assert_eq!(world.bare("true").0, Some(0));
    });
    println!("bare: {bare}");
    for backend in backends() {
        let (sandbox, policy) = (world.sandbox(backend), world.policy());
        let confining = time(TRIES, || {
            drop(sandbox.confine(&policy, world.shell("true")).unwrap());
        });
        let all = time(TRIES, || {
            let confined = sandbox.confine(&policy, world.shell("true")).unwrap();
            let (child, mut output) = crate::support::start(&confined);
            assert_eq!(crate::support::finish(child, &mut output).0, Some(0));
        });
        println!("{backend:?}: {all}; of it confining and tidying: {confining}");
    }
}

/// Returns the CPU time of all reaped processes, in seconds. On a machine with other load it is
/// more precise than wall-clock time.
fn spent() -> f64 {
    /// The kernel's unit in this file, on every machine.
    const TICKS: f64 = 100.0;
    let text = fs::read_to_string("/proc/self/stat").unwrap();
    let fields = text.rsplit(')').next().unwrap().split_whitespace();
    let both = fields.skip(13).take(2);
    both.map(|field| field.parse::<f64>().unwrap()).sum::<f64>() / TICKS
}

/// Returns the fastest time and the median.
fn time(tries: usize, mut act: impl FnMut()) -> String {
    let before = spent();
    let mut times: Vec<Duration> = (0..tries)
        .map(|_| {
            let began = Instant::now();
            act();
            began.elapsed()
        })
        .collect();
    let spent = Duration::from_secs_f64((spent() - before) / tries as f64);
    times.sort();
    format!(
        "{:?} at best, {:?} in the middle, {spent:?} of a processor",
        times[0],
        times[tries / 2]
    )
}
