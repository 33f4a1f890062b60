//! A tool of a server, as a [`Tool`](sortie_core::ports::tool::Tool).

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use sortie_core::ports::tool::{Recovery, Tool, ToolContext, ToolReply, ToolSpec, Touches};

use crate::Fingerprint;
use crate::announced::Announced;
use crate::answer::{failure, reply};
use crate::server::Server;
use crate::trouble::Trouble;

/// A tool of a server, in the form that models were shown.
#[derive(Debug)]
pub(crate) struct McpTool {
    server: Arc<Server>,
    /// The server's own name for it.
    name: String,
    spec: ToolSpec,
    fingerprint: Fingerprint,
}

impl McpTool {
    pub(crate) fn new(server: Arc<Server>, announced: &Announced) -> Self {
        Self {
            server,
            name: announced.name.clone(),
            spec: announced.spec.clone(),
            fingerprint: announced.fingerprint.clone(),
        }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Services
    }

    /// Hints of a server are not trusted, so no call is repeated because of
    /// them. The server itself ended with the process that crashed.
    fn recovery(&self) -> Recovery<'_> {
        Recovery::Once(None)
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let salt = context.effect.to_string();
        let server = &self.server;
        let Value::Object(arguments) = arguments else {
            let trouble = Trouble::new("the arguments must be an object");
            return Err(failure(&server.name, &salt, &trouble));
        };
        match server.call(&self.name, &self.fingerprint, arguments).await {
            Ok(result) => reply(&server.name, &salt, result, &server.redactor()),
            Err(trouble) => Err(failure(&server.name, &salt, &trouble)),
        }
    }
}
