//! Chooses the runs of a claim: first the tenant, then the most urgent of its runs that parents and
//! trees have room for.
//!
//! While several tenants have queued runs, one that holds its share of the slots already waits for the
//! others; among the rest it is the one whose turn comes first. A claim puts the turn of its tenant
//! back by a step that is the shorter, the greater the tenant's weight. So a slot that is free never
//! waits, and none of this reads more of a queue than what is claimed.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use sortie_core::run::Lane;
use sortie_core::tenant::{Period, Quota};
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::sql::{self, Connection, params, whole};
use crate::transitions::claim::{Caps, OpenLane};
use crate::transitions::tenants::{self, Rules};

/// Runs at a limit that a claim passes by one by one, before it looks only at the most urgent run
/// of each parent.
const MAX_SKIPPED: u64 = 64;
/// Runs that are read beyond the free slots, because some may be at a limit.
const READ_AHEAD: u64 = 16;
/// The step of a claim for a tenant of weight 1.
const STEP: i64 = 1_000_000_000;

/// Which tenants may have more runs.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    rules: Rules,
    /// Tenants whose tokens or money are used up.
    spent: HashSet<String>,
    /// Runs of tenants with a lease, in all lanes and processes.
    running: HashMap<String, u64>,
}

impl Quotas {
    /// Reads what the quotas of tenants with queued runs need.
    pub(crate) fn load(connection: &Connection, lanes: &[OpenLane], at: Timestamp) -> Done<Self> {
        let named = |tenant: &&String| !tenant.is_empty();
        let queued: BTreeSet<&String> = lanes
            .iter()
            .flat_map(|lane| lane.tenants.iter().filter(named))
            .collect();
        if queued.is_empty() {
            return Ok(Self::default());
        }
        let mut quotas = Self {
            rules: Rules::load(connection)?,
            ..Self::default()
        };
        let period = Period::of(at);
        for tenant in &queued {
            let limits = quotas.rules.of(tenant);
            if tenants::spending_reached(connection, tenant, &limits, period)?.is_some() {
                quotas.spent.insert((*tenant).clone());
            }
        }
        if queued
            .iter()
            .any(|tenant| quotas.rules.of(tenant).max_running.is_some())
        {
            quotas.running = tenants::all_running(connection)?;
        }
        Ok(quotas)
    }

    pub(crate) fn has_room(&self, tenant: &str) -> bool {
        let running = self.running.get(tenant).copied().unwrap_or_default();
        let limit = self.rules.of(tenant).limit(Quota::Running);
        !self.spent.contains(tenant) && limit.is_none_or(|limit| running < limit)
    }

    fn weight(&self, tenant: &str) -> u64 {
        self.rules.of(tenant).weight()
    }
}

/// Returns runs of a lane to be claimed.
pub(crate) fn choose(
    connection: &Connection,
    open: OpenLane,
    quotas: &mut Quotas,
    eligible: &str,
) -> Done<Vec<String>> {
    let OpenLane {
        lane,
        free,
        tenants,
        mut caps,
    } = open;
    let turns = if tenants.len() == 1 {
        HashMap::new()
    } else {
        turns(connection, lane)?
    };
    let mut shares = Shares {
        slots: free + caps.by_tenant.values().sum::<u64>(),
        tenants: Vec::new(),
    };
    let mut queues = Vec::new();
    for tenant in tenants {
        if !quotas.has_room(&tenant) {
            continue;
        }
        shares.tenants.push(Share {
            weight: quotas.weight(&tenant),
            running: caps.by_tenant.get(&tenant).copied().unwrap_or_default(),
            turn: turns.get(&tenant).copied().unwrap_or_default(),
            claimed: 0,
            is_open: true,
        });
        queues.push(TenantQueue::new(lane, tenant));
    }
    shares.level();
    let mut chosen = Vec::new();
    while (chosen.len() as u64) < free
        && let Some(next) = shares.next()
    {
        let queue = &mut queues[next];
        let left = free - chosen.len() as u64;
        let run = if quotas.has_room(&queue.tenant) {
            queue.next(connection, &mut caps, (left, eligible))?
        } else {
            None
        };
        if let Some(run) = run {
            chosen.push(run);
            *quotas.running.entry(queue.tenant.clone()).or_default() += 1;
            shares.take(next);
        } else {
            shares.tenants[next].is_open = false;
        }
    }
    // A tenant that is alone takes nothing from others.
    if queues.len() > 1 {
        let claimed = shares.tenants.iter().zip(&queues);
        for (share, queue) in claimed.filter(|(share, _)| share.claimed > 0) {
            save_turn(connection, (lane, &queue.tenant), share.turn)?;
        }
    }
    Ok(chosen)
}

