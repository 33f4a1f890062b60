//! Retention: archives ended runs, which keeps them readable, and deletes what a rule names. Never
//! touches a run with a pending delivery.

use sortie_core::id::{RunId, Seq};
use sortie_core::ports::store::{RetentionRule, RunRef, StoreError};
use sortie_core::run::Status;
use sortie_core::time::Timestamp;

use crate::chain::{self, Tail};
use crate::fault::Done;
use crate::packed::{self, Packed};
use crate::row::{self, StoredPhase};
use crate::sql::{self, Connection, params};
use crate::transitions::read::Condition;
use crate::transitions::tenants;

/// Transcripts or trees deleted in one transaction, so that appends do not wait long behind it.
pub(crate) const MAX_REMOVALS: u64 = 200;
/// Runs that one call archives: about 30 ms of work.
const MAX_ARCHIVED: u64 = 32;

/// A run and its descendants.
const SUBTREE: &str = "WITH RECURSIVE subtree (run_id) AS (
         SELECT run_id FROM runs WHERE run_id = ?1
         UNION SELECT runs.run_id FROM runs JOIN subtree ON parent_id = subtree.run_id)";

/// Deletes an ended run and its descendants, all or none.
pub(crate) fn delete(connection: &Connection, run: RunId) -> Done<Vec<RunRef>> {
    let row = row::must_load(connection, run)?;
    let subtree = sql::all(
        connection,
        &format!(
            "{SUBTREE} SELECT runs.run_id, status, phase,
                 EXISTS (SELECT 1 FROM outbox
                         WHERE outbox.run_id = runs.run_id AND state = 'pending') AS owes
             FROM runs JOIN subtree ON subtree.run_id = runs.run_id ORDER BY depth, runs.run_id"
        ),
        [&row.tail.run],
        |row| {
            Ok(Removable {
                run: sql::word(row, "run_id")?,
                status: sql::word(row, "status")?,
                phase: sql::word(row, "phase")?,
                owes: row.get("owes")?,
            })
        },
    )?;
    for member in &subtree {
        member.check()?;
    }
    remove_records(connection, &row.tail.run)
}

#[derive(Debug)]
struct Removable {
    run: RunId,
    status: Status,
    phase: StoredPhase,
    /// Whether its result is being delivered. One that waits for a turn of its session does not keep
    /// the run from being deleted.
    owes: bool,
}

impl Removable {
    fn check(&self) -> Done<()> {
        let what = if self.phase != StoredPhase::Ended {
            "cancel it first, then delete it"
        } else if self.owes {
            "its result is not delivered yet; delete it once that is delivered or dismissed"
        } else {
            return Ok(());
        };
        Err(StoreError::WrongState {
            run: self.run,
            status: self.status,
            what,
        }
        .into())
    }
}

/// Journal, blobs, inbox, outbox, requests and accounts are deleted with their record; audit and usage
/// are kept.
fn remove_records(connection: &Connection, run: &str) -> Done<Vec<RunRef>> {
    keep_usage(connection, run)?;
    let of_tenants: Vec<(String, String, i64)> = sql::all(
        connection,
        &format!(
            "{SUBTREE} SELECT tenant, runs.run_id, stored_bytes
             FROM runs JOIN subtree ON subtree.run_id = runs.run_id WHERE tenant IS NOT NULL"
        ),
        [run],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    for (tenant, member, bytes) in &of_tenants {
        tenants::add_storage(connection, (tenant, member), -bytes)?;
    }
    let mut removed = sql::all(
        connection,
        &format!(
            "{SUBTREE} DELETE FROM runs WHERE run_id IN (SELECT run_id FROM subtree)
             RETURNING run_id, session, root_id, parent_id, tenant, head_seq"
        ),
        [run],
        |row| {
            Ok(RunRef {
                run: sql::word(row, "run_id")?,
                session: sql::word(row, "session")?,
                root: sql::word(row, "root_id")?,
                parent: sql::optional_word(row, "parent_id")?,
                tenant: sql::optional_word(row, "tenant")?,
                head: Seq(row.get("head_seq")?),
            })
        },
    )?;
    // Parents before children: a database returns deleted rows in any order.
    removed.sort_by_key(|run: &RunRef| run.run);
    Ok(removed)
}

/// Adds the usage of a run and its descendants to that of deleted runs.
fn keep_usage(connection: &Connection, run: &str) -> Done<()> {
    sql::run(
        connection,
        &format!(
            "{SUBTREE} INSERT INTO deleted_usage (session, agent, model, tenant, runs, tool_calls,
                 unpriced, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
                 cost_nanos)
             SELECT session, agent, model, COALESCE(tenant, ''), COUNT(*), SUM(tool_calls),
                 COUNT(*) FILTER (WHERE unpriced > 0), SUM(input_tokens), SUM(output_tokens),
                 SUM(cache_read_tokens), SUM(cache_write_tokens),
                 SUM(CAST(ROUND(cost_usd * 1e9) AS BIGINT))
             FROM runs WHERE run_id IN (SELECT run_id FROM subtree)
             GROUP BY session, agent, model, COALESCE(tenant, '')
             ON CONFLICT (session, agent, model, tenant) DO UPDATE SET
                 runs = deleted_usage.runs + excluded.runs,
                 tool_calls = deleted_usage.tool_calls + excluded.tool_calls,
                 unpriced = deleted_usage.unpriced + excluded.unpriced,
                 input_tokens = {}, output_tokens = {}, cache_read_tokens = {},
                 cache_write_tokens = {}, cost_nanos = {}",
            plus("input_tokens"),
            plus("output_tokens"),
            plus("cache_read_tokens"),
            plus("cache_write_tokens"),
            plus("cost_nanos"),
        ),
        [run],
    )?;
    Ok(())
}

