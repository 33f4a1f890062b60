//! The real store transitions, in order, each with a delay, and lost if the process dies first.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sortie_core::audit::{AuditLine, AuditReport};
use sortie_core::budget::{Balance, BudgetKind};
use sortie_core::event::JournalEntry;
use sortie_core::hook::{Letter, LetterState, NewLetter};
use sortie_core::id::{BlobId, Fence, RunId, Seq, SessionKey};
use sortie_core::inbox::{InboxItem, OutboxEntry};
use sortie_core::message::Usage;
use sortie_core::ports::store::{
    Accounts, Admission, Admit, Append, Appended, Archive, Audit, AuditFilter, Begun, CancelReport,
    Charged, Claim, Claimed, Delivered, DeliveryAttempt, EndReport, Feed, FeedPlace, Finish,
    Finishing, Heartbeat, HeartbeatReport, Idempotency, Join, Journal, LetterCount, Letters,
    ListFilter, Outbox, Park, PauseReport, Receipt, Reconciled, Recover, RecoverReport, Registry,
    Replied, ReplyTo, Requests, Reserve, Reserved, RetentionRule, RunDelay, RunRef, SaveSnapshot,
    Snapshot, StoreError, StoreResult, Tenants, Unblock, Undelivered, Update, VerifyReport,
    WaitingSession, Workers,
};
use sortie_core::request::{OpenRequest, RequestFilter, RequestId, SessionGrant};
use sortie_core::run::{Cancellation, RecordField, RunRecord};
use sortie_core::session::{SessionFilter, SessionSummary};
use sortie_core::stats::{
    EndedUsage, LaneCount, Stats, UsageLine, UsagePlace, UsagePoint, UsageRange,
};
use sortie_core::tenant::{Tenant, TenantRules, TenantUse};
use sortie_core::time::Timestamp;
use sortie_core::worker::{WorkerId, WorkerRecord};
use sortie_store::InlineStore;
use tokio::sync::{mpsc, oneshot};

use super::Sabotage;
use super::dice::Dice;
use super::world::Generation;

/// A store with a slow writer.
///
/// Transitions run in the order in which they were first polled, like those of the writer thread. A
/// transition that has not run when the process dies never happened; one that has run may not have
/// been answered.
pub(crate) struct SimStore {
    inner: Arc<InlineStore>,
    generation: Arc<Generation>,
    writer: mpsc::UnboundedSender<Job>,
    dice: Arc<Mutex<Dice>>,
    sabotage: Sabotage,
    disk: Arc<Mutex<Disk>>,
}

/// A disk on which writes fail now and then, some of them after they took effect.
#[derive(Debug)]
pub(crate) struct Disk {
    /// `None` is a disk that never fails.
    dice: Option<Dice>,
    /// The number of further writes that fail.
    storm: u32,
}

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Refused,
    /// It takes effect, and is reported as failed.
    DoneAndRefused,
}

impl Disk {
    pub(crate) const fn new(dice: Option<Dice>) -> Self {
        Self { dice, storm: 0 }
    }

    fn next(&mut self) -> Fate {
        let Some(dice) = &mut self.dice else {
            return Fate::Done;
        };
        if self.storm > 0 {
            self.storm -= 1;
        } else if !dice.one_in(15) {
            return Fate::Done;
        } else if dice.one_in(4) {
            self.storm = dice.below(40);
        }
        if dice.one_in(4) {
            Fate::DoneAndRefused
        } else {
            Fate::Refused
        }
    }
}

fn refused<T>() -> StoreResult<T> {
    Err(StoreError::Failed {
        doing: "write",
        source: "no space left on the simulated disk".into(),
    })
}

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

impl SimStore {
    pub(crate) fn new(
        inner: Arc<InlineStore>,
        generation: Arc<Generation>,
        dice: Dice,
        sabotage: Sabotage,
        disk: Disk,
    ) -> Self {
        let (writer, mut jobs) = mpsc::unbounded_channel::<Job>();
        // Ends with the store that sends to it, or waits for ever once the process is dead.
        tokio::spawn(async move {
            while let Some(job) = jobs.recv().await {
                job.await;
            }
        });
        Self {
            inner,
            generation,
            writer,
            dice: Arc::new(Mutex::new(dice)),
            sabotage,
            disk: Arc::new(Mutex::new(disk)),
        }
    }

