//! The audit: one hash chain of lines for the whole store, written with the events they describe.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use sortie_core::audit::{AuditEntry, AuditLine, AuditReport, AuditStage};
use sortie_core::id::{BlobId, EffectId, RunId, Seq, hex};
use sortie_core::message::ToolResult;
use sortie_core::ports::store::{AuditFilter, StoreError};
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;

use crate::chain::{self, GENESIS, Hash};
use crate::fault::{Done, Fault};
use crate::sql::{self, Connection, Row, params, whole};

/// The most problems that are listed.
const MAX_PROBLEMS: usize = 200;

/// A serialized line, so that the writer thread does not have to serialize it.
#[derive(Debug)]
pub(crate) struct Body {
    run: RunId,
    tenant: Option<Tenant>,
    text: String,
}

/// Serializes entries for the audit.
pub(crate) fn to_bodies(entries: &[AuditEntry]) -> Done<Vec<Body>> {
    let bodies = entries.iter().map(|entry| {
        Ok(Body {
            run: entry.run,
            tenant: entry.tenant.clone(),
            text: serde_json::to_string(entry)?,
        })
    });
    bodies.collect()
}

/// Appends lines to the chain.
pub(crate) fn append(connection: &Connection, bodies: &[Body], at: Timestamp) -> Done<()> {
    if bodies.is_empty() {
        return Ok(());
    }
    let mut end = end(connection)?;
    let mut remembered = None;
    for body in bodies {
        let run = body.run.to_string();
        let link = Link {
            seq: end.seq + 1,
            at: at.0,
            body: &body.text,
        };
        let hash = link.hash(&end.hash);
        sql::run(
            connection,
            "INSERT INTO audit (seq, at, run_id, body, hash, tenant)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                link.seq,
                link.at,
                run,
                link.body,
                hash,
                body.tenant.as_ref().map(Tenant::as_str)
            ],
        )?;
        if remembered != Some(body.run) {
            remember_ancestors(connection, run)?;
            remembered = Some(body.run);
        }
        end = End {
            seq: link.seq,
            hash,
        };
    }
    sql::run(
        connection,
        "UPDATE audit_head SET seq = ?1, hash = ?2 WHERE id = 1",
        params![end.seq, end.hash],
    )?;
    Ok(())
}

/// Records the ancestors of a run, for the time after their records are deleted.
fn remember_ancestors(connection: &Connection, run: String) -> Done<()> {
    let mut next = Some(run);
    while let Some(run) = next {
        let inserted = sql::first(
            connection,
            "INSERT INTO lineage (run_id, parent_id)
             VALUES (?1, (SELECT parent_id FROM runs WHERE run_id = ?1))
             ON CONFLICT DO NOTHING RETURNING parent_id",
            [run],
            |row| row.get::<_, Option<String>>(0),
        )?;
        // A run that is already recorded has its ancestors recorded too.
        next = inserted.flatten();
    }
    Ok(())
}

/// The head of the chain, stored beside it.
#[derive(Clone, Debug)]
struct End {
    seq: i64,
    hash: Hash,
}

fn end(connection: &Connection) -> Done<End> {
    let found = sql::first(
        connection,
        "SELECT seq, hash FROM audit_head WHERE id = 1",
        (),
        |row| {
            Ok(End {
                seq: row.get(0)?,
                hash: row.get(1)?,
            })
        },
    )?;
    found.ok_or_else(sql::no_row)
}

/// The hashed fields of a line.
#[derive(Debug)]
struct Link<'a> {
    seq: i64,
    at: i64,
    body: &'a str,
}

impl Link<'_> {
    /// Returns SHA-256 over the previous hash and all fields. All fields but the body have a fixed
    /// length, so no two lines give the same bytes.
    fn hash(&self, previous: &Hash) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(previous);
        hasher.update(self.seq.to_be_bytes());
        hasher.update(self.at.to_be_bytes());
        hasher.update(self.body.as_bytes());
        hasher.finalize().into()
    }
}

