//! What tenants use and may use: quotas at admissions, charges of appends, storage of ended runs.
//!
//! Tokens and costs are summed for each day in shards, so that appends of different processes do not
//! wait for one row. Everything else is counted when it is needed, over indexes of active runs.

use std::collections::{BTreeMap, HashMap};

use sortie_core::config::TenantLimits;
use sortie_core::message::Usage;
use sortie_core::tenant::{Period, Quota, QuotaReached, Tenant, TenantRules, TenantUse};
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::sql::{self, Connection, params, whole};

/// The name under which the limits of tenants without own ones are stored.
const OTHERS: &str = "*";
/// The rows that share a sum.
const SHARDS: u8 = 4;

/// Replaces the rules, unless they are the same already.
pub(crate) fn set(connection: &Connection, rules: &TenantRules) -> Done<()> {
    let mut wanted = BTreeMap::new();
    for (tenant, limits) in &rules.named {
        wanted.insert(tenant.to_string(), serde_json::to_string(limits)?);
    }
    if let Some(limits) = &rules.others {
        wanted.insert(OTHERS.to_owned(), serde_json::to_string(limits)?);
    }
    let stored = sql::all(
        connection,
        "SELECT tenant, limits FROM tenants",
        (),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let stored: BTreeMap<String, String> = stored.into_iter().collect();
    if stored == wanted {
        return Ok(());
    }
    sql::run(connection, "DELETE FROM tenants", ())?;
    for (tenant, limits) in wanted {
        sql::run(
            connection,
            "INSERT INTO tenants (tenant, limits) VALUES (?1, ?2)",
            params![tenant, limits],
        )?;
    }
    Ok(())
}

/// The stored rules.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    limits: HashMap<String, TenantLimits>,
}

impl Rules {
    pub(crate) fn load(connection: &Connection) -> Done<Self> {
        let limits = sql::all(
            connection,
            "SELECT tenant, limits FROM tenants",
            (),
            |row| Ok((row.get(0)?, sql::json(row, "limits")?)),
        )?;
        Ok(Self {
            limits: limits.into_iter().collect(),
        })
    }

    /// Returns the limits of a tenant. Runs without a tenant have none.
    pub(crate) fn of(&self, tenant: &str) -> TenantLimits {
        if tenant.is_empty() {
            return TenantLimits::default();
        }
        let limits = self.limits.get(tenant).or_else(|| self.limits.get(OTHERS));
        limits.copied().unwrap_or_default()
    }
}

/// Returns the limits of one tenant.
fn limits_of(connection: &Connection, tenant: &str) -> Done<TenantLimits> {
    // `*` sorts before all names.
    let limits = sql::first(
        connection,
        "SELECT limits FROM tenants WHERE tenant IN (?1, '*') ORDER BY tenant DESC LIMIT 1",
        [tenant],
        |row| sql::json(row, "limits"),
    )?;
    Ok(limits.unwrap_or_default())
}

/// Returns the first quota that does not allow another run of a tenant. How many of its runs execute
/// at once is decided by the claim.
pub(crate) fn reached(
    connection: &Connection,
    tenant: &Tenant,
    at: Timestamp,
) -> Done<Option<QuotaReached>> {
    let name = tenant.as_str();
    let limits = limits_of(connection, name)?;
    let period = Period::of(at);
    let refused = |quota, limit, used| QuotaReached {
        tenant: tenant.clone(),
        quota,
        limit,
        used,
        resets_at: period.resets_at(quota),
    };
    if let Some(limit) = limits.limit(Quota::Queued) {
        let used = pending(connection, name, limit)?;
        if used >= limit {
            return Ok(Some(refused(Quota::Queued, limit, used)));
        }
    }
    if let Some(limit) = limits.limit(Quota::Storage) {
        let used = storage(connection, name)?;
        if used >= limit {
            return Ok(Some(refused(Quota::Storage, limit, used)));
        }
    }
    let spent = spending_reached(connection, name, &limits, period)?;
    Ok(spent.map(|(quota, limit, used)| refused(quota, limit, used)))
}

/// Counts the pending runs of a tenant, up to `most`.
fn pending(connection: &Connection, tenant: &str, most: u64) -> Done<u64> {
    sql::count(
        connection,
        "SELECT COUNT(*) FROM (SELECT 1 FROM runs
             WHERE status = 'pending' AND tenant IS NOT NULL AND tenant = ?1 LIMIT ?2) AS ahead",
        params![tenant, whole(most)],
    )
}

