//! Random trees of runs that spend: nothing is overspent, and everything is counted once.

use std::collections::HashMap;

use proptest::prelude::*;
use sortie_core::budget::*;
use sortie_core::id::*;
use sortie_core::ports::store::*;
use sortie_core::run::*;
use sortie_store::InlineStore;

use crate::support::*;

/// Something that happens. Numbers choose among the runs there are.
#[derive(Clone, Copy, Debug)]
enum Step {
    Admit {
        parent: u8,
        own: Option<u16>,
        silent: bool,
    },
    Reserve(u8, u16),
    /// Charges a part of the reservation; 255 charges more than that, as a lying provider does.
    Settle(u8, u8),
    Spend(u8, u8),
    Finish(u8),
    Cancel(u8),
    /// The process dies, and another one takes over.
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (any::<u8>(), proptest::option::of(0..600_u16), any::<bool>())
            .prop_map(|(parent, own, silent)| Step::Admit { parent, own, silent }),
        8 => (any::<u8>(), 0..200_u16).prop_map(|(which, amount)| Step::Reserve(which, amount)),
        8 => any::<(u8, u8)>().prop_map(|(which, part)| Step::Settle(which, part)),
        3 => any::<(u8, u8)>().prop_map(|(which, amount)| Step::Spend(which, amount)),
        3 => any::<u8>().prop_map(Step::Finish),
        1 => any::<u8>().prop_map(Step::Cancel),
        1 => Just(Step::Crash),
    ]
}

/// The whole store is checked after so many steps: that takes longer than all of them.
const CHECK_EVERY: usize = 8;
const ROOT_TOKENS: u64 = 1_000;
const ROOT_TOOL_CALLS: u64 = 300;
const ROOT_CHILDREN: u64 = 12;

/// What the test counts beside the store.
struct World {
    store: InlineStore,
    now: i64,
    /// Runs that were tried, the refused ones too.
    tried: u32,
    fences: Vec<Fence>,
    parents: HashMap<RunId, Option<RunId>>,
    reserved: HashMap<RunId, u64>,
    /// Tokens that were charged, or reserved and never resolved.
    tokens: u64,
    tool_calls: u64,
    children: u64,
    lied: bool,
}

impl World {
    async fn new() -> Self {
        let mut world = Self {
            store: InlineStore::open_in_memory().unwrap(),
            now: 0,
            tried: 1,
            fences: Vec::new(),
            parents: HashMap::from([(run(1), None)]),
            reserved: HashMap::new(),
            tokens: 0,
            tool_calls: 0,
            children: 0,
            lied: false,
        };
        let budget = Budget {
            tokens: Some(ROOT_TOKENS),
            tool_calls: Some(ROOT_TOOL_CALLS),
            children: Some(ROOT_CHILDREN),
            ..Budget::default()
        };
        admit(&world.store, 1, with_budget(1, background(1), budget)).await;
        world.claim().await;
        world
    }

    async fn claim(&mut self) {
        // No run is given up, however often its process died.
        let claim = Claim {
            deaths: DeathLimits {
                without_progress: 1_000,
                total: 1_000,
            },
            ..claiming(self.now)
        };
        let claimed = self.store.claim(claim).await.unwrap();
        for fence in claimed.into_iter().map(|claimed| claimed.fence) {
            self.fences.retain(|old| old.run != fence.run);
            self.fences.push(fence);
        }
    }

    fn fence(&self, which: u8) -> Option<Fence> {
        let count = self.fences.len();
        (count > 0).then(|| self.fences[usize::from(which) % count])
    }

    async fn take(&mut self, step: Step) {
        self.now += 1;
        match step {
            Step::Admit {
                parent,
                own,
                silent,
            } => self.admit(parent, own, silent).await,
            Step::Crash => {
                let scope = RecoverScope::All;
                let mut recover = recovering(scope, self.now);
                (recover.deaths.total, recover.deaths.without_progress) = (2, 2);
                self.store.recover(recover).await.unwrap();
                // A suspect is claimed alone, and the others wait.
                self.fences.clear();
                self.claim().await;
            }
            Step::Reserve(which, _)
            | Step::Settle(which, _)
            | Step::Spend(which, _)
            | Step::Finish(which)
            | Step::Cancel(which) => {
                if let Some(fence) = self.fence(which) {
                    self.act(step, fence).await;
                }
            }
        }
        self.forget_the_ended().await;
    }

