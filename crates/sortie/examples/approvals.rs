//! Decides about calls that change something: `cargo run -p sortie --example approvals`.

use sortie::{ApprovalRequest, Sortie};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (home, workspace) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let folder = env!("CARGO_MANIFEST_DIR");
    let sortie = Sortie::builder()
        .home(home.path())
        .workspace(workspace.path())
        .model(format!("script:{folder}/examples/approvals.yaml"))
        .approver(true)
        .build()
        .await?;
    let tasks = sortie.tasks();
    let id = tasks.create(tasks.request("Write two files")).await?;
    let decide = |call: &ApprovalRequest| {
        let is_notes = call.exact.contains("notes.txt").then_some(());
        is_notes.ok_or_else(|| "Write only notes.".to_owned())
    };
    sortie.approvals().decide(id, "example", decide).await?;
    assert!(workspace.path().join("notes.txt").exists());
    assert!(!workspace.path().join("other.txt").exists());
    sortie.shut_down().await;
    Ok(())
}
