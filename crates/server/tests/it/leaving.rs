//! Tests of clients that disconnect, or whose request times out, before the request completes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Method, header};
use serde_json::json;
use sortie_core::id::{BlobId, RunId};
use sortie_core::ports::workspace::{Collected, Worktrees};
use sortie_core::run::{Changes, Worktree};
use sortie_server::ServerLimits;
use sortie_test_support::stage::{Play, until};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::live::Client;
use crate::support::{SAYS_DONE, World, answer, patient, slug};

/// Worktrees whose changes are collected and applied only when the test permits it.
#[derive(Debug)]
struct Gates {
    root: TempDir,
    collect: Semaphore,
    apply: Semaphore,
    /// One permit for each time that applying began.
    began: Semaphore,
}

impl Gates {
    fn new(collects: usize) -> Arc<Self> {
        Arc::new(Self {
            root: TempDir::new().unwrap(),
            collect: Semaphore::new(collects),
            apply: Semaphore::new(0),
            began: Semaphore::new(0),
        })
    }
}

fn changes() -> Changes {
    Changes {
        branch: "sortie/test".to_owned(),
        base: "0".repeat(40),
        commit: "1".repeat(40),
        files: 1,
        insertions: 1,
        deletions: 1,
        diff: BlobId::of(b"diff"),
    }
}

#[async_trait]
impl Worktrees for Gates {
    async fn create(&self, _run: RunId, workspace: &Path) -> Result<Worktree, String> {
        Ok(Worktree {
            repository: workspace.to_owned(),
            root: self.root.path().to_owned(),
            workspace: self.root.path().canonicalize().unwrap(),
            branch: "sortie/test".to_owned(),
            base: "0".repeat(40),
            git_dirs: Vec::new(),
            git_reads: Vec::new(),
        })
    }

    async fn collect(&self, _run: RunId) -> Result<Option<Collected>, String> {
        self.collect.acquire().await.unwrap().forget();
        Ok(Some(Collected {
            changes: changes(),
            diff: b"diff".to_vec(),
        }))
    }

    async fn apply(&self, _tree: &Worktree, _changes: &Changes) -> Result<Vec<String>, String> {
        self.began.add_permits(1);
        self.apply.acquire().await.unwrap().forget();
        Ok(vec!["a.txt".to_owned()])
    }

    async fn discard(&self, _tree: &Worktree, _changes: &Changes) -> Result<(), String> {
        Ok(())
    }

    async fn runs(&self) -> Result<Vec<RunId>, String> {
        Ok(Vec::new())
    }

    async fn sweep(&self, _: &[RunId]) -> Result<(), String> {
        Ok(())
    }
}

async fn world(gates: &Arc<Gates>) -> World {
    let mut play = Play::new(SAYS_DONE);
    play.worktrees = Arc::clone(gates) as Arc<dyn Worktrees>;
    World::of(play, patient()).await
}

async fn isolated(world: &World) -> String {
    let input = json!({"message": "change", "agent": "code", "isolation": "worktree"});
    world.task(&input).await
}

/// Sends a request without a body, and disconnects when the test requests it.
struct Leaver(TcpStream);

impl Leaver {
    async fn send(world: &World, method: &str, path: &str) -> Self {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            world.address, world.tokens.admin
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        Self(stream)
    }

    /// Disconnects, and waits until the server has noticed.
    async fn leave(mut self) {
        self.0.shutdown().await.unwrap();
        let mut answer = Vec::new();
        self.0.read_to_end(&mut answer).await.unwrap();
        assert!(answer.is_empty(), "it was not done when the client left");
    }
}

#[tokio::test]
async fn request_of_a_disconnected_client_completes_and_is_replayed() {
    let gates = Gates::new(1);
    let world = world(&gates).await;
    let id = isolated(&world).await;
    world.until_status(&id, "completed").await;
    let leaver = Leaver::send(&world, "POST", &format!("/api/tasks/{id}/apply")).await;
    gates.began.acquire().await.unwrap().forget();
    leaver.leave().await;
    gates.apply.add_permits(1);
    until("the changes are noted as applied", async || {
        let task = world.json(world.get(&format!("/api/tasks/{id}"))).await;
        (task["changes_fate"] == "applied").then_some(())
    })
    .await;
}

#[tokio::test]
async fn deletion_is_published_after_its_client_disconnected() {
    let gates = Gates::new(0);
    let world = world(&gates).await;
    let (mut client, _) = Client::connect(&world, &world.tokens.viewer).await;
    client.subscribe(json!({})).await;
    // The run ends only after its changes are collected, and a deletion waits for its end.
    let id = isolated(&world).await;
    let path = format!("/api/tasks/{id}");
    world.until_status(&id, "running").await;
    let leaver = Leaver::send(&world, "DELETE", &path).await;
    until("it is to be cancelled", async || {
        let task = world.json(world.get(&path)).await;
        (task["cancel_requested"] == true).then_some(())
    })
    .await;
    leaver.leave().await;
    gates.collect.add_permits(1);
    assert_eq!(client.until("deleted").await["task_id"], id);
    assert_eq!(answer(world.get(&path)).await.0, 404);
}

#[tokio::test]
async fn overdue_request_completes_and_is_replayed() {
    let limits = ServerLimits {
        handler_timeout: Duration::ZERO,
        ..patient()
    };
    let world = World::with(SAYS_DONE, limits).await;
    let (mut client, _) = Client::connect(&world, &world.tokens.viewer).await;
    client.subscribe(json!({})).await;
    world.stage.model().block("held");
    let task = world.stage.new_task("explore", "held");
    let run = world.stage.create(task).await;
    world.stage.until_prompted("held", 1).await;
    for (method, path, event) in [
        (
            Method::POST,
            format!("/api/tasks/{run}/cancel"),
            "cancelled",
        ),
        (Method::DELETE, format!("/api/tasks/{run}"), "deleted"),
    ] {
        let request = world.request(method, &path, &world.tokens.admin);
        // The response is usually cut off; whatever arrives, the request completes.
        answer(request).await;
        assert_eq!(client.until(event).await["task_id"], run.to_string());
    }
}

#[tokio::test]
async fn early_retry_gets_409_under_way() {
    let gates = Gates::new(1);
    let world = world(&gates).await;
    let id = isolated(&world).await;
    world.until_status(&id, "completed").await;
    let apply = || {
        world
            .post(&format!("/api/tasks/{id}/apply"), &json!({}))
            .header("Idempotency-Key", "apply")
    };
    let first = tokio::spawn(answer(apply()));
    gates.began.acquire().await.unwrap().forget();
    let early = apply().send().await.unwrap();
    assert_eq!(early.status(), 409);
    assert_eq!(early.headers()[header::RETRY_AFTER], "1");
    assert_eq!(slug(&early.json().await.unwrap()), "under-way");
    gates.apply.add_permits(1);
    let (status, applied) = first.await.unwrap();
    assert_eq!(status, 200);
    assert_eq!(answer(apply()).await, (status, applied));
    assert_eq!(gates.began.available_permits(), 0, "it was done once");
}
