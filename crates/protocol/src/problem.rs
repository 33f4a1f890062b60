//! What goes wrong, as RFC 9457 says it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What went wrong, and what to do next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:sortie:problem:<slug>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The status code.
    pub status: u16,
    /// What happened, and what to do next.
    pub detail: String,
    /// The request that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// What belongs to this kind of problem.
    #[serde(flatten)]
    #[schema(additional_properties, value_type = Object)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Problem {
    /// What stands before the slug in `type`.
    pub const PREFIX: &'static str = "urn:sortie:problem:";

    /// The last part of `type`.
    pub fn slug(&self) -> &str {
        self.kind.strip_prefix(Self::PREFIX).unwrap_or(&self.kind)
    }
}
