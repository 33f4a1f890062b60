//! Tenants: who a run belongs to on a shared server.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::budget::MICROS_PER_USD;
use crate::config::TenantLimits;
use crate::time::Timestamp;

/// The longest name: it is also the name of a folder.
const MAX_TENANT_CHARS: usize = 63;

/// One of several parties that share a server. No tenant sees data of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tenant(String);

/// An invalid tenant name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid tenant name {0:?}: use 1 to 63 lower-case letters, digits and hyphens, beginning with a \
     letter or digit"
)]
pub struct BadTenant(String);

impl Tenant {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tenant {
    type Err = BadTenant;

    fn from_str(text: &str) -> Result<Self, BadTenant> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let begins_well = bytes.first().is_some_and(|first| is_plain(*first));
        let goes_on_well = bytes.iter().all(|byte| is_plain(*byte) || *byte == b'-');
        if begins_well && goes_on_well && bytes.len() <= MAX_TENANT_CHARS {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadTenant(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Tenant {
    type Error = BadTenant;

    fn try_from(text: String) -> Result<Self, BadTenant> {
        text.parse()
    }
}

impl From<Tenant> for String {
    fn from(tenant: Tenant) -> Self {
        tenant.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

words! {
    /// One quota of a tenant, by its key in the configuration.
    Quota {
        /// Tasks that execute at once.
        Running = "max_running",
        /// Tasks that wait for their first slot.
        Queued = "max_queued",
        /// Tokens of the current day.
        TokensPerDay = "tokens_per_day",
        /// Tokens of the current month.
        TokensPerMonth = "tokens_per_month",
        /// Millionths of a dollar of the current day.
        UsdPerDay = "usd_per_day",
        /// Millionths of a dollar of the current month.
        UsdPerMonth = "usd_per_month",
        /// Bytes of ended tasks.
        Storage = "storage_mb",
    }
}

impl Quota {
    /// Converts an amount to the unit of its key in the configuration.
    pub fn in_unit(self, amount: u64) -> f64 {
        match self {
            Self::Running | Self::Queued | Self::TokensPerDay | Self::TokensPerMonth => {
                amount as f64
            }
            Self::UsdPerDay | Self::UsdPerMonth => amount as f64 / MICROS_PER_USD,
            Self::Storage => amount as f64 / 1e6,
        }
    }

    /// Formats an amount in that unit.
    pub fn show(self, amount: u64) -> String {
        match self {
            Self::Running | Self::Queued | Self::TokensPerDay | Self::TokensPerMonth => {
                amount.to_string()
            }
            Self::UsdPerDay | Self::UsdPerMonth => {
                format!("{:.2}", self.in_unit(amount))
            }
            Self::Storage => format!("{:.1}", self.in_unit(amount)),
        }
    }
}

/// A quota that does not allow another task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaReached {
    pub tenant: Tenant,
    pub quota: Quota,
    /// In the unit of the quota.
    pub limit: u64,
    /// In the unit of the quota.
    pub used: u64,
    /// When the day or month ends; `None` for quotas that free up by themselves.
    pub resets_at: Option<Timestamp>,
}

/// The weights and quotas of all tenants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantRules {
    pub named: std::collections::BTreeMap<Tenant, TenantLimits>,
    /// For tenants that are not named.
    pub others: Option<TenantLimits>,
}

impl TenantRules {
    /// Reads the rules from a configuration, where `*` stands for tenants that are not named.
    pub fn of(
        config: &std::collections::BTreeMap<String, TenantLimits>,
    ) -> Result<Self, BadTenant> {
        let mut rules = Self::default();
        for (name, limits) in config {
            if name == "*" {
                rules.others = Some(*limits);
            } else {
                rules.named.insert(name.parse()?, *limits);
            }
        }
        Ok(rules)
    }
}

/// What a tenant uses, and its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantUse {
    pub tenant: Tenant,
    pub limits: TenantLimits,
    /// Tasks that an executor has.
    pub running: u64,
    /// Tasks that wait for their first slot.
    pub queued: u64,
    pub tokens_today: u64,
    pub tokens_this_month: u64,
    /// Billionths of a dollar.
    pub nanos_today: u64,
    /// Billionths of a dollar.
    pub nanos_this_month: u64,
    pub storage_bytes: u64,
}

impl TenantUse {
    /// Returns how much of a quota is used, in its unit.
    pub const fn used(&self, quota: Quota) -> u64 {
        match quota {
            Quota::Running => self.running,
            Quota::Queued => self.queued,
            Quota::TokensPerDay => self.tokens_today,
            Quota::TokensPerMonth => self.tokens_this_month,
            Quota::UsdPerDay => self.nanos_today / 1_000,
            Quota::UsdPerMonth => self.nanos_this_month / 1_000,
            Quota::Storage => self.storage_bytes,
        }
    }
}

/// The day and the month of a moment, in UTC. Days are counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub day: i64,
    pub first_of_month: i64,
    pub next_month: i64,
}

/// Milliseconds of a day in UTC, which has no leap seconds here.
pub const DAY_MS: i64 = 86_400_000;

impl Period {
    /// Returns the day and the month of a moment.
    pub fn of(at: Timestamp) -> Self {
        let day = at.0.div_euclid(DAY_MS);
        let date = jiff::Timestamp::from_millisecond(at.0)
            .map(|moment| jiff::tz::Offset::UTC.to_datetime(moment).date());
        match date {
            Ok(date) => {
                let first_of_month = day - i64::from(date.day()) + 1;
                Self {
                    day,
                    first_of_month,
                    next_month: first_of_month + i64::from(date.days_in_month()),
                }
            }
            // Beyond the year 9999: a month of one day.
            Err(_) => Self {
                day,
                first_of_month: day,
                next_month: day + 1,
            },
        }
    }