/// Returns lines in order.
pub(crate) fn read(connection: &Connection, filter: &AuditFilter) -> Done<Vec<AuditLine>> {
    let limit = sql::limit(filter.limit);
    let after = whole(filter.after);
    let tenant = filter.tenant.as_ref().map(Tenant::as_str);
    match (filter.run, tenant) {
        (None, Some(tenant)) => sql::all(
            connection,
            "SELECT seq, at, body, hash FROM audit
             WHERE tenant = ?3 AND seq > ?1 ORDER BY seq LIMIT ?2",
            params![after, limit, tenant],
            line,
        ),
        (None, None) => sql::all(
            connection,
            "SELECT seq, at, body, hash FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            params![after, limit],
            line,
        ),
        (Some(run), tenant) => sql::all(
            connection,
            "WITH RECURSIVE below (run_id) AS (
                 SELECT run_id FROM lineage WHERE run_id = ?1
                 UNION SELECT lineage.run_id FROM lineage
                       JOIN below ON lineage.parent_id = below.run_id)
             SELECT seq, at, body, hash FROM audit
             WHERE run_id IN (SELECT run_id FROM below) AND seq > ?2
                 AND (?4 IS NULL OR tenant = ?4) ORDER BY seq LIMIT ?3",
            params![run.to_string(), after, limit, tenant],
            line,
        ),
    }
}

fn line(row: &Row<'_>) -> Done<AuditLine> {
    let hash: Hash = row.get("hash")?;
    Ok(AuditLine {
        seq: row.get::<_, i64>("seq")?.unsigned_abs(),
        at: Timestamp(row.get("at")?),
        entry: sql::json(row, "body")?,
        hash: hex(&hash),
    })
}

/// Checks the chain, and that it contains every journaled tool result.
pub(crate) fn verify(connection: &Connection) -> Done<AuditReport> {
    let mut report = AuditReport::default();
    check_chain(connection, &mut report)?;
    check_journals(connection, &mut report)?;
    if report.problems.len() > MAX_PROBLEMS {
        report.problems.truncate(MAX_PROBLEMS);
        report.problems.push("there are more problems".to_owned());
    }
    Ok(report)
}

fn check_chain(connection: &Connection, report: &mut AuditReport) -> Done<()> {
    let mut walked = End {
        seq: 0,
        hash: GENESIS,
    };
    sql::each(
        connection,
        "SELECT seq, at, run_id, tenant, body, hash FROM audit ORDER BY seq",
        (),
        |row| {
            report.entries += 1;
            let problem = check_line(row, &mut walked)?;
            report.problems.extend(problem);
            Ok(report.problems.len() <= MAX_PROBLEMS)
        },
    )?;
    if report.problems.len() > MAX_PROBLEMS {
        return Ok(());
    }
    report.head = (walked.seq > 0).then(|| hex(&walked.hash));
    let noted = end(connection)?;
    if walked.seq < noted.seq {
        let cut = noted.seq - walked.seq;
        let problem = format!("the end of the audit was cut off: {cut} lines are missing");
        report.problems.push(problem);
    } else if (walked.seq, walked.hash) != (noted.seq, noted.hash) {
        let problem = "the audit does not end where the note beside it says";
        report.problems.push(problem.to_owned());
    }
    Ok(())
}

