//! Totals over many runs: states, usage, lanes.

use serde::{Deserialize, Serialize};

use crate::id::SessionKey;
use crate::message::Usage;
use crate::run::{Lane, Status};
use crate::tenant::{Period, Tenant, date_of, day_of};
use crate::time::Timestamp;
use crate::words::UnknownWord;

/// Counts of runs for each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub total: u64,
    pub pending: u64,
    pub running: u64,
    pub completed: u64,
    pub failed: u64,
    pub timeout: u64,
    pub cancelled: u64,
}

impl Stats {
    /// Counts `count` more runs in `status`.
    pub fn add(&mut self, status: Status, count: u64) {
        self.total += count;
        match status {
            Status::Pending => self.pending += count,
            Status::Running => self.running += count,
            Status::Completed => self.completed += count,
            Status::Failed => self.failed += count,
            Status::Timeout => self.timeout += count,
            Status::Cancelled => self.cancelled += count,
        }
    }
}

/// The usage of all runs of one session, agent and model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageLine {
    pub session: SessionKey,
    pub agent: String,
    pub model: String,
    pub runs: u64,
    /// Runs with a completion of unknown cost.
    pub unpriced: u64,
    pub tool_calls: u64,
    pub usage: Usage,
}

impl UsageLine {
    /// Returns its position in a list.
    pub fn place(&self) -> UsagePlace {
        UsagePlace {
            session: self.session.clone(),
            agent: self.agent.clone(),
            model: self.model.clone(),
        }
    }
}

words! {
    /// What a usage export is broken down by.
    UsageBy {
        Tenant = "tenant",
        Agent = "agent",
        Model = "model",
        /// The day on which the run ended, in UTC.
        Day = "day",
    }
}

/// Selects lines of a usage export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageRange {
    pub by: Vec<UsageBy>,
    pub tenant: Option<Tenant>,
    /// Counted from 1970-01-01, as the days of the lines.
    pub first_day: i64,
    /// The last day of the range, which is part of it.
    pub last_day: i64,
    /// The most lines.
    pub limit: u32,
}

impl UsageRange {
    /// The most lines of an export.
    pub const MAX_LINES: u32 = 50_000;

    /// Reads a range of days, each as `YYYY-MM-DD`: by default from the first day of the month of `now` to
    /// its day. `by` is a list of parts, separated by commas; empty for one line in total.
    pub fn parse(
        by: &str,
        (since, until): (Option<&str>, Option<&str>),
        now: Timestamp,
    ) -> Result<Self, String> {
        let period = Period::of(now);
        let day = |text: Option<&str>, default: i64| match text {
            None => Ok(default),
            Some(text) => day_of(text).ok_or_else(|| {
                format!(
                    "{text:?} is not a day; write one like {}",
                    date_of(period.day)
                )
            }),
        };
        let words = by.split(',').map(str::trim).filter(|word| !word.is_empty());
        let parts: Result<Vec<UsageBy>, _> = words.map(str::parse).collect();
        let mut parts = parts.map_err(|unknown: UnknownWord| unknown.to_string())?;
        parts.sort_unstable();
        parts.dedup();
        let range = Self {
            by: parts,
            tenant: None,
            first_day: day(since, period.first_of_month)?,
            last_day: day(until, period.day)?,
            // One more shows that there are too many.
            limit: Self::MAX_LINES + 1,
        };
        if range.first_day > range.last_day {
            return Err("the first day is after the last one".to_owned());
        }
        Ok(range)
    }

    /// Returns the lines, unless there are more than an export may have.
    pub fn checked(lines: Vec<EndedUsage>) -> Result<Vec<EndedUsage>, String> {
        if lines.len() > Self::MAX_LINES as usize {
            return Err(format!(
                "the export has more than {} lines; choose fewer days or fewer parts",
                Self::MAX_LINES
            ));
        }
        Ok(lines)
    }
}

/// The usage of runs that have ended, deleted ones included. A field that the export is not broken
/// down by is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedUsage {
    /// Empty for runs without a tenant.
    pub tenant: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub day: Option<i64>,
    pub runs: u64,
    /// Runs with a completion of unknown cost.
    pub unpriced: u64,
    pub tool_calls: u64,
    pub usage: Usage,
}

/// The position of a usage line; lists are sorted by these fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsagePlace {
    pub session: SessionKey,
    pub agent: String,
    pub model: String,
}

/// Usage of the runs that were admitted in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsagePoint {
    /// The beginning of the interval.
    pub at: Timestamp,
    pub tasks: u64,
    pub completed: u64,
    /// Runs that failed or reached their deadline.
    pub failed: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Runs with a completion of unknown cost.
    pub unpriced: u64,
    /// The sum of all known costs; `None` if none is known.
    pub cost_usd: Option<f64>,
}

/// How full a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneCount {
    pub lane: Lane,
    /// Runs with a lease.
    pub claimed: u64,
    /// Runs that wait for a slot, without paused ones.
    pub queued: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_days_and_default_to_the_month() {
        let now: Timestamp = "2027-03-15T12:00:00Z".parse().unwrap();
        let range = UsageRange::parse("day, tenant,day", (None, None), now).unwrap();
        assert_eq!(range.by, [UsageBy::Tenant, UsageBy::Day]);
        assert_eq!(date_of(range.first_day), "2027-03-01");
        assert_eq!(date_of(range.last_day), "2027-03-15");
        let february = (Some("2027-02-01"), Some("2027-02-28"));
        let range = UsageRange::parse("", february, now).unwrap();
        assert_eq!(range.last_day - range.first_day, 27);
        for (by, range) in [
            ("week", (None, None)),
            ("day", (Some("2027-2-1"), None)),
            ("day", (Some("yesterday"), None)),
            ("day", (Some("2027-02-30"), None)),
            ("day", (Some("2027-03-16"), None)),
        ] {
            UsageRange::parse(by, range, now).unwrap_err();
        }
    }
}
