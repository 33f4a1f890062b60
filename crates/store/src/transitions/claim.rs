//! Claims queued runs for execution, as far as the limits of lanes, parents, trees and tenants allow.

use std::collections::HashMap;

use sortie_core::event::Event;
use sortie_core::hook::HookEvent;
use sortie_core::id::{Epoch, Fence, RunId, Seq};
use sortie_core::ports::store::{Claim, LaneLimit};
use sortie_core::run::{Cancellation, Lane};
use sortie_core::time::Timestamp;
use sortie_core::worker::Label;

use crate::chain::{Stamp, Tail};
use crate::fault::Done;
use crate::quarantine::{self, ClaimRule, Deaths, Waiting};
use crate::row;
use crate::sql::{self, Connection, params};
use crate::transitions::fair_claim::{self, Quotas};
use crate::transitions::letters;

/// Later than any deadline.
const NEVER_MS: i64 = 1 << 53;

/// A new lease. Its journal is read after the commit.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) fence: Fence,
    pub(crate) head: Seq,
    pub(crate) cancel: Option<Cancellation>,
    pub(crate) inbox_waiting: bool,
    pub(crate) alone: bool,
}

/// Claims the most urgent runs of each lane; or one run alone, if it may have killed its process.
pub(crate) fn claim(connection: &Connection, claim: &Claim) -> Done<Vec<Lease>> {
    let eligible = eligible(connection, claim)?;
    let mut lanes = Vec::new();
    for limit in &claim.lanes {
        lanes.extend(OpenLane::load(connection, claim, *limit)?);
    }
    let mut quotas = Quotas::load(connection, &lanes, claim.at)?;
    let waiting = suspects(connection, &lanes, &quotas, &eligible)?;
    match quarantine::gate(&claimed(connection, claim)?, &waiting, claim.deaths) {
        ClaimRule::Closed => return Ok(Vec::new()),
        ClaimRule::Only(run) => return Ok(vec![take(connection, claim, run, true)?]),
        ClaimRule::Open => {}
    }
    let mut leases = Vec::new();
    for lane in lanes {
        for run in fair_claim::choose(connection, lane, &mut quotas, &eligible)? {
            leases.push(take(connection, claim, &run, false)?);
        }
    }
    Ok(leases)
}

/// A lane in which this process has free slots.
#[derive(Debug)]
pub(crate) struct OpenLane {
    pub(crate) lane: Lane,
    pub(crate) free: u64,
    /// The tenants with queued runs; the empty one stands for runs without a tenant.
    pub(crate) tenants: Vec<String>,
    pub(crate) caps: Caps,
}

impl OpenLane {
    /// Returns `None` if there is no free slot, or no queued run.
    fn load(connection: &Connection, claim: &Claim, limit: LaneLimit) -> Done<Option<Self>> {
        let free = free_slots(connection, claim, limit)?;
        if free == 0 {
            return Ok(None);
        }
        let tenants = sql::all(connection, QUEUED_TENANTS, [limit.lane.as_str()], |row| {
            row.get(0)
        })?;
        let tenants: Vec<String> = tenants;
        if tenants.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            lane: limit.lane,
            free,
            tenants,
            caps: Caps::load(connection, claim, limit.lane)?,
        }))
    }
}

/// The tenants with queued runs in a lane, one step in the index for each.
const QUEUED_TENANTS: &str = "WITH RECURSIVE queued (tenant) AS (
         SELECT (SELECT COALESCE(tenant, '') FROM runs
                 WHERE phase = 'queued' AND paused = 0 AND lane = ?1
                 ORDER BY COALESCE(tenant, '') LIMIT 1)
         UNION ALL
         SELECT (SELECT COALESCE(runs.tenant, '') FROM runs
                 WHERE phase = 'queued' AND paused = 0 AND lane = ?1
                   AND COALESCE(runs.tenant, '') > queued.tenant
                 ORDER BY COALESCE(runs.tenant, '') LIMIT 1)
         FROM queued WHERE queued.tenant IS NOT NULL)
     SELECT tenant FROM queued WHERE tenant IS NOT NULL";

/// Returns the sets of required labels that this process has, among those of queued runs, as a JSON
/// array of the stored texts. Runs that require none are not part of it.
fn eligible(connection: &Connection, claim: &Claim) -> Done<String> {
    let sets: Vec<String> = sql::all(
        connection,
        "SELECT DISTINCT requires FROM runs
         WHERE phase = 'queued' AND paused = 0 AND requires IS NOT NULL",
        (),
        |row| row.get(0),
    )?;
    let mut eligible = Vec::new();
    for set in sets {
        let required: Vec<Label> = serde_json::from_str(&set)?;
        if required.iter().all(|label| claim.labels.contains(label)) {
            eligible.push(set);
        }
    }
    Ok(serde_json::to_string(&eligible)?)
}

