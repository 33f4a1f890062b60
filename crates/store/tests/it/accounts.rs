//! Accounts: carved, drawn from, closed.

use sortie_core::budget::*;
use sortie_core::id::*;
use sortie_core::ports::store::*;
use sortie_core::run::*;

use crate::support::*;

fn of_tokens(limit: u64) -> Budget {
    Budget {
        tokens: Some(limit),
        ..Budget::default()
    }
}

async fn reserve(store: &dyn Store, fence: Fence, amount: Amount) -> String {
    match store.reserve(Reserve { fence, amount }).await.unwrap() {
        Reserved::Granted { balances } => format!("granted of {}", show(&balances)),
        Reserved::Short { balance } => format!("short of {}", show(&[balance])),
    }
}

async fn settle(store: &dyn Store, fence: Fence, cost: Amount) {
    let append = Append {
        spent: Some(cost),
        ..appending(fence, 500, vec![note("answered")])
    };
    store.append_next(append).await.unwrap();
}

async fn end(store: &dyn Store, fence: Fence) {
    let finish = finishing(fence, 600, completed("done"));
    store.finish_next(finish).await.unwrap();
}

pub(crate) async fn a_budget_is_carved_from_the_nearest_account_above(store: &dyn Store) {
    let budget = Budget {
        tool_calls: Some(9),
        ..of_tokens(100)
    };
    let root = running(store, 1, with_budget(1, spec(1), budget)).await;
    // Without an account of its own it draws from its parent's.
    running(store, 2, child(2, 1, 1)).await;
    assert_eq!(balances(store, 2).await, "tokens 0+0/100, tool_calls 0+0/9");
    // Below a run without an account: from the root's, and only what it limits itself.
    let middle = with_budget(3, child(3, 2, 1), of_tokens(60));
    let middle = running(store, 3, middle).await;
    assert_eq!(balances(store, 3).await, "tokens 0+0/60, tool_calls 0+0/9");
    assert_eq!(
        balances(store, 1).await,
        "tokens 0+60/100, tool_calls 0+0/9"
    );
    // It wants more than there is, and gets what there is.
    running(store, 4, with_budget(4, child(4, 1, 1), of_tokens(1_000))).await;
    assert_eq!(balances(store, 4).await, "tokens 0+0/40, tool_calls 0+0/9");
    assert_eq!(
        balances(store, 1).await,
        "tokens 0+100/100, tool_calls 0+0/9"
    );
    // What it does not limit itself is drawn from above.
    store
        .charge(middle, BudgetKind::ToolCalls, 2)
        .await
        .unwrap();
    settle(store, middle, tokens(10)).await;
    assert_eq!(balances(store, 3).await, "tokens 10+0/60, tool_calls 2+0/9");
    assert_eq!(
        balances(store, 1).await,
        "tokens 0+100/100, tool_calls 2+0/9"
    );
    let record = store.get(run(2)).await.unwrap();
    assert_eq!(show(&record.budget), "tokens 0+100/100, tool_calls 2+0/9");
    let listed = store.list(ListFilter::default()).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|record| show(&record.budget)).collect();
    assert_eq!(
        listed,
        [
            "tokens 0+0/40, tool_calls 2+0/9",
            "tokens 10+0/60, tool_calls 2+0/9",
            "tokens 0+100/100, tool_calls 2+0/9",
            "tokens 0+100/100, tool_calls 2+0/9",
        ]
    );
    // Asking again for the same call takes nothing twice.
    let same = store.admit(asking(9, child(4, 1, 1), 700)).await.unwrap();
    assert_eq!(same, Admission::Existing { run: run(4) });
    assert_eq!(
        balances(store, 1).await,
        "tokens 0+100/100, tool_calls 2+0/9"
    );
    end(store, middle).await;
    assert_eq!(
        balances(store, 1).await,
        "tokens 10+40/100, tool_calls 2+0/9"
    );
    end(store, root).await;
}

