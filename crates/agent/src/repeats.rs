//! Notices when a model makes the same calls over and over.

use serde_json::Value;
use sha2::{Digest, Sha256};
use sortie_core::{Arguments, ToolCall};

/// Identical answers in a row before the model is told to do something else.
pub(crate) const REPEATS_BEFORE_NOTICE: u32 = 3;
/// Identical answers in a row before the run ends with reason `loop`. The last one never runs.
pub(crate) const REPEATS_BEFORE_END: u32 = 5;

/// How often the same calls came in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repeats {
    signature: [u8; 32],
    count: u32,
}

impl Repeats {
    /// Counts one more answer and tells how often it has come in a row.
    pub(crate) fn observe(&mut self, calls: &[ToolCall]) -> u32 {
        let signature = signature(calls);
        if signature == self.signature {
            self.count += 1;
        } else {
            self.signature = signature;
            self.count = 1;
        }
        self.count
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }
}

fn signature(calls: &[ToolCall]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for call in calls {
        hash.update(call.name.as_bytes());
        hash.update([0]);
        match &call.arguments {
            // serde_json keeps object keys sorted, so equal arguments have equal text.
            Arguments::Json(value) => hash.update(value_text(value).as_bytes()),
            Arguments::Malformed { raw, .. } => hash.update(raw.as_bytes()),
        }
        hash.update([0]);
    }
    hash.finalize().into()
}

fn value_text(value: &Value) -> String {
    value.to_string()
}
