//! A tool that is one function.

use std::fmt;

use async_trait::async_trait;
use serde_json::Value;
use sortie_core::ports::tool::{
    Recovery, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};

/// A tool that only reads: its function turns the arguments into a text, or into an error for the
/// model. It needs no approval, and a call whose outcome a crash has hidden is repeated. The function
/// must not block; implement [`Tool`] for everything else.
pub struct ReadTool<F> {
    spec: ToolSpec,
    read: F,
}

impl<F> ReadTool<F>
where
    F: Fn(&Value) -> Result<String, String> + Send + Sync,
{
    /// Creates a tool. `parameters` is the JSON schema of its arguments, which are validated before
    /// `read` gets them.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        read: F,
    ) -> Self {
        Self {
            spec: ToolSpec {
                name: name.into(),
                description: description.into(),
                parameters,
            },
            read,
        }
    }
}

impl<F> fmt::Debug for ReadTool<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("ReadTool")
            .field(&self.spec.name)
            .finish()
    }
}

#[async_trait]
impl<F> Tool for ReadTool<F>
where
    F: Fn(&Value) -> Result<String, String> + Send + Sync,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Nothing
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, _context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        match (self.read)(&arguments) {
            Ok(text) => Ok(ToolAnswer::text(text).into()),
            Err(error) => Err(ToolFailure::new(error)),
        }
    }
}
