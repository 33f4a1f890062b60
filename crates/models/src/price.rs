//! Estimates the cost of replies from a dated price table.
//!
//! `Usage::input_tokens` counts all input tokens on every wire, including those read from the cache
//! and those written to it; the plain price therefore applies only to the rest.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use sortie_base::wildcard::{self, Wildcard};
use sortie_core::message::Usage;
use sortie_core::ports::model::TokenPrice;

const MILLION: f64 = 1_000_000.0;

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The price of input tokens.
    pub input: f64,
    /// The price of output tokens.
    pub output: f64,
    /// The price of cache reads; defaults to `input`.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// The price of cache writes; defaults to `input`.
    #[serde(default)]
    pub cache_write: Option<f64>,
}

impl Price {
    /// The price of local servers.
    pub const FREE: Self = Self {
        input: 0.0,
        output: 0.0,
        cache_read: None,
        cache_write: None,
    };

    /// Returns a configured price. A cost needs both prices; loading the configuration has warned
    /// about half a price.
    pub(crate) fn configured(price: &sortie_core::config::Price) -> Option<Self> {
        Some(Self {
            input: price.input?,
            output: price.output?,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
        })
    }

    /// Returns the highest price of tokens, whether they are read from a cache, written to one, or
    /// neither.
    pub(crate) fn dearest(&self) -> TokenPrice {
        let input = [self.cache_read, self.cache_write]
            .into_iter()
            .flatten()
            .fold(self.input, f64::max);
        TokenPrice {
            input,
            output: self.output,
        }
    }

    /// Returns the cost of a reply, or `None` if its token counts are unknown.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        if usage.input_tokens.is_none() && usage.output_tokens.is_none() {
            return (*self == Self::FREE).then_some(0.0);
        }
        let tokens = |count: Option<u64>| count.unwrap_or_default() as f64;
        let (read, written) = (
            tokens(usage.cache_read_tokens),
            tokens(usage.cache_write_tokens),
        );
        let plain = (tokens(usage.input_tokens) - read - written).max(0.0);
        let cost = plain * self.input
            + read * self.cache_read.unwrap_or(self.input)
            + written * self.cache_write.unwrap_or(self.input)
            + tokens(usage.output_tokens) * self.output;
        Some(cost / MILLION)
    }
}

/// Returns the date at which the table was last compared with the vendors' pages.
pub fn prices_as_of() -> &'static str {
    let mut lines = TABLE.lines();
    lines
        .find_map(|line| line.strip_prefix("as_of "))
        .unwrap_or_default()
}

/// Returns the price of `vendor/model` in the table.
pub(crate) fn price(name: &str) -> Option<Price> {
    static FOUND: Mutex<BTreeMap<String, Option<Price>>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(price) = found.get(name) {
        return *price;
    }
    let folded = wildcard::fold(name);
    let price = rows()
        .find(|row| row.models().any(|model| model.fits_folded(&folded)))
        .and_then(Row::price);
    if found.len() == MAX_FOUND {
        found.clear();
    }
    found.insert(name.to_owned(), price);
    price
}

/// The table. Its format is described at its beginning. It is not TOML, because parsing it takes a tenth
/// of the time.
const TABLE: &str = include_str!("prices.txt");
/// Prices that were looked up and are kept: every completion looks one up, and runs use few models.
const MAX_FOUND: usize = 64;

/// A line of the table: four numbers, then patterns of models.
#[derive(Clone, Copy, Debug)]
struct Row(&'static str);

fn rows() -> impl Iterator<Item = Row> {
    let lines = TABLE.lines();
    lines
        .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        .map(Row)
}

impl Row {
    fn models(self) -> impl Iterator<Item = Wildcard> {
        self.0.split(' ').skip(4).map(Wildcard::new)
    }

    /// A test parses every row, so a tested build has no row without a price.
    fn price(self) -> Option<Price> {
        let mut numbers = self.0.split(' ').take(4);
        let mut next = || match numbers.next()? {
            "-" => Some(None),
            number => number.parse().ok().map(Some),
        };
        Some(Price {
            input: next()??,
            output: next()??,
            cache_read: next()?,
            cache_write: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64, read: u64, written: u64) -> Usage {
        Usage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            cache_read_tokens: Some(read),
            cache_write_tokens: Some(written),
            cost_usd: None,
        }
    }

    #[test]
    fn the_table_is_whole() {
        assert_eq!(prices_as_of().len(), "2026-01-01".len());
        let lines = TABLE.lines().filter(|line| !line.is_empty());
        let lines = lines.filter(|line| !line.starts_with('#') && !line.starts_with("as_of "));
        assert_eq!(lines.count(), rows().count());
        assert!(rows().count() > 20);
        for row in rows() {
            let price = row.price().unwrap();
            let Price { input, output, .. } = price;
            assert!(input >= 0.0 && output >= input, "{row:?}");
            let cached = price.cache_read.unwrap_or(0.0);
            assert!(cached <= input, "{row:?}");
            assert!(row.models().count() > 0, "{row:?}");
            assert_eq!(row.0, row.0.trim_end().to_lowercase(), "{row:?}");
        }
    }

    #[test]
    fn cached_tokens_have_their_own_price() {
        let price = price("anthropic/claude-sonnet-4-5-20250929").unwrap();
        for (usage, expected) in [
            (usage(1_000_000, 0, 0, 0), 3.0),
            (usage(0, 1_000_000, 0, 0), 15.0),
            (usage(1_000_000, 0, 1_000_000, 0), 0.3),
            (usage(1_000_000, 0, 0, 1_000_000), 3.75),
            (usage(1_000_000, 0, 400_000, 100_000), 1.5 + 0.12 + 0.375),
        ] {
            let cost = price.cost(&usage).unwrap();
            assert!((cost - expected).abs() < 1e-9, "{cost} {expected}");
        }
        assert_eq!(price.cost(&Usage::default()), None);
        assert_eq!(Price::FREE.cost(&Usage::default()), Some(0.0));
    }

    #[test]
    fn the_most_exact_row_is_found() {
        for (name, input) in [
            ("openai/gpt-5-mini", Some(0.25)),
            ("openai/gpt-5.1", Some(1.25)),
            ("openai-chat/gpt-4.1", Some(2.0)),
            ("anthropic/claude-haiku-4-5", Some(1.0)),
            ("openrouter/anthropic/claude-haiku-4.5", Some(1.0)),
            ("nobody/knows", None),
        ] {
            assert_eq!(price(name).map(|price| price.input), input, "{name}");
        }
    }
}
