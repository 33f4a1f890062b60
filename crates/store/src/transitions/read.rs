//! Queries about runs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use sortie_core::id::{BlobId, MIN_PREFIX_CHARS, RunId, Seq, as_handle};
use sortie_core::message::Usage;
use sortie_core::ports::store::{ListFilter, StoreError};
use sortie_core::run::{RunRecord, Status};
use sortie_core::stats::{Stats, UsageLine, UsagePlace};
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;

use crate::fault::{Done, Fault};
use crate::packed;
use crate::row::{self, BareRecord, COLUMNS, StoredPhase};
use crate::sql::{self, Bind, Connection, Row, params};
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
    if found.phase == StoredPhase::Queued {
        found.record.queue_position = queue_position(connection, &name)?;
    }
    if let Some(account) = &found.account {
        found.record.budget = Balances::default().of(connection, account)?;
    }
    Ok(found.record)
}

/// The last position that is counted: every run further back has this one. Counting further would
/// make each admission to a long queue cost as much as the queue is long.
const MAX_POSITION: u32 = 1_000;

/// Counts the queued runs of the same tenant ahead of one, at most `?2`.
const AHEAD: &str = "SELECT (SELECT COUNT(*) FROM (
         SELECT 1 FROM runs AS other
         WHERE other.phase = 'queued' AND other.paused = 0 AND other.lane = run.lane
           AND COALESCE(other.tenant, '') = COALESCE(run.tenant, '')
           AND (other.queue_key, other.run_id) < (run.queue_key, run.run_id) LIMIT ?2) AS ahead)
     FROM runs AS run WHERE run.run_id = ?1 AND run.phase = 'queued' AND run.paused = 0";

/// Returns the position of a queued run among those of its tenant in its lane, up to [`MAX_POSITION`].
pub(crate) fn queue_position(connection: &Connection, run: &str) -> Done<Option<u32>> {
    let ahead = sql::first(connection, AHEAD, params![run, MAX_POSITION - 1], |row| {
        row.get::<_, u32>(0)
    })?;
    Ok(ahead.map(|ahead| ahead.saturating_add(1)))
}

const HANDLES: &str = "SELECT run_id, handle FROM runs
     WHERE run_id IN (SELECT value FROM json_each(?1))";

/// Returns the handles of these runs; runs that do not exist are left out.
pub(crate) fn handles(connection: &Connection, runs: &[RunId]) -> Done<BTreeMap<RunId, String>> {
    let found: Vec<(RunId, String)> = sql::all(connection, HANDLES, [json_list(runs)], |row| {
        Ok((sql::word(row, 0)?, row.get(1)?))
    })?;
    Ok(found.into_iter().collect())
}

const MISSING: &str = "SELECT value FROM json_each(?1)
     WHERE NOT EXISTS (SELECT 1 FROM runs WHERE run_id = value)";

/// Returns those of these ids that belong to no run.
pub(crate) fn missing(connection: &Connection, runs: &[RunId]) -> Done<Vec<RunId>> {
    sql::all(connection, MISSING, [json_list(runs)], |row| {
        sql::word(row, 0)
    })
}

/// Returns ids as a JSON array, for `json_each`: one cached statement for any number of them.
fn json_list(runs: &[RunId]) -> String {
    let runs: Vec<String> = runs.iter().map(|run| format!("\"{run}\"")).collect();
    format!("[{}]", runs.join(","))
}

/// Returns records, newest or oldest first: ids sort by creation time.
pub(crate) fn list(connection: &Connection, filter: &ListFilter) -> Done<Vec<RunRecord>> {
    let mut condition = Condition::of(filter);
    // Bound, so that all limits share one cached statement.
    condition.values.push(Box::new(sql::limit(filter.limit)));
    let found = sql::all(
        connection,
        &list_statement(filter, &condition),
        condition.values.as_slice(),
        row::record,
    )?;
    complete(connection, found)
}

