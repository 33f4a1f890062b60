//! Tests that the confinement of a run applies to its commands.

use serde_json::json;
use sortie_core::run::Worktree;

use crate::support::{Scene, backend, ending, shell};

const WELL: &str = "exit code: 0";

/// Runs a command in the sandbox and without it, and checks which of the two succeeds.
async fn check(scene: impl Fn() -> Scene, command: &str, succeeds: bool) {
    let shell = shell();
    let answer = scene().run(&shell, command).await.unwrap();
    assert_eq!(
        ending(&answer) == WELL,
        succeeds,
        "{command}: {}",
        answer.text
    );
    assert_ne!(backend(&answer), "none");
    let answer = scene().bare().run(&shell, command).await.unwrap();
    assert_eq!(ending(&answer), WELL, "{command}: {}", answer.text);
    assert_eq!(backend(&answer), "none");
}

fn read_only() -> Scene {
    let mut scene = Scene::new();
    scene.read_only = true;
    std::fs::write(scene.workspace.join("f"), "old").unwrap();
    scene
}

fn beside() -> Scene {
    let scene = Scene::new();
    std::fs::write(scene.outside().join("secret"), "old\n").unwrap();
    scene
}

#[tokio::test]
async fn file_access_is_confined() {
    check(Scene::new, "echo x > made && cat made", true).await;
    check(beside, "cat ../secret", false).await;
    check(
        beside,
        "echo x >> ../secret && grep -q old ../secret",
        false,
    )
    .await;
    check(read_only, "cat f", true).await;
    check(read_only, "echo x > f", false).await;
    check(read_only, "echo x > made", false).await;
}

#[tokio::test]
async fn confined_command_answers_like_an_unconfined_one() {
    let (scene, shell) = (Scene::new(), shell());
    let check = async |command: &str, expected: &str| {
        let answer = scene.run(&shell, command).await.unwrap();
        assert_eq!(answer.text, expected, "{command}");
    };
    check("echo 分析; echo err >&2; exit 3", "分析\nerr\nexit code: 3").await;
    check("basename \"$PWD\"", "work 分析\nexit code: 0").await;
    check("cat", "exit code: 0").await;
}

#[tokio::test]
async fn network_access_follows_the_run() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let command = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    check(Scene::new, &command, false).await;
    let networked = || {
        let mut scene = Scene::new();
        scene.confinement.network = true;
        scene
    };
    check(networked, &command, true).await;
}

#[tokio::test]
async fn protected_files_stay_unchanged() {
    let command = "mkdir -p .claude && echo '{}' > .claude/settings.json";
    check(Scene::new, command, false).await;
    let (scene, shell) = (Scene::new(), shell());
    scene.run(&shell, command).await.unwrap();
    scene.run(&shell, "echo x > .mcp.json").await.unwrap();
    drop(shell);
    scene.is_left_empty().await;
}

/// Creates a repository, and a linked worktree of it as the workspace.
async fn linked() -> Scene {
    let mut scene = Scene::new().bare();
    let make = "git init -q -b main . && echo 1 > f && git add f && git commit -qm one \
        && git worktree add -q ../linked -b side";
    let answer = scene.run(&shell(), make).await.unwrap();
    assert_eq!(answer.text, WELL);
    let repository = scene.workspace.clone();
    let root = scene.outside().join("linked");
    scene.worktree = Some(Worktree {
        repository: repository.clone(),
        root: root.clone(),
        workspace: root.clone(),
        branch: "side".to_owned(),
        base: String::new(),
        git_dirs: vec![
            repository.join(".git/worktrees/linked"),
            repository.join(".git"),
        ],
        git_reads: Vec::new(),
    });
    scene.workspace = root;
    scene.confinement = sortie_core::run::Confinement::default();
    scene
}

#[tokio::test]
async fn commits_work_in_a_worktree() {
    for known in [true, false] {
        let mut scene = linked().await;
        if !known {
            // A worktree of the user, which was not created for the run.
            scene.worktree = None;
        }
        let shell = shell();
        let commit = "echo 2 > f && git commit -qam two && git log --format=%s";
        let answer = scene.run(&shell, commit).await.unwrap();
        assert_eq!(answer.text, "two\none\nexit code: 0");
        let hook = "echo x > \"$(git rev-parse --git-common-dir)/hooks/post-commit\"";
        let answer = scene.run(&shell, hook).await.unwrap();
        assert_ne!(ending(&answer), WELL, "{}", answer.text);
        assert_eq!(scene.read("f").unwrap(), "2\n");
    }
}

/// The workspace may be a folder inside the worktree: files beside it can be read but not changed.
#[tokio::test]
async fn a_folder_of_a_worktree_is_a_workspace_too() {
    let mut scene = linked().await;
    scene.workspace.push("sub");
    std::fs::create_dir(&scene.workspace).unwrap();
    let shell = shell();
    let commit = "echo 1 > g && git add g && git commit -qm two && git status --short";
    let answer = scene.run(&shell, commit).await.unwrap();
    assert_eq!(answer.text, WELL);
    let answer = scene.run(&shell, "echo 2 > ../f").await.unwrap();
    assert_ne!(ending(&answer), WELL, "{}", answer.text);
}

#[tokio::test]
async fn record_reports_the_applied_confinement() {
    let (scene, shell) = (Scene::new(), shell());
    let answer = scene.run(&shell, "true").await.unwrap();
    let record = answer.sandbox.unwrap();
    assert_eq!(record["access"], "read_write");
    assert_eq!(record["limits"]["processes"], 512);
    assert_eq!(record["limits"]["memory_bytes"], 4_u64 << 30);
    assert!([json!("loopback"), json!("off")].contains(&record["network"]));
}

#[tokio::test]
async fn missing_workspace_is_a_failure() {
    let mut scene = Scene::new();
    scene.workspace = scene.outside().join("gone");
    let failure = scene.run(&shell(), "true").await.unwrap_err();
    assert!(
        failure.to_string().contains("cannot be opened"),
        "{failure}"
    );
}

/// No command starts in the target of a link that has replaced the workspace, even when the sandbox
/// is off.
#[tokio::test]
async fn workspace_replaced_by_a_link_is_a_failure() {
    for make in [Scene::new, || Scene::new().bare()] {
        let scene = make();
        let secrets = scene.outside().join("secrets");
        std::fs::create_dir(&secrets).unwrap();
        std::fs::write(scene.workspace.join("f"), "mine\n").unwrap();
        std::fs::write(secrets.join("f"), "secret\n").unwrap();
        let command = "cat f; echo x >> f";
        let answer = scene.run(&shell(), command).await.unwrap();
        assert_eq!(answer.text, "mine\nexit code: 0", "the control");
        std::fs::rename(&scene.workspace, scene.outside().join("away")).unwrap();
        std::os::unix::fs::symlink(&secrets, &scene.workspace).unwrap();
        let failure = scene.run(&shell(), command).await.unwrap_err().to_string();
        assert!(failure.contains("is a link or not a folder"), "{failure}");
        let kept = std::fs::read_to_string(secrets.join("f")).unwrap();
        assert_eq!(kept, "secret\n");
    }
}