    /// Runs a transition in turn, on a disk that may fail.
    async fn on_disk<T: Send + 'static>(
        &self,
        transition: impl Future<Output = StoreResult<T>> + Send + 'static,
    ) -> StoreResult<T> {
        let disk = Arc::clone(&self.disk);
        self.in_turn(async move {
            let fate = disk.lock().unwrap_or_else(PoisonError::into_inner).next();
            match fate {
                Fate::Done => transition.await,
                Fate::Refused => refused(),
                Fate::DoneAndRefused => transition.await.and_then(|_| refused()),
            }
        })
        .await
    }

    async fn in_turn<T: Send + 'static>(
        &self,
        transition: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let (reply, answer) = oneshot::channel();
        let dice = Arc::clone(&self.dice);
        let generation = Arc::clone(&self.generation);
        let job = Box::pin(async move {
            dawdle(&dice).await;
            generation.only_the_living().await;
            // The caller may be gone by now; the transition takes effect nevertheless.
            reply.send(transition.await).ok();
        });
        self.writer.send(job).ok();
        let Ok(result) = answer.await else {
            return std::future::pending().await;
        };
        dawdle(&self.dice).await;
        self.generation.only_the_living().await;
        result
    }
}

async fn dawdle(dice: &Mutex<Dice>) {
    let millis = {
        let mut dice = dice.lock().unwrap_or_else(PoisonError::into_inner);
        // Most transitions are fast; some wait for a slow disk.
        if dice.one_in(20) {
            dice.below(30)
        } else {
            dice.below(3)
        }
    };
    if millis > 0 {
        tokio::time::sleep(Duration::from_millis(u64::from(millis))).await;
    }
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimStore")
    }
}