/// Returns the sum of a column and its new value, where null is unknown and not 0.
fn plus(column: &str) -> String {
    let (kept, new) = (
        format!("deleted_usage.{column}"),
        format!("excluded.{column}"),
    );
    format!("COALESCE({kept} + {new}, {kept}, {new})")
}

/// Deletes a batch of transcripts that their runs do not keep, once the results are delivered; fewer
/// than [`MAX_REMOVALS`] if no more are due.
pub(crate) fn clean(connection: &Connection, at: Timestamp) -> Done<u64> {
    let to_clean: Vec<String> = sql::all(
        connection,
        "SELECT run_id FROM runs
         WHERE phase = 'ended' AND cleanup = 'delete' AND cleaned_at IS NULL
           AND delivery IN ('delivered', 'not_required')
           AND ended_at <= ?1 ORDER BY ended_at LIMIT ?2",
        params![at.0, sql::whole(MAX_REMOVALS)],
        |row| row.get(0),
    )?;
    for run in &to_clean {
        remove_transcript(connection, run, at)?;
    }
    Ok(to_clean.len() as u64)
}

/// Deletes a transcript. The record keeps the head of the chain, and the time since which there is
/// nothing to check it against.
fn remove_transcript(connection: &Connection, run: &str, at: Timestamp) -> Done<()> {
    for statement in [
        "DELETE FROM journal WHERE run_id = ?1",
        "DELETE FROM archives WHERE run_id = ?1",
        "DELETE FROM blobs WHERE run_id = ?1",
        "DELETE FROM requests WHERE run_id = ?1",
    ] {
        sql::run(connection, statement, [run])?;
    }
    tenants::free_storage(connection, run)?;
    sql::run(
        connection,
        "UPDATE runs SET cleaned_at = ?2 WHERE run_id = ?1",
        params![run, at.0],
    )?;
    Ok(())
}

/// Returns a batch of runs to archive; fewer than [`MAX_REMOVALS`] if no more are due.
pub(crate) fn to_archive(connection: &Connection, before: Timestamp) -> Done<Vec<RunId>> {
    sql::all(
        connection,
        "SELECT run_id FROM runs
         WHERE phase = 'ended' AND archived_at IS NULL AND delivery <> 'pending'
           AND ended_at < ?1 ORDER BY ended_at LIMIT ?2",
        params![before.0, sql::whole(MAX_ARCHIVED)],
        |row| sql::word(row, 0),
    )
}

/// The compressed journal and outputs of a run.
#[derive(Clone, Debug)]
pub(crate) struct PackedRun {
    /// `None` if it was deleted or is damaged: then it stays as it is.
    journal: Option<(Tail, Packed)>,
    /// With the names of the outputs.
    blobs: Vec<(String, Packed)>,
}

