//! Time is a value that is passed in.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::RunId;

/// Milliseconds since the Unix epoch, UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This moment, `millis` later.
    pub const fn plus_ms(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Milliseconds from `earlier` to this moment; zero if `earlier` is later.
    pub const fn ms_since(self, earlier: Self) -> u64 {
        let gap = self.0.saturating_sub(earlier.0);
        if gap < 0 { 0 } else { gap.unsigned_abs() }
    }

    /// RFC 3339 in UTC with milliseconds, as every interface shows times.
    pub fn to_rfc3339(self) -> String {
        jiff::Timestamp::from_millisecond(self.0)
            .map_or_else(|_| self.0.to_string(), |moment| format!("{moment:.3}"))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

/// Where the runtime gets its time and its ids from; simulations bring their own.
///
/// Implementers guarantee that `now` never goes back while the process lives, whatever the wall
/// clock does: a deadline must neither fire early nor late because somebody set the time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment.
    fn now(&self) -> Timestamp;
    /// A fresh run id, later in order than every one before it.
    fn new_run_id(&self) -> RunId;
}
