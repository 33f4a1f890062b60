//! Implements the store port: each method runs one transition or one query.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use sortie_core::audit::{AuditLine, AuditReport};
use sortie_core::budget::{Balance, BudgetKind};
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{BlobId, Fence, RunId, Seq, SessionKey};
use sortie_core::inbox::{InboxItem, OutboxEntry};
use sortie_core::message::Usage;
use sortie_core::ports::store::{
    Accounts, Admission, Admit, Append, Appended, Archive, Audit, AuditFilter, Begun, CancelReport,
    Charged, Claim, Claimed, Delivered, DeliveryAttempt, EndReport, Feed, FeedPlace, Finish,
    Finishing, Heartbeat, HeartbeatReport, Idempotency, Join, Journal, ListFilter, Outbox, Park,
    PauseReport, Reconciled, Recover, RecoverReport, RecoverScope, Registry, Replied, ReplyTo,
    Requests, Reserve, Reserved, RetentionRule, RunDelay, RunRef, SaveSnapshot, Snapshot,
    StoreError, StoreResult, Tenants, Unblock, Undelivered, Update, VerifyReport, WaitingSession,
    Workers,
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

use crate::SqlStore;
use crate::chain;
use crate::execute::Execute;
use crate::row;
use crate::schema;
use crate::sql::Connection;
use crate::transitions::append::Entries;
use crate::transitions::archive::MAX_REMOVALS;
use crate::transitions::finish::LastEntries;
use crate::transitions::idempotency::Beginning;
use crate::transitions::{
    accounts, admit, append, archive, cancel, claim, deliver, feed, finish, idempotency, inbox,
    lease, mailbox, park, pause, read, recover, requests, sessions, snapshots, tenants, update,
    workers,
};

const READING: &str = "read the journals of claimed tasks";

#[async_trait]
impl<E: Execute> Registry for SqlStore<E> {
    async fn admit(&self, admit: Admit) -> StoreResult<Admission> {
        const DOING: &str = "admit a task";
        let event = Event::Admitted {
            spec: Box::new(admit.spec.clone()),
        };
        let body = to_text(&event, DOING)?;
        self.execute
            .write(DOING, move |connection| {
                admit::admit(connection, &admit, &body)
            })
            .await
    }

    /// Reads the journals after the commit, outside the writer thread: until then only the new
    /// lease holder may append to them.
    async fn claim(&self, claim: Claim) -> StoreResult<Vec<Claimed>> {
        let leases = self
            .execute
            .write("claim tasks", move |connection| {
                claim::claim(connection, &claim)
            })
            .await?;
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let fences: Vec<_> = leases
            .iter()
            .map(|lease| (lease.fence, lease.head))
            .collect();
        let journals = self
            .execute
            .read(READING, move |connection| {
                let read = |(fence, head): &(Fence, Seq)| journal_up_to(connection, *fence, *head);
                Ok(fences.iter().map(read).collect::<Vec<_>>())
            })
            .await;
        // A run whose journal cannot be read this time stays claimed: its executor releases it.
        let journals = journals.unwrap_or_else(|error| {
            let reason = sortie_core::error::with_causes(&error);
            leases
                .iter()
                .map(|_| Err(unread(reason.as_str())))
                .collect()
        });
        let claimed = leases.into_iter().zip(journals);
        Ok(claimed
            .map(|(lease, entries)| Claimed {
                fence: lease.fence,
                entries,
                cancel: lease.cancel,
                inbox_waiting: lease.inbox_waiting,
                alone: lease.alone,
            })
            .collect())
    }

    async fn cancel(
        &self,
        run: RunId,
        cancellation: Cancellation,
        at: Timestamp,
    ) -> StoreResult<CancelReport> {
        self.execute
            .write("cancel a task", move |connection| {
                cancel::cancel(connection, run, &cancellation, at)
            })
            .await
    }

    /// A recovery of all leases keeps other processes out until it is committed.
    async fn recover(&self, recover: Recover) -> StoreResult<RecoverReport> {
        const DOING: &str = "recover tasks";
        let is_shared = self.execute.origin().is_some();
        let keeps_out = is_shared && recover.scope == RecoverScope::All;
        let report = self
            .execute
            .write(DOING, move |connection| {
                recover::recover(connection, &recover)
            })
            .await;
        if keeps_out {
            let shared = self.execute.write(DOING, Connection::share).await;
            return report.and_then(|report| shared.map(|()| report));
        }
        report
    }

    async fn pause(&self, run: RunId, at: Timestamp) -> StoreResult<PauseReport> {
        self.execute
            .write("pause a task", move |connection| {
                pause::pause(connection, run, at)
            })
            .await
    }

    async fn resume(&self, run: RunId, at: Timestamp) -> StoreResult<PauseReport> {
        self.execute
            .write("resume a task", move |connection| {
                pause::resume(connection, run, at)
            })
            .await
    }

    async fn set(&self, run: RunId, field: RecordField) -> StoreResult<()> {
        self.execute
            .write("change a record", move |connection| {
                row::set(connection, run, &field)
            })
            .await
    }

    async fn expire_parked(&self, now: Timestamp) -> StoreResult<EndReport> {
        self.execute
            .write("end tasks past their deadline", move |connection| {
                park::expire_parked(connection, now)
            })
            .await
    }

    async fn update(&self, update: Update) -> StoreResult<()> {
        self.execute
            .write("change a task", move |connection| {
                update::update(connection, &update)
            })
            .await
    }

    async fn send(&self, run: RunId, item: InboxItem, at: Timestamp) -> StoreResult<()> {
        self.execute
            .write("send a message to a task", move |connection| {
                inbox::send(connection, run, &item, at)
            })
            .await
    }

    async fn get(&self, run: RunId) -> StoreResult<RunRecord> {
        self.get(run).await
    }

    async fn resolve(&self, prefix: &str) -> StoreResult<RunId> {
        self.resolve(prefix).await
    }

    async fn handles(&self, runs: Vec<RunId>) -> StoreResult<BTreeMap<RunId, String>> {
        self.handles(runs).await
    }

    async fn missing(&self, runs: Vec<RunId>) -> StoreResult<Vec<RunId>> {
        self.execute
            .read("look for tasks", move |connection| {
                read::missing(connection, &runs)
            })
            .await
    }

    async fn list(&self, filter: ListFilter) -> StoreResult<Vec<RunRecord>> {
        self.list(filter).await
    }

    async fn stats(&self, filter: ListFilter) -> StoreResult<Stats> {
        self.stats(filter).await
    }

    async fn usage(
        &self,
        filter: ListFilter,
        after: Option<UsagePlace>,
        limit: u32,
    ) -> StoreResult<Vec<UsageLine>> {
        self.usage_page(filter, after, limit).await
    }

    async fn ended_usage(&self, range: UsageRange) -> StoreResult<Vec<EndedUsage>> {
        self.ended_usage(range).await
    }

    async fn used(&self, filter: ListFilter) -> StoreResult<Usage> {
        self.used(filter).await
    }

    async fn usage_series(
        &self,
        filter: ListFilter,
        bucket_ms: u64,
        since: Timestamp,
    ) -> StoreResult<Vec<UsagePoint>> {
        self.usage_series(filter, bucket_ms, since).await
    }

    async fn sessions(&self, filter: SessionFilter) -> StoreResult<Vec<SessionSummary>> {
        self.sessions(filter).await
    }

    async fn last_turn(
        &self,
        session: SessionKey,
        tenant: Option<Tenant>,
        workspace: Option<PathBuf>,
    ) -> StoreResult<Option<RunRecord>> {
        self.last_turn(session, tenant, workspace).await
    }

    async fn lanes(&self) -> StoreResult<Vec<LaneCount>> {
        self.execute.read("count lanes", sessions::lanes).await
    }

    async fn probe(&self) -> StoreResult<()> {
        if let Some(reason) = self.execute.outage() {
            return Err(StoreError::Failed {
                doing: "reach its database",
                source: reason.into(),
            });
        }
        self.execute.write("write", schema::touch).await
    }

    async fn next_due(&self) -> StoreResult<Option<Timestamp>> {
        self.execute
            .read("find out what is due", read::next_due)
            .await
    }
}

#[async_trait]
impl<E: Execute> Journal for SqlStore<E> {
    async fn append(&self, append: Append) -> StoreResult<Appended> {
        const DOING: &str = "write to a journal";
        let entries = Entries::of(append).map_err(|fault| fault.while_doing(DOING))?;
        self.execute
            .write(DOING, move |connection| {
                append::append(connection, &entries)
            })
            .await
    }

    async fn take_inbox(
        &self,
        fence: Fence,
        follows: Seq,
        at: Timestamp,
    ) -> StoreResult<Option<JournalEntry>> {
        self.execute
            .write("take an inbox", move |connection| {
                inbox::take_inbox(connection, fence, follows, at)
            })
            .await
    }

    async fn park(&self, park: Park) -> StoreResult<bool> {
        self.execute
            .write("park a task", move |connection| {
                park::park(connection, &park)
            })
            .await
    }

    async fn finish(&self, finish: Finish) -> StoreResult<Finishing> {
        const DOING: &str = "finish a task";
        let last = LastEntries::of(finish).map_err(|fault| fault.while_doing(DOING))?;
        self.execute
            .write(DOING, move |connection| finish::finish(connection, &last))
            .await
    }

    async fn release(&self, fence: Fence, at: Timestamp) -> StoreResult<()> {
        self.execute
            .write("release a task", move |connection| {
                lease::release(connection, fence, at)
            })
            .await
    }

    async fn heartbeat(&self, beat: Heartbeat) -> StoreResult<HeartbeatReport> {
        self.execute
            .write("renew claims", move |connection| {
                lease::heartbeat(connection, &beat)
            })
            .await
    }

    async fn record_delay(&self, wait: RunDelay) -> StoreResult<()> {
        self.execute
            .write("record a rate limit", move |connection| {
                lease::record_delay(connection, &wait)
            })
            .await
    }

    async fn read(&self, run: RunId, after: Seq) -> StoreResult<Vec<JournalEntry>> {
        self.read(run, after).await
    }

    async fn read_part(
        &self,
        run: RunId,
        after: Seq,
        max_bytes: usize,
    ) -> StoreResult<Vec<JournalEntry>> {
        self.read_part(run, after, max_bytes).await
    }

    async fn first(&self, run: RunId) -> StoreResult<Option<JournalEntry>> {
        self.first(run).await
    }

    async fn snapshot(
        &self,
        session: SessionKey,
        tenant: Option<Tenant>,
    ) -> StoreResult<Option<Snapshot>> {
        self.execute
            .read("read a snapshot", move |connection| {
                snapshots::load(connection, &session, tenant.as_ref())
            })
            .await
    }

    async fn save_snapshot(&self, save: SaveSnapshot) -> StoreResult<bool> {
        self.execute
            .write("save a snapshot", move |connection| {
                snapshots::save(connection, &save)
            })
            .await
    }

    async fn blob(&self, run: RunId, id: &BlobId) -> StoreResult<Option<Vec<u8>>> {
        self.blob(run, id).await
    }
}

#[async_trait]
impl<E: Execute> Outbox for SqlStore<E> {
    async fn deliver(&self, now: Timestamp) -> StoreResult<Vec<Delivered>> {
        self.execute
            .write("deliver results", move |connection| {
                deliver::deliver(connection, now)
            })
            .await
    }

    async fn waiting_sessions(&self) -> StoreResult<Vec<WaitingSession>> {
        self.execute
            .read("find waiting results", deliver::waiting_sessions)
            .await
    }

    async fn undelivered(&self) -> StoreResult<Undelivered> {
        self.undelivered().await
    }

    async fn due_outside(&self, now: Timestamp) -> StoreResult<Vec<OutboxEntry>> {
        self.execute
            .read("find results to deliver", move |connection| {
                deliver::due_outside(connection, now)
            })
            .await
    }

    async fn record_attempt(&self, id: i64, attempt: DeliveryAttempt) -> StoreResult<()> {
        self.execute
            .write("record a delivery", move |connection| {
                deliver::record_attempt(connection, id, &attempt)
            })
            .await
    }

    async fn unblock(&self, run: RunId, choice: Unblock, at: Timestamp) -> StoreResult<()> {
        self.execute
            .write("unblock a delivery", move |connection| {
                deliver::unblock(connection, run, choice, at)
            })
            .await
    }
}

#[async_trait]
impl<E: Execute> Requests for SqlStore<E> {
    async fn requests(&self, filter: RequestFilter) -> StoreResult<Vec<OpenRequest>> {
        self.requests(filter).await
    }

    async fn find_request(&self, prefix: &str) -> StoreResult<OpenRequest> {
        self.find_request(prefix).await
    }

    async fn reply(&self, reply: ReplyTo) -> StoreResult<Replied> {
        self.execute
            .write("record a reply", move |connection| {
                requests::reply(connection, &reply)
            })
            .await
    }

    async fn escalate(&self, request: &RequestId) -> StoreResult<()> {
        let request = request.clone();
        self.execute
            .write("hand a question to a person", move |connection| {
                requests::escalate(connection, &request)
            })
            .await
    }

    /// Checks before it writes: the scheduler calls this often, and usually nothing is due.
    async fn reconcile(&self, now: Timestamp) -> StoreResult<Reconciled> {
        const DOING: &str = "take in the mailbox";
        let any_due = self
            .execute
            .read(DOING, move |connection| mailbox::any_due(connection, now))
            .await?;
        if !any_due {
            return Ok(Reconciled::default());
        }
        self.execute
            .write(DOING, move |connection| mailbox::reconcile(connection, now))
            .await
    }

    async fn grants(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
    ) -> StoreResult<Vec<SessionGrant>> {
        self.grants(tenant, session).await
    }

    async fn revoke(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
        rule: Option<&str>,
    ) -> StoreResult<u64> {
        let (tenant, session) = (tenant.cloned(), session.clone());
        let rule = rule.map(str::to_owned);
        self.execute
            .write("revoke a grant", move |connection| {
                requests::revoke(connection, tenant.as_ref(), &session, rule.as_deref())
            })
            .await
    }
}

#[async_trait]
impl<E: Execute> Accounts for SqlStore<E> {
    async fn reserve(&self, reserve: Reserve) -> StoreResult<Reserved> {
        self.execute
            .write("reserve from an account", move |connection| {
                accounts::reserve(connection, &reserve)
            })
            .await
    }

    async fn charge(&self, fence: Fence, kind: BudgetKind, wanted: u64) -> StoreResult<Charged> {
        self.execute
            .write("charge an account", move |connection| {
                accounts::charge(connection, fence, kind, wanted)
            })
            .await
    }

    async fn balances(&self, run: RunId) -> StoreResult<Vec<Balance>> {
        self.balances(run).await
    }
}

#[async_trait]
impl<E: Execute> Audit for SqlStore<E> {
    async fn audit(&self, filter: AuditFilter) -> StoreResult<Vec<AuditLine>> {
        self.audit(filter).await
    }

    async fn verify_audit(&self) -> StoreResult<AuditReport> {
        self.verify_audit().await
    }
}

#[async_trait]
impl<E: Execute> Idempotency for SqlStore<E> {
    async fn begin(
        &self,
        key: &str,
        fingerprint: &str,
        run: RunId,
        at: Timestamp,
    ) -> StoreResult<Begun> {
        let beginning = Beginning {
            key: key.to_owned(),
            fingerprint: fingerprint.to_owned(),
            run,
            at,
        };
        self.execute
            .write("record a request", move |connection| {
                idempotency::begin(connection, &beginning)
            })
            .await
    }

    async fn complete(&self, key: &str, status: u16, body: Vec<u8>) -> StoreResult<()> {
        let key = key.to_owned();
        self.execute
            .write("record a response", move |connection| {
                idempotency::complete(connection, &key, status, &body)
            })
            .await
    }

    async fn forget(&self, key: &str) -> StoreResult<()> {
        let key = key.to_owned();
        self.execute
            .write("forget a request", move |connection| {
                idempotency::forget(connection, &key)
            })
            .await
    }
}

#[async_trait]
impl<E: Execute> Archive for SqlStore<E> {
    async fn delete(&self, run: RunId) -> StoreResult<Vec<RunRef>> {
        self.execute
            .write("delete a task", move |connection| {
                archive::delete(connection, run)
            })
            .await
    }

    /// Works in passes, so that other transitions run in between.
    async fn clean(&self, at: Timestamp) -> StoreResult<u64> {
        let mut total = 0;
        loop {
            let removed = self
                .execute
                .write("delete transcripts", move |connection| {
                    archive::clean(connection, at)
                })
                .await?;
            total += removed;
            if removed < MAX_REMOVALS {
                return Ok(total);
            }
        }
    }

    /// Compresses on a reader and writes one run per transaction, so that appends do not wait.
    async fn archive(&self, archive_before: Timestamp, at: Timestamp) -> StoreResult<u64> {
        let due = self
            .execute
            .read("find tasks to archive", move |connection| {
                archive::to_archive(connection, archive_before)
            })
            .await?;
        let count = due.len() as u64;
        for run in due {
            let packed = self
                .execute
                .read("compress a task", move |connection| {
                    archive::pack(connection, run)
                })
                .await?;
            self.execute
                .write("archive a task", move |connection| {
                    archive::archive(connection, run, &packed, at)
                })
                .await?;
        }
        Ok(count)
    }

    async fn delete_ended(&self, rule: RetentionRule) -> StoreResult<Vec<RunRef>> {
        let mut removed = Vec::new();
        loop {
            let rule = rule.clone();
            let pass = self
                .execute
                .write("delete old tasks", move |connection| {
                    archive::delete_ended(connection, &rule)
                })
                .await?;
            removed.extend(pass.records);
            if pass.trees < MAX_REMOVALS {
                return Ok(removed);
            }
        }
    }

    async fn count_ended(&self, rule: RetentionRule) -> StoreResult<u64> {
        self.execute
            .read("count old tasks", move |connection| {
                archive::count_ended(connection, &rule)
            })
            .await
    }

    async fn verify(&self) -> StoreResult<VerifyReport> {
        self.verify_with(None).await
    }
}

#[async_trait]
impl<E: Execute> Workers for SqlStore<E> {
    fn is_shared(&self) -> bool {
        self.execute.origin().is_some()
    }

    async fn clock(&self, own: Timestamp) -> StoreResult<Timestamp> {
        if !self.is_shared() {
            return Ok(own);
        }
        self.database_clock().await
    }

    async fn join(&self, join: Join) -> StoreResult<()> {
        self.execute
            .write("register a worker", move |connection| {
                workers::join(connection, &join)
            })
            .await
    }

    async fn leave(&self, worker: WorkerId) -> StoreResult<()> {
        self.execute
            .write("remove a worker", move |connection| {
                workers::leave(connection, &worker)
            })
            .await
    }

    async fn workers(&self, at: Timestamp) -> StoreResult<Vec<WorkerRecord>> {
        self.workers(at).await
    }

    async fn signals(&self, fences: Vec<Fence>) -> StoreResult<HeartbeatReport> {
        self.execute
            .read("look for signals", move |connection| {
                lease::signals(connection, &fences)
            })
            .await
    }

    async fn feed(&self, after: FeedPlace) -> StoreResult<Feed> {
        let Some(origin) = self.execute.origin() else {
            return Ok(Feed::default());
        };
        self.execute
            .read("read the feed", move |connection| {
                feed::read(connection, after, origin.into())
            })
            .await
    }
}

#[async_trait]
impl<E: Execute> Tenants for SqlStore<E> {
    async fn set_tenants(&self, rules: TenantRules) -> StoreResult<()> {
        self.execute
            .write("store the quotas of tenants", move |connection| {
                tenants::set(connection, &rules)
            })
            .await
    }

    async fn tenants(&self, tenant: Option<Tenant>, at: Timestamp) -> StoreResult<Vec<TenantUse>> {
        self.tenants(tenant, at).await
    }
}

/// Reads the journal of a claimed run, up to the claim.
fn journal_up_to(
    connection: &Connection,
    fence: Fence,
    head: Seq,
) -> StoreResult<Vec<JournalEntry>> {
    match chain::read(connection, fence.run, Seq::default()) {
        Ok(mut entries) => {
            entries.retain(|entry| entry.seq <= head);
            Ok(entries)
        }
        Err(fault) if fault.is_damage() => {
            let error = fault.while_doing(READING);
            if matches!(error, StoreError::Damaged { .. }) {
                return Err(error);
            }
            Err(StoreError::Damaged {
                run: fence.run,
                seq: head,
                what: sortie_core::error::with_causes(&error),
            })
        }
        Err(fault) => Err(fault.while_doing(READING)),
    }
}

fn unread(reason: &str) -> StoreError {
    StoreError::Failed {
        doing: READING,
        source: reason.into(),
    }
}

fn to_text(event: &Event, doing: &'static str) -> StoreResult<String> {
    serde_json::to_string(event).map_err(|error| StoreError::Failed {
        doing,
        source: Box::new(error),
    })
}
