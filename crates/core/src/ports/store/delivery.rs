//! Delivery of results from the outbox.

use crate::id::{RunId, Seq, SessionKey};
use crate::inbox::Announcement;
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// A delivery inside the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// The child.
    pub announcement: Announcement,
    /// The session that asked for the child.
    pub session: SessionKey,
    /// The first run of the tree.
    pub root: RunId,
    /// Whose it is.
    pub tenant: Option<Tenant>,
    /// The end of the child's journal.
    pub head: Seq,
    /// The parent.
    pub parent: RunId,
    /// `false` if the parent had ended: the delivery is blocked, and visible.
    pub accepted: bool,
}

/// How an outside delivery went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryAttempt {
    /// It was accepted.
    Delivered,
    /// It was not; try again then.
    Retry {
        /// When.
        at: Timestamp,
        /// Why not.
        error: String,
    },
    /// It is given up, visibly.
    Blocked {
        /// Why.
        error: String,
    },
}

/// What to do about a blocked delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    /// Try again.
    Retry,
    /// Nobody needs it any more.
    Dismiss,
}
