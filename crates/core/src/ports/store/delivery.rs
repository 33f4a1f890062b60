//! Delivery of results from the outbox.

use crate::id::{RunId, Seq, SessionKey};
use crate::inbox::Announcement;
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// A delivery to a parent's inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    pub announcement: Announcement,
    pub session: SessionKey,
    pub root: RunId,
    pub tenant: Option<Tenant>,
    /// The last position of the child's journal.
    pub head: Seq,
    pub parent: RunId,
    /// `false` if the parent had ended: the delivery is blocked.
    pub accepted: bool,
}

/// Results that were not delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undelivered {
    /// Deliveries that are due, or will be retried.
    pub pending: u64,
    /// Runs with a delivery that is not retried, without archived ones.
    pub blocked: u64,
}

/// The result of an attempt to deliver to a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryAttempt {
    Delivered,
    /// Not accepted; retry at `at`.
    Retry {
        at: Timestamp,
        error: String,
    },
    /// Not accepted, and not retried.
    Blocked {
        error: String,
    },
}

/// What to do about a blocked delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    Retry,
    /// Drops the delivery for good.
    Dismiss,
}