/// Compresses journal and outputs of an ended run. A reader does this, so that appends do not wait.
pub(crate) fn pack(connection: &Connection, run: RunId) -> Done<PackedRun> {
    let blobs = sql::all(
        connection,
        "SELECT id, bytes FROM blobs WHERE run_id = ?1 AND unpacked IS NULL",
        [run.to_string()],
        |row| {
            let (id, bytes): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
            Ok(packed::pack(&bytes)?.map(|packed| (id, packed)))
        },
    )?;
    Ok(PackedRun {
        journal: chain::pack(connection, run)?,
        blobs: blobs.into_iter().flatten().collect(),
    })
}

/// Takes an ended run out of the lists and replaces journal and outputs by what was packed of them.
pub(crate) fn archive(
    connection: &Connection,
    run: RunId,
    packed: &PackedRun,
    at: Timestamp,
) -> Done<()> {
    let run = run.to_string();
    let archived = sql::run(
        connection,
        "UPDATE runs SET archived_at = ?2
         WHERE run_id = ?1 AND archived_at IS NULL AND phase = 'ended'",
        params![run, at.0],
    )?;
    if archived == 0 {
        // It was deleted meanwhile.
        return Ok(());
    }
    if let Some((tail, packed)) = &packed.journal {
        let removed = sql::run(
            connection,
            "DELETE FROM journal WHERE run_id = ?1 AND seq <= ?2",
            params![run, tail.seq],
        )?;
        // The transcript may have been deleted since it was packed.
        if removed as u64 == tail.seq.unsigned_abs() {
            sql::run(
                connection,
                "INSERT INTO archives (run_id, unpacked, body) VALUES (?1, ?2, ?3)",
                params![run, sql::whole(packed.unpacked), packed.bytes],
            )?;
        }
    }
    for (id, packed) in &packed.blobs {
        sql::run(
            connection,
            "UPDATE blobs SET bytes = ?3, unpacked = ?4
             WHERE run_id = ?1 AND id = ?2 AND unpacked IS NULL",
            params![run, id, packed.bytes, sql::whole(packed.unpacked)],
        )?;
    }
    Ok(())
}

/// The result of one pass over old trees.
#[derive(Clone, Debug)]
pub(crate) struct Deleted {
    pub(crate) trees: u64,
    pub(crate) records: Vec<RunRef>,
}

/// Deletes a batch of fully ended trees; fewer than [`MAX_REMOVALS`] if no more are due.
pub(crate) fn delete_ended(connection: &Connection, rule: &RetentionRule) -> Done<Deleted> {
    let roots = ended_roots(connection, rule, sql::whole(MAX_REMOVALS))?;
    let mut records = Vec::new();
    for root in &roots {
        records.extend(remove_records(connection, root)?);
    }
    Ok(Deleted {
        trees: roots.len() as u64,
        records,
    })
}

/// Returns the number of runs of the trees that a rule selects.
pub(crate) fn count_ended(connection: &Connection, rule: &RetentionRule) -> Done<u64> {
    let mut runs = 0;
    for root in ended_roots(connection, rule, sql::UNLIMITED)? {
        let members = "SELECT COUNT(*) FROM runs WHERE root_id = ?1";
        runs += sql::count(connection, members, [root])?;
    }
    Ok(runs)
}

/// Returns the roots of the trees that a rule selects, the oldest first.
fn ended_roots(connection: &Connection, rule: &RetentionRule, limit: i64) -> Done<Vec<String>> {
    let RetentionRule {
        before,
        statuses,
        agent,
        tenant,
    } = rule;
    let mut condition = Condition::default()
        .and(
            "phase = 'ended' AND parent_id IS NULL AND ended_at < ?",
            before.0,
        )
        .and(
            "NOT EXISTS (SELECT 1 FROM runs AS member WHERE member.root_id = root.run_id
                 AND (phase <> 'ended' OR ended_at >= ? OR delivery = 'pending'))",
            before.0,
        );
    // The root is found by its end: `COALESCE` keeps the planner from searching all of one status.
    condition.require_any("COALESCE(status, '')", statuses);
    condition.require("COALESCE(agent, '') = ?", agent.as_ref());
    condition.require("COALESCE(tenant, '') = ?", tenant.as_ref());
    condition.values.push(Box::new(limit));
    sql::all(
        connection,
        &format!(
            "SELECT run_id FROM runs AS root {} ORDER BY ended_at LIMIT ?",
            condition.sql
        ),
        condition.values.as_slice(),
        |row| row.get(0),
    )
}
