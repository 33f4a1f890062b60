//! Random sequences of transitions keep the invariants, whatever the order.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use sortie_core::event::*;
use sortie_core::id::*;
use sortie_core::inbox::*;
use sortie_core::ports::store::*;
use sortie_core::request::*;
use sortie_core::run::*;
use sortie_store::InlineStore;

use crate::support::*;

const MAIN_LIMIT: u32 = 2;
const SUBAGENT_LIMIT: u32 = 3;
const PER_PARENT: u32 = 2;
const PER_TREE: u32 = 2;

/// Something that happens. Numbers choose among the runs or fences there are.
#[derive(Clone, Copy, Debug)]
enum Step {
    Admit {
        parent: u8,
        silent: bool,
        sink: bool,
    },
    Claim,
    Append(u8),
    TakeInbox(u8),
    Park(u8),
    Finish(u8, bool),
    Release(u8),
    Cancel(u8),
    Send(u8),
    Ask(u8, bool),
    Reply(u8),
    SettleRequests,
    Recover(bool),
    Deliver,
    Settle(u8),
    Unblock(u8, bool),
    ExpireParked,
    Archive,
    Delete(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(parent, silent, sink)| Step::Admit { parent, silent, sink }),
        6 => Just(Step::Claim),
        3 => any::<u8>().prop_map(Step::Append),
        3 => any::<u8>().prop_map(Step::TakeInbox),
        3 => any::<u8>().prop_map(Step::Park),
        4 => any::<(u8, bool)>().prop_map(|(which, good)| Step::Finish(which, good)),
        1 => any::<u8>().prop_map(Step::Release),
        2 => any::<u8>().prop_map(Step::Cancel),
        2 => any::<u8>().prop_map(Step::Send),
        3 => any::<(u8, bool)>().prop_map(|(which, parent)| Step::Ask(which, parent)),
        2 => any::<u8>().prop_map(Step::Reply),
        1 => Just(Step::SettleRequests),
        2 => any::<bool>().prop_map(Step::Recover),
        4 => Just(Step::Deliver),
        2 => any::<u8>().prop_map(Step::Settle),
        1 => any::<(u8, bool)>().prop_map(|(which, retry)| Step::Unblock(which, retry)),
        1 => Just(Step::ExpireParked),
        1 => Just(Step::Archive),
        1 => any::<u8>().prop_map(Step::Delete),
    ]
}

/// What the test remembers beside the store.
struct World {
    store: InlineStore,
    now: i64,
    admitted: u32,
    fences: Vec<Fence>,
    outcomes: HashMap<RunId, Outcome>,
    /// Which children each run has read of, by the journal.
    heard: HashSet<(RunId, RunId)>,
    /// Which requests have been replied to, by the journals of those who asked.
    replies: HashSet<RequestId>,
}

impl World {
    fn new() -> Self {
        Self {
            store: InlineStore::open_in_memory().unwrap(),
            now: 0,
            admitted: 0,
            fences: Vec::new(),
            outcomes: HashMap::new(),
            heard: HashSet::new(),
            replies: HashSet::new(),
        }
    }

    fn fence(&self, which: u8) -> Option<Fence> {
        let count = self.fences.len();
        (count > 0).then(|| self.fences[usize::from(which) % count])
    }

    fn some_run(&self, which: u8) -> RunId {
        run(1 + u32::from(which) % self.admitted.max(1))
    }

