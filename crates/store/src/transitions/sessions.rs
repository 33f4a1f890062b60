//! Queries about conversations, usage over time, and lanes.

use sortie_core::id::{RunId, SessionKey};
use sortie_core::ports::store::ListFilter;
use sortie_core::run::{Lane, RunRecord};
use sortie_core::session::{SessionFilter, SessionSummary, TITLE_CHARS};
use sortie_core::stats::{LaneCount, UsagePoint};
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::row::{self, COLUMNS};
use crate::sql::{self, Connection, Row, params, whole};
use crate::transitions::read::{self, Condition};

/// The most intervals that are returned, the latest ones: a year of days, or more than two months
/// of hours.
const MAX_POINTS: i64 = 2_000;

/// Returns conversations, the one with the latest turn first.
pub(crate) fn sessions(
    connection: &Connection,
    filter: &SessionFilter,
) -> Done<Vec<SessionSummary>> {
    let after = filter.after.as_ref();
    let found = sql::all(
        connection,
        &conversations(filter.session.is_some()),
        params![
            filter.session.as_ref().map(SessionKey::as_str),
            filter.tenant.as_ref().map(Tenant::as_str),
            after.map(|after| after.last_at.0),
            after.map(|after| after.session.as_str()),
            after.map(|after| after.tenant.as_ref().map_or("", Tenant::as_str)),
            sql::limit(filter.limit)
        ],
        Turns::read,
    )?;
    let summaries = found.into_iter().map(|turns| turns.summary(connection));
    summaries.collect()
}

/// Returns the query for conversations. The index `turns` covers it, whatever the size of the runs;
/// with a session only that session is read, which needs its own statement.
fn conversations(named: bool) -> String {
    let which = if named { "session = ?1" } else { "?1 IS NULL" };
    format!(
        "SELECT session, tenant, COUNT(*) AS turns, MAX(created_at) AS last_at FROM runs
         WHERE parent_id IS NULL AND lane = 'main' AND {which} AND (?2 IS NULL OR tenant = ?2)
         GROUP BY session, tenant
         HAVING ?3 IS NULL OR MAX(created_at) < ?3
             OR (MAX(created_at) = ?3 AND (session, COALESCE(tenant, '')) > (?4, ?5))
         ORDER BY last_at DESC, session, COALESCE(tenant, '') LIMIT ?6"
    )
}

/// Returns the last main run of a conversation, in this folder if one is given.
pub(crate) fn last_turn(
    connection: &Connection,
    session: &SessionKey,
    tenant: Option<&Tenant>,
    workspace: Option<&str>,
) -> Done<Option<RunRecord>> {
    let found = sql::first(
        connection,
        &last_turn_statement(),
        params![session.as_str(), tenant.map(Tenant::as_str), workspace],
        row::record,
    )?;
    let completed = read::complete(connection, found.into_iter().collect())?;
    Ok(completed.into_iter().next())
}

/// Returns the last main run of a conversation, in this folder if one is given.
pub(crate) fn newest_turn(
    connection: &Connection,
    session: &SessionKey,
    tenant: Option<&Tenant>,
    workspace: Option<&str>,
) -> Done<Option<RunId>> {
    sql::first(
        connection,
        "SELECT run_id FROM runs
         WHERE parent_id IS NULL AND lane = 'main' AND session = ?1 AND tenant IS NOT DISTINCT FROM ?2
           AND (?3 IS NULL OR workspace = ?3)
         ORDER BY created_at DESC, run_id DESC LIMIT 1",
        params![session.as_str(), tenant.map(Tenant::as_str), workspace],
        |row| sql::word(row, 0),
    )
}

fn last_turn_statement() -> String {
    format!(
        "SELECT {} FROM runs
         WHERE parent_id IS NULL AND lane = 'main' AND session = ?1 AND tenant IS NOT DISTINCT FROM ?2
           AND (?3 IS NULL OR workspace = ?3)
         ORDER BY created_at DESC, run_id DESC LIMIT 1",
        COLUMNS.sql
    )
}

#[derive(Debug)]
struct Turns {
    session: SessionKey,
    tenant: Option<Tenant>,
    turns: u64,
    last_at: Timestamp,
}

impl Turns {
    fn read(row: &Row<'_>) -> Done<Self> {
        Ok(Self {
            session: sql::word(row, "session")?,
            tenant: sql::optional_word(row, "tenant")?,
            turns: row.get::<_, i64>("turns")?.unsigned_abs(),
            last_at: Timestamp(row.get("last_at")?),
        })
    }

