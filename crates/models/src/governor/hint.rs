//! Parses the limits that providers report in response headers.

use std::time::Duration;

/// A reset within this time causes a pause; a later one lowers the pace.
const NEAR: Duration = Duration::from_secs(2);
/// The longest reset time that is accepted as plausible.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The fraction of an allowance below which the pace is lowered.
const SCARCE: f64 = 0.05;

/// The limits reported in the headers of one response.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RateHint {
    pub requests: Option<Allowance>,
    pub tokens: Option<Allowance>,
}

/// The remaining part of a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Allowance {
    pub limit: Option<f64>,
    pub remaining: f64,
    pub resets_in: Option<Duration>,
}

/// The names of the headers that describe one allowance.
struct Names {
    limit: &'static [&'static str],
    remaining: &'static [&'static str],
    reset: &'static [&'static str],
}

const REQUESTS: Names = Names {
    limit: &[
        "x-ratelimit-limit-requests",
        "anthropic-ratelimit-requests-limit",
        "x-ratelimit-limit",
    ],
    remaining: &[
        "x-ratelimit-remaining-requests",
        "anthropic-ratelimit-requests-remaining",
        "x-ratelimit-remaining",
    ],
    reset: &[
        "x-ratelimit-reset-requests",
        "anthropic-ratelimit-requests-reset",
    ],
};

const TOKENS: Names = Names {
    limit: &[
        "x-ratelimit-limit-tokens",
        "anthropic-ratelimit-tokens-limit",
    ],
    remaining: &[
        "x-ratelimit-remaining-tokens",
        "anthropic-ratelimit-tokens-remaining",
    ],
    reset: &[
        "x-ratelimit-reset-tokens",
        "anthropic-ratelimit-tokens-reset",
    ],
};

impl RateHint {
    /// Parses the headers; `get` returns a header by its lower-case name.
    pub(crate) fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        let date = get("date");
        Self {
            requests: Allowance::read(&REQUESTS, &get, date),
            tokens: Allowance::read(&TOKENS, &get, date),
        }
    }
}

impl Allowance {
    fn read<'a>(
        names: &Names,
        get: &impl Fn(&str) -> Option<&'a str>,
        date: Option<&str>,
    ) -> Option<Self> {
        let first = |names: &[&str]| names.iter().find_map(|name| get(name));
        let number = |text: &str| text.trim().parse().ok().filter(|n: &f64| n.is_finite());
        Some(Self {
            remaining: first(names.remaining).and_then(number)?,
            limit: first(names.limit).and_then(number),
            resets_in: first(names.reset).and_then(|text| reset(text, date)),
        })
    }

    /// Returns how long to pause if nothing is left and the reset is near.
    pub(super) fn pause(self) -> Option<Duration> {
        let resets_in = self.resets_in?;
        (self.remaining < 1.0 && resets_in <= NEAR).then_some(resets_in)
    }

    /// Returns the pace to keep, per second, if little is left. Providers report the time until the
    /// whole allowance is restored, so the missing part divided by that time is the refill rate.
    pub(super) fn pace(self) -> Option<f64> {
        let (limit, resets_in) = (self.limit?, self.resets_in?);
        if limit < 1.0 || self.remaining > limit * SCARCE || resets_in.is_zero() {
            return None;
        }
        Some((limit - self.remaining) / resets_in.as_secs_f64())
    }
}

/// Parses `250ms`, `1.5s`, `6m0s`, `1h2m3s`, plain seconds, or a point in time, which is compared
/// with the `date` header.
fn reset(text: &str, date: Option<&str>) -> Option<Duration> {
    let text = text.trim();
    let until = seconds(text)
        .or_else(|| spelled(text))
        .or_else(|| clock_time(text, date?))?;
    Some(until.min(LONGEST))
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

fn spelled(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit_end = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let unit = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        let amount: f64 = number.parse().ok()?;
        total = total.checked_add(Duration::try_from_secs_f64(amount * unit).ok()?)?;
        rest = next;
    }
    (!text.is_empty()).then_some(total)
}

fn clock_time(text: &str, date: &str) -> Option<Duration> {
    let then: jiff::Timestamp = text.parse().ok()?;
    let now = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    // A reset in the past needs no wait.
    Some(Duration::try_from(then.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_are_read_in_every_spelling() {
        let date = Some("Mon, 16 Nov 2026 02:31:36 GMT");
        for (text, date, millis) in [
            ("1", None, Some(1_000)),
            ("0.25", None, Some(250)),
            ("250ms", None, Some(250)),
            ("1.5s", None, Some(1_500)),
            ("6m0s", None, Some(360_000)),
            ("1h2m3s", None, Some(3_723_000)),
            ("2026-11-16T02:31:46Z", date, Some(10_000)),
            ("2026-11-16T02:31:46Z", None, None),
            ("2026-11-16T02:31:00Z", date, Some(0)),
            ("soon", date, None),
            ("", date, None),
            ("-1", date, None),
            ("9999999999d", None, Some(86_400_000)),
        ] {
            let read = reset(text, date).map(|reset| reset.as_millis());
            assert_eq!(read, millis, "{text} {date:?}");
        }
    }

    #[test]
    fn headers_become_a_pause_or_a_pace() {
        type Case = (
            &'static [(&'static str, &'static str)],
            Option<u64>,
            Option<f64>,
        );
        let cases: &[Case] = &[
            (&[], None, None),
            (&[("x-ratelimit-remaining-requests", "0")], None, None),
            (
                &[
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "1s"),
                ],
                Some(1000),
                None,
            ),
            (
                &[
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-limit-requests", "60"),
                    ("x-ratelimit-reset-requests", "60s"),
                ],
                None,
                Some(1.0),
            ),
            (
                &[
                    ("anthropic-ratelimit-requests-remaining", "49"),
                    ("anthropic-ratelimit-requests-limit", "50"),
                    ("anthropic-ratelimit-requests-reset", "2s"),
                ],
                None,
                None,
            ),
            (&[("x-ratelimit-remaining-requests", "NaN")], None, None),
        ];
        for (headers, pause, pace) in cases {
            let get = |name: &str| headers.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
            let requests = RateHint::read(get).requests;
            let paused = requests.and_then(Allowance::pause);
            assert_eq!(paused.map(|p| p.as_millis() as u64), *pause, "{headers:?}");
            assert_eq!(requests.and_then(Allowance::pace), *pace, "{headers:?}");
        }
    }
}