/// Returns the runs that this process has leased: only they can have killed it.
fn claimed(connection: &Connection, claim: &Claim) -> Done<Vec<quarantine::ClaimedRun>> {
    sql::all(
        connection,
        // A run that a rate limit delays executes nothing that could kill the process.
        "SELECT deaths, deaths_since_progress,
                head_seq > head_at_claim OR waiting_on IS NOT DISTINCT FROM 'rate_limit' FROM runs
         WHERE phase = 'leased' AND lease_owner = ?1",
        [claim.owner.as_str()],
        |row| {
            Ok(quarantine::ClaimedRun {
                deaths: Deaths {
                    total: row.get(0)?,
                    since_progress: row.get(1)?,
                },
                progressed: row.get(2)?,
            })
        },
    )
}

/// Returns the claimable runs whose process died, most urgent first.
fn suspects(
    connection: &Connection,
    lanes: &[OpenLane],
    quotas: &Quotas,
    eligible: &str,
) -> Done<Vec<Waiting>> {
    let waiting = sql::all(
        connection,
        "SELECT run_id, lane, deaths, deaths_since_progress, parent_id, root_id,
                COALESCE(tenant, '') FROM runs
         WHERE phase = 'queued' AND paused = 0 AND deaths > 0
           AND (requires IS NULL OR requires IN (SELECT value FROM json_each(?1)))
         ORDER BY queue_key, run_id",
        [eligible],
        |row| {
            let waiting = Waiting {
                run: row.get(0)?,
                deaths: Deaths {
                    total: row.get(2)?,
                    since_progress: row.get(3)?,
                },
            };
            let place = (sql::word::<Lane>(row, "lane")?, row.get(4)?, row.get(5)?);
            Ok((place, row.get(6)?, waiting))
        },
    )?;
    let can_start = |(lane, parent, root): &(Lane, Option<String>, String), tenant: &String| {
        let mut lanes = lanes.iter();
        quotas.has_room(tenant)
            && lanes.any(|open| open.lane == *lane && open.caps.has_room(parent.as_deref(), root))
    };
    let waiting = waiting
        .into_iter()
        .filter(|(place, tenant, _)| can_start(place, tenant));
    Ok(waiting.map(|(_, _, waiting)| waiting).collect())
}

/// Returns how many more runs of a lane this process may have.
fn free_slots(connection: &Connection, claim: &Claim, limit: LaneLimit) -> Done<u64> {
    let leased = sql::count(
        connection,
        "SELECT COUNT(*) FROM runs WHERE phase = 'leased' AND lane = ?1 AND lease_owner = ?2",
        [limit.lane.as_str(), claim.owner.as_str()],
    )?;
    Ok(u64::from(limit.max_concurrent).saturating_sub(leased))
}

/// The leased runs of each parent, tree and tenant in a lane, and the limits of parents and trees.
#[derive(Debug)]
pub(crate) struct Caps {
    by_parent: HashMap<String, u32>,
    by_tree: HashMap<String, u32>,
    pub(crate) by_tenant: HashMap<String, u64>,
    per_parent: u32,
    per_tree: u32,
}

impl Caps {
    fn load(connection: &Connection, claim: &Claim, lane: Lane) -> Done<Self> {
        let mut caps = Self {
            by_parent: HashMap::new(),
            by_tree: HashMap::new(),
            by_tenant: HashMap::new(),
            per_parent: claim.per_parent,
            per_tree: claim.per_tree,
        };
        if lane == Lane::Main {
            // The main lane has no limits for parents and trees.
            (caps.per_parent, caps.per_tree) = (u32::MAX, u32::MAX);
        }
        caps.count_leased(connection, lane)?;
        Ok(caps)
    }

