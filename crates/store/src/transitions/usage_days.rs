//! The usage of ended runs by day: written at the end of each, read by exports.

use sortie_core::stats::{EndedUsage, UsageBy, UsageRange};
use sortie_core::tenant::{Period, Tenant};
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::row::{self, RunRow};
use crate::sql::{self, Bind, Connection, params, whole};
use crate::transitions::tenants::shard_of;

/// Adds the usage of a run to the day of its end.
pub(crate) fn count(connection: &Connection, row: &RunRow, at: Timestamp) -> Done<()> {
    let record = &row.record;
    let used = record.summary.usage;
    let nanos = used.cost_usd.map(|usd| (usd * 1e9).round() as i64);
    sql::run(
        connection,
        "INSERT INTO usage_days (day, tenant, agent, model, shard, runs, tool_calls, unpriced,
             input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos)
         VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
         ON CONFLICT (day, tenant, agent, model, shard) DO UPDATE SET
             runs = usage_days.runs + 1,
             tool_calls = usage_days.tool_calls + excluded.tool_calls,
             unpriced = usage_days.unpriced + excluded.unpriced,
             input_tokens = COALESCE(usage_days.input_tokens + excluded.input_tokens,
                 usage_days.input_tokens, excluded.input_tokens),
             output_tokens = COALESCE(usage_days.output_tokens + excluded.output_tokens,
                 usage_days.output_tokens, excluded.output_tokens),
             cache_read_tokens = COALESCE(usage_days.cache_read_tokens + excluded.cache_read_tokens,
                 usage_days.cache_read_tokens, excluded.cache_read_tokens),
             cache_write_tokens
                 = COALESCE(usage_days.cache_write_tokens + excluded.cache_write_tokens,
                 usage_days.cache_write_tokens, excluded.cache_write_tokens),
             cost_nanos = COALESCE(usage_days.cost_nanos + excluded.cost_nanos,
                 usage_days.cost_nanos, excluded.cost_nanos)",
        params![
            Period::of(at).day,
            record.tenant.as_ref().map_or("", Tenant::as_str),
            record.agent,
            record.summary.model,
            shard_of(&row.tail.run),
            record.summary.tool_calls,
            i64::from(record.summary.unpriced > 0),
            used.input_tokens.map(whole),
            used.output_tokens.map(whole),
            used.cache_read_tokens.map(whole),
            used.cache_write_tokens.map(whole),
            nanos,
        ],
    )?;
    Ok(())
}

/// Returns the usage of a range of days, by the parts that it names.
pub(crate) fn read(connection: &Connection, range: &UsageRange) -> Done<Vec<EndedUsage>> {
    let named = |by: UsageBy| range.by.contains(&by);
    let part = |by: UsageBy| if named(by) { by.as_str() } else { "NULL" };
    let groups: Vec<&str> = range.by.iter().map(|by| by.as_str()).collect();
    let (grouped, ordered) = if groups.is_empty() {
        // Without a row there is no sum.
        ("HAVING COUNT(*) > 0".to_owned(), String::new())
    } else {
        let groups = groups.join(", ");
        (format!("GROUP BY {groups}"), format!("ORDER BY {groups}"))
    };
    let mut values: Vec<Box<dyn Bind>> = vec![Box::new(range.first_day), Box::new(range.last_day)];
    let of_tenant = match &range.tenant {
        None => "",
        Some(tenant) => {
            values.push(Box::new(tenant.as_str().to_owned()));
            "AND tenant = ?"
        }
    };
    values.push(Box::new(sql::limit(range.limit)));
    sql::all(
        connection,
        &format!(
            "SELECT {}, {}, {}, {}, SUM(runs), SUM(tool_calls), SUM(unpriced), SUM(input_tokens),
                 SUM(output_tokens), SUM(cache_read_tokens), SUM(cache_write_tokens),
                 CAST(SUM(cost_nanos) AS DOUBLE PRECISION) / 1e9
             FROM usage_days WHERE day >= ? AND day <= ? {of_tenant}
             {grouped} {ordered} LIMIT ?",
            part(UsageBy::Tenant),
            part(UsageBy::Agent),
            part(UsageBy::Model),
            part(UsageBy::Day),
        ),
        values.as_slice(),
        |row| {
            let count = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
            // A part that is not named is null, of no type that all databases agree on.
            Ok(EndedUsage {
                tenant: named(UsageBy::Tenant).then(|| row.get(0)).transpose()?,
                agent: named(UsageBy::Agent).then(|| row.get(1)).transpose()?,
                model: named(UsageBy::Model).then(|| row.get(2)).transpose()?,
                day: named(UsageBy::Day).then(|| row.get(3)).transpose()?,
                runs: count(4)?,
                tool_calls: count(5)?,
                unpriced: count(6)?,
                usage: row::usage(row, 7)?,
            })
        },
    )
}
