//! Claims queued runs for execution, as far as the limits of lanes, parents and trees allow.

use std::collections::{BTreeSet, HashMap};

use sortie_core::event::Event;
use sortie_core::id::{Epoch, Fence, RunId, Seq};
use sortie_core::ports::store::{Claim, LaneLimit};
use sortie_core::run::{Cancellation, Lane};
use sortie_core::time::Timestamp;
use sortie_core::worker::Label;

use crate::chain::{Stamp, Tail};
use crate::fault::Done;
use crate::quarantine::{self, ClaimRule, Deaths, Waiting};
use crate::sql::{self, Connection, params};

/// Runs at a limit that a claim passes by one by one, before it looks only at the most urgent run
/// of each parent.
const MAX_SKIPPED: u64 = 64;

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
    let waiting = suspects(connection, claim, &eligible)?;
    match quarantine::gate(&claimed(connection, claim)?, &waiting, claim.deaths) {
        ClaimRule::Closed => return Ok(Vec::new()),
        ClaimRule::Only(run) => return Ok(vec![take(connection, claim, run, true)?]),
        ClaimRule::Open => {}
    }
    let mut leases = Vec::new();
    for limit in &claim.lanes {
        for run in choose(connection, claim, *limit, &eligible)? {
            leases.push(take(connection, claim, &run, false)?);
        }
    }
    Ok(leases)
}

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
fn suspects(connection: &Connection, claim: &Claim, eligible: &str) -> Done<Vec<Waiting>> {
    let waiting = sql::all(
        connection,
        "SELECT run_id, lane, deaths, deaths_since_progress, parent_id, root_id FROM runs
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
            let (parent, root): (Option<String>, String) = (row.get(4)?, row.get(5)?);
            Ok((sql::word::<Lane>(row, "lane")?, parent, root, waiting))
        },
    )?;
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let mut lanes = Vec::new();
    for limit in &claim.lanes {
        if free_slots(connection, claim, *limit)? > 0 {
            lanes.push((limit.lane, Caps::load(connection, claim, limit.lane)?));
        }
    }
    let can_start = |lane: Lane, parent: Option<&str>, root: &str| {
        let mut lanes = lanes.iter();
        lanes.any(|(open, caps)| *open == lane && caps.has_room(parent, root))
    };
    let waiting = waiting
        .into_iter()
        .filter(|(lane, parent, root, _)| can_start(*lane, parent.as_deref(), root));
    Ok(waiting.map(|(_, _, _, waiting)| waiting).collect())
}

/// Returns the claimable runs of a lane, most urgent first. Runs of a parent or tree that is at its
/// limit are skipped, so that they do not block the runs behind them.
fn choose(
    connection: &Connection,
    claim: &Claim,
    limit: LaneLimit,
    eligible: &str,
) -> Done<Vec<String>> {
    let free = free_slots(connection, claim, limit)?;
    if free == 0 {
        return Ok(Vec::new());
    }
    let mut caps = Caps::load(connection, claim, limit.lane)?;
    let mut chosen: Vec<String> = Vec::new();
    let mut skipped = 0;
    sql::each(
        connection,
        "SELECT run_id, parent_id, root_id FROM runs
         WHERE phase = 'queued' AND paused = 0 AND lane = ?1
           AND (requires IS NULL OR requires IN (SELECT value FROM json_each(?3)))
         ORDER BY queue_key, run_id LIMIT ?2",
        params![
            limit.lane.as_str(),
            sql::whole(free.saturating_add(MAX_SKIPPED)),
            eligible
        ],
        |row| {
            if caps.take(row.get(1)?, row.get(2)?) {
                chosen.push(row.get(0)?);
            } else {
                skipped += 1;
            }
            Ok((chosen.len() as u64) < free && skipped < MAX_SKIPPED)
        },
    )?;
    if skipped == MAX_SKIPPED {
        // All runs up to here are chosen or at a limit.
        let left = free - chosen.len() as u64;
        let queue = LaneQueue {
            lane: limit.lane,
            eligible,
        };
        let further = choose_by_tree(connection, queue, caps, (left, &chosen))?;
        chosen.extend(further);
    }
    Ok(chosen)
}

/// Returns further claimable runs, most urgent first: the heads of the queues of all parents that
/// are below their limits. Reads nothing of the runs behind a limit, which may be thousands.
fn choose_by_tree(
    connection: &Connection,
    queue: LaneQueue<'_>,
    mut caps: Caps,
    (free, chosen): (u64, &[String]),
) -> Done<Vec<String>> {
    let mut heads = BTreeSet::new();
    for root in distinct(connection, NEXT_ROOT, queue.lane, None)? {
        if count_of(&caps.by_tree, &root) >= caps.per_tree {
            continue;
        }
        let parents = distinct(connection, NEXT_PARENT, queue.lane, Some(&root))?;
        for parent in parents.into_iter().map(Some).chain([None]) {
            let start = (i64::MIN, String::new());
            let siblings = Siblings {
                root: root.clone(),
                parent,
            };
            if caps.has_room(siblings.parent.as_deref(), &root) {
                heads.extend(siblings.head(connection, queue, start)?);
            }
        }
    }
    let mut further: Vec<String> = Vec::new();
    while (further.len() as u64) < free
        && let Some(head) = heads.pop_first()
    {
        let Head { place, siblings } = head;
        if chosen.contains(&place.1) {
            heads.extend(siblings.head(connection, queue, place)?);
        } else if caps.take(siblings.parent.clone(), siblings.root.clone()) {
            further.push(place.1.clone());
            heads.extend(siblings.head(connection, queue, place)?);
        }
        // Otherwise the parent or the tree has reached its limit, and so have the siblings behind.
    }
    Ok(further)
}

