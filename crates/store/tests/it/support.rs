//! A small world to test stores in: ids and specs by number, time by milliseconds.

use sortie_core::agent::*;
use sortie_core::budget::*;
use sortie_core::event::*;
use sortie_core::id::*;
use sortie_core::inbox::*;
use sortie_core::message::*;
use sortie_core::policy::*;
use sortie_core::ports::model::*;
use sortie_core::ports::store::*;
use sortie_core::run::*;
use sortie_core::time::*;
use sortie_core::words::*;
use sortie_core::worker::*;
use uuid::Uuid;

/// The beginning of time in these tests.
pub(crate) const T0: i64 = 1_800_000_000_000;
pub(crate) const LEASE_MS: i64 = 30_000;

/// `millis` after the beginning.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp(T0 + millis)
}

/// The run of this number; ids sort like their numbers.
pub(crate) fn run(number: u32) -> RunId {
    RunId::from_uuid(Uuid::from_u128(
        0x0190_0000_0000_7000_8000_0000_0000_0000 + u128::from(number),
    ))
}

pub(crate) fn spec(number: u32) -> RunSpec {
    RunSpec {
        session: SessionKey::cli(),
        tenant: None,
        parent: None,
        root: run(number),
        depth: 0,
        lane: Lane::Main,
        priority: Priority::Normal,
        label: format!("label {number}"),
        task: format!("task {number}"),
        agent: AgentDefinition {
            name: "general".to_owned(),
            when_to_use: String::new(),
            prompt: String::new(),
            model: ModelChoice::Inherit,
            tools: ToolSelection {
                allow: None,
                deny: Vec::new(),
            },
            read_only: false,
            color: None,
            source: AgentSource::BuiltIn,
            max_iterations: None,
        },
        model: "offline".to_owned(),
        fallbacks: Vec::new(),
        thinking: None,
        sampling: Sampling::default(),
        result_schema: None,
        checks: Vec::new(),
        watched: std::collections::BTreeMap::new(),
        workspace: "project".into(),
        lang: Lang::En,
        limits: Limits {
            max_iterations: 15,
            timeout_ms: None,
            exec_timeout_ms: 300_000,
            budget: Budget::default(),
        },
        announce: Announce::Steer,
        cleanup: Cleanup::Keep,
        tools: Vec::new(),
        continues: None,
        fork: None,
        context: None,
        report_to: Vec::new(),
        hooks: Vec::new(),
        policy: Policy::default(),
        policy_hash: String::new(),
        operator: String::new(),
        skills: Vec::new(),
        confinement: Confinement::default(),
        isolation: Isolation::None,
        account: None,
        not_after: None,
        caps: AdmissionCaps {
            max_children_per_tree: 200,
            max_depth: 5,
        },
        requires: Vec::new(),
    }
}

/// A root of the subagent lane, as a background task has it.
pub(crate) fn background(number: u32) -> RunSpec {
    RunSpec {
        lane: Lane::Subagent,
        announce: Announce::Silent,
        ..spec(number)
    }
}

/// A child of `parent` in the tree of `root`.
pub(crate) fn child(number: u32, parent: u32, root: u32) -> RunSpec {
    RunSpec {
        parent: Some(ParentLink {
            run: run(parent),
            call: CallId::new(number, 0),
            mode: EdgeMode::Background,
        }),
        root: run(root),
        depth: if parent == root { 1 } else { 2 },
        announce: Announce::Steer,
        ..background(number)
    }
}

pub(crate) fn sink(target: &str) -> SinkAddress {
    SinkAddress {
        scheme: "file".to_owned(),
        target: target.to_owned(),
    }
}

pub(crate) fn asking(number: u32, spec: RunSpec, millis: i64) -> Admit {
    Admit {
        run: run(number),
        spec,
        at: at(millis),
        parent: None,
    }
}

pub(crate) async fn admit(store: &dyn Store, number: u32, spec: RunSpec) -> Admission {
    store
        .admit(asking(number, spec, i64::from(number)))
        .await
        .unwrap()
}

