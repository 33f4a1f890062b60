//! The queries, with the descriptions for their errors, for every kind of store.

use sortie_core::{
    AuditFilter, AuditLine, AuditReport, Balance, BlobId, JournalEntry, ListFilter, OpenRequest,
    RequestFilter, RunId, RunRecord, Seq, SessionFilter, SessionGrant, SessionKey, SessionSummary,
    Stats, StoreResult, Tenant, Timestamp, Usage, UsageLine, UsagePlace, UsagePoint, VerifyReport,
};

use crate::chain;
use crate::execute::Query;
use crate::transitions::rebuild::Fold;
use crate::transitions::{accounts, audit, read, request_views, requests, sessions, verify};

pub(crate) async fn get(source: &impl Query, run: RunId) -> StoreResult<RunRecord> {
    source
        .read("read a task", move |connection| read::get(connection, run))
        .await
}

pub(crate) async fn resolve(source: &impl Query, prefix: &str) -> StoreResult<RunId> {
    let prefix = prefix.to_owned();
    source
        .read("find a task", move |connection| {
            read::resolve(connection, &prefix)
        })
        .await
}

pub(crate) async fn list(source: &impl Query, filter: ListFilter) -> StoreResult<Vec<RunRecord>> {
    source
        .read("list tasks", move |connection| {
            read::list(connection, &filter)
        })
        .await
}

pub(crate) async fn stats(source: &impl Query, filter: ListFilter) -> StoreResult<Stats> {
    source
        .read("count tasks", move |connection| {
            read::stats(connection, &filter)
        })
        .await
}

pub(crate) async fn usage(
    source: &impl Query,
    filter: ListFilter,
    after: Option<UsagePlace>,
    limit: u32,
) -> StoreResult<Vec<UsageLine>> {
    source
        .read("add up usage", move |connection| {
            read::usage(connection, &filter, after, limit)
        })
        .await
}

pub(crate) async fn used(source: &impl Query, filter: ListFilter) -> StoreResult<Usage> {
    source
        .read("add up usage", move |connection| {
            read::used(connection, &filter)
        })
        .await
}

pub(crate) async fn usage_series(
    source: &impl Query,
    filter: ListFilter,
    bucket_ms: u64,
    since: Timestamp,
) -> StoreResult<Vec<UsagePoint>> {
    source
        .read("add up usage over time", move |connection| {
            sessions::usage_series(connection, &filter, bucket_ms, since)
        })
        .await
}

pub(crate) async fn sessions(
    source: &impl Query,
    filter: SessionFilter,
) -> StoreResult<Vec<SessionSummary>> {
    source
        .read("list sessions", move |connection| {
            sessions::sessions(connection, &filter)
        })
        .await
}

pub(crate) async fn last_turn(
    source: &impl Query,
    session: SessionKey,
    tenant: Option<Tenant>,
) -> StoreResult<Option<RunRecord>> {
    source
        .read("find the last turn", move |connection| {
            sessions::last_turn(connection, &session, tenant.as_ref())
        })
        .await
}

pub(crate) async fn journal_part(
    source: &impl Query,
    run: RunId,
    after: Seq,
    max_bytes: usize,
) -> StoreResult<Vec<JournalEntry>> {
    source
        .read("read a journal", move |connection| {
            chain::read_part(connection, run, after, max_bytes)
        })
        .await
}

pub(crate) async fn journal(
    source: &impl Query,
    run: RunId,
    after: Seq,
) -> StoreResult<Vec<JournalEntry>> {
    source
        .read("read a journal", move |connection| {
            chain::read(connection, run, after)
        })
        .await
}

pub(crate) async fn first(source: &impl Query, run: RunId) -> StoreResult<Option<JournalEntry>> {
    source
        .read("read the beginning of a journal", move |connection| {
            chain::first(connection, run)
        })
        .await
}

pub(crate) async fn blob(
    source: &impl Query,
    run: RunId,
    id: &BlobId,
) -> StoreResult<Option<Vec<u8>>> {
    let id = id.clone();
    source
        .read("read an output", move |connection| {
            read::blob(connection, run, &id)
        })
        .await
}

pub(crate) async fn verify(source: &impl Query, fold: Option<Fold>) -> StoreResult<VerifyReport> {
    source
        .read("check itself", move |connection| {
            verify::verify(connection, fold)
        })
        .await
}

pub(crate) async fn requests(
    source: &impl Query,
    filter: RequestFilter,
) -> StoreResult<Vec<OpenRequest>> {
    source
        .read("list requests", move |connection| {
            request_views::list(connection, &filter)
        })
        .await
}

pub(crate) async fn find_request(source: &impl Query, prefix: &str) -> StoreResult<OpenRequest> {
    let prefix = prefix.to_owned();
    source
        .read("find a request", move |connection| {
            request_views::find(connection, &prefix)
        })
        .await
}

pub(crate) async fn grants(
    source: &impl Query,
    tenant: Option<&Tenant>,
    session: &SessionKey,
) -> StoreResult<Vec<SessionGrant>> {
    let (tenant, session) = (tenant.cloned(), session.clone());
    source
        .read("list grants", move |connection| {
            requests::grants(connection, tenant.as_ref(), &session)
        })
        .await
}

pub(crate) async fn balances(source: &impl Query, run: RunId) -> StoreResult<Vec<Balance>> {
    source
        .read("read an account", move |connection| {
            accounts::balances(connection, run)
        })
        .await
}

pub(crate) async fn audit(source: &impl Query, filter: AuditFilter) -> StoreResult<Vec<AuditLine>> {
    source
        .read("read the audit", move |connection| {
            audit::read(connection, &filter)
        })
        .await
}

pub(crate) async fn verify_audit(source: &impl Query) -> StoreResult<AuditReport> {
    source.read("check the audit", audit::verify).await
}