fn turns(connection: &Connection, lane: Lane) -> Done<HashMap<String, i64>> {
    let turns = sql::all(
        connection,
        "SELECT tenant, turn FROM tenant_turns WHERE lane = ?1",
        [lane.as_str()],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(turns.into_iter().collect())
}

fn save_turn(connection: &Connection, (lane, tenant): (Lane, &str), turn: i64) -> Done<()> {
    sql::run(
        connection,
        "INSERT INTO tenant_turns (lane, tenant, turn) VALUES (?1, ?2, ?3)
         ON CONFLICT (lane, tenant) DO UPDATE SET turn = excluded.turn",
        params![lane.as_str(), tenant, turn],
    )?;
    Ok(())
}

/// The tenants that want the slots of a lane.
#[derive(Debug)]
struct Shares {
    /// Those that are taken, by all processes, and those that are free in this one.
    slots: u64,
    tenants: Vec<Share>,
}

/// A tenant that wants slots.
#[derive(Clone, Debug)]
struct Share {
    weight: u64,
    /// The slots that it has.
    running: u64,
    /// The tenant with the lowest one is next.
    turn: i64,
    /// The slots that it got just now.
    claimed: u64,
    /// Whether it may have further runs to claim.
    is_open: bool,
}

impl Share {
    fn step(&self) -> i64 {
        STEP / whole(self.weight).max(1)
    }
}

impl Shares {
    /// Brings tenants that wanted no slots for a while to the turn of the others, so that they do not
    /// make up for slots that they did not want.
    fn level(&mut self) {
        let lowest = self.tenants.iter().map(|share| share.turn - share.step());
        let lowest = lowest.max().unwrap_or_default();
        for share in &mut self.tenants {
            share.turn = share.turn.max(lowest);
        }
    }

    /// Returns the tenant that gets the next slot.
    fn next(&self) -> Option<usize> {
        let open = || {
            let shares = self.tenants.iter().enumerate();
            shares.filter(|(_, share)| share.is_open)
        };
        let weights: u64 = open().map(|(_, share)| share.weight).sum();
        let has_its_share =
            |share: &Share| share.running.saturating_mul(weights) >= self.slots * share.weight;
        let next = open().min_by_key(|(_, share)| (has_its_share(share), share.turn));
        next.map(|(position, _)| position)
    }

    fn take(&mut self, position: usize) {
        let share = &mut self.tenants[position];
        share.turn = share.turn.saturating_add(share.step());
        share.running += 1;
        share.claimed += 1;
    }
}

/// The queue of one tenant in a lane, read as far as a claim needs it.
#[derive(Debug)]
struct TenantQueue {
    lane: Lane,
    tenant: String,
    /// Runs that were read and not looked at.
    read: VecDeque<Queued>,
    /// The last run that was looked at.
    reached: Place,
    skipped: u64,
    /// The most urgent runs of all parents, once too many runs at a limit were passed by.
    heads: Option<BTreeSet<Head>>,
    is_read: bool,
}

/// The sort key of a run and its id.
type Place = (i64, String);

#[derive(Debug)]
struct Queued {
    place: Place,
    parent: Option<String>,
    root: String,
}

const PAGE: &str = "SELECT queue_key, run_id, parent_id, root_id FROM runs
     WHERE phase = 'queued' AND paused = 0 AND lane = ?1 AND COALESCE(tenant, '') = ?2
       AND (queue_key, run_id) > (?3, ?4)
       AND (requires IS NULL OR requires IN (SELECT value FROM json_each(?5)))
     ORDER BY queue_key, run_id LIMIT ?6";

impl TenantQueue {
    const fn new(lane: Lane, tenant: String) -> Self {
        Self {
            lane,
            tenant,
            read: VecDeque::new(),
            reached: (i64::MIN, String::new()),
            skipped: 0,
            heads: None,
            is_read: false,
        }
    }

    /// Returns the most urgent run that parents and trees have room for, and counts it there. Runs at a
    /// limit are skipped, so that they do not block the runs behind them.
    fn next(
        &mut self,
        connection: &Connection,
        caps: &mut Caps,
        (free, eligible): (u64, &str),
    ) -> Done<Option<String>> {
        loop {
            if self.heads.is_some() {
                return self.next_head(connection, caps, eligible);
            }
            while let Some(queued) = self.read.pop_front() {
                let Queued {
                    place,
                    parent,
                    root,
                } = queued;
                self.reached = place;
                if caps.take(parent, root) {
                    return Ok(Some(self.reached.1.clone()));
                }
                self.skipped += 1;
            }
            if self.is_read {
                return Ok(None);
            }
            if self.skipped >= MAX_SKIPPED {
                self.heads = Some(self.heads(connection, caps, eligible)?);
            } else {
                self.read_page(connection, free + READ_AHEAD, eligible)?;
            }
        }
    }

    fn read_page(&mut self, connection: &Connection, size: u64, eligible: &str) -> Done<()> {
        let (key, run) = &self.reached;
        let page = sql::all(
            connection,
            PAGE,
            params![
                self.lane.as_str(),
                self.tenant,
                key,
                run,
                eligible,
                whole(size)
            ],
            |row| {
                Ok(Queued {
                    place: (row.get(0)?, row.get(1)?),
                    parent: row.get(2)?,
                    root: row.get(3)?,
                })
            },
        )?;
        self.is_read = (page.len() as u64) < size;
        self.read = page.into();
        Ok(())
    }

    /// Returns the heads of the queues of all parents that are below their limits, behind the last run
    /// that was looked at: all before it are chosen or at a limit. Reads nothing of the runs behind a
    /// limit, which may be thousands.
    fn heads(&self, connection: &Connection, caps: &Caps, eligible: &str) -> Done<BTreeSet<Head>> {
        let mut heads = BTreeSet::new();
        for root in self.distinct(connection, NEXT_ROOT, None)? {
            if !caps.tree_has_room(&root) {
                continue;
            }
            let parents = self.distinct(connection, NEXT_PARENT, Some(&root))?;
            for parent in parents.into_iter().map(Some).chain([None]) {
                if caps.has_room(parent.as_deref(), &root) {
                    let root = root.clone();
                    let siblings = Siblings { root, parent };
                    heads.extend(self.head(connection, siblings, (&self.reached, eligible))?);
                }
            }
        }
        Ok(heads)
    }

    fn next_head(
        &mut self,
        connection: &Connection,
        caps: &mut Caps,
        eligible: &str,
    ) -> Done<Option<String>> {
        while let Some(Head { place, siblings }) = self.heads.as_mut().and_then(BTreeSet::pop_first)
        {
            if !caps.take(siblings.parent.clone(), siblings.root.clone()) {
                // The parent or the tree has reached its limit, and so have the siblings behind.
                continue;
            }
            let behind = self.head(connection, siblings, (&place, eligible))?;
            if let Some(heads) = &mut self.heads {
                heads.extend(behind);
            }
            return Ok(Some(place.1));
        }
        Ok(None)
    }

    /// Returns the most urgent of siblings behind a place in the queue.
    fn head(
        &self,
        connection: &Connection,
        siblings: Siblings,
        ((key, run), eligible): (&Place, &str),
    ) -> Done<Option<Head>> {
        let statement = match siblings.parent {
            Some(_) => HEAD_OF_CHILDREN,
            None => HEAD_OF_ROOTS,
        };
        let place = sql::first(
            connection,
            statement,
            params![
                self.lane.as_str(),
                self.tenant,
                siblings.root,
                siblings.parent,
                key,
                run,
                eligible
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        Ok(place.map(|place| Head { place, siblings }))
    }

    /// Returns the different values of an indexed column, one step in the index for each.
    fn distinct(
        &self,
        connection: &Connection,
        next: &str,
        root: Option<&str>,
    ) -> Done<Vec<String>> {
        let mut values: Vec<String> = Vec::new();
        loop {
            let last = values.last().map_or("", String::as_str);
            let value = sql::first(
                connection,
                next,
                params![self.lane.as_str(), self.tenant, root, last],
                |row| row.get(0),
            )?;
            match value {
                Some(value) => values.push(value),
                None => return Ok(values),
            }
        }
    }
}

const NEXT_ROOT: &str = "SELECT root_id FROM runs
     WHERE phase = 'queued' AND paused = 0 AND lane = ?1 AND COALESCE(tenant, '') = ?2
       AND ?3 IS NULL AND root_id > ?4
     ORDER BY root_id LIMIT 1";
const NEXT_PARENT: &str = "SELECT parent_id FROM runs
     WHERE phase = 'queued' AND paused = 0 AND lane = ?1 AND COALESCE(tenant, '') = ?2
       AND root_id = ?3 AND parent_id > ?4
     ORDER BY parent_id LIMIT 1";
const HEAD_OF_CHILDREN: &str = "SELECT queue_key, run_id FROM runs
     WHERE phase = 'queued' AND paused = 0 AND lane = ?1 AND COALESCE(tenant, '') = ?2
       AND root_id = ?3 AND parent_id = ?4 AND (queue_key, run_id) > (?5, ?6)
       AND (requires IS NULL OR requires IN (SELECT value FROM json_each(?7)))
     ORDER BY queue_key, run_id LIMIT 1";
const HEAD_OF_ROOTS: &str = "SELECT queue_key, run_id FROM runs
     WHERE phase = 'queued' AND paused = 0 AND lane = ?1 AND COALESCE(tenant, '') = ?2
       AND root_id = ?3 AND parent_id IS NULL AND ?4 IS NULL AND (queue_key, run_id) > (?5, ?6)
       AND (requires IS NULL OR requires IN (SELECT value FROM json_each(?7)))
     ORDER BY queue_key, run_id LIMIT 1";

/// The queued children of one parent, or the root of a tree alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Siblings {
    root: String,
    parent: Option<String>,
}

/// The most urgent of siblings that were not looked at yet. Sorts by urgency.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    place: Place,
    siblings: Siblings,
}

#[cfg(test)]
mod tests {
    use super::{Share, Shares};

    fn shares(slots: u64, tenants: &[(u64, u64, i64)]) -> Shares {
        let tenants = tenants.iter().map(|(weight, running, turn)| Share {
            weight: *weight,
            running: *running,
            turn: *turn,
            claimed: 0,
            is_open: true,
        });
        Shares {
            slots,
            tenants: tenants.collect(),
        }
    }

    fn first(shares: &mut Shares, count: usize) -> Vec<usize> {
        shares.level();
        let mut next = || {
            let next = shares.next().unwrap();
            shares.take(next);
            next
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn slots_are_shared_by_weight() {
        let mut two = shares(8, &[(300, 0, 0), (100, 0, 0)]);
        let got = first(&mut two, 8);
        assert_eq!(got.iter().filter(|tenant| **tenant == 0).count(), 6);
    }

    #[test]
    fn a_tenant_with_its_share_waits_for_the_others() {
        let mut two = shares(4, &[(100, 3, -5_000_000), (100, 0, 0)]);
        assert_eq!(first(&mut two, 1), [1]);
        // Nothing is kept free for a tenant that wants nothing.
        let mut one = shares(4, &[(100, 3, 0)]);
        assert_eq!(first(&mut one, 1), [0]);
    }

    #[test]
    fn one_slot_is_shared_by_turns() {
        let mut turns = [0, 0];
        let mut got = [0, 0];
        for _ in 0..40 {
            let mut two = shares(1, &[(300, 0, turns[0]), (100, 0, turns[1])]);
            let next = first(&mut two, 1)[0];
            got[next] += 1;
            turns = [two.tenants[0].turn, two.tenants[1].turn];
        }
        assert_eq!(got, [30, 10]);
    }

    #[test]
    fn a_tenant_that_returns_makes_up_for_nothing() {
        let mut two = shares(1, &[(100, 0, 0), (100, 0, 1_000_000_000_000)]);
        let mut got = [0, 0];
        for _ in 0..20 {
            for next in first(&mut two, 1) {
                got[next] += 1;
                two.tenants[next].running = 0;
            }
        }
        assert!(got[0] - got[1] <= 2, "{got:?}");
    }
}