    async fn act(&mut self, step: Step, fence: Fence) {
        match step {
            Step::Reserve(_, amount) => self.reserve(fence, amount.into()).await,
            Step::Settle(_, part) => self.settle(fence, part).await,
            Step::Spend(_, amount) => {
                let spent = self
                    .store
                    .charge(fence, BudgetKind::ToolCalls, amount.into())
                    .await;
                self.tool_calls += spent.unwrap().granted;
            }
            Step::Finish(_) => {
                let finish = finishing(fence, self.now, completed("done"));
                self.store.finish_next(finish).await.unwrap();
            }
            Step::Cancel(_) => {
                let cancelled = self.store.cancel(fence.run, by_person(), at(self.now));
                cancelled.await.unwrap();
            }
            Step::Admit { .. } | Step::Crash => unreachable!("they need no run"),
        }
    }

    async fn admit(&mut self, parent: u8, own: Option<u16>, silent: bool) {
        let Some(parent) = self.fence(parent).map(|fence| fence.run) else {
            return;
        };
        self.tried += 1;
        let number = self.tried;
        let mut spec = RunSpec {
            announce: if silent {
                Announce::Silent
            } else {
                Announce::Steer
            },
            ..child(number, numbers([parent])[0], 1)
        };
        if let Some(own) = own {
            let budget = Budget {
                tokens: Some(own.into()),
                // Every third one limits its tool calls, every fifth its children.
                tool_calls: own.is_multiple_of(3).then_some(40),
                children: own.is_multiple_of(5).then_some(3),
                ..Budget::default()
            };
            spec = with_budget(number, spec, budget);
        }
        match admit(&self.store, number, spec).await {
            Admission::Admitted { .. } => {
                self.parents.insert(run(number), Some(parent));
                self.children += 1;
                self.claim().await;
            }
            Admission::Refused(_) => {}
            Admission::Existing { run } => panic!("{run} was there"),
        }
    }

    async fn reserve(&mut self, fence: Fence, amount: u64) {
        let amount = tokens(amount);
        let reserved = self.store.reserve(Reserve { fence, amount }).await.unwrap();
        self.tokens += self.reserved.remove(&fence.run).unwrap_or(0);
        match reserved {
            Reserved::Granted { .. } => {
                self.reserved.insert(fence.run, amount.tokens);
            }
            Reserved::Short { balance } => assert!(balance.left() < amount.tokens),
        }
    }

    async fn settle(&mut self, fence: Fence, part: u8) {
        let Some(reserved) = self.reserved.remove(&fence.run) else {
            return;
        };
        let cost = if part == u8::MAX {
            self.lied = true;
            reserved + 50
        } else {
            reserved * u64::from(part) / 254
        };
        self.tokens += cost;
        let append = Append {
            spent: Some(tokens(cost)),
            ..appending(fence, self.now, vec![note("answered")])
        };
        self.store.append_next(append).await.unwrap();
    }

    /// Removes ended runs from the model; their reservations count as charged.
    async fn forget_the_ended(&mut self) {
        let records = self.store.list(ListFilter::default()).await.unwrap();
        for record in records.iter().filter(|record| record.status.is_terminal()) {
            self.tokens += self.reserved.remove(&record.run_id).unwrap_or(0);
            self.fences.retain(|fence| fence.run != record.run_id);
        }
    }

    async fn check_limits(&self) {
        for record in self.store.list(ListFilter::default()).await.unwrap() {
            for balance in record.budget {
                let used = balance.spent + balance.reserved;
                assert!(self.lied || used <= balance.limit, "{balance:?}");
            }
        }
    }

    async fn check_the_end(&mut self) {
        while !self.fences.is_empty() {
            while let Some(fence) = self.fences.pop() {
                let finish = finishing(fence, self.now, failed());
                // The end of another may have ended it.
                if let Err(error) = self.store.finish_next(finish).await {
                    assert!(matches!(error, StoreError::Fenced { .. }), "{error:?}");
                }
            }
            self.claim().await;
        }
        self.forget_the_ended().await;
        self.check_limits().await;
        sound(&self.store).await;
        let expected = format!(
            "tokens {}+0/{ROOT_TOKENS}, tool_calls {}+0/{ROOT_TOOL_CALLS}, children {}+0/{ROOT_CHILDREN}",
            self.tokens, self.tool_calls, self.children
        );
        assert_eq!(balances(&self.store, 1).await, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_is_counted_once_and_never_overspent(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            for (index, step) in steps.into_iter().enumerate() {
                world.take(step).await;
                world.check_limits().await;
                if index.is_multiple_of(CHECK_EVERY) {
                    // Checks, among other things, that every reservation belongs to a run.
                    sound(&world.store).await;
                }
            }
            world.check_the_end().await;
        });
    }
}
