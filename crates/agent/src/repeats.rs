//! Detects a model that makes the same calls over and over.
//!
//! A small model that has what it needs tends to fetch it once more instead of replying. A notice
//! points it to the result that it has and asks for its final answer, never for another action: the
//! next action may be to overwrite the file that it was to read.

use serde_json::Value;
use sha2::{Digest, Sha256};
use sortie_core::message::{Arguments, ResultStatus, ToolCall, ToolResult};

/// Identical completions in a row before a notice asks the model for its final answer.
pub(crate) const REPEATS_BEFORE_NOTICE: u32 = 3;
/// Identical calls with identical results in a row before the next prompt offers no tools: the
/// model can only answer.
const SAME_BEFORE_ANSWER: u32 = 3;
/// Identical completions in a row before the run ends with reason `loop`. The last one never runs.
pub(crate) const REPEATS_BEFORE_END: u32 = 5;

/// Counts how often the same calls came in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repeats {
    signature: [u8; 32],
    count: u32,
    /// Hash of what the calls returned last, if all succeeded and the history still shows it.
    results: Option<[u8; 32]>,
    /// How often they returned that in a row.
    same: u32,
}

impl Repeats {
    /// Counts one more completion; returns how often it has come in a row.
    pub(crate) fn observe(&mut self, calls: &[ToolCall]) -> u32 {
        let signature = signature(calls);
        if signature == self.signature {
            self.count += 1;
        } else {
            self.signature = signature;
            self.count = 1;
            self.results = None;
            self.same = 0;
        }
        self.count
    }

    /// Records the results of the calls; returns whether they equal those of the identical calls
    /// before.
    pub(crate) fn returned(&mut self, results: &[ToolResult]) -> bool {
        let results = hash_of(results);
        let is_same = results.is_some() && self.results == results;
        self.results = results;
        self.same = if is_same { self.same + 1 } else { 1 };
        is_same
    }

    /// Returns whether the model repeats a call although it has the result.
    pub(crate) const fn must_answer(&self) -> bool {
        self.same >= SAME_BEFORE_ANSWER
    }

    /// Drops the remembered results: the history that showed them was shortened, or something has
    /// happened since, after which the same call may return something else.
    pub(crate) fn invalidate(&mut self) {
        self.results = None;
        self.same = 0;
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }
}

fn hash_of(results: &[ToolResult]) -> Option<[u8; 32]> {
    let mut hash = Sha256::new();
    for result in results {
        if result.status != ResultStatus::Ok {
            return None;
        }
        hash.update(result.text.as_bytes());
        hash.update([0]);
        for image in &result.images {
            hash.update(image.blob.as_str().as_bytes());
            hash.update([0]);
        }
    }
    Some(hash.finalize().into())
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
