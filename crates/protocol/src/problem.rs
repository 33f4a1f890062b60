//! Errors of the API, in the shape of RFC 9457.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error, with what to do next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:sortie:problem:<slug>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of error in words.
    pub title: String,
    /// The HTTP status code.
    pub status: u16,
    /// What failed, and what to do next.
    pub detail: String,
    /// The request that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Further fields of this kind of error.
    #[serde(flatten)]
    #[schema(additional_properties, value_type = Object)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Problem {
    /// The prefix of the slug in `type`.
    pub const PREFIX: &'static str = "urn:sortie:problem:";

    /// Returns the last part of `type`.
    pub fn slug(&self) -> &str {
        self.kind.strip_prefix(Self::PREFIX).unwrap_or(&self.kind)
    }
}
