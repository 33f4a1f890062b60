//! Queries about runs.

use std::collections::HashMap;

use rusqlite::{Connection, ToSql, params_from_iter};
use sortie_core::id::{BlobId, MIN_PREFIX_CHARS, RunId, Seq};
use sortie_core::message::Usage;
use sortie_core::ports::store::{ListFilter, StoreError};
use sortie_core::run::{Lane, RunRecord, Status};
use sortie_core::stats::{Stats, UsageLine, UsagePlace};
use sortie_core::time::Timestamp;

use crate::fault::{Done, Fault};
use crate::row::{self, BareRecord, COLUMNS, Phase};
use crate::sql;
use crate::transitions::accounts::Balances;

/// Returns one record.
pub(crate) fn get(connection: &Connection, run: RunId) -> Done<RunRecord> {
    let name = run.to_string();
    let found = sql::first(
        connection,
        &format!("SELECT {} FROM runs WHERE run_id = ?1", COLUMNS.sql),
        [&name],
        row::record,
    )?;
    let mut found = found.ok_or_else(|| Fault::not_found(run))?;
    if found.phase == Phase::Queued {
        found.record.queue_position = queue_position(connection, &name)?;
    }
    if let Some(account) = &found.account {
        found.record.budget = Balances::default().of(connection, account)?;
    }
    Ok(found.record)
}

/// Returns the position of a queued run in its lane; for a run of a tenant, among the tenant's
/// runs.
pub(crate) fn queue_position(connection: &Connection, run: &str) -> Done<Option<u32>> {
    let ahead = sql::first(
        connection,
        "SELECT (SELECT COUNT(*) FROM runs AS other
                 WHERE other.phase = 'queued' AND other.paused = 0 AND other.lane = run.lane
                   AND (run.tenant IS NULL OR other.tenant = run.tenant)
                   AND (other.queue_key, other.run_id) < (run.queue_key, run.run_id))
         FROM runs AS run WHERE run.run_id = ?1 AND run.phase = 'queued' AND run.paused = 0",
        [run],
        |row| Ok(row.get::<_, u32>(0)?),
    )?;
    Ok(ahead.map(|ahead| ahead.saturating_add(1)))
}

/// Returns records, newest or oldest first: ids sort by creation time.
pub(crate) fn list(connection: &Connection, filter: &ListFilter) -> Done<Vec<RunRecord>> {
    let mut condition = Condition::of(filter);
    let limit = match filter.limit {
        0 => -1,
        limit => i64::from(limit),
    };
    // Bound, so that all limits share one cached statement.
    condition.values.push(Box::new(limit));
    let order = if filter.oldest_first {
        "run_id"
    } else {
        "run_id DESC"
    };
    let found = sql::all(
        connection,
        &format!(
            "SELECT {} FROM runs {} ORDER BY {order} LIMIT ?",
            COLUMNS.sql, condition.sql
        ),
        params_from_iter(condition.values.iter()),
        row::record,
    )?;
    complete(connection, found)
}

/// Adds what other rows contain: queue positions and balances.
pub(crate) fn complete(connection: &Connection, found: Vec<BareRecord>) -> Done<Vec<RunRecord>> {
    let positions = queue_positions(connection, &found)?;
    let mut balances = Balances::default();
    let completed = found.into_iter().map(|bare| {
        let mut record = bare.record;
        if let Some(position) = positions.get(&record.run_id) {
            record.queue_position = Some(*position);
        }
        if let Some(account) = &bare.account {
            record.budget = balances.of(connection, account)?;
        }
        Ok(record)
    });
    completed.collect()
}

/// Returns the positions of queued runs, in one pass over the queues that stops at the last of
/// them.
fn queue_positions(connection: &Connection, found: &[BareRecord]) -> Done<HashMap<RunId, u32>> {
    let mut wanted: HashMap<String, RunId> = found
        .iter()
        .filter(|bare| bare.phase == Phase::Queued && !bare.record.paused)
        .map(|bare| (bare.record.run_id.to_string(), bare.record.run_id))
        .collect();
    let mut positions = HashMap::new();
    for lane in Lane::ALL {
        if wanted.is_empty() {
            break;
        }
        let mut statement = connection.prepare_cached(
            "SELECT run_id, tenant FROM runs WHERE phase = 'queued' AND paused = 0 AND lane = ?1
             ORDER BY queue_key, run_id",
        )?;
        let mut rows = statement.query([lane.as_str()])?;
        let mut of_all = 0_u32;
        let mut of_tenants: HashMap<String, u32> = HashMap::new();
        while !wanted.is_empty()
            && let Some(row) = rows.next()?
        {
            of_all = of_all.saturating_add(1);
            let position = match row.get_ref(1)?.as_str_or_null()? {
                None => of_all,
                Some(tenant) => {
                    let of_tenant = of_tenants.entry(tenant.to_owned()).or_default();
                    *of_tenant = of_tenant.saturating_add(1);
                    *of_tenant
                }
            };
            if let Some(run) = wanted.remove(row.get_ref(0)?.as_str()?) {
                positions.insert(run, position);
            }
        }
    }
    Ok(positions)
}

