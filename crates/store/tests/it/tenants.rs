//! Tenants: quotas, shares of slots by weight, and what is stored for each.

use std::collections::{BTreeMap, VecDeque};

use sortie_core::config::TenantLimits;
use sortie_core::event::Event;
use sortie_core::id::Fence;
use sortie_core::message::Usage;
use sortie_core::ports::store::*;
use sortie_core::run::{Lane, Priority, RunSpec, Summary};
use sortie_core::stats::{UsageBy, UsageRange};
use sortie_core::tenant::{Quota, QuotaReached, Tenant, TenantRules, TenantUse};

use crate::support::*;

fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

fn of(name: &str, number: u32) -> RunSpec {
    RunSpec {
        tenant: Some(tenant(name)),
        ..background(number)
    }
}

async fn limit(store: &dyn Store, limits: &[(&str, TenantLimits)]) {
    let named = limits.iter().filter(|(name, _)| *name != "*");
    let others = limits.iter().find(|(name, _)| *name == "*");
    let rules = TenantRules {
        named: named
            .map(|(name, limits)| (tenant(name), *limits))
            .collect(),
        others: others.map(|(_, limits)| *limits),
    };
    store.set_tenants(rules).await.unwrap();
}

fn refused(admission: Admission) -> QuotaReached {
    match admission {
        Admission::Refused(AdmissionRefusal::Quota(reached)) => reached,
        other @ (Admission::Admitted { .. }
        | Admission::Existing { .. }
        | Admission::Refused(_)) => panic!("not refused by a quota: {other:?}"),
    }
}

fn with_slots(slots: u32, millis: i64) -> Claim {
    Claim {
        lanes: vec![LaneLimit {
            lane: Lane::Subagent,
            max_concurrent: slots,
        }],
        ..claiming(millis)
    }
}

/// A completion that brings the usage of the run to so many tokens and dollars.
fn spending(fence: Fence, millis: i64, tokens: u64, cost_usd: f64) -> Append {
    Append {
        summary: Summary {
            usage: Usage {
                input_tokens: Some(tokens - 1),
                output_tokens: Some(1),
                cost_usd: Some(cost_usd),
                ..Usage::default()
            },
            ..summary(5)
        },
        ..appending(fence, millis, vec![note("a step")])
    }
}

async fn use_of(store: &dyn Store, name: &str, millis: i64) -> TenantUse {
    let uses = store.tenants(Some(tenant(name)), at(millis)).await.unwrap();
    uses.into_iter().next().unwrap()
}

const DAY: i64 = 86_400_000;

pub(crate) async fn queued_runs_of_a_tenant_are_limited(store: &dyn Store) {
    let two = TenantLimits {
        max_queued: Some(2),
        ..TenantLimits::default()
    };
    limit(store, &[("*", two), ("big", TenantLimits::default())]).await;
    for number in 1..=2 {
        admit(store, number, of("acme", number)).await;
    }
    let reached = refused(admit(store, 3, of("acme", 3)).await);
    assert_eq!(
        (
            reached.quota,
            reached.limit,
            reached.used,
            reached.resets_at
        ),
        (Quota::Queued, 2, 2, None)
    );
    // The same admission again is the run that exists, not one more.
    let again = admit(store, 2, of("acme", 2)).await;
    assert_eq!(again, Admission::Existing { run: run(2) });
    // Named tenants have their own limits, and runs without a tenant none.
    for number in 4..=6 {
        admit(store, number, of("big", number)).await;
        admit(store, number + 10, background(number + 10)).await;
    }
    // A paused run waits for its first slot too; a run that has started does not.
    store.pause(run(1), at(50)).await.unwrap();
    refused(admit(store, 7, of("acme", 7)).await);
    claim_all(store, 60).await;
    let admitted = admit(store, 7, of("acme", 7)).await;
    assert!(
        matches!(admitted, Admission::Admitted { .. }),
        "{admitted:?}"
    );
    assert_eq!(use_of(store, "acme", 70).await.queued, 2);
}

