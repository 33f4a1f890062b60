//! Replies to approval requests and questions.

use crate::id::RunId;
use crate::request::{Reply, RequestId};
use crate::time::Timestamp;

/// Asks to note a reply.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    /// To which request.
    pub request: RequestId,
    /// What is said.
    pub reply: Reply,
    /// When.
    pub at: Timestamp,
}

/// What came of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Replied {
    /// It is in the run's inbox.
    Accepted {
        /// The run.
        run: RunId,
    },
    /// Somebody was faster, or the run has ended.
    TooLate {
        /// What was said before, if anything was.
        earlier: Option<Reply>,
    },
}