/// Counts runs for each status. The tallies answer for all runs, and for all runs of a tenant.
pub(crate) fn stats(connection: &Connection, filter: &ListFilter) -> Done<Stats> {
    let condition = tallied(filter);
    let (counting, condition) = match &condition {
        Some(condition) => ("SELECT status, SUM(runs) FROM tallies", condition),
        None => ("SELECT status, COUNT(*) FROM runs", &Condition::of(filter)),
    };
    let counts = sql::all(
        connection,
        &format!("{counting} {} GROUP BY status", condition.sql),
        params_from_iter(condition.values.iter()),
        |row| Ok((sql::word::<Status>(row, 0)?, row.get::<_, i64>(1)?)),
    )?;
    let mut stats = Stats::default();
    for (status, count) in counts {
        stats.add(status, count.unsigned_abs());
    }
    Ok(stats)
}

/// Returns the condition on the tallies, if they can answer the filter.
fn tallied(filter: &ListFilter) -> Option<Condition> {
    let ListFilter {
        session: None,
        statuses,
        parent: None,
        root: None,
        agent: None,
        tenant,
        roots_only: false,
        text: None,
        before: None,
        after: None,
        oldest_first: _,
        runs,
        archived,
        limit: _,
    } = filter
    else {
        return None;
    };
    if !statuses.is_empty() || !runs.is_empty() {
        return None;
    }
    let mut condition = Condition {
        sql: String::new(),
        values: Vec::new(),
    };
    condition.add("runs > 0");
    condition.require("tenant = ?", tenant.as_ref());
    if !archived {
        condition.add("archived = 0");
    }
    Some(condition)
}

/// Returns the tallies that differ from a count.
pub(crate) fn wrong_tallies(connection: &Connection) -> Done<Vec<String>> {
    sql::all(
        connection,
        "SELECT status, tenant, SUM(kept), SUM(counted) FROM (
             SELECT status, tenant, archived, runs AS kept, 0 AS counted FROM tallies
             UNION ALL
             SELECT status, COALESCE(tenant, ''), archived_at IS NOT NULL, 0, COUNT(*)
             FROM runs GROUP BY 1, 2, 3)
         GROUP BY status, tenant, archived HAVING SUM(kept) <> SUM(counted)",
        [],
        |row| {
            let (status, tenant): (String, String) = (row.get(0)?, row.get(1)?);
            let (kept, counted): (i64, i64) = (row.get(2)?, row.get(3)?);
            let whose = match tenant.as_str() {
                "" => String::new(),
                tenant => format!(" of {tenant}"),
            };
            Ok(format!(
                "the tally of {status} runs{whose} is {kept}, but there are {counted}"
            ))
        },
    )
}

/// Returns the total usage.
pub(crate) fn used(connection: &Connection, filter: &ListFilter) -> Done<Usage> {
    let condition = Condition::of(filter);
    let found = sql::first(
        connection,
        &format!(
            "SELECT SUM(input_tokens) AS input_tokens, SUM(output_tokens) AS output_tokens,
                    SUM(cache_read_tokens) AS cache_read_tokens,
                    SUM(cache_write_tokens) AS cache_write_tokens, SUM(cost_usd) AS cost_usd
             FROM runs {}",
            condition.sql
        ),
        params_from_iter(condition.values.iter()),
        |row| row::usage(row, 0),
    )?;
    Ok(found.unwrap_or_default())
}

