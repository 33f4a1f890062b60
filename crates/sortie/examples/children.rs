//! Starts a child that uses the program's own tool: `cargo run -p sortie --example children`.

use std::sync::Arc;

use serde_json::json;
use sortie::tool::ReadTool;
use sortie::{ApproveSpawn, Config, Sortie};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (home, folder) = (tempfile::tempdir()?, env!("CARGO_MANIFEST_DIR"));
    let parameters = json!({"type": "object", "properties": {"article": {"type": "string"}}});
    let stock = ReadTool::new("stock", "Counts an article.", parameters, |arguments| {
        let article = arguments["article"].as_str().unwrap_or_default();
        Ok(format!("{article}: 12 in stock"))
    });
    // The program starts only its own agents, so no approver has to allow them.
    let mut config = Config::default();
    config.subagents.approve_spawn = ApproveSpawn::Never;
    let sortie = Sortie::builder()
        .config(config)
        .home(home.path())
        .workspace(home.path())
        .model(format!("script:{folder}/examples/children.yaml"))
        .tool(Arc::new(stock))
        .build()
        .await?;
    let task = sortie.tasks().run("How many lamps do we have?").await?;
    assert_eq!(task.result(), Some("A child reports: lamp: 12 in stock"));
    sortie.shut_down().await;
    Ok(())
}
