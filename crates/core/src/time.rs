//! Time as a value: callers pass it in.

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
    /// Returns the time `millis` later.
    pub const fn plus_ms(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Returns the milliseconds since `earlier`, or zero if `earlier` is later.
    pub const fn ms_since(self, earlier: Self) -> u64 {
        let gap = self.0.saturating_sub(earlier.0);
        if gap < 0 { 0 } else { gap.unsigned_abs() }
    }

    /// Formats as RFC 3339 in UTC with milliseconds, as every interface shows times.
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

/// The source of time and run ids. Simulations provide their own.
///
/// Implementers guarantee that `now` never goes back while the process lives, whatever the wall
/// clock does: a clock change must not move a deadline.
pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;
    /// Returns a new run id that sorts after all earlier ones.
    fn new_run_id(&self) -> RunId;
}