pub(crate) async fn admission_is_rejected_when_an_account_is_empty(store: &dyn Store) {
    let root = running(store, 1, with_budget(1, spec(1), of_tokens(50))).await;
    settle(store, root, tokens(50)).await;
    let refused = |kind| Admission::Refused(AdmissionRefusal::BudgetSpent { kind });
    assert_eq!(
        admit(store, 2, with_budget(2, child(2, 1, 1), of_tokens(1))).await,
        refused(BudgetKind::Tokens)
    );
    assert!(store.get(run(2)).await.is_err());
    assert_eq!(balances(store, 1).await, "tokens 50+0/50");
    // Who asks for nothing of it may come, and will be short by itself.
    admit(store, 3, child(3, 1, 1)).await;
    let nothing = with_budget(4, child(4, 1, 1), of_tokens(0));
    admit(store, 4, nothing).await;
    let fences = claim_all(store, 100).await;
    assert_eq!(
        reserve(store, fences[0], tokens(1)).await,
        "short of tokens 50+0/50"
    );
    assert_eq!(
        reserve(store, fences[1], tokens(1)).await,
        "short of tokens 0+0/0"
    );
}

pub(crate) async fn every_child_counts_where_children_are_limited(store: &dyn Store) {
    let children = |count| Budget {
        children: Some(count),
        ..Budget::default()
    };
    running(store, 1, with_budget(1, spec(1), children(4))).await;
    running(store, 2, child(2, 1, 1)).await;
    assert_eq!(balances(store, 1).await, "children 1+0/4");
    // It counts above; what it may have below is set aside there.
    running(store, 3, with_budget(3, child(3, 1, 1), children(9))).await;
    assert_eq!(balances(store, 1).await, "children 2+2/4");
    assert_eq!(balances(store, 3).await, "children 0+0/2");
    let refused = Admission::Refused(AdmissionRefusal::BudgetSpent {
        kind: BudgetKind::Children,
    });
    assert_eq!(admit(store, 4, child(4, 2, 1)).await, refused);
    let first = running(store, 5, child(5, 3, 1)).await;
    running(store, 6, child(6, 3, 1)).await;
    assert_eq!(admit(store, 7, child(7, 3, 1)).await, refused);
    assert_eq!(balances(store, 3).await, "children 2+0/2");
    // A child that has ended has been one.
    end(store, first).await;
    assert_eq!(admit(store, 8, child(8, 3, 1)).await, refused);
}

pub(crate) async fn a_reservation_is_all_or_nothing(store: &dyn Store) {
    let budget = Budget {
        usd_micros: Some(10),
        ..of_tokens(100)
    };
    let root = running(store, 1, with_budget(1, spec(1), budget)).await;
    let other = running(store, 2, child(2, 1, 1)).await;
    let both = |tokens, usd_micros| Amount {
        tokens,
        usd_micros,
        ..Amount::default()
    };
    assert_eq!(
        reserve(store, root, both(60, 11)).await,
        "short of usd 0+0/10"
    );
    assert_eq!(balances(store, 1).await, "tokens 0+0/100, usd 0+0/10");
    assert_eq!(
        reserve(store, root, both(60, 10)).await,
        "granted of tokens 0+0/100, usd 0+0/10"
    );
    assert_eq!(balances(store, 1).await, "tokens 0+60/100, usd 0+10/10");
    assert_eq!(
        reserve(store, other, both(41, 0)).await,
        "short of tokens 0+60/100"
    );
    assert_eq!(
        reserve(store, other, both(40, 0)).await,
        "granted of tokens 0+60/100, usd 0+10/10"
    );
    let stale = Fence {
        epoch: Epoch(0),
        ..root
    };
    let wish = Reserve {
        fence: stale,
        amount: tokens(1),
    };
    assert_fenced(store.reserve(wish).await);
    assert_fenced(store.charge(stale, BudgetKind::Tokens, 1).await);
}