/// Checks one line. The next check continues from it even if it is wrong, so that each change is
/// reported once.
fn check_line(row: &Row<'_>, walked: &mut End) -> Done<Option<String>> {
    let seq: i64 = row.get("seq")?;
    let expected = walked.seq + 1;
    let previous = walked.hash;
    walked.seq = seq;
    let (Ok(at), Ok(body), Ok(hash)) = (
        row.get("at"),
        sql::text(row, "body"),
        row.get::<_, Hash>("hash"),
    ) else {
        return Ok(Some(format!("audit line {seq} cannot be read")));
    };
    walked.hash = hash;
    if seq != expected {
        return Ok(Some(format!(
            "the audit has a gap: after line {} comes line {seq}",
            expected - 1
        )));
    }
    if (Link { seq, at, body }).hash(&previous) != hash {
        return Ok(Some(format!("audit line {seq} does not fit its hash")));
    }
    let run = sql::word::<RunId>(row, "run_id");
    let tenant = sql::optional_word::<Tenant>(row, "tenant");
    Ok(match serde_json::from_str::<AuditEntry>(body) {
        Err(error) => Some(format!("audit line {seq} is not an entry: {error}")),
        Ok(entry) if !run.is_ok_and(|run| run == entry.run) => {
            Some(format!("audit line {seq} is filed under another run"))
        }
        // Queries by tenant use the column, which the hash does not cover.
        Ok(entry) if !tenant.is_ok_and(|tenant| tenant == entry.tenant) => {
            Some(format!("audit line {seq} is filed under another tenant"))
        }
        Ok(_) => None,
    })
}

/// Checks that every journaled tool result has its line.
fn check_journals(connection: &Connection, report: &mut AuditReport) -> Done<()> {
    let runs: Vec<RunId> = sql::all(
        connection,
        "SELECT run_id FROM runs WHERE cleaned_at IS NULL ORDER BY run_id",
        (),
        |row| sql::word(row, "run_id"),
    )?;
    for run in runs {
        if report.problems.len() > MAX_PROBLEMS {
            break;
        }
        match check_journal(connection, run) {
            Ok(problems) => report.problems.extend(problems),
            Err(Fault::Refused(error @ StoreError::Damaged { .. })) => {
                report.problems.push(error.to_string());
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

fn check_journal(connection: &Connection, run: RunId) -> Done<Vec<String>> {
    let ends = ends_of(connection, run)?;
    let entries = chain::read(connection, run, Seq::default())?;
    let answers = entries.iter().filter_map(|entry| entry.event.tool_result());
    Ok(answers
        .filter_map(|result| check_answer(run, result, &ends))
        .collect())
}

fn check_answer(
    run: RunId,
    result: &ToolResult,
    ends: &HashMap<EffectId, Vec<String>>,
) -> Option<String> {
    let effect = EffectId::new(run, &result.call);
    let Some(recorded) = ends.get(&effect) else {
        return Some(format!("the answer of call {effect} is not in the audit"));
    };
    let answered = fingerprint(result);
    if recorded.iter().any(|hash| hash == answered.as_str()) {
        return None;
    }
    Some(format!("the audit has another answer of call {effect}"))
}

/// Returns the hash of a tool result: of the full text if the model reads a truncated one.
fn fingerprint(result: &ToolResult) -> BlobId {
    match &result.full {
        Some(full) => full.clone(),
        None => BlobId::of(result.text.as_bytes()),
    }
}

/// Returns the hashes of the results that the audit has of a run. Unreadable lines are reported by
/// the check of the chain.
fn ends_of(connection: &Connection, run: RunId) -> Done<HashMap<EffectId, Vec<String>>> {
    let bodies = sql::all(
        connection,
        "SELECT body FROM audit WHERE run_id = ?1 ORDER BY seq",
        [run.to_string()],
        |row| Ok(row.get::<_, String>(0).ok()),
    )?;
    let mut ends: HashMap<EffectId, Vec<String>> = HashMap::new();
    for body in bodies.into_iter().flatten() {
        let Ok(entry) = serde_json::from_str::<AuditEntry>(&body) else {
            continue;
        };
        match entry.stage {
            AuditStage::Ended { result, .. } => {
                ends.entry(entry.effect).or_default().push(result);
            }
            AuditStage::Begun | AuditStage::Waits => {}
        }
    }
    Ok(ends)
}
