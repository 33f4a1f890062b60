//! Sentences for the operator about parts that are degraded.

use std::fmt;
use std::sync::Arc;

/// A callback that receives one sentence.
type Receiver = dyn Fn(&str) + Send + Sync;

/// Receives sentences for the operator: an MCP server that does not start, a rule that names no tool,
/// files that a crash left in a workspace. Nothing of it stops the runtime. The default writes
/// warnings to the log.
#[derive(Clone, Default)]
pub(crate) struct Notices(Option<Arc<Receiver>>);

impl Notices {
    /// Hands every sentence to `receive`.
    pub(crate) fn new(receive: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(receive)))
    }

    /// Sends a sentence to the receiver.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers make the sentence for this call"
    )]
    pub(crate) fn send(&self, sentence: String) {
        match &self.0 {
            Some(receive) => receive(&sentence),
            None => tracing::warn!("{sentence}"),
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Notices")
    }
}
