//! A program of its own that sends one agent out: `cargo run -p sortie-runtime --example embed`.

use std::sync::Arc;

use async_trait::async_trait;
use sortie_core::{Approval, Approver, Ask, Clock};
use sortie_models::{Directory, DirectorySettings};
use sortie_runtime::{Agents, NewRun, Parts, ProcessClock, Runtime, Settings};
use sortie_store::{Owner, SqliteStore};
use sortie_tools::{ExecSettings, ToolSettings, Unconfined, standard_tools};

/// Refuses whatever would change something: nobody is there to be asked.
#[derive(Debug)]
struct Nobody;

#[async_trait]
impl Approver for Nobody {
    async fn approve(&self, ask: &Ask) -> Approval {
        Approval::Refused(format!("{} is not allowed here", ask.tool))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = std::env::temp_dir().join(format!("sortie-embed-{}", std::process::id()));
    let clock = ProcessClock::start();
    let owner = Owner {
        pid: std::process::id(),
        command: "embed".to_owned(),
        since: clock.now(),
    };
    let parts = Parts {
        store: Arc::new(SqliteStore::open(&home, &owner)?),
        models: Arc::new(Directory::new(DirectorySettings::default())),
        tools: standard_tools(ToolSettings {
            exec: ExecSettings {
                environment: Vec::new(),
            },
            sandbox: Arc::new(Unconfined),
        }),
        agents: Agents::built_in(Settings::default().lang),
        approver: Arc::new(Nobody),
        clock: Arc::new(clock),
        sinks: Vec::new(),
    };
    let runtime = Runtime::start(parts, Settings::default()).await?;
    let folder = std::env::current_dir()?;
    let run = runtime
        .create(NewRun::new("Survey this project", folder, "offline"))
        .await?;
    let record = runtime.execute(run).await?;
    runtime.shut_down().await;
    println!(
        "{}",
        record
            .outcome
            .and_then(|outcome| outcome.text().map(str::to_owned))
            .unwrap_or_default()
    );
    std::fs::remove_dir_all(home)?;
    Ok(())
}