pub(crate) async fn running_tasks_of_a_tenant_are_limited_in_all_lanes(store: &dyn Store) {
    let three = TenantLimits {
        max_running: Some(3),
        ..TenantLimits::default()
    };
    limit(store, &[("acme", three)]).await;
    for number in 1..=4 {
        admit(store, number, of("acme", number)).await;
        let main = RunSpec {
            lane: Lane::Main,
            ..of("acme", number + 10)
        };
        admit(store, number + 10, main).await;
    }
    admit(store, 20, background(20)).await;
    let claimed = claim_all(store, 100).await;
    assert_eq!(
        claimed.len(),
        4,
        "three of the tenant and one without a tenant"
    );
    assert!(of_fences(&claimed).contains(&20));
    assert_eq!(use_of(store, "acme", 100).await.running, 3);
    assert!(claim_all(store, 110).await.is_empty());
    let ended = claimed.iter().find(|fence| fence.run != run(20)).unwrap();
    reported(
        store
            .finish_next(finishing(*ended, 120, completed("done")))
            .await,
    );
    assert_eq!(claim_all(store, 130).await.len(), 1);
}

pub(crate) async fn spending_is_limited_by_day_and_month(store: &dyn Store) {
    let limits = TenantLimits {
        tokens_per_day: Some(100),
        usd_per_month: Some(2.0),
        ..TenantLimits::default()
    };
    limit(store, &[("acme", limits)]).await;
    let fence = running(store, 1, of("acme", 1)).await;
    admit(store, 2, of("acme", 2)).await;
    let appended = store
        .append_next(spending(fence, 10, 60, 0.5))
        .await
        .unwrap();
    assert!(!appended.over_quota);
    // A journal entry without a completion charges nothing.
    let appended = store
        .append_next(spending(fence, 11, 60, 0.5))
        .await
        .unwrap();
    assert!(!appended.over_quota);
    let appended = store
        .append_next(spending(fence, 12, 110, 1.5))
        .await
        .unwrap();
    assert!(appended.over_quota);
    // The run waits for the next day with what it has done, and so do queued ones.
    store.release(fence, at(13)).await.unwrap();
    assert!(claim_all(store, 20).await.is_empty());
    let reached = refused(admit(store, 3, of("acme", 3)).await);
    assert_eq!(
        (reached.quota, reached.limit, reached.used),
        (Quota::TokensPerDay, 100, 110)
    );
    let resets_at = reached.resets_at.unwrap();
    assert_eq!(resets_at.0.rem_euclid(DAY), 0);
    assert!(resets_at > at(0) && resets_at <= at(DAY));
    assert!(claim_all(store, resets_at.0 - T0 - 1).await.is_empty());
    // On the next day both are claimed; then the month's money is spent.
    let tomorrow = resets_at.0 - T0;
    let claimed = claim_all(store, tomorrow).await;
    assert_eq!(of_fences(&claimed), [1, 2]);
    let appended = store
        .append_next(spending(claimed[0], tomorrow, 120, 2.5))
        .await;
    assert!(appended.unwrap().over_quota);
    let admission = store
        .admit(asking(3, of("acme", 3), tomorrow))
        .await
        .unwrap();
    let reached = refused(admission);
    assert_eq!(
        (reached.quota, reached.limit, reached.used),
        (Quota::UsdPerMonth, 2_000_000, 2_500_000)
    );
    assert!(reached.resets_at.unwrap() > resets_at);
    let used = use_of(store, "acme", tomorrow).await;
    assert_eq!((used.tokens_today, used.tokens_this_month), (10, 120));
    assert_eq!(used.nanos_this_month, 2_500_000_000);
}

pub(crate) async fn storage_counts_ended_tasks_until_they_are_deleted(store: &dyn Store) {
    let limits = TenantLimits {
        storage_mb: Some(1),
        ..TenantLimits::default()
    };
    limit(store, &[("acme", limits)]).await;
    let fence = running(store, 1, of("acme", 1)).await;
    let big = vec![note(&"x".repeat(1_200_000))];
    store.append_next(appending(fence, 10, big)).await.unwrap();
    assert_eq!(use_of(store, "acme", 10).await.storage_bytes, 0);
    reported(
        store
            .finish_next(finishing(fence, 20, completed("done")))
            .await,
    );
    let bytes = use_of(store, "acme", 20).await.storage_bytes;
    assert!((1_200_000..1_210_000).contains(&bytes), "{bytes}");
    let reached = refused(admit(store, 2, of("acme", 2)).await);
    assert_eq!(reached.quota, Quota::Storage);
    assert_eq!(reached.used, bytes);
    store.delete(run(1)).await.unwrap();
    assert_eq!(use_of(store, "acme", 30).await.storage_bytes, 0);
    let admitted = admit(store, 2, of("acme", 2)).await;
    assert!(
        matches!(admitted, Admission::Admitted { .. }),
        "{admitted:?}"
    );
}