fn list_statement(filter: &ListFilter, condition: &Condition) -> String {
    let order = if filter.oldest_first {
        "run_id"
    } else {
        "run_id DESC"
    };
    format!(
        "SELECT {} FROM runs {} ORDER BY {order} LIMIT ?",
        COLUMNS.sql, condition.sql
    )
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

/// Returns the positions of queued runs, in one pass over the queue of each tenant and lane that stops
/// at the last of them, or at [`MAX_POSITION`].
fn queue_positions(connection: &Connection, found: &[BareRecord]) -> Done<HashMap<RunId, u32>> {
    let queued = found
        .iter()
        .filter(|bare| bare.phase == StoredPhase::Queued && !bare.record.paused);
    let mut queues: BTreeMap<(&str, &str), HashMap<String, RunId>> = BTreeMap::new();
    for BareRecord { record, .. } in queued {
        let tenant = record.tenant.as_ref().map_or("", Tenant::as_str);
        let queue = queues.entry((record.lane.as_str(), tenant)).or_default();
        queue.insert(record.run_id.to_string(), record.run_id);
    }
    let mut positions = HashMap::new();
    for ((lane, tenant), mut wanted) in queues {
        let mut position = 0_u32;
        sql::each(
            connection,
            "SELECT run_id FROM runs
             WHERE phase = 'queued' AND paused = 0 AND lane = ?1 AND COALESCE(tenant, '') = ?2
             ORDER BY queue_key, run_id LIMIT ?3",
            params![lane, tenant, MAX_POSITION],
            |row| {
                position += 1;
                if let Some(run) = wanted.remove(sql::text(row, 0)?) {
                    positions.insert(run, position);
                }
                Ok(!wanted.is_empty())
            },
        )?;
        let behind = wanted.into_values();
        positions.extend(behind.map(|run| (run, MAX_POSITION)));
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
        condition.values.as_slice(),
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
    let mut condition = Condition::default();
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
             SELECT status, COALESCE(tenant, ''),
                    CASE WHEN archived_at IS NULL THEN 0 ELSE 1 END, 0, COUNT(*)
             FROM runs GROUP BY 1, 2, 3) AS compared
         GROUP BY status, tenant, archived HAVING SUM(kept) <> SUM(counted)",
        (),
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

/// Returns the condition on the sums of ended runs, if they can answer the filter.
fn summed(filter: &ListFilter) -> Option<Condition> {
    let ListFilter {
        session,
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
        archived: true,
        limit: _,
    } = filter
    else {
        return None;
    };
    if !statuses.is_empty() || !runs.is_empty() {
        return None;
    }
    let mut condition = Condition::default();
    condition.require("session = ?", session.as_ref());
    if tenant.is_some() {
        // The condition of the index.
        condition.add("tenant <> ''");
    }
    condition.require("tenant = ?", tenant.as_ref());
    Some(condition)
}

/// The runs that have not ended. The index is named, because the planner would prefer one that fits
/// the grouping and contains all runs.
const ACTIVE_RUNS: &str = "runs INDEXED BY runs_active";

/// The sums of usage columns, in the order of the fields, of runs and of sums.
const OF_RUNS: &str = "SUM(input_tokens), SUM(output_tokens), SUM(cache_read_tokens), \
     SUM(cache_write_tokens), SUM(cost_usd)";
const OF_SUMS: &str = "SUM(input_tokens), SUM(output_tokens), SUM(cache_read_tokens), \
     SUM(cache_write_tokens), CAST(SUM(cost_nanos) AS DOUBLE PRECISION) / 1e9";

/// Returns the total usage.
pub(crate) fn used(connection: &Connection, filter: &ListFilter) -> Done<Usage> {
    let sum = |columns: &str, table: &str, condition: &Condition| {
        let found = sql::first(
            connection,
            &format!("SELECT {columns} FROM {table} {}", condition.sql),
            condition.values.as_slice(),
            |row| row::usage(row, 0),
        );
        found.map(Option::unwrap_or_default)
    };
    let all = Condition::of(filter);
    let Some(ended) = summed(filter) else {
        return sum(OF_RUNS, "runs", &all);
    };
    let table = if filter.session.is_some() {
        "usage"
    } else {
        "usage_totals"
    };
    let ended = sum(OF_SUMS, table, &ended)?;
    Ok(ended.plus(sum(OF_RUNS, ACTIVE_RUNS, &all.active())?))
}

/// Returns a page of usage by session, agent and model.
pub(crate) fn usage(
    connection: &Connection,
    filter: &ListFilter,
    after: Option<&UsagePlace>,
    limit: u32,
) -> Done<Vec<UsageLine>> {
    let lines = |select: &str, mut condition: Condition| {
        if let Some(UsagePlace {
            session,
            agent,
            model,
        }) = after
        {
            condition.add("(session, agent, model) > (?, ?, ?)");
            for word in [session.to_string(), agent.clone(), model.clone()] {
                condition.values.push(Box::new(word));
            }
        }
        condition.values.push(Box::new(sql::limit(limit)));
        sql::all(
            connection,
            &usage_statement(select, &condition),
            condition.values.as_slice(),
            usage_line,
        )
    };
    let of_runs = |table: &str| {
        format!(
            "SELECT session, agent, model, COUNT(*), SUM(tool_calls), COUNT(*) FILTER (WHERE unpriced > 0), {OF_RUNS} \
             FROM {table}"
        )
    };
    let all = Condition::of(filter);
    let Some(ended) = summed(filter) else {
        return lines(&of_runs("runs"), all);
    };
    let of_sums = format!(
        "SELECT session, agent, model, SUM(runs), SUM(tool_calls), SUM(unpriced), {OF_SUMS} FROM usage"
    );
    let mut merged = BTreeMap::new();
    for line in lines(&of_sums, ended)?
        .into_iter()
        .chain(lines(&of_runs(ACTIVE_RUNS), all.active())?)
    {
        let place = (
            line.session.to_string(),
            line.agent.clone(),
            line.model.clone(),
        );
        match merged.entry(place) {
            Entry::Vacant(vacant) => {
                vacant.insert(line);
            }
            Entry::Occupied(mut occupied) => {
                let sum: &mut UsageLine = occupied.get_mut();
                sum.runs += line.runs;
                sum.tool_calls += line.tool_calls;
                sum.unpriced += line.unpriced;
                sum.usage = sum.usage.plus(line.usage);
            }
        }
    }
    let most = match limit {
        0 => usize::MAX,
        limit => limit as usize,
    };
    Ok(merged.into_values().take(most).collect())
}

fn usage_statement(select: &str, condition: &Condition) -> String {
    format!(
        "{select} {} GROUP BY session, agent, model ORDER BY session, agent, model LIMIT ?",
        condition.sql
    )
}

fn usage_line(row: &Row<'_>) -> Done<UsageLine> {
    Ok(UsageLine {
        session: sql::word(row, 0)?,
        agent: row.get(1)?,
        model: row.get(2)?,
        runs: row.get::<_, i64>(3)?.unsigned_abs(),
        tool_calls: row.get::<_, i64>(4)?.unsigned_abs(),
        unpriced: row.get::<_, i64>(5)?.unsigned_abs(),
        usage: row::usage(row, 6)?,
    })
}

/// Returns the sums of usage that differ from the runs.
pub(crate) fn wrong_usage(connection: &Connection) -> Done<Vec<String>> {
    let numbers = "runs, tool_calls, unpriced, COALESCE(input_tokens, 0), \
         COALESCE(output_tokens, 0), COALESCE(cache_read_tokens, 0), \
         COALESCE(cache_write_tokens, 0), COALESCE(cost_nanos, 0)";
    let counted = "SUM(runs), SUM(tool_calls), SUM(unpriced), COALESCE(SUM(input_tokens), 0), \
         COALESCE(SUM(output_tokens), 0), COALESCE(SUM(cache_read_tokens), 0), \
         COALESCE(SUM(cache_write_tokens), 0), COALESCE(SUM(cost_nanos), 0)";
    let mut wrong = Vec::new();
    for (table, key) in [
        ("usage", "session, agent, model, tenant"),
        ("usage_totals", "tenant"),
    ] {
        let different = sql::count(
            connection,
            &format!(
                "WITH kept AS (SELECT {key}, {numbers} FROM {table} WHERE runs > 0),
                      counted AS (SELECT {key}, {counted} FROM ended_usage GROUP BY {key})
                 SELECT (SELECT COUNT(*) FROM (SELECT * FROM kept EXCEPT SELECT * FROM counted) AS extra)
                      + (SELECT COUNT(*) FROM (SELECT * FROM counted EXCEPT SELECT * FROM kept) AS missing)"
            ),
            (),
        )?;
        if different > 0 {
            wrong.push(format!("the sums of `{table}` are not those of the runs"));
        }
    }
    Ok(wrong)
}

/// A filter as SQL. The text contains only constants of this program; values are bound.
#[derive(Default)]
pub(crate) struct Condition {
    pub(crate) sql: String,
    pub(crate) values: Vec<Box<dyn Bind>>,
}

impl Condition {
    pub(crate) fn of(filter: &ListFilter) -> Self {
        let mut condition = Self::default();
        condition.require("session = ?", filter.session.as_ref());
        condition.require_status(filter);
        condition.require("parent_id = ?", filter.parent.as_ref());
        condition.require("root_id = ?", filter.root.as_ref());
        condition.require("agent = ?", filter.agent.as_ref());
        condition.require("tenant = ?", filter.tenant.as_ref());
        condition.require("run_id < ?", filter.before.as_ref());
        condition.require("run_id > ?", filter.after.as_ref());
        condition.require_runs(&filter.runs);
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

    /// Restricts it to runs that have not ended.
    fn active(mut self) -> Self {
        self.add("phase <> 'ended'");
        self
    }

    /// Adds one term.
    pub(crate) fn and(mut self, term: &str, value: impl Bind + 'static) -> Self {
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

    pub(crate) fn require(&mut self, term: &str, value: Option<&impl ToString>) {
        if let Some(value) = value {
            self.add(term);
            self.values.push(Box::new(value.to_string()));
        }
    }

    /// Requires one of these states. Active runs are found by indexes that contain no others. Ended
    /// ones are all runs but a few: if the filter names a tree, a parent or a session, the `COALESCE`
    /// keeps the planner from searching them all.
    fn require_status(&mut self, filter: &ListFilter) {
        let statuses = &filter.statuses;
        let is_active = |status: &Status| !status.is_terminal();
        if !statuses.is_empty() && statuses.iter().all(is_active) {
            self.add("phase <> 'ended'");
            self.require_any("status", statuses);
        } else if filter.root.is_some() || filter.parent.is_some() || filter.session.is_some() {
            self.require_any("COALESCE(status, '')", statuses);
        } else {
            self.require_any("status", statuses);
        }
    }

    /// Requires one of these ids; any if there are none.
    fn require_runs(&mut self, runs: &[RunId]) {
        if !runs.is_empty() {
            self.add("run_id IN (SELECT value FROM json_each(?))");
            self.values.push(Box::new(json_list(runs)));
        }
    }

    /// Requires one of these values; any if there are none.
    pub(crate) fn require_any(&mut self, column: &str, values: &[impl ToString]) {
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
    if let Some(handle) = as_handle(typed) {
        let found = sql::first(
            connection,
            "SELECT run_id FROM runs WHERE handle = ?1",
            [&handle],
            |row| sql::word(row, 0),
        )?;
        return found.ok_or_else(|| StoreError::NotFound(typed.to_owned()).into());
    }
    let prefix = full_spelling(typed)?;
    // Ids are hexadecimal, so every id with the prefix sorts before the prefix and a `g`.
    let range = [prefix.clone(), format!("{prefix}g")];
    let found: Vec<RunId> = sql::all(
        connection,
        "SELECT run_id FROM runs WHERE run_id >= ?1 AND run_id < ?2 LIMIT 2",
        params![range[0], range[1]],
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
        params![range[0], range[1]],
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
        let text = format!(
            "{typed}: its handle, or at least {MIN_PREFIX_CHARS} characters of its id are needed"
        );
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
    const MOMENTS: [&str; 9] = [
        "SELECT MIN(deadline_at) FROM runs WHERE phase = 'parked'",
        "SELECT MIN(deadline_at) FROM runs WHERE phase = 'queued' AND paused = 1",
        "SELECT MIN(lease_until) FROM runs WHERE phase = 'leased'",
        "SELECT MIN(next_at) FROM outbox WHERE state = 'pending' AND target = 'parent'",
        "SELECT MIN(next_at) FROM outbox WHERE state = 'pending' AND target = 'session'",
        "SELECT MIN(next_at) FROM outbox WHERE state = 'pending' AND target = 'sink'",
        "SELECT MIN(expires_at) FROM requests WHERE state = 'open'",
        "SELECT MIN(escalate_at) FROM requests WHERE state = 'open' AND escalate_at IS NOT NULL",
        "SELECT MIN(at) FROM mailbox",
    ];
    let mut earliest = None;
    for query in MOMENTS {
        let moment = sql::first(connection, query, (), |row| row.get(0))?.flatten();
        earliest = [earliest, moment].into_iter().flatten().min();
    }
    Ok(earliest.map(Timestamp))
}

/// Returns a long output of a run.
pub(crate) fn blob(connection: &Connection, run: RunId, id: &BlobId) -> Done<Option<Vec<u8>>> {
    let bytes = sql::first(
        connection,
        "SELECT bytes, unpacked FROM blobs WHERE run_id = ?1 AND id = ?2",
        [run.to_string().as_str(), id.as_str()],
        |row| packed::content(row, 0),
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
        "SELECT run_id, id, bytes, unpacked FROM blobs",
        (),
        |row| {
            let bytes = packed::content(row, 2)?;
            let id: String = row.get(1)?;
            let sound = BlobId::of(&bytes).as_str() == id;
            let run: String = row.get(0)?;
            Ok((!sound).then(|| format!("the output {id} of run {run} is damaged")))
        },
    )?;
    Ok(all.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use sortie_core::id::SessionKey;

    use super::*;
    use crate::sql::plan;

    fn list_plan(filter: &ListFilter) -> Vec<String> {
        plan(&list_statement(filter, &Condition::of(filter)))
    }

    #[test]
    fn pages_of_lists_are_found_and_sorted_by_an_index() {
        let run: RunId = "0190f3a8-1111-7000-8000-000000000001".parse().unwrap();
        let active = vec![Status::Pending, Status::Running];
        let filters = [
            ListFilter::default(),
            ListFilter {
                session: Some(SessionKey::cli()),
                ..ListFilter::default()
            },
            ListFilter {
                statuses: vec![Status::Completed],
                ..ListFilter::default()
            },
            ListFilter {
                agent: Some("explore".to_owned()),
                ..ListFilter::default()
            },
            ListFilter {
                roots_only: true,
                ..ListFilter::default()
            },
            ListFilter {
                root: Some(run),
                ..ListFilter::default()
            },
        ];
        for filter in filters {
            let lines = list_plan(&filter);
            let sorts = lines.iter().any(|line| line.contains("TEMP B-TREE"));
            assert!(!sorts, "{filter:?}: {lines:?}");
            assert!(lines[0].contains("INDEX"), "{filter:?}: {lines:?}");
        }
        for (filter, index) in [
            (
                ListFilter {
                    statuses: active.clone(),
                    ..ListFilter::default()
                },
                "runs_by_status (status=?)",
            ),
            (
                ListFilter {
                    root: Some(run),
                    statuses: active,
                    ..ListFilter::default()
                },
                "runs_active (root_id=?)",
            ),
            (
                ListFilter {
                    root: Some(run),
                    statuses: vec![Status::Completed],
                    ..ListFilter::default()
                },
                "runs_by_root (root_id=?)",
            ),
            (
                ListFilter {
                    parent: Some(run),
                    ..ListFilter::default()
                },
                "runs_by_call (parent_id=?)",
            ),
        ] {
            let lines = list_plan(&filter);
            assert!(lines[0].ends_with(index), "{filter:?}: {lines:?}");
        }
        let named = list_plan(&ListFilter {
            runs: vec![run],
            archived: true,
            ..ListFilter::default()
        });
        assert!(named[0].contains("(run_id=?)"), "{named:?}");
    }
}