/// Returns a page of usage by session, agent and model.
pub(crate) fn usage(
    connection: &Connection,
    filter: &ListFilter,
    after: Option<UsagePlace>,
    limit: u32,
) -> Done<Vec<UsageLine>> {
    let mut condition = Condition::of(filter);
    if let Some(after) = after {
        condition.add("(session, agent, model) > (?, ?, ?)");
        for word in [after.session.to_string(), after.agent, after.model] {
            condition.values.push(Box::new(word));
        }
    }
    let limit = match limit {
        0 => -1,
        limit => i64::from(limit),
    };
    condition.values.push(Box::new(limit));
    sql::all(
        connection,
        &format!(
            "SELECT session, agent, model, COUNT(*) AS runs, SUM(tool_calls) AS tool_calls,
                    SUM(unpriced > 0) AS unpriced,
                    SUM(input_tokens) AS input_tokens, SUM(output_tokens) AS output_tokens,
                    SUM(cache_read_tokens) AS cache_read_tokens,
                    SUM(cache_write_tokens) AS cache_write_tokens, SUM(cost_usd) AS cost_usd
             FROM runs {} GROUP BY session, agent, model ORDER BY session, agent, model LIMIT ?",
            condition.sql
        ),
        params_from_iter(condition.values.iter()),
        |row| {
            Ok(UsageLine {
                session: sql::word(row, 0)?,
                agent: row.get(1)?,
                model: row.get(2)?,
                runs: row.get::<_, i64>(3)?.unsigned_abs(),
                tool_calls: row.get::<_, i64>(4)?.unsigned_abs(),
                unpriced: row.get::<_, i64>(5)?.unsigned_abs(),
                usage: row::usage(row, 6)?,
            })
        },
    )
}

/// A filter as SQL. The text contains only constants of this program; values are bound.
pub(crate) struct Condition {
    pub(crate) sql: String,
    pub(crate) values: Vec<Box<dyn ToSql>>,
}

impl Condition {
    pub(crate) fn of(filter: &ListFilter) -> Self {
        let mut condition = Self {
            sql: String::new(),
            values: Vec::new(),
        };
        condition.require("session = ?", filter.session.as_ref());
        condition.require_any("status", &filter.statuses);
        condition.require("parent_id = ?", filter.parent.as_ref());
        condition.require("root_id = ?", filter.root.as_ref());
        condition.require("agent = ?", filter.agent.as_ref());
        condition.require("tenant = ?", filter.tenant.as_ref());
        condition.require("run_id < ?", filter.before.as_ref());
        condition.require("run_id > ?", filter.after.as_ref());
        condition.require_any("run_id", &filter.runs);
        if filter.roots_only {
            condition.add("parent_id IS NULL");
        }
        if !filter.archived {
            condition.add("archived_at IS NULL");
        }
        if let Some(text) = filter.text.as_deref().filter(|text| !text.is_empty()) {
            condition.contains(text);
        }
        condition
    }

    /// Adds one term.
    pub(crate) fn and(mut self, term: &str, value: impl ToSql + 'static) -> Self {
        self.add(term);
        self.values.push(Box::new(value));
        self
    }

    fn add(&mut self, term: &str) {
        self.sql.push_str(if self.sql.is_empty() {
            "WHERE "
        } else {
            " AND "
        });
        self.sql.push_str(term);
    }

    fn require(&mut self, term: &str, value: Option<&impl ToString>) {
        if let Some(value) = value {
            self.add(term);
            self.values.push(Box::new(value.to_string()));
        }
    }

    /// Requires one of these values; any if there are none.
    fn require_any(&mut self, column: &str, values: &[impl ToString]) {
        if values.is_empty() {
            return;
        }
        let marks = vec!["?"; values.len()].join(", ");
        self.add(&format!("{column} IN ({marks})"));
        for value in values {
            self.values.push(Box::new(value.to_string()));
        }
    }

    /// Requires a text in label or task, or a prefix of the id. Scans all runs that the other terms
    /// leave: a fifth of a second for 100,000 of them, in any language, without a full-text index
    /// to maintain at every admission.
    fn contains(&mut self, text: &str) {
        let pattern = format!("%{}%", escaped(text));
        self.add("(label LIKE ? ESCAPE '!' OR task LIKE ? ESCAPE '!' OR run_id LIKE ? ESCAPE '!')");
        self.values.push(Box::new(pattern.clone()));
        self.values.push(Box::new(pattern));
        self.values.push(Box::new(format!("{}%", escaped(text))));
    }
}

/// Escapes a text for `LIKE`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '%' | '_' | '!') {
            escaped.push('!');
        }
        escaped.push(character);
    }
    escaped
}