    async fn take(&mut self, step: Step) {
        self.now += 1_000;
        let moment = at(self.now);
        match step {
            Step::Admit {
                parent,
                silent,
                sink,
            } => self.admit(parent, silent, sink).await,
            Step::Claim => self.claim().await,
            Step::Append(which) => {
                if let Some(fence) = self.fence(which) {
                    let append = appending(fence, self.now, vec![note("step")]);
                    fine(self.store.append_next(append).await);
                }
            }
            Step::TakeInbox(which) => self.take_inbox(which).await,
            Step::Park(which) => {
                if let Some(fence) = self.fence(which) {
                    fine(self.store.park_next(parking(fence, self.now)).await);
                }
            }
            Step::Finish(which, good) => {
                if let Some(fence) = self.fence(which) {
                    let outcome = if good { completed("done") } else { failed() };
                    fine(
                        self.store
                            .finish_next(finishing(fence, self.now, outcome))
                            .await,
                    );
                }
            }
            Step::Release(which) => {
                if let Some(fence) = self.fence(which) {
                    fine(self.store.release(fence, moment).await);
                }
            }
            Step::Cancel(which) => {
                let run = self.some_run(which);
                fine(self.store.cancel(run, by_person(), moment).await);
            }
            Step::Send(which) => {
                let run = self.some_run(which);
                fine(self.store.send(run, steer("hello"), moment).await);
            }
            Step::Ask(which, parent) => {
                if let Some(fence) = self.fence(which) {
                    let append = appending(fence, self.now, vec![self.question(fence, parent)]);
                    fine(self.store.append_next(append).await);
                }
            }
            Step::Reply(which) => self.reply(which).await,
            Step::SettleRequests => {
                fine(self.store.reconcile(moment).await);
            }
            Step::Recover(all) => {
                let scope = if all {
                    RecoverScope::All
                } else {
                    RecoverScope::Expired
                };
                let recover = recovering(scope, self.now);
                fine(self.store.recover(recover).await);
            }
            Step::Deliver => {
                fine(self.store.deliver(moment).await);
            }
            Step::Settle(which) => self.settle(which).await,
            Step::Unblock(which, retry) => {
                let choice = if retry {
                    Unblock::Retry
                } else {
                    Unblock::Dismiss
                };
                let run = self.some_run(which);
                fine(self.store.unblock(run, choice, moment).await);
            }
            Step::ExpireParked => {
                fine(self.store.expire_parked(moment).await);
            }
            Step::Archive => {
                let before = at(self.now - 30_000);
                fine(self.store.clean(moment).await);
                fine(self.store.archive(before, moment).await);
            }
            Step::Delete(which) => {
                let run = self.some_run(which);
                fine(self.store.delete(run).await);
            }
        }
    }

    async fn admit(&mut self, parent: u8, silent: bool, with_sink: bool) {
        let number = self.admitted + 1;
        let parent = (u32::from(parent) % 4 > 0).then(|| self.some_run(parent));
        let found = match parent {
            Some(parent) => self.store.get(parent).await.ok(),
            None => None,
        };
        let mut spec = match found {
            Some(parent) => RunSpec {
                parent: Some(ParentLink {
                    run: parent.run_id,
                    call: CallId::new(number, 0),
                    mode: EdgeMode::Background,
                }),
                root: parent.root,
                depth: parent.depth + 1,
                ..background(number)
            },
            None => spec(number),
        };
        spec.announce = if silent {
            Announce::Silent
        } else {
            Announce::Steer
        };
        spec.limits.timeout_ms = Some(20_000);
        if with_sink {
            spec.report_to = vec![sink("somewhere")];
        }
        if number.is_multiple_of(5) {
            spec.cleanup = Cleanup::Delete;
        }
        let admission = fine(self.store.admit(asking(number, spec, self.now)).await);
        if let Some(Admission::Admitted { .. }) = admission {
            self.admitted = number;
        }
    }

    async fn claim(&mut self) {
        let mut claim = Claim {
            per_parent: PER_PARENT,
            per_tree: PER_TREE,
            ..claiming(self.now)
        };
        claim.lanes[0].max_concurrent = MAIN_LIMIT;
        claim.lanes[1].max_concurrent = SUBAGENT_LIMIT;
        for claimed in self.store.claim(claim).await.unwrap() {
            claimed.entries.expect("a journal is damaged");
            self.fences.push(claimed.fence);
        }
    }

    async fn take_inbox(&mut self, which: u8) {
        let Some(fence) = self.fence(which) else {
            return;
        };
        let taken = fine(self.store.take_next(fence, at(self.now)).await).flatten();
        let Some(Event::InboxTaken { items, .. }) = taken.map(|entry| entry.event) else {
            return;
        };
        for item in items {
            match item {
                InboxItem::Announcement(announcement) => {
                    let news = self.heard.insert((fence.run, announcement.child));
                    assert!(news, "{} was announced twice", announcement.child);
                }
                InboxItem::Reply { request, .. } => {
                    let news = self.replies.insert(request.clone());
                    assert!(news, "{request} was replied to twice");
                }
                InboxItem::Steer { .. } | InboxItem::Question { .. } => {}
            }
        }
    }