    /// Returns when the day or the month of a quota ends.
    pub const fn resets_at(self, quota: Quota) -> Option<Timestamp> {
        let day = match quota {
            Quota::TokensPerDay | Quota::UsdPerDay => self.day + 1,
            Quota::TokensPerMonth | Quota::UsdPerMonth => self.next_month,
            Quota::Running | Quota::Queued | Quota::Storage => return None,
        };
        Some(Timestamp(day.saturating_mul(DAY_MS)))
    }
}

/// Returns the date of a day since 1970-01-01, as `YYYY-MM-DD`.
pub fn date_of(day: i64) -> String {
    let text = Timestamp(day.saturating_mul(DAY_MS)).to_rfc3339();
    text.split('T').next().unwrap_or_default().to_owned()
}

/// Reads a date as `YYYY-MM-DD`.
pub fn day_of(date: &str) -> Option<i64> {
    let at: Timestamp = format!("{date}T00:00:00Z").parse().ok()?;
    let day = at.0.div_euclid(DAY_MS);
    // Nothing but a date, in its usual form.
    (date_of(day) == date).then_some(day)
}

#[cfg(test)]
mod tests {
    use super::{Period, Quota, Tenant, date_of};
    use crate::time::Timestamp;

    #[test]
    fn days_and_months_end_at_midnight_utc() {
        let at: Timestamp = "2028-02-29T23:59:59.999Z".parse().unwrap();
        let period = Period::of(at);
        assert_eq!(date_of(period.day), "2028-02-29");
        assert_eq!(date_of(period.first_of_month), "2028-02-01");
        let ends = |quota| period.resets_at(quota).map(Timestamp::to_rfc3339);
        assert_eq!(
            ends(Quota::TokensPerDay).as_deref(),
            Some("2028-03-01T00:00:00.000Z")
        );
        assert_eq!(
            ends(Quota::UsdPerMonth).as_deref(),
            Some("2028-03-01T00:00:00.000Z")
        );
        assert_eq!(ends(Quota::Running), None);
        assert_eq!(Period::of(at.plus_ms(1)).first_of_month, period.day + 1);
    }

    #[test]
    fn only_names_that_are_safe_as_folders_are_tenants() {
        let long = "a".repeat(63);
        for good in ["a", "0", "acme", "acme-2", "a-", long.as_str()] {
            assert!(good.parse::<Tenant>().is_ok(), "{good}");
        }
        let longer = "a".repeat(64);
        let bad = [
            "",
            "-",
            "-a",
            "A",
            "a b",
            "a/b",
            "..",
            "a.b",
            "ä",
            "a\0",
            "a\n",
            longer.as_str(),
        ];
        for bad in bad {
            assert!(bad.parse::<Tenant>().is_err(), "{bad:?}");
            let quoted = serde_json::Value::String(bad.to_owned());
            assert!(serde_json::from_value::<Tenant>(quoted).is_err(), "{bad:?}");
        }
    }
}
