//! Replies to approval requests and questions.

use crate::id::RunId;
use crate::request::{Reply, RequestId};
use crate::time::Timestamp;

/// Request to record a reply.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    pub request: RequestId,
    pub reply: Reply,
    pub at: Timestamp,
}

/// The result of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Replied {
    /// It is in the run's inbox, or in the mailbox for it.
    Accepted { run: RunId },
    /// An earlier reply exists, or the run has ended.
    TooLate {
        /// The earlier reply, if there was one.
        earlier: Option<Reply>,
    },
}