pub(crate) async fn an_unused_reservation_is_refunded(store: &dyn Store) {
    let root = running(store, 1, with_budget(1, spec(1), of_tokens(100))).await;
    reserve(store, root, tokens(100)).await;
    settle(store, root, tokens(30)).await;
    assert_eq!(balances(store, 1).await, "tokens 30+0/100");
    reserve(store, root, tokens(70)).await;
    settle(store, root, Amount::default()).await;
    assert_eq!(balances(store, 1).await, "tokens 30+0/100");
    // Charged without a reservation: the provider has billed it nevertheless.
    settle(store, root, tokens(5)).await;
    assert_eq!(balances(store, 1).await, "tokens 35+0/100");
}

pub(crate) async fn a_cost_above_the_reservation_is_charged(store: &dyn Store) {
    let root = running(store, 1, with_budget(1, spec(1), of_tokens(100))).await;
    let lower = with_budget(2, child(2, 1, 1), of_tokens(50));
    let lower = running(store, 2, lower).await;
    reserve(store, lower, tokens(20)).await;
    settle(store, lower, tokens(80)).await;
    assert_eq!(balances(store, 2).await, "tokens 80+0/50");
    assert_eq!(
        reserve(store, lower, tokens(1)).await,
        "short of tokens 80+0/50"
    );
    sound(store).await;
    end(store, lower).await;
    assert_eq!(balances(store, 1).await, "tokens 80+0/100");
    settle(store, root, tokens(u64::MAX)).await;
    assert_eq!(
        reserve(store, root, tokens(0)).await,
        format!("granted of tokens {}+0/100", (1_u64 << 50) + 80)
    );
}

pub(crate) async fn the_reservation_of_a_dead_process_is_charged(store: &dyn Store) {
    let root = running(store, 1, with_budget(1, spec(1), of_tokens(100))).await;
    reserve(store, root, tokens(30)).await;
    store
        .recover(recovering(RecoverScope::All, 200))
        .await
        .unwrap();
    let root = claim_all(store, 300).await[0];
    assert_eq!(balances(store, 1).await, "tokens 0+30/100");
    assert_eq!(
        reserve(store, root, tokens(90)).await,
        "short of tokens 30+0/100"
    );
    assert_eq!(
        reserve(store, root, tokens(40)).await,
        "granted of tokens 30+0/100"
    );
    // A run that ends with a reservation may have spent it.
    end(store, root).await;
    assert_eq!(balances(store, 1).await, "tokens 70+0/100");
}

pub(crate) async fn charges_stop_at_the_limit(store: &dyn Store) {
    let budget = Budget {
        tool_calls: Some(5),
        ..Budget::default()
    };
    let root = running(store, 1, with_budget(1, spec(1), budget)).await;
    let other = running(store, 2, child(2, 1, 1)).await;
    let spend = async |fence, kind, wanted| {
        let spent = store.charge(fence, kind, wanted).await.unwrap();
        let balance = spent.balance.map(|balance| show(&[balance]));
        format!("{} {}", spent.granted, balance.unwrap_or_default())
    };
    assert_eq!(
        spend(root, BudgetKind::ToolCalls, 3).await,
        "3 tool_calls 3+0/5"
    );
    assert_eq!(
        spend(other, BudgetKind::ToolCalls, 3).await,
        "2 tool_calls 5+0/5"
    );
    assert_eq!(
        spend(root, BudgetKind::ToolCalls, 1).await,
        "0 tool_calls 5+0/5"
    );
    assert_eq!(spend(root, BudgetKind::Tokens, 7).await, "7 ");
}

