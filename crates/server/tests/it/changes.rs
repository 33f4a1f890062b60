//! Tests of what tasks leave behind: changes in worktrees, long outputs, deliveries and labels.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use reqwest::Method;
use serde_json::json;
use sortie_core::id::{BlobId, RunId};
use sortie_core::ports::workspace::{Collected, Worktrees};
use sortie_core::run::{Changes, Worktree};
use sortie_test_support::stage::{Play, until};
use tempfile::TempDir;

use crate::support::{SAYS_DONE, World, answer, patient, slug};

const DIFF: &str = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n";

/// Worktrees without git: every run changes the same file in the same way.
#[derive(Debug)]
struct Folders {
    root: TempDir,
    done: Mutex<Vec<&'static str>>,
}

#[async_trait]
impl Worktrees for Folders {
    async fn create(&self, _run: RunId, workspace: &Path) -> Result<Worktree, String> {
        Ok(Worktree {
            repository: workspace.to_owned(),
            root: self.root.path().to_owned(),
            workspace: self.root.path().canonicalize().unwrap(),
            branch: "sortie/test".to_owned(),
            base: "0".repeat(40),
            git_dirs: Vec::<PathBuf>::new(),
            git_reads: Vec::new(),
        })
    }

    async fn collect(&self, _run: RunId) -> Result<Option<Collected>, String> {
        Ok(Some(Collected {
            changes: Changes {
                branch: "sortie/test".to_owned(),
                base: "0".repeat(40),
                commit: "1".repeat(40),
                files: 1,
                insertions: 1,
                deletions: 1,
                diff: BlobId::of(DIFF.as_bytes()),
            },
            diff: DIFF.as_bytes().to_vec(),
        }))
    }

    async fn apply(&self, _tree: &Worktree, _changes: &Changes) -> Result<Vec<String>, String> {
        self.done.lock().unwrap().push("applied");
        Ok(vec!["a.txt".to_owned()])
    }

    async fn discard(&self, _tree: &Worktree, _changes: &Changes) -> Result<(), String> {
        self.done.lock().unwrap().push("discarded");
        Ok(())
    }

    async fn runs(&self) -> Result<Vec<RunId>, String> {
        Ok(Vec::new())
    }

