//! The budget that a model sets for a child, as the spawning tools parse it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use sortie_core::budget::{Budget, MICROS_PER_USD};

use crate::arguments::whole;

/// The most dollars that an account represents exactly.
const MAX_USD: f64 = 1_000_000_000.0;
const MILLIS_PER_SECOND: u64 = 1000;

/// The budget arguments of a spawn call.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Account {
    #[serde(default, deserialize_with = "whole")]
    tokens: Option<u64>,
    #[serde(default, deserialize_with = "micros")]
    usd: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    tool_calls: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    children: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    seconds: Option<u64>,
}

impl From<Account> for Budget {
    fn from(account: Account) -> Self {
        Self {
            tokens: account.tokens,
            usd_micros: account.usd,
            tool_calls: account.tool_calls,
            children: account.children,
            wall_ms: account
                .seconds
                .map(|seconds| seconds.saturating_mul(MILLIS_PER_SECOND)),
        }
    }
}

/// Returns the JSON schema for the model. It names the limits in its description, because the schema is
/// part of every prompt; a call with another one fails when it is parsed.
pub(crate) fn schema() -> Value {
    json!({"type": "object", "description": "tokens, usd, seconds, tool_calls, children"})
}

/// Deserializes dollars as whole millionths, rounded down.
fn micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(usd) = Option::<f64>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if !(0.0..=MAX_USD).contains(&usd) {
        return Err(D::Error::custom(format!(
            "`usd` must be between 0 and {MAX_USD}"
        )));
    }
    Ok(Some((usd * MICROS_PER_USD) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &Value, expected: Result<Budget, &str>) {
        let budget = serde_json::from_value::<Account>(given.clone()).map(Budget::from);
        let budget = budget.map_err(|error| error.to_string());
        assert_eq!(budget, expected.map_err(str::to_owned), "{given}");
    }

    #[test]
    fn limits_of_each_kind() {
        check(&json!({}), Ok(Budget::default()));
        check(
            &json!({"tokens": 10, "usd": 0.25, "tool_calls": 2.0, "children": 0, "seconds": 90}),
            Ok(Budget {
                tokens: Some(10),
                usd_micros: Some(250_000),
                tool_calls: Some(2),
                children: Some(0),
                wall_ms: Some(90_000),
            }),
        );
        let usd = |micros| {
            Ok(Budget {
                usd_micros: Some(micros),
                ..Budget::default()
            })
        };
        check(&json!({"usd": 0.000_000_9}), usd(0));
        check(&json!({"usd": 3}), usd(3_000_000));
        let refused = Err("`usd` must be between 0 and 1000000000");
        check(&json!({"usd": -1}), refused);
        check(&json!({"usd": 1e30}), refused);
    }
}