/// Forwards a trait's methods to the real transitions, each in its turn.
macro_rules! in_turn {
    ($trait:ident {
        $($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*
    } may_fail {
        $($risky:ident($($with:ident: $of:ty),*) -> $to:ty;)*
    } $($own:tt)*) => {
        #[async_trait]
        impl $trait for SimStore {
            $(
                async fn $name(&self, $($arg: $type),*) -> StoreResult<$result> {
                    let inner = Arc::clone(&self.inner);
                    self.in_turn(async move { inner.$name($($arg),*).await }).await
                }
            )*
            $(
                async fn $risky(&self, $($with: $of),*) -> StoreResult<$to> {
                    let inner = Arc::clone(&self.inner);
                    self.on_disk(async move { inner.$risky($($with),*).await }).await
                }
            )*

            $($own)*
        }
    };
}

in_turn! {
    Registry {
        cancel(run: RunId, cancellation: Cancellation, at: Timestamp) -> CancelReport;
        pause(run: RunId, at: Timestamp) -> PauseReport;
        resume(run: RunId, at: Timestamp) -> PauseReport;
        set(run: RunId, field: RecordField) -> ();
        recover(recover: Recover) -> RecoverReport;
        update(update: Update) -> ();
        send(run: RunId, item: InboxItem, at: Timestamp) -> ();
        get(run: RunId) -> RunRecord;
        handles(runs: Vec<RunId>) -> BTreeMap<RunId, String>;
        missing(runs: Vec<RunId>) -> Vec<RunId>;
        list(filter: ListFilter) -> Vec<RunRecord>;
        stats(filter: ListFilter) -> Stats;
        usage(filter: ListFilter, after: Option<UsagePlace>, limit: u32) -> Vec<UsageLine>;
        ended_usage(range: UsageRange) -> Vec<EndedUsage>;
        used(filter: ListFilter) -> Usage;
        usage_series(filter: ListFilter, bucket_ms: u64, since: Timestamp) -> Vec<UsagePoint>;
        sessions(filter: SessionFilter) -> Vec<SessionSummary>;
        last_turn(session: SessionKey, tenant: Option<Tenant>, workspace: Option<PathBuf>) -> Option<RunRecord>;
        lanes() -> Vec<LaneCount>;
        probe() -> ();
        next_due() -> Option<Timestamp>;
    } may_fail {
        admit(admit: Admit) -> Admission;
        claim(claim: Claim) -> Vec<Claimed>;
        expire_parked(now: Timestamp) -> EndReport;
    }

    async fn resolve(&self, prefix: &str) -> StoreResult<RunId> {
        self.inner.resolve(prefix).await
    }
}

in_turn! {
    Journal {
        read(run: RunId, after: Seq) -> Vec<JournalEntry>;
        read_part(run: RunId, after: Seq, max_bytes: usize) -> Vec<JournalEntry>;
        first(run: RunId) -> Option<JournalEntry>;
        snapshot(session: SessionKey, tenant: Option<Tenant>) -> Option<Snapshot>;
    } may_fail {
        save_snapshot(save: SaveSnapshot) -> bool;
        take_inbox(fence: Fence, follows: Seq, at: Timestamp) -> Option<JournalEntry>;
        park(park: Park) -> bool;
        release(fence: Fence, at: Timestamp) -> ();
        heartbeat(beat: Heartbeat) -> HeartbeatReport;
        record_delay(wait: RunDelay) -> ();
    }

    async fn append(&self, append: Append) -> StoreResult<Appended> {
        let inner = Arc::clone(&self.inner);
        let sabotage = self.sabotage;
        self.on_disk(async move {
            let follows = followed(&inner, sabotage, append.fence.run, append.follows).await;
            inner.append(Append { follows, ..append }).await
        })
        .await
    }

    async fn finish(&self, finish: Finish) -> StoreResult<Finishing> {
        let inner = Arc::clone(&self.inner);
        let sabotage = self.sabotage;
        self.on_disk(async move {
            let follows = followed(&inner, sabotage, finish.fence.run, finish.follows).await;
            inner.finish(Finish { follows, ..finish }).await
        })
        .await
    }

    async fn blob(&self, run: RunId, id: &BlobId) -> StoreResult<Option<Vec<u8>>> {
        self.inner.blob(run, id).await
    }
}

in_turn! {
    Archive {
        delete(run: RunId) -> Vec<RunRef>;
        clean(at: Timestamp) -> u64;
        archive(archive_before: Timestamp, at: Timestamp) -> u64;
        delete_ended(rule: RetentionRule) -> Vec<RunRef>;
        count_ended(rule: RetentionRule) -> u64;
        verify() -> VerifyReport;
    } may_fail {}
}

in_turn! {
    Requests {
        requests(filter: RequestFilter) -> Vec<OpenRequest>;
        reply(reply: ReplyTo) -> Replied;
    } may_fail {
        reconcile(now: Timestamp) -> Reconciled;
    }

    async fn find_request(&self, prefix: &str) -> StoreResult<OpenRequest> {
        self.inner.find_request(prefix).await
    }

    async fn escalate(&self, request: &RequestId) -> StoreResult<()> {
        let inner = Arc::clone(&self.inner);
        let request = request.clone();
        self.in_turn(async move { inner.escalate(&request).await })
            .await
    }

    async fn grants(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
    ) -> StoreResult<Vec<SessionGrant>> {
        self.inner.grants(tenant, session).await
    }

    async fn revoke(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
        rule: Option<&str>,
    ) -> StoreResult<u64> {
        let inner = Arc::clone(&self.inner);
        let (tenant, session) = (tenant.cloned(), session.clone());
        let rule = rule.map(str::to_owned);
        self.in_turn(async move { inner.revoke(tenant.as_ref(), &session, rule.as_deref()).await })
            .await
    }
}

in_turn! {
    Tenants {
        set_tenants(rules: TenantRules) -> ();
        tenants(tenant: Option<Tenant>, at: Timestamp) -> Vec<TenantUse>;
    } may_fail {}
}

in_turn! {
    Accounts {
        balances(run: RunId) -> Vec<Balance>;
    } may_fail {
        reserve(reserve: Reserve) -> Reserved;
        charge(fence: Fence, kind: BudgetKind, wanted: u64) -> Charged;
    }
}

in_turn! {
    Audit {
        audit(filter: AuditFilter) -> Vec<AuditLine>;
        verify_audit() -> AuditReport;
    } may_fail {}
}

in_turn! {
    Letters {
        post(letters: Vec<NewLetter>, at: Timestamp) -> ();
        due_letters(receivers: Vec<String>, now: Timestamp) -> Vec<Letter>;
        record_letter(id: i64, attempt: DeliveryAttempt) -> ();
        letters(state: LetterState, limit: u32) -> Vec<Letter>;
        letter_counts() -> Vec<LetterCount>;
        unblock_letters(id: Option<i64>, choice: Unblock, at: Timestamp) -> u64;
        tidy_letters(known: Vec<String>, at: Timestamp) -> ();
    } may_fail {}
}

in_turn! {
    Outbox {
        waiting_sessions() -> Vec<WaitingSession>;
        undelivered() -> Undelivered;
        due_outside(now: Timestamp) -> Vec<OutboxEntry>;
        record_attempt(id: i64, attempt: DeliveryAttempt) -> ();
        unblock(run: RunId, choice: Unblock, at: Timestamp) -> ();
    } may_fail {}

    async fn deliver(&self, now: Timestamp) -> StoreResult<Vec<Delivered>> {
        let inner = Arc::clone(&self.inner);
        match self.sabotage {
            Sabotage::None | Sabotage::FailWrites | Sabotage::JumpOverLostWrites => {
                self.on_disk(async move { inner.deliver(now).await }).await
            }
            Sabotage::LoseDeliveries => Ok(Vec::new()),
            Sabotage::RepeatDeliveries => self.in_turn(deliver_twice(inner, now)).await,
        }
    }
}

in_turn! {
    Workers {
        clock(own: Timestamp) -> Timestamp;
        join(join: Join) -> ();
        leave(worker: WorkerId) -> ();
        workers(at: Timestamp) -> Vec<WorkerRecord>;
        signals(fences: Vec<Fence>) -> HeartbeatReport;
        feed(after: FeedPlace) -> Feed;
    } may_fail {
    }

    fn is_shared(&self) -> bool {
        false
    }
}

#[async_trait]
impl Idempotency for SimStore {
    async fn begin(
        &self,
        key: &str,
        fingerprint: &str,
        run: RunId,
        at: Timestamp,
    ) -> StoreResult<Begun> {
        let inner = Arc::clone(&self.inner);
        let (key, fingerprint) = (key.to_owned(), fingerprint.to_owned());
        self.in_turn(async move { inner.begin(&key, &fingerprint, run, at).await })
            .await
    }

    async fn complete(&self, key: &str, status: u16, body: Vec<u8>) -> StoreResult<()> {
        let inner = Arc::clone(&self.inner);
        let key = key.to_owned();
        self.in_turn(async move { inner.complete(&key, status, body).await })
            .await
    }

    async fn forget(&self, key: &str) -> StoreResult<()> {
        let inner = Arc::clone(&self.inner);
        let key = key.to_owned();
        self.in_turn(async move { inner.forget(&key).await }).await
    }
}

/// Returns the entry that a write follows. A store without the check accepts any.
async fn followed(inner: &InlineStore, sabotage: Sabotage, run: RunId, follows: Seq) -> Seq {
    match sabotage {
        Sabotage::JumpOverLostWrites => {
            let record = inner.get(run).await;
            record.map_or(follows, |record| record.head)
        }
        Sabotage::None
        | Sabotage::LoseDeliveries
        | Sabotage::RepeatDeliveries
        | Sabotage::FailWrites => follows,
    }
}

/// Delivers as a store without idempotency keys would.
async fn deliver_twice(inner: Arc<InlineStore>, now: Timestamp) -> StoreResult<Vec<Delivered>> {
    let delivered = inner.deliver(now).await?;
    for delivered in &delivered {
        if let Receipt::Accepted { by } = delivered.receipt {
            let item = InboxItem::Announcement(Box::new(delivered.announcement.clone()));
            inner.send(by, item, now).await?;
        }
    }
    Ok(delivered)
}