/// The process that the tests claim for.
pub(crate) fn tester() -> WorkerId {
    WorkerId::from_stored("tester".to_owned())
}

pub(crate) fn claiming(millis: i64) -> Claim {
    Claim {
        owner: tester(),
        at: at(millis),
        lease_until: at(millis + LEASE_MS),
        lanes: vec![
            LaneLimit {
                lane: Lane::Main,
                max_concurrent: 100,
            },
            LaneLimit {
                lane: Lane::Subagent,
                max_concurrent: 100,
            },
        ],
        labels: Vec::new(),
        per_parent: 100,
        per_tree: 100,
        deaths: DEATHS,
    }
}

/// Claims without practical limits and gives the fences by order of the queue.
pub(crate) async fn claim_all(store: &dyn Store, millis: i64) -> Vec<Fence> {
    let claimed = store.claim(claiming(millis)).await.unwrap();
    claimed.iter().map(|claimed| claimed.fence).collect()
}

/// Admits and claims one run.
pub(crate) async fn running(store: &dyn Store, number: u32, spec: RunSpec) -> Fence {
    admit(store, number, spec).await;
    let fences = claim_all(store, i64::from(number)).await;
    *fences
        .iter()
        .find(|fence| fence.run == run(number))
        .expect("the run was not claimed")
}

pub(crate) fn summary(progress: u8) -> Summary {
    Summary {
        waiting_on: Some(WaitingOn::Tool),
        progress,
        tool_calls: 3,
        usage: Usage {
            input_tokens: Some(7),
            ..Usage::default()
        },
        unpriced: 0,
        model: "offline".to_owned(),
        last_text: Some("so far".to_owned()),
    }
}

pub(crate) fn note(message: &str) -> Event {
    Event::ModelFailed {
        model: "offline".to_owned(),
        fault: Fault::Transient,
        message: message.to_owned(),
        shown: false,
    }
}

/// Writes that follow the end of the journal, wherever it is. What writes that do not follow it come
/// to is tested by itself.
#[async_trait::async_trait]
pub(crate) trait Next: Store {
    async fn head(&self, run: RunId) -> Seq {
        let record = self.get(run).await;
        record.map_or_else(|_| Seq(0), |record| record.head)
    }

    async fn append_next(&self, append: Append) -> StoreResult<Appended> {
        let follows = self.head(append.fence.run).await;
        self.append(Append { follows, ..append }).await
    }

    async fn finish_next(&self, finish: Finish) -> StoreResult<Finishing> {
        let follows = self.head(finish.fence.run).await;
        self.finish(Finish { follows, ..finish }).await
    }

    async fn park_next(&self, park: Park) -> StoreResult<bool> {
        let follows = self.head(park.fence.run).await;
        self.park(Park { follows, ..park }).await
    }

    async fn take_next(&self, fence: Fence, at: Timestamp) -> StoreResult<Option<JournalEntry>> {
        let follows = self.head(fence.run).await;
        self.take_inbox(fence, follows, at).await
    }
}

impl<S: Store + ?Sized> Next for S {}

pub(crate) fn appending(fence: Fence, millis: i64, events: Vec<Event>) -> Append {
    Append {
        fence,
        follows: Seq(0),
        at: at(millis),
        events,
        summary: summary(5),
        blobs: Vec::new(),
        audit: Vec::new(),
        spent: None,
        letters: Vec::new(),
    }
}

pub(crate) fn finishing(fence: Fence, millis: i64, outcome: Outcome) -> Finish {
    Finish {
        fence,
        follows: Seq(0),
        at: at(millis),
        events: vec![note("last words")],
        blobs: Vec::new(),
        summary: summary(40),
        outcome,
        audit: Vec::new(),
        unread: Unread::Kept,
    }
}