const NEXT_ROOT: &str = "SELECT root_id FROM runs
     WHERE phase = 'queued' AND paused = 0 AND lane = ?1 AND ?2 IS NULL AND root_id > ?3
     ORDER BY root_id LIMIT 1";
const NEXT_PARENT: &str = "SELECT parent_id FROM runs
     WHERE phase = 'queued' AND paused = 0 AND lane = ?1 AND root_id = ?2 AND parent_id > ?3
     ORDER BY parent_id LIMIT 1";
const HEAD_OF_CHILDREN: &str = "SELECT queue_key, run_id FROM runs
     WHERE phase = 'queued' AND paused = 0 AND lane = ?1 AND root_id = ?2 AND parent_id = ?3
       AND (queue_key, run_id) > (?4, ?5)
       AND (requires IS NULL OR requires IN (SELECT value FROM json_each(?6)))
     ORDER BY queue_key, run_id LIMIT 1";
const HEAD_OF_ROOTS: &str = "SELECT queue_key, run_id FROM runs
     WHERE phase = 'queued' AND paused = 0 AND lane = ?1 AND root_id = ?2 AND parent_id IS NULL
       AND ?3 IS NULL AND (queue_key, run_id) > (?4, ?5)
       AND (requires IS NULL OR requires IN (SELECT value FROM json_each(?6)))
     ORDER BY queue_key, run_id LIMIT 1";

/// Returns the different values of an indexed column, one step in the index for each.
fn distinct(
    connection: &Connection,
    next: &str,
    lane: Lane,
    root: Option<&str>,
) -> Done<Vec<String>> {
    let mut values: Vec<String> = Vec::new();
    loop {
        let last = values.last().map_or("", String::as_str);
        let value = sql::first(
            connection,
            next,
            params![lane.as_str(), root, last],
            |row| row.get(0),
        )?;
        match value {
            Some(value) => values.push(value),
            None => return Ok(values),
        }
    }
}

/// The queued runs of a lane that this process may execute.
#[derive(Clone, Copy, Debug)]
struct LaneQueue<'a> {
    lane: Lane,
    /// See [`eligible`].
    eligible: &'a str,
}

/// The queued children of one parent, or the root of a tree alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Siblings {
    root: String,
    parent: Option<String>,
}

/// The most urgent of siblings that were not looked at yet. Sorts by urgency.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    /// Its sort key and its id.
    place: (i64, String),
    siblings: Siblings,
}

impl Siblings {
    /// Returns the most urgent one behind a place in the queue.
    fn head(
        self,
        connection: &Connection,
        queue: LaneQueue<'_>,
        (key, run): (i64, String),
    ) -> Done<Option<Head>> {
        let statement = match self.parent {
            Some(_) => HEAD_OF_CHILDREN,
            None => HEAD_OF_ROOTS,
        };
        let place = sql::first(
            connection,
            statement,
            params![
                queue.lane.as_str(),
                self.root,
                self.parent,
                key,
                run,
                queue.eligible
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        Ok(place.map(|place| Head {
            place,
            siblings: self,
        }))
    }
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

/// The leased runs of each parent and tree in a lane, and their limits.
#[derive(Debug)]
struct Caps {
    by_parent: HashMap<String, u32>,
    by_tree: HashMap<String, u32>,
    per_parent: u32,
    per_tree: u32,
}

impl Caps {
    fn load(connection: &Connection, claim: &Claim, lane: Lane) -> Done<Self> {
        let mut caps = Self {
            by_parent: HashMap::new(),
            by_tree: HashMap::new(),
            per_parent: claim.per_parent,
            per_tree: claim.per_tree,
        };
        match lane {
            Lane::Subagent => caps.count_leased(connection, lane)?,
            // The main lane has no limits for parents and trees.
            Lane::Main => (caps.per_parent, caps.per_tree) = (u32::MAX, u32::MAX),
        }
        Ok(caps)
    }

    fn count_leased(&mut self, connection: &Connection, lane: Lane) -> Done<()> {
        let leased = sql::all(
            connection,
            "SELECT parent_id, root_id FROM runs WHERE phase = 'leased' AND lane = ?1",
            [lane.as_str()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        for (parent, root) in leased {
            self.add(parent, root);
        }
        Ok(())
    }

    fn has_room(&self, parent: Option<&str>, root: &str) -> bool {
        let of_parent = parent.map_or(0, |parent| count_of(&self.by_parent, parent));
        let parent_full = parent.is_some() && of_parent >= self.per_parent;
        !parent_full && count_of(&self.by_tree, root) < self.per_tree
    }

    /// Counts one more run if the limits allow it.
    fn take(&mut self, parent: Option<String>, root: String) -> bool {
        if !self.has_room(parent.as_deref(), &root) {
            return false;
        }
        self.add(parent, root);
        true
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
                deadline_at, timeout_ms, wall_ms, not_after
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
            })
        },
    )?;
    queued.ok_or_else(sql::no_row)
}
