//! Estimates the cost of replies from a dated price table.
//!
//! `Usage::input_tokens` counts all input tokens on every wire, including those read from the cache
//! and those written to it; the plain price therefore applies only to the rest.

use std::sync::OnceLock;

use serde::{Deserialize, Deserializer};
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
    &table().as_of
}

/// Returns the price of `vendor/model` in the table.
pub(crate) fn price(name: &str) -> Option<Price> {
    let name = wildcard::fold(name);
    let mut rows = table().price.iter();
    rows.find(|row| row.models.iter().any(|model| model.fits_folded(&name)))
        .map(|row| row.price)
}

#[derive(Debug, Default, Deserialize)]
struct Table {
    as_of: String,
    price: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    /// Compiled once: every completion looks its price up.
    #[serde(deserialize_with = "compiled")]
    models: Vec<Wildcard>,
    #[serde(flatten)]
    price: Price,
}

fn compiled<'de, D: Deserializer<'de>>(names: D) -> Result<Vec<Wildcard>, D::Error> {
    let names = Vec::<String>::deserialize(names)?;
    Ok(names.iter().map(|name| Wildcard::new(name)).collect())
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    // A test parses the same bytes, so a tested build cannot have an empty table.
    TABLE.get_or_init(|| toml::from_str(include_str!("prices.toml")).unwrap_or_default())
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
        assert!(table().price.len() > 20);
        assert_eq!(prices_as_of().len(), "2026-01-01".len());
        for row in &table().price {
            let Price { input, output, .. } = row.price;
            assert!(input >= 0.0 && output >= input, "{row:?}");
            let cached = row.price.cache_read.unwrap_or(0.0);
            assert!(cached <= input, "{row:?}");
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
