//! Time as a value: callers pass it in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::RunId;

/// Milliseconds since the Unix epoch, UTC. In JSON an RFC 3339 string, wherever it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// A text is not a timestamp in RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a timestamp in RFC 3339, such as 2026-01-31T12:00:00Z")]
pub struct BadTimestamp;

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

impl FromStr for Timestamp {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Self, BadTimestamp> {
        let moment = text.parse::<jiff::Timestamp>();
        let millis = moment.map(jiff::Timestamp::as_millisecond);
        // `to_rfc3339` writes a number for a moment beyond the year 9999.
        let millis = millis.or_else(|_| text.parse::<i64>());
        millis.map(Self).map_err(|_| BadTimestamp)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_rfc_3339_in_json_and_read_back() {
        let check = |millis: i64, text: &str| {
            let json = serde_json::to_string(&Timestamp(millis)).unwrap();
            assert_eq!(json, format!("{text:?}"));
            let back: Timestamp = serde_json::from_str(&json).unwrap();
            assert_eq!(back, Timestamp(millis));
        };
        check(0, "1970-01-01T00:00:00.000Z");
        check(1_790_000_000_123, "2026-09-21T14:13:20.123Z");
        check(-1, "1969-12-31T23:59:59.999Z");
        check(i64::MAX, "9223372036854775807");
        for text in ["\"yesterday\"", "1790000000123", "null"] {
            assert!(serde_json::from_str::<Timestamp>(text).is_err(), "{text}");
        }
    }
}