fn storage(connection: &Connection, tenant: &str) -> Done<u64> {
    let bytes: Option<Option<i64>> = sql::first(
        connection,
        "SELECT CAST(SUM(bytes) AS BIGINT) FROM tenant_storage WHERE tenant = ?1",
        [tenant],
        |row| row.get(0),
    )?;
    // A shard may be negative, their sum is not.
    Ok(bytes.flatten().unwrap_or_default().max(0).unsigned_abs())
}

/// The first quota on tokens or money that is used up, with its limit and what is used.
type Reached = Option<(Quota, u64, u64)>;

pub(crate) fn spending_reached(
    connection: &Connection,
    tenant: &str,
    limits: &TenantLimits,
    period: Period,
) -> Done<Reached> {
    if !limits.limits_spending() {
        return Ok(None);
    }
    let spent = spending(connection, tenant, period)?;
    let used = [
        (Quota::TokensPerDay, spent.today.tokens),
        (Quota::TokensPerMonth, spent.this_month.tokens),
        (Quota::UsdPerDay, spent.today.nanos / 1_000),
        (Quota::UsdPerMonth, spent.this_month.nanos / 1_000),
    ];
    let mut reached = used.into_iter().filter_map(|(quota, used)| {
        let limit = limits.limit(quota)?;
        (used >= limit).then_some((quota, limit, used))
    });
    Ok(reached.next())
}

/// What a run or a tenant spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    tokens: u64,
    /// Billionths of a dollar.
    nanos: u64,
}