pub(crate) async fn an_account_closes_when_no_run_draws_from_it(store: &dyn Store) {
    let root = running(store, 1, with_budget(1, spec(1), of_tokens(100))).await;
    let middle = with_budget(2, child(2, 1, 1), of_tokens(60));
    let middle = running(store, 2, middle).await;
    let silent = RunSpec {
        announce: Announce::Silent,
        ..child(3, 2, 1)
    };
    let silent = running(store, 3, silent).await;
    let lower = with_budget(4, child(4, 2, 1), of_tokens(20));
    let lower = running(store, 4, lower).await;
    reserve(store, lower, tokens(15)).await;
    settle(store, middle, tokens(1)).await;
    end(store, middle).await;
    // The leased child is signalled; it still has a reservation. The silent one continues.
    assert_eq!(balances(store, 1).await, "tokens 0+60/100");
    assert_eq!(
        reserve(store, silent, tokens(30)).await,
        "granted of tokens 1+20/60"
    );
    settle(store, silent, tokens(30)).await;
    end(store, silent).await;
    assert_eq!(balances(store, 1).await, "tokens 0+60/100");
    store
        .recover(recovering(RecoverScope::All, 700))
        .await
        .unwrap();
    assert_eq!(state(store, 4).await, "cancelled - not_required");
    assert_eq!(balances(store, 2).await, "tokens 46+0/60");
    assert_eq!(balances(store, 1).await, "tokens 46+0/100");
    // The process of the root died with the others.
    assert_fenced(store.finish_next(finishing(root, 800, failed())).await);
}

pub(crate) async fn a_wall_budget_ends_parked_runs(store: &dyn Store) {
    let wall = |wall_ms, timeout_ms| {
        let budget = Budget {
            wall_ms,
            ..Budget::default()
        };
        Limits {
            budget,
            timeout_ms,
            ..spec(1).limits
        }
    };
    for (number, limits, not_after, limit_ms) in [
        (1, wall(Some(2_000), Some(3_000)), None, 2_000),
        (2, wall(Some(2_000), Some(1_000)), Some(at(9_000)), 1_000),
        (3, wall(None, None), Some(at(1_503)), 1_500),
        (4, wall(None, Some(u64::MAX)), Some(at(2_504)), 2_500),
    ] {
        let spec = RunSpec {
            limits,
            not_after,
            ..spec(number)
        };
        let fence = running(store, number, spec).await;
        assert!(store.park_next(parking(fence, 50)).await.unwrap());
        assert_eq!(
            store.next_due().await.unwrap(),
            Some(at(i64::from(number) + limit_ms))
        );
        let before = at(i64::from(number) + limit_ms - 1);
        assert_eq!(store.expire_parked(before).await.unwrap().ended, []);
        let ended = store.expire_parked(before.plus_ms(1)).await.unwrap().ended;
        assert_eq!(
            ended[0].outcome,
            Outcome::Timeout {
                limit_ms: limit_ms.unsigned_abs(),
                partial: None
            }
        );
    }
    let endless = running(
        store,
        5,
        RunSpec {
            limits: wall(None, Some(u64::MAX)),
            ..spec(5)
        },
    );
    let endless = endless.await;
    assert!(store.park_next(parking(endless, 60)).await.unwrap());
    assert_eq!(store.next_due().await.unwrap(), None);
}

pub(crate) async fn runs_without_accounts_are_not_limited(store: &dyn Store) {
    let root = running(store, 1, spec(1)).await;
    assert_eq!(reserve(store, root, tokens(u64::MAX)).await, "granted of ");
    settle(store, root, tokens(u64::MAX)).await;
    assert_eq!(balances(store, 1).await, "");
    assert!(store.balances(run(9)).await.is_err());
    // Its child has one, with nothing above to take it from.
    let child = with_budget(2, child(2, 1, 1), of_tokens(10));
    let fence = running(store, 2, child).await;
    reserve(store, fence, tokens(4)).await;
    end(store, fence).await;
    assert_eq!(balances(store, 2).await, "tokens 4+0/10");
    // A run cannot name an account that is not its own.
    let thief = RunSpec {
        account: Some(run(2)),
        ..spec(3)
    };
    running(store, 3, thief).await;
    assert_eq!(balances(store, 3).await, "");
}