    fn summary(self, connection: &Connection) -> Done<SessionSummary> {
        let (title, cost_usd) = self.beginning_and_cost(connection)?;
        let last = sql::first(
            connection,
            "SELECT run_id, status, agent, model, workspace FROM runs
             WHERE parent_id IS NULL AND lane = 'main' AND session = ?1 AND tenant IS NOT DISTINCT FROM ?2
             ORDER BY created_at DESC, run_id DESC LIMIT 1",
            params![self.session.as_str(), self.tenant_word()],
            |row| {
                Ok(SessionSummary {
                    session: self.session.clone(),
                    tenant: self.tenant.clone(),
                    workspace: row.get::<_, String>("workspace")?.into(),
                    title,
                    turns: self.turns,
                    last: sql::word(row, "run_id")?,
                    last_status: sql::word(row, "status")?,
                    last_at: self.last_at,
                    agent: row.get("agent")?,
                    model: row.get("model")?,
                    cost_usd,
                })
            },
        )?;
        last.ok_or_else(sql::no_row)
    }

    /// Returns the beginning of the first message, and the cost of all turns if each is known.
    fn beginning_and_cost(&self, connection: &Connection) -> Done<(String, Option<f64>)> {
        let found = sql::first(
            connection,
            "SELECT (SELECT SUBSTR(task, 1, CAST(?3 AS INTEGER)) FROM runs
                     WHERE parent_id IS NULL AND lane = 'main' AND session = ?1 AND tenant IS NOT DISTINCT FROM ?2
                     ORDER BY created_at, run_id LIMIT 1) AS title,
                    SUM(COALESCE(cost_usd, 0) + COALESCE(children_cost_usd, 0)) AS cost_usd,
                    SUM(unpriced + children_unpriced) AS unpriced
             FROM runs WHERE parent_id IS NULL AND lane = 'main' AND session = ?1 AND tenant IS NOT DISTINCT FROM ?2",
            params![
                self.session.as_str(),
                self.tenant_word(),
                whole(TITLE_CHARS as u64)
            ],
            |row| {
                let title: Option<String> = row.get("title")?;
                let cost: Option<f64> = row.get("cost_usd")?;
                let unpriced: i64 = row.get("unpriced")?;
                Ok((title.unwrap_or_default(), cost.filter(|_| unpriced == 0)))
            },
        )?;
        found.ok_or_else(sql::no_row)
    }

    fn tenant_word(&self) -> Option<&str> {
        self.tenant.as_ref().map(Tenant::as_str)
    }
}

/// Returns the usage of runs by the interval in which they were admitted.
pub(crate) fn usage_series(
    connection: &Connection,
    filter: &ListFilter,
    bucket_ms: u64,
    since: Timestamp,
) -> Done<Vec<UsagePoint>> {
    let bucket = whole(bucket_ms.max(1));
    let condition = Condition::of(filter).and("created_at >= ?", since.0);
    let mut points = sql::all(
        connection,
        &format!(
            "SELECT created_at / {bucket} * {bucket} AS at, COUNT(*) AS tasks,
                    COUNT(*) FILTER (WHERE status = 'completed') AS completed,
                    COUNT(*) FILTER (WHERE status IN ('failed', 'timeout')) AS failed,
                    SUM(COALESCE(input_tokens, 0)) AS input_tokens,
                    SUM(COALESCE(output_tokens, 0)) AS output_tokens,
                    COUNT(*) FILTER (WHERE unpriced > 0) AS unpriced, SUM(cost_usd) AS cost_usd
             FROM runs {} GROUP BY 1 ORDER BY 1 DESC LIMIT {MAX_POINTS}",
            condition.sql
        ),
        condition.values.as_slice(),
        |row| {
            let natural = |column| -> Done<u64> { Ok(row.get::<_, i64>(column)?.unsigned_abs()) };
            Ok(UsagePoint {
                at: Timestamp(row.get("at")?),
                tasks: natural("tasks")?,
                completed: natural("completed")?,
                failed: natural("failed")?,
                input_tokens: natural("input_tokens")?,
                output_tokens: natural("output_tokens")?,
                unpriced: natural("unpriced")?,
                cost_usd: row.get("cost_usd")?,
            })
        },
    )?;
    points.reverse();
    Ok(points)
}

/// Returns how full the lanes are.
pub(crate) fn lanes(connection: &Connection) -> Done<Vec<LaneCount>> {
    let counts = Lane::ALL.iter().map(|lane| {
        Ok(LaneCount {
            lane: *lane,
            claimed: sql::count(
                connection,
                "SELECT COUNT(*) FROM runs WHERE phase = 'leased' AND lane = ?1",
                [lane.as_str()],
            )?,
            queued: sql::count(
                connection,
                "SELECT COUNT(*) FROM runs WHERE phase = 'queued' AND paused = 0 AND lane = ?1",
                [lane.as_str()],
            )?,
        })
    });
    counts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::plan;

    #[test]
    fn session_queries_use_the_index_of_turns() {
        let last = plan(&last_turn_statement());
        assert_eq!(
            last,
            ["SEARCH runs USING INDEX turns (session=? AND tenant=?)"]
        );
        let named = plan(&conversations(true));
        assert_eq!(
            named[0],
            "SEARCH runs USING COVERING INDEX turns (session=?)"
        );
        let all = plan(&conversations(false));
        assert_eq!(all[0], "SCAN runs USING COVERING INDEX turns");
    }
}
