//! Runs one task and prints its result: `cargo run -p sortie --example one_task`.

use sortie::Sortie;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let sortie = Sortie::builder()
        .home(home.path())
        .workspace(env!("CARGO_MANIFEST_DIR"))
        // A model of rules, without a network: replace it by `vendor/model`, and hand over the
        // environment with the vendor's key: `.environment(std::env::vars_os())`.
        .model("offline")
        .build()
        .await?;
    let task = sortie.tasks().run("Survey this project").await?;
    println!("{}: {}", task.status, task.result().unwrap_or_default());
    sortie.shut_down().await;
    Ok(())
}