/// What came of a finish that had to end its run.
pub(crate) fn reported(finishing: StoreResult<Finishing>) -> EndReport {
    match finishing.unwrap() {
        Finishing::Ended(report) => report,
        Finishing::Unread => panic!("the run has messages"),
    }
}

pub(crate) fn completed(text: &str) -> Outcome {
    Outcome::Completed {
        text: text.to_owned(),
        checked: None,
    }
}

pub(crate) fn failed() -> Outcome {
    Outcome::Failed {
        reason: Reason::Error,
        message: "it broke".to_owned(),
        partial: None,
    }
}

pub(crate) fn by_person() -> Cancellation {
    Cancellation {
        by: CancelledBy::Person,
        reason: "enough".to_owned(),
    }
}

pub(crate) fn steer(text: &str) -> InboxItem {
    InboxItem::Steer {
        from: Sender::Person,
        text: text.to_owned(),
    }
}

pub(crate) fn parking(fence: Fence, millis: i64) -> Park {
    Park {
        fence,
        follows: Seq(0),
        at: at(millis),
        waiting_on: WaitingOn::Children,
    }
}

/// A run whose account limits these.
pub(crate) fn with_budget(number: u32, spec: RunSpec, budget: Budget) -> RunSpec {
    RunSpec {
        account: Some(run(number)),
        limits: Limits {
            budget,
            ..spec.limits
        },
        ..spec
    }
}

/// `kind spent+reserved/limit` for each kind that limits a run.
pub(crate) async fn balances(store: &dyn Store, number: u32) -> String {
    show(&store.balances(run(number)).await.unwrap())
}

pub(crate) fn show(balances: &[Balance]) -> String {
    let each = balances.iter().map(|balance| {
        let Balance {
            kind,
            limit,
            spent,
            reserved,
        } = balance;
        format!("{kind} {spent}+{reserved}/{limit}")
    });
    each.collect::<Vec<_>>().join(", ")
}

pub(crate) fn tokens(amount: u64) -> Amount {
    Amount::only(BudgetKind::Tokens, amount)
}

pub(crate) const DEATHS: DeathLimits = DeathLimits {
    without_progress: 3,
    total: 5,
};

pub(crate) fn recovering(scope: RecoverScope, millis: i64) -> Recover {
    Recover {
        scope,
        at: at(millis),
        deaths: DEATHS,
    }
}

/// The journal's event names, in order.
pub(crate) async fn story(store: &dyn Store, number: u32) -> String {
    let entries = store.read(run(number), Seq(0)).await.unwrap();
    let names: Vec<_> = entries.iter().map(|entry| entry.event.name()).collect();
    names.join(" ")
}

/// Status, waiting, delivery: the state of a run on one line.
pub(crate) async fn state(store: &dyn Store, number: u32) -> String {
    let record = store.get(run(number)).await.unwrap();
    let waiting = record.summary.waiting_on.map_or("-", WaitingOn::as_str);
    format!("{} {waiting} {}", record.status, record.delivery)
}

/// The numbers of some runs.
pub(crate) fn numbers(runs: impl IntoIterator<Item = RunId>) -> Vec<u32> {
    let number = |id: RunId| {
        let text = id.to_string();
        u32::from_str_radix(&text[text.len() - 8..], 16).unwrap()
    };
    runs.into_iter().map(number).collect()
}

pub(crate) fn of_fences(fences: &[Fence]) -> Vec<u32> {
    numbers(fences.iter().map(|fence| fence.run))
}

pub(crate) fn of_ended(ended: &[Ended]) -> Vec<u32> {
    numbers(ended.iter().map(|end| end.run))
}

/// Nothing in the store contradicts itself.
pub(crate) async fn sound(store: &dyn Store) {
    let report = store.verify().await.unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

pub(crate) fn assert_fenced<T: std::fmt::Debug>(result: StoreResult<T>) {
    assert!(
        matches!(result, Err(StoreError::Fenced { .. })),
        "got {result:?}"
    );
}

/// An error with everything behind it.
pub(crate) fn chain_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
