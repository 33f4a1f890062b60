//! The queries of every kind of store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sortie_core::audit::{AuditLine, AuditReport};
use sortie_core::budget::Balance;
use sortie_core::event::JournalEntry;
use sortie_core::hook::{Letter, LetterState};
use sortie_core::id::{BlobId, RunId, Seq, SessionKey};
use sortie_core::message::Usage;
use sortie_core::ports::store::{
    AuditFilter, LetterCount, ListFilter, StoreResult, Undelivered, VerifyReport,
};
use sortie_core::request::{OpenRequest, RequestFilter, SessionGrant};
use sortie_core::run::RunRecord;
use sortie_core::session::{SessionFilter, SessionSummary};
use sortie_core::stats::{EndedUsage, Stats, UsageLine, UsagePlace, UsagePoint, UsageRange};
use sortie_core::tenant::{Tenant, TenantUse};
use sortie_core::time::Timestamp;
use sortie_core::worker::WorkerRecord;

use crate::chain;
use crate::execute::Query;
use crate::transitions::rebuild::Fold;
use crate::transitions::{
    accounts, audit, deliver, letters, mailbox, read, request_views, requests, sessions, tenants,
    usage_days, verify, workers,
};
use crate::{ReadStore, SqlStore};

impl<Q: Query> SqlStore<Q> {
    /// Returns one record.
    pub async fn get(&self, run: RunId) -> StoreResult<RunRecord> {
        self.execute
            .read("read a task", move |connection| read::get(connection, run))
            .await
    }

    /// Returns the run with this handle, or whose id begins with a prefix of at least eight characters.
    pub async fn resolve(&self, prefix: &str) -> StoreResult<RunId> {
        let prefix = prefix.to_owned();
        self.execute
            .read("find a task", move |connection| {
                read::resolve(connection, &prefix)
            })
            .await
    }

    /// Returns the handles of these runs; runs that do not exist are left out.
    pub async fn handles(&self, runs: Vec<RunId>) -> StoreResult<BTreeMap<RunId, String>> {
        self.execute
            .read("read handles", move |connection| {
                read::handles(connection, &runs)
            })
            .await
    }

    /// Returns the usage of ended runs by the parts that the range names.
    pub async fn ended_usage(&self, range: UsageRange) -> StoreResult<Vec<EndedUsage>> {
        self.execute
            .read("read the usage of ended tasks", move |connection| {
                usage_days::read(connection, &range)
            })
            .await
    }

    /// Returns what tenants use: one of them, or all that have rules or runs.
    pub async fn tenants(
        &self,
        tenant: Option<Tenant>,
        at: Timestamp,
    ) -> StoreResult<Vec<TenantUse>> {
        self.execute
            .read("read the usage of tenants", move |connection| {
                tenants::list(connection, tenant.as_ref(), at)
            })
            .await
    }

    /// Returns the workers of a shared store, the oldest first. `at` is by the clock of leases.
    pub async fn workers(&self, at: Timestamp) -> StoreResult<Vec<WorkerRecord>> {
        self.execute
            .read("list workers", move |connection| {
                workers::list(connection, at)
            })
            .await
    }

    /// Returns the workers of a shared store at the present time of its database.
    pub async fn workers_now(&self) -> StoreResult<Vec<WorkerRecord>> {
        self.execute
            .read("list workers", |connection| {
                if !connection.is_shared() {
                    return Ok(Vec::new());
                }
                workers::list(connection, workers::clock(connection)?)
            })
            .await
    }

    /// Returns the present time of the clock of leases of a shared store.
    pub async fn database_clock(&self) -> StoreResult<Timestamp> {
        self.execute
            .read("read the clock of the database", workers::clock)
            .await
    }

    /// Counts the results that were not delivered.
    pub async fn undelivered(&self) -> StoreResult<Undelivered> {
        self.execute
            .read("count deliveries", deliver::undelivered)
            .await
    }

    /// Whether an entry of the mailbox was not taken in yet.
    pub async fn is_waiting(&self, mail: i64) -> StoreResult<bool> {
        self.execute
            .read("read the mailbox", move |connection| {
                mailbox::is_waiting(connection, mail)
            })
            .await
    }

    /// Returns letters for receivers outside in this state, the oldest first.
    pub async fn letters(&self, state: LetterState, limit: u32) -> StoreResult<Vec<Letter>> {
        self.execute
            .read("list letters", move |connection| {
                letters::list(connection, state, limit)
            })
            .await
    }

    /// Counts the letters of each receiver.
    pub async fn letter_counts(&self) -> StoreResult<Vec<LetterCount>> {
        self.execute.read("count letters", letters::counts).await
    }

    /// Returns records, newest first unless the filter asks for the opposite.
    pub async fn list(&self, filter: ListFilter) -> StoreResult<Vec<RunRecord>> {
        self.execute
            .read("list tasks", move |connection| {
                read::list(connection, &filter)
            })
            .await
    }

    /// Counts runs for each status.
    pub async fn stats(&self, filter: ListFilter) -> StoreResult<Stats> {
        self.execute
            .read("count tasks", move |connection| {
                read::stats(connection, &filter)
            })
            .await
    }