pub(crate) async fn priority_counts_among_the_runs_of_one_tenant(store: &dyn Store) {
    let urgent = |number| RunSpec {
        priority: Priority::High,
        ..of("greedy", number)
    };
    for number in 1..=20 {
        admit(store, number, urgent(number)).await;
    }
    admit(store, 30, of("modest", 30)).await;
    let high = RunSpec {
        priority: Priority::High,
        ..of("modest", 31)
    };
    admit(store, 31, high).await;
    let claimed = store.claim(with_slots(2, 100)).await.unwrap();
    let claimed: Vec<_> = claimed.iter().map(|claimed| claimed.fence).collect();
    // One slot each, and of the other tenant the urgent run.
    assert_eq!(of_fences(&claimed), [1, 31]);
    assert_eq!(
        store.get(run(30)).await.unwrap().queue_position,
        Some(1),
        "a position among the tenant's own runs"
    );
}

/// Executors without a model: each run takes a number of turns that its own number determines.
struct World<'a> {
    store: &'a dyn Store,
    slots: u32,
    turn: i64,
    executing: Vec<(Fence, u32)>,
    admitted: BTreeMap<u32, i64>,
    /// The turns that runs of the modest tenant waited for a slot, the one of their claim included.
    waits: Vec<i64>,
}

const MODEST: u32 = 1_000_000;

impl World<'_> {
    async fn admit_modest(&mut self, count: u32) {
        for _ in 0..count {
            let number = MODEST + u32::try_from(self.admitted.len()).unwrap();
            let spec = of("modest", number);
            let asked = asking(number, spec, self.turn * 1_000);
            self.store.admit(asked).await.unwrap();
            self.admitted.insert(number, self.turn);
        }
    }

    async fn step(&mut self) {
        self.turn += 1;
        let millis = self.turn * 1_000;
        let (ended, executing) = std::mem::take(&mut self.executing)
            .into_iter()
            .map(|(fence, left)| (fence, left - 1))
            .partition::<Vec<_>, _>(|(_, left)| *left == 0);
        self.executing = executing;
        for (fence, _) in ended {
            reported(
                self.store
                    .finish_next(finishing(fence, millis, completed("done")))
                    .await,
            );
        }
        for claimed in self
            .store
            .claim(with_slots(self.slots, millis))
            .await
            .unwrap()
        {
            let number = numbers([claimed.fence.run])[0];
            if let Some(admitted) = self.admitted.get(&number) {
                self.waits.push(self.turn - admitted);
            }
            self.executing.push((claimed.fence, 1 + number * 7 % 4));
        }
    }

    fn p95(&self) -> i64 {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        waits[waits.len() * 95 / 100]
    }
}

/// Returns the 95th percentile of the waits of the modest tenant.
async fn p95(store: &dyn Store, greedy: u32, bursts: &[(i64, u32)]) -> i64 {
    for number in 1..=greedy {
        store
            .admit(asking(number, of("greedy", number), 0))
            .await
            .unwrap();
    }
    let mut world = World {
        store,
        slots: 8,
        turn: 0,
        executing: Vec::new(),
        admitted: BTreeMap::new(),
        waits: Vec::new(),
    };
    let mut bursts: VecDeque<_> = bursts.iter().copied().collect();
    let all: u32 = bursts.iter().map(|(_, count)| *count).sum();
    while world.waits.len() < all as usize {
        if let Some((_, count)) = bursts.pop_front_if(|(turn, _)| *turn <= world.turn) {
            world.admit_modest(count).await;
        }
        world.step().await;
        assert!(world.turn < 400, "the modest tenant starves");
    }
    world.p95()
}

/// The load of the modest tenant: bursts that need all slots for a while.
const BURSTS: [(i64, u32); 4] = [(4, 40), (30, 40), (60, 40), (90, 40)];

pub(crate) async fn alone_a_tenant_has_all_slots(store: &dyn Store) {
    let alone = p95(store, 0, &BURSTS).await;
    assert_eq!(alone, ALONE);
}

/// What [`alone_a_tenant_has_all_slots`] measures.
const ALONE: i64 = 12;

pub(crate) async fn a_greedy_tenant_does_not_delay_one_with_a_larger_weight(store: &dyn Store) {
    let weight = |weight| TenantLimits {
        weight: Some(weight),
        ..TenantLimits::default()
    };
    limit(store, &[("modest", weight(400)), ("greedy", weight(100))]).await;
    let beside = p95(store, 3_000, &BURSTS).await;
    assert!(
        2 * beside <= 3 * ALONE,
        "{beside} turns beside {ALONE} alone"
    );
}

