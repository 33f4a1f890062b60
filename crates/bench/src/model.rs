//! A model with a fixed latency: a main agent that spawns children, and children that read a file
//! three times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use sortie_core::event::StopReason;
use sortie_core::message::{Arguments, Usage};
use sortie_core::ports::model::{
    AnswerPart, DeltaSink, Model, ModelAnswer, ModelDirectory, ModelError, ModelRequest,
};

/// Calls of each child.
const CALLS_PER_CHILD: u32 = 3;

/// The model and its directory in one.
#[derive(Clone, Debug)]
pub(crate) struct FixedModel {
    pub(crate) latency: Duration,
    /// The number of children of a main run.
    pub(crate) children: u32,
    pub(crate) hanging: Hanging,
    /// The number of hanging runs that have prompted.
    pub(crate) asked: Arc<AtomicU32>,
}

/// The runs that never get a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hanging {
    None,
    Children,
    All,
}

impl ModelDirectory for FixedModel {
    fn find(&self, _name: &str) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(self.clone()))
    }

    fn terms(&self, _name: &str) -> sortie_core::ports::model::Terms {
        sortie_core::ports::model::Terms::default()
    }
}

#[async_trait]
impl Model for FixedModel {
    async fn turn(
        &self,
        request: ModelRequest,
        _deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError> {
        let is_child = request.asker.depth > 0;
        let hangs = match self.hanging {
            Hanging::None => false,
            Hanging::Children => is_child,
            Hanging::All => true,
        };
        if hangs {
            self.asked.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(self.latency).await;
        let turn = request.asker.turn;
        Ok(if is_child && turn <= CALLS_PER_CHILD {
            calls(vec![(
                "read_file",
                json!({"path": "note.txt", "offset": turn}),
            )])
        } else if !is_child && turn == 1 {
            calls(
                (0..self.children)
                    .map(|number| {
                        (
                            "task",
                            json!({
                                "description": format!("child {number}"),
                                "prompt": format!("read the note, {number}"),
                                "subagent_type": "explore",
                            }),
                        )
                    })
                    .collect(),
            )
        } else {
            answer(
                vec![AnswerPart::Text("done".to_owned())],
                StopReason::EndTurn,
            )
        })
    }
}

fn calls(calls: Vec<(&str, serde_json::Value)>) -> ModelAnswer {
    let parts = calls
        .into_iter()
        .map(|(name, arguments)| AnswerPart::Call {
            provider_id: None,
            name: name.to_owned(),
            arguments: Arguments::Json(arguments),
        })
        .collect();
    answer(parts, StopReason::ToolUse)
}

fn answer(parts: Vec<AnswerPart>, stop: StopReason) -> ModelAnswer {
    ModelAnswer {
        parts,
        stop,
        usage: Usage {
            input_tokens: Some(1000),
            output_tokens: Some(50),
            ..Usage::default()
        },
        model: "fixed".to_owned(),
        held_ms: 0,
    }
}
