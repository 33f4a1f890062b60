//! Tools and agents for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use sortie_core::agent::{AgentDefinition, AgentSource, ModelChoice, ToolSelection};
use sortie_core::ports::tool::{
    Reconcile, Recovery, Tool, ToolAnswer, ToolContext, ToolReply, ToolSpec, Touches,
};
use sortie_tools::WriteFile;

/// A tool that returns the exec timeout, and counts its calls.
#[derive(Debug)]
pub(crate) struct Canary {
    spec: ToolSpec,
    touches: Touches,
    runs: AtomicU32,
}

impl Canary {
    pub(crate) fn new(name: &str, touches: Touches) -> Arc<Self> {
        Arc::new(Self {
            spec: ToolSpec {
                name: name.to_owned(),
                description: "Sings.".to_owned(),
                parameters: json!({"type": "object", "additionalProperties": false}),
            },
            touches,
            runs: AtomicU32::new(0),
        })
    }

    pub(crate) fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tool for Canary {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        self.touches
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, context: &ToolContext<'_>, _arguments: Value) -> ToolReply {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let seconds = context.exec_timeout.as_secs();
        Ok(ToolAnswer::text(format!("a command may take {seconds} s")).into())
    }
}

/// Where the first call of [`HesitantWriter`] stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hesitates {
    BeforeWriting,
    AfterWriting,
}

/// The real `write_file`, except that its first call never returns.
#[derive(Debug)]
pub(crate) struct HesitantWriter {
    inner: WriteFile,
    hesitates: Hesitates,
    calls: AtomicU32,
}

impl HesitantWriter {
    pub(crate) fn new(hesitates: Hesitates) -> Arc<Self> {
        Arc::new(Self {
            inner: WriteFile::default(),
            hesitates,
            calls: AtomicU32::new(0),
        })
    }

    /// Returns how often it was called, by all processes.
    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tool for HesitantWriter {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn touches(&self) -> Touches {
        self.inner.touches()
    }

    fn recovery(&self) -> Recovery<'_> {
        let inner: &dyn Reconcile = &self.inner;
        Recovery::Reconcilable(inner)
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let first = self.calls.load(Ordering::SeqCst) == 0;
        if first && self.hesitates == Hesitates::BeforeWriting {
            self.calls.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        let reply = self.inner.run(context, arguments).await;
        self.calls.fetch_add(1, Ordering::SeqCst);
        if first {
            std::future::pending::<()>().await;
        }
        reply
    }
}

/// An agent of an embedding program.
pub(crate) fn agent(name: &str, change: impl FnOnce(&mut AgentDefinition)) -> AgentDefinition {
    let mut agent = AgentDefinition {
        name: name.to_owned(),
        when_to_use: "In tests.".to_owned(),
        prompt: "You are in a test.".to_owned(),
        model: ModelChoice::Inherit,
        tools: ToolSelection {
            allow: None,
            deny: Vec::new(),
        },
        read_only: false,
        color: None,
        source: AgentSource::Embedder,
        max_iterations: None,
    };
    change(&mut agent);
    agent
}
