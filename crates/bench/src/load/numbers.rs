//! Distributions and the table.

use serde_json::{Value, json};

/// The longest latency that is distinguished, in milliseconds.
const LONGEST_MS: usize = 60_000;

/// A histogram of latencies in whole milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    counts: Vec<u64>,
    total: u64,
}

impl Spread {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; LONGEST_MS + 1],
            total: 0,
        }
    }

    pub(crate) fn add(&mut self, milliseconds: u64) {
        let at = usize::try_from(milliseconds).map_or(LONGEST_MS, |at| at.min(LONGEST_MS));
        self.counts[at] += 1;
        self.total += 1;
    }

    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the latency that so many of a thousand do not exceed.
    pub(crate) fn per_mille(&self, part: u64) -> u64 {
        let wanted = (self.total * part).div_ceil(1000).max(1);
        let mut seen = 0;
        for (milliseconds, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return milliseconds as u64;
            }
        }
        0
    }

    pub(crate) fn longest(&self) -> u64 {
        self.counts
            .iter()
            .rposition(|count| *count > 0)
            .unwrap_or(0) as u64
    }

    /// Returns the counts for another process.
    pub(crate) fn pairs(&self) -> Value {
        let seen = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        seen.map(|(milliseconds, count)| json!([milliseconds, count]))
            .collect()
    }

    /// Adds the counts of another process.
    pub(crate) fn add_pairs(&mut self, pairs: &Value) {
        for pair in pairs.as_array().into_iter().flatten() {
            let at = pair[0].as_u64().and_then(|at| usize::try_from(at).ok());
            let at = at.unwrap_or(LONGEST_MS).min(LONGEST_MS);
            let count = pair[1].as_u64().unwrap_or(0);
            self.counts[at] += count;
            self.total += count;
        }
    }

    pub(crate) fn shown(&self) -> String {
        format!(
            "{} / {} / {} ms",
            self.per_mille(500),
            self.per_mille(990),
            self.longest()
        )
    }
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) measured: String,
    pub(crate) aim: String,
    /// Whether a limit was exceeded. A missed aim within the limit does not count.
    pub(crate) broken: bool,
    /// Whether it depends on the speed of the machine.
    pub(crate) timed: bool,
    pub(crate) value: f64,
}

impl Row {
    /// Returns a number without an aim.
    pub(crate) fn number(what: impl Into<String>, measured: impl Into<String>, value: f64) -> Self {
        Self {
            what: what.into(),
            measured: measured.into(),
            aim: String::new(),
            broken: false,
            timed: false,
            value,
        }
    }

    /// Adds an aim, and the limit beyond which the test fails.
    pub(crate) fn within(self, aim: impl Into<String>, bound: f64) -> Self {
        let broken = self.value.is_nan() || self.value > bound;
        Self {
            aim: aim.into(),
            broken,
            ..self
        }
    }

    /// Marks a number that depends on the speed of the machine: the short form does not fail on it.
    pub(crate) fn timed(self) -> Self {
        Self {
            timed: true,
            ..self
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "what": self.what,
            "measured": self.measured,
            "aim": self.aim,
            "value": self.value,
            "kept": !self.broken,
        })
    }
}

/// Prints the rows as Markdown.
pub(crate) fn print(rows: &[Row]) {
    println!("| what | measured | aim |\n| --- | --- | --- |");
    for row in rows {
        let missed = if row.broken { " (MISSED)" } else { "" };
        println!("| {} | {}{missed} | {} |", row.what, row.measured, row.aim);
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_spread() {
        let mut spread = Spread::new();
        for milliseconds in 1..=100 {
            spread.add(milliseconds);
        }
        spread.add(1_000_000);
        assert_eq!(spread.per_mille(500), 51);
        assert_eq!(spread.per_mille(990), 100);
        assert_eq!(spread.longest(), LONGEST_MS as u64);
        let mut other = Spread::new();
        other.add_pairs(&spread.pairs());
        assert_eq!(other.counts, spread.counts);
        assert_eq!(other.total(), 101);
    }
}