impl Spent {
    /// Returns what a run spent between two summaries.
    pub(crate) fn between(before: Usage, after: Usage) -> Self {
        let tokens = |usage: Usage| {
            let input = usage.input_tokens.unwrap_or_default();
            input.saturating_add(usage.output_tokens.unwrap_or_default())
        };
        let nanos = |usage: Usage| (usage.cost_usd.unwrap_or_default() * 1e9).round() as u64;
        Self {
            tokens: tokens(after).saturating_sub(tokens(before)),
            nanos: nanos(after).saturating_sub(nanos(before)),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Spending {
    today: Spent,
    this_month: Spent,
}

/// Adds up what a tenant spent in the current day and month: at most 31 days of shards.
fn spending(connection: &Connection, tenant: &str, period: Period) -> Done<Spending> {
    let days = sql::all(
        connection,
        "SELECT day, tokens, cost_nanos FROM tenant_days WHERE tenant = ?1 AND day >= ?2",
        params![tenant, period.first_of_month],
        |row| {
            let (day, tokens, nanos): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok((day, tokens.unsigned_abs(), nanos.unsigned_abs()))
        },
    )?;
    let mut sum = Spending::default();
    for (day, tokens, nanos) in days {
        let add = |spent: &mut Spent| {
            spent.tokens = spent.tokens.saturating_add(tokens);
            spent.nanos = spent.nanos.saturating_add(nanos);
        };
        add(&mut sum.this_month);
        if day >= period.day {
            add(&mut sum.today);
        }
    }
    Ok(sum)
}

/// Charges what a run spent to its tenant. Returns whether one of the tenant's quotas is used up.
pub(crate) fn charge(
    connection: &Connection,
    (tenant, run): (&str, &str),
    spent: Spent,
    at: Timestamp,
) -> Done<bool> {
    if spent == Spent::default() {
        return Ok(false);
    }
    let period = Period::of(at);
    sql::run(
        connection,
        "INSERT INTO tenant_days (tenant, day, shard, tokens, cost_nanos)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (tenant, day, shard) DO UPDATE SET
             tokens = tenant_days.tokens + excluded.tokens,
             cost_nanos = tenant_days.cost_nanos + excluded.cost_nanos",
        params![
            tenant,
            period.day,
            shard_of(run),
            whole(spent.tokens),
            whole(spent.nanos)
        ],
    )?;
    let limits = limits_of(connection, tenant)?;
    Ok(spending_reached(connection, tenant, &limits, period)?.is_some())
}

/// Counts the bytes of a run that has just ended.
pub(crate) fn store_ended(connection: &Connection, run: &str) -> Done<()> {
    if let Some((tenant, bytes)) = stored(connection, run)? {
        add_storage(connection, (&tenant, run), bytes)?;
    }
    Ok(())
}

/// No longer counts the bytes of an ended run, whose transcript is deleted.
pub(crate) fn free_storage(connection: &Connection, run: &str) -> Done<()> {
    if let Some((tenant, bytes)) = stored(connection, run)? {
        add_storage(connection, (&tenant, run), -bytes)?;
        sql::run(
            connection,
            "UPDATE runs SET stored_bytes = 0 WHERE run_id = ?1",
            [run],
        )?;
    }
    Ok(())
}

/// Returns the tenant of a run and its bytes.
fn stored(connection: &Connection, run: &str) -> Done<Option<(String, i64)>> {
    sql::first(
        connection,
        "SELECT tenant, stored_bytes FROM runs WHERE run_id = ?1 AND tenant IS NOT NULL",
        [run],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Adds bytes to the storage of a tenant, or subtracts them.
pub(crate) fn add_storage(
    connection: &Connection,
    (tenant, run): (&str, &str),
    bytes: i64,
) -> Done<()> {
    sql::run(
        connection,
        "INSERT INTO tenant_storage (tenant, shard, bytes) VALUES (?1, ?2, ?3)
         ON CONFLICT (tenant, shard) DO UPDATE SET
             bytes = tenant_storage.bytes + excluded.bytes",
        params![tenant, shard_of(run), bytes],
    )?;
    Ok(())
}

/// Returns the row of a sum to which a run adds.
pub(crate) fn shard_of(run: &str) -> i64 {
    let last = run.bytes().next_back().unwrap_or_default();
    i64::from(last % SHARDS)
}

/// Returns what tenants use: one of them, or all that have rules or runs.
pub(crate) fn list(
    connection: &Connection,
    tenant: Option<&Tenant>,
    at: Timestamp,
) -> Done<Vec<TenantUse>> {
    let period = Period::of(at);
    let rules = Rules::load(connection)?;
    let mut names: Vec<String> = Vec::new();
    if let Some(tenant) = tenant {
        names.push(tenant.to_string());
    } else {
        names.extend(rules.limits.keys().cloned());
        names.extend(sql::all(connection, KNOWN, (), |row| row.get(0))?);
        names.sort_unstable();
        names.dedup();
    }
    let mut uses = Vec::new();
    for name in names {
        // All but `*`.
        let Ok(tenant) = name.parse::<Tenant>() else {
            continue;
        };
        let spent = spending(connection, &name, period)?;
        uses.push(TenantUse {
            limits: rules.of(&name),
            running: running(connection, &name)?,
            queued: pending(connection, &name, i64::MAX.unsigned_abs())?,
            tokens_today: spent.today.tokens,
            tokens_this_month: spent.this_month.tokens,
            nanos_today: spent.today.nanos,
            nanos_this_month: spent.this_month.nanos,
            storage_bytes: storage(connection, &name)?,
            tenant,
        });
    }
    Ok(uses)
}

/// All tenants that have runs, one step in the index for each.
const KNOWN: &str = "WITH RECURSIVE known (tenant) AS (
         SELECT (SELECT tenant FROM runs WHERE tenant IS NOT NULL ORDER BY tenant LIMIT 1)
         UNION ALL
         SELECT (SELECT runs.tenant FROM runs
                 WHERE runs.tenant IS NOT NULL AND runs.tenant > known.tenant
                 ORDER BY runs.tenant LIMIT 1)
         FROM known WHERE known.tenant IS NOT NULL)
     SELECT tenant FROM known WHERE tenant IS NOT NULL";

fn running(connection: &Connection, tenant: &str) -> Done<u64> {
    sql::count(
        connection,
        // So written that no index of all runs of the tenant is read.
        "SELECT COUNT(*) FROM runs WHERE phase = 'leased' AND COALESCE(tenant, '') = ?1",
        [tenant],
    )
}

/// Returns how many runs of each tenant have a lease.
pub(crate) fn all_running(connection: &Connection) -> Done<HashMap<String, u64>> {
    let running = sql::all(
        connection,
        "SELECT COALESCE(tenant, ''), COUNT(*) FROM runs WHERE phase = 'leased' GROUP BY 1",
        (),
        |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())),
    )?;
    Ok(running.into_iter().collect())
}
