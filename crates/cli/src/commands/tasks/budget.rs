//! Formats budgets for people.

use sortie_core::budget::{Balance, BudgetKind, MICROS_PER_USD};
use sortie_core::words::Lang;
use sortie_text::t;

/// Formats the remainder of an account, and what was spent and reserved.
pub(super) fn balance(lang: Lang, balance: Balance) -> String {
    let amount = |count: u64| amount(balance.kind, count);
    t!(
        lang,
        "budget-balance",
        kind = balance.kind.as_str(),
        limit = amount(balance.limit),
        spent = amount(balance.spent),
        reserved = amount(balance.reserved),
        left = amount(balance.left())
    )
}

/// Formats an amount: dollars with four decimal places, other kinds as integers.
fn amount(kind: BudgetKind, count: u64) -> String {
    match kind {
        BudgetKind::Usd => format!("${:.4}", count as f64 / MICROS_PER_USD),
        BudgetKind::Tokens | BudgetKind::ToolCalls | BudgetKind::Children => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balance_of_every_kind_shows_the_remainder() {
        let check = |kind: BudgetKind, expected: &str| {
            let line = balance(
                Lang::En,
                Balance {
                    kind,
                    limit: 100_000,
                    spent: 12_345,
                    reserved: 655,
                },
            );
            assert_eq!(line, expected);
        };
        check(
            BudgetKind::Tokens,
            "tokens: 12345 of 100000 spent, 655 reserved, 87000 left",
        );
        check(
            BudgetKind::Usd,
            "usd: $0.0123 of $0.1000 spent, $0.0007 reserved, $0.0870 left",
        );
    }
}
