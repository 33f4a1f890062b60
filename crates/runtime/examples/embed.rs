//! A program of its own that sends one agent out: `cargo run -p sortie-runtime --example embed`.

use std::sync::Arc;

use sortie_core::Clock as _;
use sortie_models::{Directory, DirectorySettings};
use sortie_runtime::{NewRun, Parts, ProcessClock, Runtime, Settings};
use sortie_store::{Owner, SqliteStore};
use sortie_tools::{ToolSettings, standard_tools};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let owner = Owner {
        pid: std::process::id(),
        command: "embed".to_owned(),
        since: ProcessClock::start().now(),
    };
    let parts = Parts::new(
        Arc::new(SqliteStore::open(home.path(), &owner)?),
        Arc::new(Directory::new(DirectorySettings::default())),
        standard_tools(ToolSettings::default()),
    );
    let runtime = Runtime::start(parts, Settings::default()).await?;
    let here = std::env::current_dir()?;
    let run = runtime
        .create(NewRun::new("Survey this project", here, "offline"))
        .await?;
    let record = runtime.wait_for(run).await?;
    println!("{}", record.result().unwrap_or_default());
    runtime.shut_down().await;
    Ok(())
}