    async fn sweep(&self, _: &[RunId]) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn changes_are_shown_applied_and_discarded() {
    let folders = Arc::new(Folders {
        root: TempDir::new().unwrap(),
        done: Mutex::default(),
    });
    let mut play = Play::new(SAYS_DONE);
    play.worktrees = Arc::clone(&folders) as Arc<dyn Worktrees>;
    let world = World::of(play, patient()).await;
    let input = json!({"message": "change", "agent": "code", "isolation": "worktree"});
    let id = world.task(&input).await;
    let task = world.until_status(&id, "completed").await;
    assert_eq!(task["branch"], "sortie/test");
    assert_eq!(task["changes_fate"], json!(null));
    let changes = &task["changes"];
    assert_eq!(
        [
            &changes["files"],
            &changes["insertions"],
            &changes["deletions"]
        ],
        [1, 1, 1]
    );
    assert_eq!(changes["branch"], task["branch"]);
    let path = |what: &str| format!("/api/tasks/{id}/{what}");
    let viewer = world.request(Method::GET, &path("diff"), &world.tokens.viewer);
    let diff = world.json(viewer).await;
    assert_eq!(
        (&diff["task_id"], &diff["diff"]),
        (&json!(id), &json!(DIFF))
    );
    let act = |what: &str| world.request(Method::POST, &path(what), &world.tokens.operator);
    let applied = world.json(act("apply")).await;
    assert_eq!(applied, json!({"task_id": id, "files": ["a.txt"]}));
    let task = world.json(world.get(&format!("/api/tasks/{id}"))).await;
    assert_eq!(task["changes_fate"], "applied");
    let discarded = world.json(act("discard")).await;
    assert_eq!(discarded, json!({"task_id": id}));
    assert_eq!(*folders.done.lock().unwrap(), ["applied", "discarded"]);
    let plain = world.task(&json!({"message": "no worktree"})).await;
    world.until_status(&plain, "completed").await;
    let (status, problem) = answer(world.get(&format!("/api/tasks/{plain}/diff"))).await;
    assert_eq!((status.as_u16(), slug(&problem)), (409, "conflict"));
}

#[tokio::test]
async fn long_output_is_available_as_a_blob() {
    let reads = r#"
  - when: { turn: 1 }
    calls: [{ tool: exec, args: { command: "seq 1 60000" } }]
  - say: "read"
"#;
    let world = World::begin(reads).await;
    let input = json!({"message": "count", "agent": "code", "mode": "yolo"});
    let id = world.task(&input).await;
    world.until_status(&id, "completed").await;
    let items = world
        .json(world.get(&format!("/api/tasks/{id}/transcript")))
        .await;
    let result = &items[2]["result"];
    let blob = result["full"].as_str().unwrap_or_else(|| panic!("{items}"));
    let path = format!("/api/tasks/{id}/blobs/{blob}");
    let request = world.request(Method::GET, &path, &world.tokens.viewer);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"].to_str().unwrap();
    assert_eq!(kind, "text/plain; charset=utf-8");
    let text = response.text().await.unwrap();
    assert!(text.contains("\n30000\n") && text.contains("\n60000"));
    let stranger = world.request(Method::GET, &path, &world.tokens.acme);
    assert_eq!(answer(stranger).await.0, 404);
    let other = world.task(&json!({"message": "x"})).await;
    let path = format!("/api/tasks/{other}/blobs/{blob}");
    assert_eq!(answer(world.get(&path)).await.0, 404, "it is not its own");
}

#[tokio::test]
async fn blocked_delivery_is_retried_or_dismissed() {
    let play = Play::new(SAYS_DONE).set(|settings| settings.max_delivery_attempts = 1);
    let world = World::of(play, patient()).await;
    let folder = world.stage.workspace().join("missing");
    let place = format!("file:{}/report.jsonl", folder.display());
    let input = json!({"message": "x", "report_to": [place]});
    let blocked = async || {
        let id = world.task(&input).await;
        until("blocked", async || {
            let task = world.json(world.get(&format!("/api/tasks/{id}"))).await;
            (task["delivery"] == "blocked").then_some(task)
        })
        .await;
        format!("/api/tasks/{id}")
    };
    let (retried, dismissed) = (blocked().await, blocked().await);
    std::fs::create_dir(&folder).unwrap();
    let act = |task: &str, action: &str| {
        world.post(&format!("{task}/delivery"), &json!({"action": action}))
    };
    let path = format!("{dismissed}/delivery");
    let operator = world.request(Method::POST, &path, &world.tokens.operator);
    let (status, problem) = answer(operator.json(&json!({"action": "dismiss"}))).await;
    assert_eq!((status.as_u16(), slug(&problem)), (403, "forbidden"));
    world.json(act(&retried, "retry")).await;
    until("delivered", async || {
        let task = world.json(world.get(&retried)).await;
        (task["delivery"] == "delivered").then_some(())
    })
    .await;
    assert!(folder.join("report.jsonl").exists());
    let task = world.json(act(&dismissed, "dismiss")).await;
    assert_eq!(task["delivery"], "not_required");
    assert_eq!(answer(act(&dismissed, "retry")).await.0, 409);
}

#[tokio::test]
async fn queued_task_gets_another_label_and_priority() {
    let play = Play::new(SAYS_DONE).set(|settings| settings.lanes.subagent = 1);
    let world = World::of(play, patient()).await;
    world.stage.model().block("first");
    world.task(&json!({"message": "x", "label": "first"})).await;
    world.stage.until_prompted("first", 1).await;
    let id = world
        .task(&json!({"message": "x", "label": "second"}))
        .await;
    let path = format!("/api/tasks/{id}");
    let patch = |body: serde_json::Value| {
        world
            .request(Method::PATCH, &path, &world.tokens.operator)
            .json(&body)
    };
    let task = world
        .json(patch(json!({"label": "renamed", "priority": "high"})))
        .await;
    assert_eq!(
        (&task["label"], &task["priority"]),
        (&json!("renamed"), &json!("high"))
    );
    let task = world.json(patch(json!({"priority": "low"}))).await;
    assert_eq!(
        (&task["label"], &task["priority"]),
        (&json!("renamed"), &json!("low")),
        "what is missing stays as it is"
    );
    world.stage.model().release("first");
    world.until_status(&id, "completed").await;
    let (status, problem) = answer(patch(json!({"label": "too late"}))).await;
    assert_eq!((status.as_u16(), slug(&problem)), (409, "conflict"));
}