    /// Returns a page of usage by session, agent and model.
    pub(crate) async fn usage_page(
        &self,
        filter: ListFilter,
        after: Option<UsagePlace>,
        limit: u32,
    ) -> StoreResult<Vec<UsageLine>> {
        self.execute
            .read("add up usage", move |connection| {
                read::usage(connection, &filter, after.as_ref(), limit)
            })
            .await
    }

    /// Returns the total usage.
    pub async fn used(&self, filter: ListFilter) -> StoreResult<Usage> {
        self.execute
            .read("add up usage", move |connection| {
                read::used(connection, &filter)
            })
            .await
    }

    /// Returns the usage of runs by the interval in which they were admitted.
    pub async fn usage_series(
        &self,
        filter: ListFilter,
        bucket_ms: u64,
        since: Timestamp,
    ) -> StoreResult<Vec<UsagePoint>> {
        self.execute
            .read("add up usage over time", move |connection| {
                sessions::usage_series(connection, &filter, bucket_ms, since)
            })
            .await
    }

    /// Returns conversations, the one with the latest turn first.
    pub async fn sessions(&self, filter: SessionFilter) -> StoreResult<Vec<SessionSummary>> {
        self.execute
            .read("list sessions", move |connection| {
                sessions::sessions(connection, &filter)
            })
            .await
    }

    /// Returns the last main run of a conversation, in this folder if one is given.
    pub async fn last_turn(
        &self,
        session: SessionKey,
        tenant: Option<Tenant>,
        workspace: Option<PathBuf>,
    ) -> StoreResult<Option<RunRecord>> {
        self.execute
            .read("find the last turn", move |connection| {
                let workspace = workspace.as_deref().map(Path::to_string_lossy);
                sessions::last_turn(connection, &session, tenant.as_ref(), workspace.as_deref())
            })
            .await
    }

    /// Returns at most `max_bytes` of the journal after `after`, but at least one entry.
    pub async fn read_part(
        &self,
        run: RunId,
        after: Seq,
        max_bytes: usize,
    ) -> StoreResult<Vec<JournalEntry>> {
        self.execute
            .read("read a journal", move |connection| {
                chain::read_part(connection, run, after, max_bytes)
            })
            .await
    }

    /// Returns the journal after `after`, checked against its hash chain.
    pub async fn read(&self, run: RunId, after: Seq) -> StoreResult<Vec<JournalEntry>> {
        self.execute
            .read("read a journal", move |connection| {
                chain::read(connection, run, after)
            })
            .await
    }

    /// Returns the first entry of a journal; `None` if it was deleted.
    pub async fn first(&self, run: RunId) -> StoreResult<Option<JournalEntry>> {
        self.execute
            .read("read the beginning of a journal", move |connection| {
                chain::first(connection, run)
            })
            .await
    }

    /// Returns a long output of a run.
    pub async fn blob(&self, run: RunId, id: &BlobId) -> StoreResult<Option<Vec<u8>>> {
        let id = id.clone();
        self.execute
            .read("read an output", move |connection| {
                read::blob(connection, run, &id)
            })
            .await
    }

    /// Checks the schema, every journal and every record; with `fold`, also every summary.
    pub(crate) async fn verify_with(&self, fold: Option<Fold>) -> StoreResult<VerifyReport> {
        self.execute
            .read("check itself", move |connection| {
                verify::verify(connection, fold)
            })
            .await
    }

    /// Returns requests: the open ones, oldest first; or all, newest first.
    pub async fn requests(&self, filter: RequestFilter) -> StoreResult<Vec<OpenRequest>> {
        self.execute
            .read("list requests", move |connection| {
                request_views::list(connection, &filter)
            })
            .await
    }

    /// Returns the request whose id begins with a prefix.
    pub async fn find_request(&self, prefix: &str) -> StoreResult<OpenRequest> {
        let prefix = prefix.to_owned();
        self.execute
            .read("find a request", move |connection| {
                request_views::find(connection, &prefix)
            })
            .await
    }

    /// Returns the grants of a session.
    pub async fn grants(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
    ) -> StoreResult<Vec<SessionGrant>> {
        let (tenant, session) = (tenant.cloned(), session.clone());
        self.execute
            .read("list grants", move |connection| {
                requests::grants(connection, tenant.as_ref(), &session)
            })
            .await
    }

    /// Returns the balances that a run draws from, one for each limited kind.
    pub async fn balances(&self, run: RunId) -> StoreResult<Vec<Balance>> {
        self.execute
            .read("read an account", move |connection| {
                accounts::balances(connection, run)
            })
            .await
    }

    /// Returns lines of the audit, in order.
    pub async fn audit(&self, filter: AuditFilter) -> StoreResult<Vec<AuditLine>> {
        self.execute
            .read("read the audit", move |connection| {
                audit::read(connection, &filter)
            })
            .await
    }

    /// Checks the whole audit, and that it contains every journaled tool result.
    pub async fn verify_audit(&self) -> StoreResult<AuditReport> {
        self.execute.read("check the audit", audit::verify).await
    }
}

impl ReadStore {
    /// Returns usage by session, agent and model.
    pub async fn usage(&self, filter: ListFilter) -> StoreResult<Vec<UsageLine>> {
        self.usage_page(filter, None, 0).await
    }

    /// Checks the schema, every journal against its hash chain and every record against its
    /// journal. `fold` computes the summary of a journal.
    pub async fn verify(&self, fold: Fold) -> StoreResult<VerifyReport> {
        self.verify_with(Some(fold)).await
    }
}
