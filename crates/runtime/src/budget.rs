//! Computes the most that a model call can cost, which has to be reserved before it is sent.
//!
//! Pure: the executor brings the balances and writes the reservation.

use sortie_agent::CountedTokens;
use sortie_core::budget::{Amount, Balance, BudgetKind, MICROS_PER_USD, MicroUsd};
use sortie_core::message::{Message, Usage};
use sortie_core::ports::model::{ModelRequest, Terms, TokenPrice};

/// Output tokens if neither the model nor the request limits them.
const DEFAULT_MAX_OUTPUT: u64 = 8_192;
/// A completion shorter than this is not worth a call.
const MIN_OUTPUT: u64 = 64;
/// Tokens that a vendor may add to the tools and the system prompt.
const TOKENS_AROUND: u64 = 1_000;
/// Tokens that a vendor may add to each message.
const TOKENS_PER_MESSAGE: u64 = 16;
/// The most tokens of one picture.
const TOKENS_PER_IMAGE: u64 = 5_000;
/// The percentage of a budget after which the model is warned.
const WARN_AT_PERCENT: u64 = 80;
const MILLION: f64 = 1_000_000.0;

/// The reservation for a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Provision {
    pub(crate) amount: Amount,
    /// Output tokens that the reservation covers.
    pub(crate) max_output: u64,
}

/// Why an account does not cover a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unaffordable {
    /// This balance is too small.
    Short(Balance),
    /// The budget is in money, and the price of the model is unknown.
    Unpriced,
}

/// Returns the balances that the model has to be warned about.
pub(crate) fn low(balances: &[Balance], was_warned: impl Fn(BudgetKind) -> bool) -> Vec<Balance> {
    balances
        .iter()
        .filter(|balance| balance.percent_spent() >= WARN_AT_PERCENT && !was_warned(balance.kind))
        .copied()
        .collect()
}

/// Returns the balances as they are once every reservation is refunded.
pub(crate) fn after_refunds(balances: &[Balance]) -> Vec<Balance> {
    let refunded = balances.iter().map(|balance| Balance {
        reserved: 0,
        ..*balance
    });
    refunded.collect()
}

/// Computes the reservation for a model call: the most it can cost, with as many output tokens as
/// the account covers.
pub(crate) fn provision(
    request: &ModelRequest,
    counted: Option<CountedTokens>,
    terms: Terms,
    balances: &[Balance],
) -> Result<Provision, Unaffordable> {
    let input = input_bound(request, counted);
    let mut output = request
        .options
        .sampling
        .max_tokens
        .or(terms.max_output)
        .unwrap_or(DEFAULT_MAX_OUTPUT);
    for balance in balances {
        let payable = match balance.kind {
            BudgetKind::Tokens => balance.left().saturating_sub(input),
            BudgetKind::Usd => {
                let price = terms.price.ok_or(Unaffordable::Unpriced)?;
                payable_output(balance.left(), input, price)
            }
            BudgetKind::ToolCalls | BudgetKind::Children => continue,
        };
        if payable < MIN_OUTPUT.min(output) {
            return Err(Unaffordable::Short(*balance));
        }
        output = output.min(payable);
    }
    Ok(Provision {
        amount: Amount {
            tokens: input.saturating_add(output),
            usd_micros: terms.price.map_or(0, |price| cost(input, output, price)),
            ..Amount::default()
        },
        max_output: output,
    })
}

/// Returns what a completion cost if the provider reports it, else what was reserved.
pub(crate) fn charged(usage: &Usage, reserved: Amount) -> Amount {
    Amount {
        tokens: usage.total_tokens().unwrap_or(reserved.tokens),
        usd_micros: usage.cost_usd.map_or(reserved.usd_micros, micros),
        ..Amount::default()
    }
}

/// Returns an upper bound of the input tokens: no token is shorter than a byte, and what was
/// counted before need not be estimated.
fn input_bound(request: &ModelRequest, counted: Option<CountedTokens>) -> u64 {
    let (known, rest) = match counted {
        Some(counted) if counted.messages <= request.messages.len() => {
            (counted.tokens, &request.messages[counted.messages..])
        }
        Some(_) | None => {
            let tools: usize = request
                .tools
                .iter()
                .map(|tool| {
                    tool.name.len() + tool.description.len() + tool.parameters.to_string().len()
                })
                .sum();
            ((request.system.len() + tools) as u64, &request.messages[..])
        }
    };
    let rest: u64 = rest.iter().map(|message| message_bound(message)).sum();
    known + rest + TOKENS_AROUND
}

fn message_bound(message: &Message) -> u64 {
    let bytes = match message {
        Message::User { text } | Message::Notice { text } => text.len(),
        // Its form on the wire is no longer than this.
        Message::Assistant { blocks } => {
            serde_json::to_string(blocks).map_or(usize::MAX / 4, |text| text.len())
        }
        Message::Tools { results } => results
            .iter()
            .map(|result| {
                result.text.len()
                    + result.call.as_str().len()
                    + result.provider_id.as_ref().map_or(0, String::len)
                    + result.images.len() * TOKENS_PER_IMAGE as usize
                    + TOKENS_PER_MESSAGE as usize
            })
            .sum(),
    };
    bytes as u64 + TOKENS_PER_MESSAGE
}

fn payable_output(left: MicroUsd, input: u64, price: TokenPrice) -> u64 {
    let for_output = left as f64 - input as f64 * price.input * (MICROS_PER_USD / MILLION);
    if for_output < 0.0 {
        return 0;
    }
    if price.output <= 0.0 {
        return u64::MAX;
    }
    (for_output / (price.output * (MICROS_PER_USD / MILLION))) as u64
}

fn cost(input: u64, output: u64, price: TokenPrice) -> MicroUsd {
    micros((input as f64 * price.input + output as f64 * price.output) / MILLION)
}

/// Rounds up: a fraction that is not counted would be overspent.
fn micros(usd: f64) -> MicroUsd {
    (usd * MICROS_PER_USD).ceil().max(0.0) as MicroUsd
}

#[cfg(test)]
mod tests;
