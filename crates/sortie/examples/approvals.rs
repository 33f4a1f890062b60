//! Decides about calls that change something: `cargo run -p sortie --example approvals`.

use sortie::{RequestKind, Sortie, Status};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let workspace = tempfile::tempdir()?;
    let sortie = Sortie::builder()
        .home(home.path())
        .workspace(workspace.path())
        .model(concat!(
            "script:",
            env!("CARGO_MANIFEST_DIR"),
            "/examples/approvals.yaml"
        ))
        .approver(true)
        .build()
        .await?;
    let tasks = sortie.tasks();
    let id = tasks.create(tasks.request("Write two files")).await?;
    for _ in 0..2 {
        let request = sortie.approvals().next().await?;
        let (id, approvals) = (&request.request.id, sortie.approvals());
        match &request.request.kind {
            RequestKind::Approval(call) if call.exact.contains("notes.txt") => {
                approvals.approve(id, "example").await?
            }
            RequestKind::Approval(_) | RequestKind::Question(_) => {
                approvals
                    .deny(id, "example", Some("Write only notes."))
                    .await?
            }
        };
    }
    assert_eq!(tasks.wait(id).await?.status, Status::Completed);
    assert!(workspace.path().join("notes.txt").exists());
    assert!(!workspace.path().join("other.txt").exists());
    sortie.shut_down().await;
    Ok(())
}