    fn count_leased(&mut self, connection: &Connection, lane: Lane) -> Done<()> {
        let leased = sql::all(
            connection,
            "SELECT parent_id, root_id, COALESCE(tenant, '') FROM runs
             WHERE phase = 'leased' AND lane = ?1",
            [lane.as_str()],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        for (parent, root, tenant) in leased {
            self.add(parent, root);
            *self.by_tenant.entry(tenant).or_default() += 1;
        }
        Ok(())
    }

    pub(crate) fn has_room(&self, parent: Option<&str>, root: &str) -> bool {
        let of_parent = parent.map_or(0, |parent| count_of(&self.by_parent, parent));
        let parent_full = parent.is_some() && of_parent >= self.per_parent;
        !parent_full && self.tree_has_room(root)
    }

    /// Counts one more run if the limits allow it.
    pub(crate) fn take(&mut self, parent: Option<String>, root: String) -> bool {
        if !self.has_room(parent.as_deref(), &root) {
            return false;
        }
        self.add(parent, root);
        true
    }

    /// Whether a tree is below its limit.
    pub(crate) fn tree_has_room(&self, root: &str) -> bool {
        count_of(&self.by_tree, root) < self.per_tree
    }

    fn add(&mut self, parent: Option<String>, root: String) {
        if let Some(parent) = parent {
            *self.by_parent.entry(parent).or_default() += 1;
        }
        *self.by_tree.entry(root).or_default() += 1;
    }
}

fn count_of(counts: &HashMap<String, u32>, key: &str) -> u32 {
    counts.get(key).copied().unwrap_or(0)
}

/// A queued run to be claimed.
#[derive(Debug)]
struct Queued {
    run: RunId,
    tail: Tail,
    epoch: i64,
    recovered: bool,
    cancel: Option<Cancellation>,
    inbox_count: i64,
    /// Whether hooks observe it.
    has_hooks: bool,
    /// Set by the first claim.
    deadline_at: Option<i64>,
    timeout_ms: Option<i64>,
    wall_ms: Option<i64>,
    not_after: Option<i64>,
}

impl Queued {
    /// Returns the deadline: that of the first claim, which counts the run's own limits from `at`.
    fn deadline(&self, at: Timestamp) -> Option<i64> {
        let own = [self.timeout_ms, self.wall_ms].into_iter().flatten();
        let limits = own.map(|ms| at.0.saturating_add(ms)).chain(self.not_after);
        let first = || limits.min().filter(|deadline| *deadline < NEVER_MS);
        self.deadline_at.or_else(first)
    }
}

fn take(connection: &Connection, claim: &Claim, run: &str, alone: bool) -> Done<Lease> {
    let mut queued = load(connection, run)?;
    let epoch = Epoch(queued.epoch + 1);
    let stamp = Stamp {
        at: claim.at,
        epoch,
    };
    let body = serde_json::to_string(&Event::Claimed {
        epoch,
        recovered: queued.recovered,
    })?;
    queued.tail.push(connection, stamp, &body)?;
    sql::run(
        connection,
        "UPDATE runs SET phase = 'leased', status = 'running', waiting_on = 'model', recovered = 0,
             epoch = ?2, lease_owner = ?3, lease_until = ?4, deadline_at = ?8,
             started_at = COALESCE(started_at, ?5),
             head_seq = ?6, head_hash = ?7, head_at_claim = ?6
         WHERE run_id = ?1",
        params![
            run,
            epoch.0,
            claim.owner.as_str(),
            claim.lease_until.0,
            claim.at.0,
            queued.tail.seq,
            queued.tail.hash,
            queued.deadline(claim.at)
        ],
    )?;
    if queued.has_hooks && queued.epoch == 0 {
        let row = row::must_load(connection, queued.run)?;
        letters::of_run(connection, &row, HookEvent::Start, None, claim.at)?;
    }
    Ok(Lease {
        fence: Fence {
            run: queued.run,
            epoch,
        },
        head: queued.tail.head(),
        cancel: queued.cancel,
        inbox_waiting: queued.inbox_count > 0,
        alone,
    })
}

fn load(connection: &Connection, run: &str) -> Done<Queued> {
    let queued = sql::first(
        connection,
        "SELECT run_id, head_seq, head_hash, epoch, recovered, cancel, inbox_count,
                deadline_at, timeout_ms, wall_ms, not_after, hooks IS NOT NULL
         FROM runs WHERE run_id = ?1",
        [run],
        |row| {
            Ok(Queued {
                run: sql::word(row, "run_id")?,
                tail: Tail {
                    run: row.get(0)?,
                    seq: row.get(1)?,
                    hash: row.get(2)?,
                },
                epoch: row.get(3)?,
                recovered: row.get(4)?,
                cancel: sql::optional_json(row, "cancel")?,
                inbox_count: row.get(6)?,
                deadline_at: row.get(7)?,
                timeout_ms: row.get(8)?,
                wall_ms: row.get(9)?,
                not_after: row.get(10)?,
                has_hooks: row.get(11)?,
            })
        },
    )?;
    queued.ok_or_else(sql::no_row)
}