/// Returns the run whose id begins with a prefix.
pub(crate) fn resolve(connection: &Connection, typed: &str) -> Done<RunId> {
    let prefix = full_spelling(typed)?;
    // Ids are hexadecimal, so every id with the prefix sorts before the prefix and a `g`.
    let range = [prefix.clone(), format!("{prefix}g")];
    let found: Vec<RunId> = sql::all(
        connection,
        "SELECT run_id FROM runs WHERE run_id >= ?1 AND run_id < ?2 LIMIT 2",
        params_from_iter(&range),
        |row| sql::word(row, "run_id"),
    )?;
    match found.as_slice() {
        [] => Err(StoreError::NotFound(typed.to_owned()).into()),
        [run] => Ok(*run),
        [_, ..] => Err(StoreError::Ambiguous {
            prefix: typed.to_owned(),
            count: count_between(connection, &range)?,
        }
        .into()),
    }
}

fn count_between(connection: &Connection, range: &[String; 2]) -> Done<usize> {
    let count = sql::count(
        connection,
        "SELECT COUNT(*) FROM runs WHERE run_id >= ?1 AND run_id < ?2",
        params_from_iter(range),
    )?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Returns the prefix in lower case with the hyphens of an id.
fn full_spelling(typed: &str) -> Done<String> {
    let digits: Vec<char> = typed
        .chars()
        .filter(|character| *character != '-')
        .map(|character| character.to_ascii_lowercase())
        .collect();
    if digits.len() < MIN_PREFIX_CHARS {
        let text = format!("{typed}: at least {MIN_PREFIX_CHARS} characters of its id are needed");
        return Err(StoreError::NotFound(text).into());
    }
    if !digits.iter().all(char::is_ascii_hexdigit) {
        return Err(StoreError::NotFound(typed.to_owned()).into());
    }
    let mut spelling = String::with_capacity(digits.len() + HYPHENS_BEFORE.len());
    for (index, digit) in digits.into_iter().enumerate() {
        if HYPHENS_BEFORE.contains(&index) {
            spelling.push('-');
        }
        spelling.push(digit);
    }
    Ok(spelling)
}

/// The digits of an id that follow a hyphen.
const HYPHENS_BEFORE: [usize; 4] = [8, 12, 16, 20];

/// Returns the earliest moment at which a transition falls due.
pub(crate) fn next_due(connection: &Connection) -> Done<Option<Timestamp>> {
    const MOMENTS: [&str; 8] = [
        "SELECT MIN(deadline_at) FROM runs WHERE phase = 'parked'",
        "SELECT MIN(deadline_at) FROM runs WHERE phase = 'queued' AND paused = 1",
        "SELECT MIN(lease_until) FROM runs WHERE phase = 'leased'",
        "SELECT MIN(next_at) FROM outbox WHERE state = 'pending' AND target = 'parent'",
        "SELECT MIN(next_at) FROM outbox WHERE state = 'pending' AND target = 'sink'",
        "SELECT MIN(expires_at) FROM requests WHERE state = 'open'",
        "SELECT MIN(escalate_at) FROM requests WHERE state = 'open' AND escalate_at IS NOT NULL",
        "SELECT MIN(at) FROM mailbox",
    ];
    let mut earliest = None;
    for query in MOMENTS {
        let moment = sql::first(connection, query, [], |row| Ok(row.get(0)?))?.flatten();
        earliest = [earliest, moment].into_iter().flatten().min();
    }
    Ok(earliest.map(Timestamp))
}

/// Returns a long output of a run.
pub(crate) fn blob(connection: &Connection, run: RunId, id: &BlobId) -> Done<Option<Vec<u8>>> {
    let bytes: Option<Vec<u8>> = sql::first(
        connection,
        "SELECT bytes FROM blobs WHERE run_id = ?1 AND id = ?2",
        [run.to_string().as_str(), id.as_str()],
        |row| Ok(row.get(0)?),
    )?;
    match bytes {
        // Its name is the hash of its content: anything else is damage and is not returned.
        Some(bytes) if BlobId::of(&bytes) != *id => Err(Fault::Refused(StoreError::Damaged {
            run,
            seq: Seq(0),
            what: format!("the output {id} has another content than its name says"),
        })),
        bytes => Ok(bytes),
    }
}

/// Returns the outputs whose content does not match their name.
pub(crate) fn damaged_blobs(connection: &Connection) -> Done<Vec<String>> {
    let all = sql::all(
        connection,
        "SELECT run_id, id, bytes FROM blobs",
        [],
        |row| {
            let bytes: Vec<u8> = row.get(2)?;
            let id: String = row.get(1)?;
            let sound = BlobId::of(&bytes).as_str() == id;
            let run: String = row.get(0)?;
            Ok((!sound).then(|| format!("the output {id} of run {run} is damaged")))
        },
    )?;
    Ok(all.into_iter().flatten().collect())
}