pub(crate) async fn a_greedy_tenant_takes_no_more_than_its_share(store: &dyn Store) {
    // Half of the slots is half of the speed, however long the queue of the other.
    let beside = p95(store, 3_000, &BURSTS).await;
    assert!(
        (ALONE..=2 * ALONE + 2).contains(&beside),
        "{beside} turns beside {ALONE} alone"
    );
}

pub(crate) async fn a_tenant_at_its_quota_does_not_block_others(store: &dyn Store) {
    let one = TenantLimits {
        max_running: Some(1),
        ..TenantLimits::default()
    };
    limit(store, &[("greedy", one)]).await;
    for number in 1..=200 {
        admit(store, number, of("greedy", number)).await;
    }
    for number in 300..=305 {
        admit(store, number, of("modest", number)).await;
    }
    let claimed = store.claim(with_slots(8, 1_000)).await.unwrap();
    let claimed: Vec<_> = claimed.iter().map(|claimed| claimed.fence).collect();
    assert_eq!(claimed.len(), 7);
    let of_greedy = of_fences(&claimed)
        .iter()
        .filter(|run| **run <= 200)
        .count();
    assert_eq!(of_greedy, 1);
    // The event of the claim is the usual one.
    let entries = store
        .read(claimed[0].run, sortie_core::id::Seq(0))
        .await
        .unwrap();
    assert!(matches!(
        entries.last().unwrap().event,
        Event::Claimed { .. }
    ));
}

pub(crate) async fn ended_tasks_are_exported_by_the_day_of_their_end(store: &dyn Store) {
    let end = async |number: u32, spec: RunSpec, millis: i64, tokens: u64| {
        store.admit(asking(number, spec, millis)).await.unwrap();
        let fence = claim_all(store, millis).await[0];
        let finish = Finish {
            summary: spending(fence, millis, tokens, 0.25).summary,
            ..finishing(fence, millis, completed("done"))
        };
        reported(store.finish_next(finish).await);
    };
    end(1, of("acme", 1), 10, 100).await;
    end(2, of("acme", 2), 20, 10).await;
    end(3, of("other", 3), DAY, 1_000).await;
    end(4, background(4), DAY + 10, 7).await;
    // One that has not ended is in no line.
    store
        .append_next(spending(running(store, 5, of("acme", 5)).await, 30, 9, 1.0))
        .await
        .unwrap();
    let today = at(0).0.div_euclid(DAY);
    let export = async |by: &[UsageBy], tenant: Option<&str>, days: (i64, i64)| {
        let range = UsageRange {
            by: by.to_vec(),
            tenant: tenant.map(|name| name.parse().unwrap()),
            first_day: today + days.0,
            last_day: today + days.1,
            limit: 10,
        };
        let lines = store.ended_usage(range).await.unwrap();
        let shown = lines.into_iter().map(|line| {
            let parts = [line.tenant, line.agent, line.model];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            let day = line.day.map(|day| day - today);
            let used = line.usage.input_tokens.unwrap() + line.usage.output_tokens.unwrap();
            (parts.join("/"), day, line.runs, used, line.usage.cost_usd)
        });
        shown.collect::<Vec<_>>()
    };
    let all = [
        UsageBy::Tenant,
        UsageBy::Agent,
        UsageBy::Model,
        UsageBy::Day,
    ];
    let line =
        |name: &str, day, runs, tokens, cost| (name.to_owned(), day, runs, tokens, Some(cost));
    let expected = [
        line("/general/offline", Some(1), 1, 7, 0.25),
        line("acme/general/offline", Some(0), 2, 110, 0.5),
        line("other/general/offline", Some(1), 1, 1_000, 0.25),
    ];
    assert_eq!(export(&all, None, (0, 1)).await, expected);
    // Deleted tasks stay in it.
    store.delete(run(1)).await.unwrap();
    assert_eq!(export(&all, None, (0, 1)).await, expected);
    assert_eq!(export(&all, Some("acme"), (0, 1)).await, expected[1..2]);
    assert_eq!(
        export(&[], None, (0, 0)).await,
        [line("", None, 2, 110, 0.5)]
    );
    assert_eq!(export(&[], None, (2, 9)).await, []);
    assert_eq!(
        export(&[UsageBy::Day], None, (0, 9)).await,
        [
            line("", Some(0), 2, 110, 0.5),
            line("", Some(1), 2, 1_007, 0.5)
        ]
    );
}
