//! Tools of every recovery class, and the real delegation tools.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sortie_core::ports::tool::{
    Reconcile, Reconciled, Recovery, Tool, ToolAnswer, ToolContext, ToolReply, ToolSpec, Touches,
};

use super::world::{Generation, World};

/// Returns all tools of the simulation.
pub(crate) fn all(world: &Arc<World>, generation: &Arc<Generation>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = [Kind::Look, Kind::Note, Kind::Ledger]
        .into_iter()
        .map(|kind| {
            Arc::new(SimTool {
                kind,
                spec: kind.spec(),
                world: Arc::clone(world),
                generation: Arc::clone(generation),
            }) as Arc<dyn Tool>
        })
        .collect();
    tools.push(Arc::new(sortie_tools::Task::default()));
    tools.push(Arc::new(sortie_tools::SpawnSubagent::default()));
    tools.push(Arc::new(sortie_tools::Subagents::default()));
    tools
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Look,
    Note,
    Ledger,
}

impl Kind {
    fn spec(self) -> ToolSpec {
        let name = match self {
            Self::Look => "look",
            Self::Note => "note",
            Self::Ledger => "ledger",
        };
        ToolSpec {
            name: name.to_owned(),
            description: "simulated".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {"before_ms": {"type": "integer"}, "after_ms": {"type": "integer"}},
            }),
        }
    }
}

#[derive(Debug)]
struct SimTool {
    kind: Kind,
    spec: ToolSpec,
    world: Arc<World>,
    generation: Arc<Generation>,
}

#[async_trait]
impl Tool for SimTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        match self.kind {
            Kind::Look => Touches::Nothing,
            Kind::Note => Touches::Files,
            Kind::Ledger => Touches::Processes,
        }
    }

    fn recovery(&self) -> Recovery<'_> {
        match self.kind {
            Kind::Look => Recovery::Repeatable,
            Kind::Note => Recovery::Reconcilable(self),
            Kind::Ledger => Recovery::Once(None),
        }
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        pause(&arguments, "before_ms").await;
        self.generation.only_the_living().await;
        match self.kind {
            Kind::Look => {}
            Kind::Note => self.world.write_note(context.effect),
            Kind::Ledger => self.world.write_ledger(context.effect),
        }
        pause(&arguments, "after_ms").await;
        Ok(ToolAnswer::text(format!("{} is done", self.spec.name)).into())
    }
}

#[async_trait]
impl Reconcile for SimTool {
    async fn fingerprint(&self, _context: &ToolContext<'_>, _arguments: &Value) -> Value {
        Value::Null
    }

    async fn reconcile(
        &self,
        context: &ToolContext<'_>,
        _arguments: &Value,
        _fingerprint: &Value,
    ) -> Reconciled {
        if self.world.has_note(context.effect) {
            Reconciled::Happened(ToolAnswer::text("note is done"))
        } else {
            Reconciled::NotYet
        }
    }
}

async fn pause(arguments: &Value, name: &str) {
    let millis = arguments.get(name).and_then(Value::as_u64).unwrap_or(0);
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
