//! The `Retry-After` header: a number of seconds, or one of the three dates of HTTP.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Limit of the wait from a header. A longer one is a mistake or an attack, and no run
/// lives long enough to wait for it.
pub const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 3_600);

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAY_SECONDS: i64 = 24 * 3_600;
/// A year of two digits is the one nearest to now: at most this many years ahead of it.
const YEARS_AHEAD: i64 = 50;

/// Returns how long to wait, at most [`LONGEST_WAIT`]. A date in the past means no wait. A date is
/// compared with the server's own clock where the response has a `Date` header, so that a clock
/// that is wrong on either side does not matter; otherwise with `now`.
pub fn wait(retry_after: &str, date: Option<&str>, now: SystemTime) -> Option<Duration> {
    let text = retry_after.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return seconds_of(seconds);
    }
    let now = unix_seconds(now);
    let sent = date.and_then(|date| parse_date(date, now)).unwrap_or(now);
    let until = parse_date(text, sent)?;
    let seconds = u64::try_from(until - sent).unwrap_or(0);
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// Returns the wall clock, for dates in headers. Deadlines use other clocks.
pub fn wall_clock() -> SystemTime {
    #[expect(
        clippy::disallowed_methods,
        reason = "a date in a header is one of the wall clock, which no simulation changes"
    )]
    SystemTime::now()
}

fn seconds_of(seconds: f64) -> Option<Duration> {
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    let longest = LONGEST_WAIT.as_secs_f64();
    Some(Duration::from_secs_f64(seconds.min(longest)))
}

fn unix_seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` or
/// `Sun Nov  6 08:49:37 1994` as seconds since 1970.
fn parse_date(text: &str, now: i64) -> Option<i64> {
    // No date is longer; the parser allocates per word.
    if text.len() > 64 || !text.is_ascii() {
        return None;
    }
    let lower = text.trim().to_ascii_lowercase();
    let words: Vec<&str> = lower
        .split([' ', ',', '-'])
        .filter(|word| !word.is_empty())
        .collect();
    let (day, month, year, time) = match words.as_slice() {
        [_, month, day, time, year] if time.contains(':') => (day, month, year, time),
        [_, day, month, year, time, "gmt" | "utc" | "z"] => (day, month, year, time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| name == month)?;
    let month = i64::try_from(month).ok()? + 1;
    let year = match (year.len(), digits(year)?) {
        (2, short) => century(short, now),
        (4, year) => year,
        _ => return None,
    };
    let day = digits(day).filter(|day| (1..=days_of(month, year)).contains(day))?;
    let mut parts = time.split(':');
    let hour = digits(parts.next()?).filter(|hour| *hour < 24)?;
    let minute = digits(parts.next()?).filter(|minute| *minute < 60)?;
    // A leap second is allowed.
    let second = digits(parts.next()?).filter(|second| *second <= 60)?;
    if parts.next().is_some() {
        return None;
    }
    Some(days_since_epoch(year, month, day) * DAY_SECONDS + hour * 3_600 + minute * 60 + second)
}

fn digits(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.len() <= 4 && text.bytes().all(|c| c.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// The year of two digits that is not more than fifty years ahead.
fn century(short: i64, now: i64) -> i64 {
    let this_year = 1970 + now / (DAY_SECONDS * 365 + DAY_SECONDS / 4);
    let year = this_year - this_year.rem_euclid(100) + short;
    if year > this_year + YEARS_AHEAD {
        year - 100
    } else {
        year
    }
}

fn days_of(month: i64, year: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar, whose year begins in March here so that the
/// leap day is the last one.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 1994-11-06 08:49:37, the example of the standard.
    const EXAMPLE: u64 = 784_111_777;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn check(header: &str, date: Option<&str>, now: u64, expected: Option<f64>) {
        let found = wait(header, date, at(now)).map(|wait| wait.as_secs_f64());
        assert_eq!(found, expected, "{header} {date:?} {now}");
    }

    #[test]
    fn seconds_and_the_three_dates_are_read() {
        for (header, expected) in [
            ("120", Some(120.0)),
            (" 1.5 ", Some(1.5)),
            ("0", Some(0.0)),
            ("-5", None),
            ("NaN", None),
            ("inf", None),
            ("1e300", Some(LONGEST_WAIT.as_secs_f64())),
            ("99999999999999999999", Some(LONGEST_WAIT.as_secs_f64())),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(10.0)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(10.0)),
            ("Sun Nov  6 08:49:37 1994", Some(10.0)),
            ("sun, 06 nov 1994 08:49:37 gmt", Some(10.0)),
            ("Sun, 06 Nov 1994 08:49:26 GMT", Some(0.0)),
            (
                "Sun, 06 Nov 2094 08:49:37 GMT",
                Some(LONGEST_WAIT.as_secs_f64()),
            ),
            ("Sun, 06 Nov 1994 08:49:37 PST", None),
            ("Sun, 31 Feb 1994 08:49:37 GMT", None),
            ("Sun, 06 Foo 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 24:00:00 GMT", None),
            ("Sun, 06 Nov 1994 08:49 GMT", None),
            ("soon", None),
            ("", None),
        ] {
            check(header, None, EXAMPLE - 10, expected);
        }
    }

    #[test]
    fn the_servers_clock_is_used_if_it_is_known() {
        let date = "Sun, 06 Nov 1994 08:49:17 GMT";
        for now in [0, EXAMPLE, EXAMPLE + 100_000] {
            check("Sun, 06 Nov 1994 08:49:37 GMT", Some(date), now, Some(20.0));
            check("30", Some(date), now, Some(30.0));
        }
        check(
            "Sun, 06 Nov 1994 08:49:37 GMT",
            Some("?"),
            EXAMPLE - 7,
            Some(7.0),
        );
    }

    proptest! {
        #[test]
        fn no_header_panics_or_waits_too_long(header in "\\PC{0,80}", date in "\\PC{0,80}", now in any::<u32>()) {
            let found = wait(&header, Some(&date), at(u64::from(now)));
            prop_assert!(found.is_none_or(|wait| wait <= LONGEST_WAIT));
        }

        #[test]
        fn days_are_counted_as_the_calendar_does(days in 0_i64..40_000) {
            // Walks the calendar from 1970, which knows nothing of the formula.
            let (mut year, mut month, mut day) = (1970, 1, 1);
            for _ in 0..days {
                day += 1;
                if day > days_of(month, year) {
                    day = 1;
                    month += 1;
                }
                if month > 12 {
                    month = 1;
                    year += 1;
                }
            }
            prop_assert_eq!(days_since_epoch(year, month, day), days);
        }
    }
}