    /// A question of a run, each with a call of its own.
    fn question(&self, fence: Fence, parent: bool) -> Event {
        let turn = u32::try_from(self.now).unwrap();
        let call = CallId::new(turn, 0);
        Event::Asked {
            request: Box::new(Request {
                id: RequestId::of(&EffectId::new(fence.run, &call)),
                expires_at: at(self.now + 9_000),
                kind: RequestKind::Question(Question {
                    to: if parent {
                        Addressee::Parent
                    } else {
                        Addressee::Person
                    },
                    text: "well?".to_owned(),
                    options: Vec::new(),
                    default: None,
                }),
            }),
            call,
        }
    }

    async fn reply(&mut self, which: u8) {
        let filter = RequestFilter {
            replied: true,
            ..RequestFilter::default()
        };
        let requests = self.store.requests(filter).await.unwrap();
        let Some(asked) = requests.get(usize::from(which) % requests.len().max(1)) else {
            return;
        };
        let reply = ReplyTo {
            request: asked.request.id.clone(),
            reply: Reply::Answered {
                by: Answerer::Person,
                name: None,
                text: "well.".to_owned(),
            },
            at: at(self.now),
        };
        fine(self.store.reply(reply).await);
    }

    async fn settle(&mut self, which: u8) {
        let due = self.store.due_outside(at(self.now)).await.unwrap();
        let Some(entry) = due.first() else { return };
        let settlement = match which % 3 {
            0 => DeliveryAttempt::Delivered,
            1 => DeliveryAttempt::Retry {
                at: at(self.now + 5_000),
                error: "busy".to_owned(),
            },
            _ => DeliveryAttempt::Blocked {
                error: "gone".to_owned(),
            },
        };
        let settled = self.store.record_attempt(entry.id, settlement).await;
        settled.unwrap();
    }

    /// Checks the invariants after every step.
    async fn check(&mut self) {
        let everything = ListFilter {
            archived: true,
            ..ListFilter::default()
        };
        let records = self.store.list(everything).await.unwrap();
        for record in &records {
            assert_eq!(record.status.is_terminal(), record.outcome.is_some());
            if let Some(outcome) = &record.outcome {
                let first = self
                    .outcomes
                    .entry(record.run_id)
                    .or_insert(outcome.clone());
                assert_eq!(first, outcome, "the outcome of {} changed", record.run_id);
            }
        }
        let mut leased: HashMap<Lane, u32> = HashMap::new();
        let mut of_tree: HashMap<RunId, u32> = HashMap::new();
        for record in records.iter().filter(|record| self.is_leased(record)) {
            *leased.entry(record.lane).or_default() += 1;
            if record.lane == Lane::Subagent {
                *of_tree.entry(record.root).or_default() += 1;
            }
        }
        assert!(leased.get(&Lane::Main).is_none_or(|&n| n <= MAIN_LIMIT));
        assert!(
            leased
                .get(&Lane::Subagent)
                .is_none_or(|&n| n <= SUBAGENT_LIMIT)
        );
        assert!(of_tree.values().all(|&n| n <= PER_TREE), "{of_tree:?}");
        sound(&self.store).await;
    }

    fn is_leased(&self, record: &RunRecord) -> bool {
        record.status == Status::Running
            && record.summary.waiting_on != Some(WaitingOn::Slot)
            && record.summary.waiting_on != Some(WaitingOn::Children)
    }
}

/// The value, unless the store refused; a failure of the database is never fine.
fn fine<T: std::fmt::Debug>(result: StoreResult<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(
            StoreError::Fenced { .. } | StoreError::NotFound(_) | StoreError::WrongState { .. },
        ) => None,
        Err(
            error @ (StoreError::NotNext { .. }
            | StoreError::Ambiguous { .. }
            | StoreError::Damaged { .. }
            | StoreError::Locked { .. }
            | StoreError::Failed { .. }),
        ) => panic!("{}", chain_of(&error)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_transitions_keeps_the_invariants(
        steps in proptest::collection::vec(step(), 1..60)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            for step in steps {
                world.take(step).await;
                world.check().await;
            }
        });
    }
}
