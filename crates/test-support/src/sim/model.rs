//! A model whose completions are decided by the seed, the task and the turn.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sortie_core::event::StopReason;
use sortie_core::id::RunId;
use sortie_core::message::{Arguments, Usage};
use sortie_core::ports::model::{
    AnswerPart, DeltaSink, Model, ModelAnswer, ModelDirectory, ModelError, ModelRequest, Terms,
};

use super::dice::Dice;
use super::world::{Generation, World};

/// Completions with tool calls before a run must finish.
const MAX_WORKING_TURNS: u32 = 4;

/// The only model, under any name.
#[derive(Debug)]
pub(crate) struct SimModels {
    model: Arc<SimModel>,
}

impl SimModels {
    pub(crate) fn new(world: Arc<World>, generation: Arc<Generation>, latency: Dice) -> Self {
        Self {
            model: Arc::new(SimModel {
                world,
                generation,
                latency: Mutex::new(latency),
            }),
        }
    }
}

impl ModelDirectory for SimModels {
    fn find(&self, _name: &str) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::clone(&self.model) as Arc<dyn Model>)
    }

    fn terms(&self, _name: &str) -> Terms {
        Terms::default()
    }
}

#[derive(Debug)]
struct SimModel {
    world: Arc<World>,
    generation: Arc<Generation>,
    latency: Mutex<Dice>,
}

#[async_trait]
impl Model for SimModel {
    async fn turn(
        &self,
        request: ModelRequest,
        _deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError> {
        self.generation.only_the_living().await;
        let _slot = (request.origin.depth > 0).then(|| Slot::take(&self.world, request.origin.run));
        let millis = self
            .latency
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .below(60);
        tokio::time::sleep(Duration::from_millis(u64::from(millis))).await;
        self.generation.only_the_living().await;
        complete(&request, &mut self.dice_for(&request)).await
    }
}

impl SimModel {
    /// The same prompt gets the same completion after a restart.
    fn dice_for(&self, request: &ModelRequest) -> Dice {
        let mut hasher = DefaultHasher::new();
        self.world.seed.hash(&mut hasher);
        request.origin.task.hash(&mut hasher);
        request.origin.turn.hash(&mut hasher);
        Dice::new(hasher.finish())
    }
}

/// Counts a child as prompting while the request is in flight.
struct Slot<'a> {
    world: &'a World,
    run: RunId,
}

impl<'a> Slot<'a> {
    fn take(world: &'a World, run: RunId) -> Self {
        world.begins_to_think(run);
        Self { world, run }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.world.stops_to_think(self.run);
    }
}

async fn complete(request: &ModelRequest, dice: &mut Dice) -> Result<ModelAnswer, ModelError> {
    let offers = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    if request.tools.is_empty() || request.origin.turn > MAX_WORKING_TURNS {
        return Ok(words(&format!("report of {}", request.origin.task)));
    }
    // Children have a deadline; a root that hangs would hang for ever.
    if dice.one_in(40) && request.origin.depth > 0 {
        std::future::pending::<()>().await;
    }
    match dice.below(24) {
        0 => return Err(ModelError::retryable("overloaded")),
        1 if request.origin.depth > 0 => return Err(ModelError::fatal("no such model")),
        2 => return Ok(words("")),
        3 | 4 => return Ok(words(&format!("early report of {}", request.origin.task))),
        _ => {}
    }
    let mut parts = Vec::new();
    for index in 0..=dice.below(3) {
        parts.push(if offers("task") && dice.below(3) < 2 {
            delegate(request, dice, index)
        } else {
            work(dice)
        });
    }
    Ok(answer(parts, StopReason::ToolUse))
}

fn delegate(request: &ModelRequest, dice: &mut Dice, index: u32) -> AnswerPart {
    let task = format!("{}/{}.{index}", request.origin.task, request.origin.turn);
    match dice.below(8) {
        0..=2 => call(
            "task",
            json!({"description": task, "prompt": task, "subagent_type": "general"}),
        ),
        3 | 4 => call("spawn_subagent", json!({"task": task, "label": task})),
        5 => call(
            "spawn_subagent",
            json!({"task": task, "label": task, "announce": *dice.pick(&["silent", "steer"])}),
        ),
        6 => call(
            "Task",
            json!({"description": task, "prompt": task, "agent_type": "General", "background": true}),
        ),
        _ => manage(request, dice),
    }
}

/// Manages the children of an earlier turn, if there are any.
fn manage(request: &ModelRequest, dice: &mut Dice) -> AnswerPart {
    let child = format!("{}/{}.0", request.origin.task, request.origin.turn - 1);
    match dice.below(4) {
        0 => call("subagents", json!({"action": "list"})),
        1 => call("subagents", json!({"action": "wait"})),
        2 => call("subagents", json!({"action": "cancel", "id": child})),
        _ => call(
            "subagents",
            json!({"action": "steer", "id": child, "message": "hurry up"}),
        ),
    }
}

fn work(dice: &mut Dice) -> AnswerPart {
    let times = json!({"before_ms": dice.below(20), "after_ms": dice.below(40)});
    match dice.below(7) {
        0 | 1 => call("look", times),
        2 | 3 => call("note", times),
        4 | 5 => call("ledger", times),
        _ => AnswerPart::Call {
            provider_id: None,
            name: "look".to_owned(),
            arguments: Arguments::Malformed {
                raw: "{\"before".to_owned(),
                error: "it ends too early".to_owned(),
            },
        },
    }
}

fn call(name: &str, arguments: Value) -> AnswerPart {
    AnswerPart::Call {
        provider_id: Some("same".to_owned()),
        name: name.to_owned(),
        arguments: Arguments::Json(arguments),
    }
}

fn words(text: &str) -> ModelAnswer {
    answer(vec![AnswerPart::Text(text.to_owned())], StopReason::EndTurn)
}

fn answer(parts: Vec<AnswerPart>, stop: StopReason) -> ModelAnswer {
    ModelAnswer {
        parts,
        stop,
        usage: Usage {
            input_tokens: Some(10),
            output_tokens: Some(5),
            ..Usage::default()
        },
        model: "sim".to_owned(),
        held_ms: 0,
    }
}
