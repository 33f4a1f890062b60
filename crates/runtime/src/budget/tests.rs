use std::sync::Arc;

use sortie_core::ports::model::{PromptOrigin, TurnOptions};
use sortie_core::run::Sampling;

use super::*;

const RUN: &str = "01900000-0000-7000-8000-000000000001";

fn request(text: &str, max_tokens: Option<u64>) -> ModelRequest {
    ModelRequest {
        origin: PromptOrigin {
            run: RUN.parse().unwrap(),
            root: RUN.parse().unwrap(),
            cache_key: String::new(),
            agent: "main".to_owned(),
            label: "l".to_owned(),
            task: "t".to_owned(),
            depth: 0,
            turn: 1,
        },
        model: "m".to_owned(),
        system: "".into(),
        tools: Arc::default(),
        messages: vec![Arc::new(Message::User {
            text: text.to_owned(),
        })],
        images: Arc::default(),
        options: TurnOptions {
            sampling: Sampling {
                max_tokens,
                ..Sampling::default()
            },
            ..TurnOptions::default()
        },
    }
}

fn balance(kind: BudgetKind, limit: u64, spent: u64) -> Balance {
    Balance {
        kind,
        limit,
        spent,
        reserved: 0,
    }
}

const PRICE: Terms = Terms {
    price: Some(TokenPrice {
        input: 2.0,
        output: 10.0,
    }),
    max_output: Some(1_000),
};

fn check(text: &str, balances: &[Balance], expected: Result<(u64, u64, u64), Unaffordable>) {
    let given = provision(&request(text, None), None, PRICE, balances);
    let given = given.map(|provision| {
        (
            provision.amount.tokens,
            provision.amount.usd_micros,
            provision.max_output,
        )
    });
    assert_eq!(given, expected);
}

#[test]
fn output_tokens_are_limited_by_the_account() {
    // 4 bytes, 16 around the message, 1,000 around everything.
    check("four", &[], Ok((1_020 + 1_000, 2 * 1_020 + 10_000, 1_000)));
    check(
        "four",
        &[balance(BudgetKind::Tokens, 1_500, 0)],
        Ok((1_500, 2 * 1_020 + 4_800, 480)),
    );
    check(
        "four",
        &[balance(BudgetKind::Usd, 5_000, 0)],
        Ok((1_020 + 296, 2 * 1_020 + 2_960, 296)),
    );
}

#[test]
fn a_call_with_too_few_output_tokens_is_refused() {
    let tokens = balance(BudgetKind::Tokens, 2_000, 950);
    check("four", &[tokens], Err(Unaffordable::Short(tokens)));
    let usd = balance(BudgetKind::Usd, 2_600, 0);
    check("four", &[usd], Err(Unaffordable::Short(usd)));
    let unpriced = provision(
        &request("four", None),
        None,
        Terms::default(),
        &[balance(BudgetKind::Usd, 1_000_000, 0)],
    );
    assert_eq!(unpriced, Err(Unaffordable::Unpriced));
}

#[test]
fn counted_tokens_are_not_estimated_again() {
    let long = "x".repeat(100_000);
    let counted = CountedTokens {
        messages: 1,
        tokens: 25_000,
    };
    let provision = provision(&request(&long, Some(10)), Some(counted), PRICE, &[]).unwrap();
    assert_eq!(provision.amount.tokens, 25_000 + 1_000 + 10);
}

#[test]
fn an_unknown_cost_is_charged_as_reserved() {
    let reserved = Amount {
        tokens: 500,
        usd_micros: 700,
        ..Amount::default()
    };
    assert_eq!(charged(&Usage::default(), reserved), reserved);
    let known = Usage {
        input_tokens: Some(10),
        output_tokens: Some(5),
        cost_usd: Some(0.000_001_2),
        ..Usage::default()
    };
    assert_eq!(charged(&known, reserved).tokens, 15);
    assert_eq!(charged(&known, reserved).usd_micros, 2, "rounded up");
}

#[test]
fn a_warning_comes_once_and_at_four_fifths() {
    let balances = [
        balance(BudgetKind::Tokens, 100, 80),
        balance(BudgetKind::Usd, 100, 79),
        balance(BudgetKind::ToolCalls, 100, 95),
    ];
    let low = low(&balances, |kind| kind == BudgetKind::ToolCalls);
    assert_eq!(low, [balances[0]]);
}
