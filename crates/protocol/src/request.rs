//! Replies to requests.

use serde::{Deserialize, Serialize};
use sortie_core::ReplyView;
use utoipa::ToSchema;

/// What came of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplyNoted {
    /// Whether the run hears it.
    pub noted: bool,
    /// What somebody had said before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<ReplyView>,
}
