//! A model inside the process: a main agent that spawns children, and runs that never get a
//! completion.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde_json::json;
use sortie_core::event::StopReason;
use sortie_core::message::{Arguments, Usage};
use sortie_core::ports::model::{
    AnswerPart, DeltaSink, Model, ModelAnswer, ModelDirectory, ModelError, ModelRequest,
};

/// The model and its directory in one.
#[derive(Clone, Debug)]
pub(crate) struct FixedModel {
    /// The number of children of a main run; without children, main runs hang too.
    pub(crate) children: u32,
    /// The number of hanging runs that have prompted.
    pub(crate) prompts: Arc<AtomicU32>,
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
        if request.origin.depth > 0 || self.children == 0 {
            self.prompts.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        Ok(ModelAnswer {
            parts: (0..self.children).map(spawn).collect(),
            stop: StopReason::ToolUse,
            usage: Usage {
                input_tokens: Some(1000),
                output_tokens: Some(50),
                ..Usage::default()
            },
            model: "fixed".to_owned(),
            held_ms: 0,
        })
    }
}

fn spawn(number: u32) -> AnswerPart {
    AnswerPart::Call {
        provider_id: None,
        name: "task".to_owned(),
        arguments: Arguments::Json(json!({
            "description": format!("child {number}"),
            "prompt": format!("read the note, {number}"),
            "subagent_type": "explore",
        })),
    }
}
