//! Replies to requests.

use serde::{Deserialize, Serialize};
use sortie_core::request_view::ReplyView;
use utoipa::ToSchema;

/// The result of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplyNoted {
    /// Whether the reply was recorded.
    pub noted: bool,
    /// The reply that was recorded before, if this one came too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<ReplyView>,
}
