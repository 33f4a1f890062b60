//! Continues a task after a restart of the program: `cargo run -p sortie --example restart`.

use sortie::{Error, Sortie, Status};

async fn start(home: &std::path::Path) -> Result<Sortie, Error> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/restart.yaml");
    let builder = Sortie::builder().home(home).workspace(home);
    builder.model(format!("script:{script}")).build().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;

    // The first process admits a task that takes a while, and ends.
    let first = start(home.path()).await?;
    let tasks = first.tasks();
    let id = tasks.create(tasks.request("Take your time")).await?;
    first.shut_down().await;

    // The next process continues all tasks of the home folder. Nothing has to be asked for.
    let second = start(home.path()).await?;
    let task = second.tasks().wait(id).await?;
    assert_eq!(task.status, Status::Completed);
    println!("{}", task.result().unwrap_or_default());
    second.shut_down().await;
    Ok(())
}
