//! Sends out a child that uses the program's own tool: `cargo run -p sortie --example children`.

use std::sync::Arc;

use serde_json::{Value, json};
use sortie::tool::{Recovery, Tool, ToolAnswer, ToolContext, ToolReply, ToolSpec, Touches};
use sortie::{Sortie, async_trait};

/// Looks up the stock of an article.
#[derive(Debug)]
struct Stock(ToolSpec);

#[async_trait]
impl Tool for Stock {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn touches(&self) -> Touches {
        Touches::Nothing
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, _context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let article = arguments["article"].as_str().unwrap_or_default();
        Ok(ToolAnswer::text(format!("{article}: 12 in stock")).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let parameters = json!({"type": "object", "properties": {"article": {"type": "string"}}});
    let stock = Stock(ToolSpec {
        name: "stock".to_owned(),
        description: "Returns how many pieces of an article are in stock.".to_owned(),
        parameters,
    });
    let sortie = Sortie::builder()
        .home(home.path())
        .workspace(home.path())
        .model(concat!(
            "script:",
            env!("CARGO_MANIFEST_DIR"),
            "/examples/children.yaml"
        ))
        .tool(Arc::new(stock))
        .build()
        .await?;
    let task = sortie.tasks().run("How many lamps do we have?").await?;
    println!("{}", task.result().unwrap_or_default());
    assert_eq!(task.result(), Some("A child reports: lamp: 12 in stock"));
    sortie.shut_down().await;
    Ok(())
}
