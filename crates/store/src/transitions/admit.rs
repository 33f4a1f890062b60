//! Admits a run: its row, its account and its first event, or a refusal that writes nothing.

use sortie_core::event::Event;
use sortie_core::id::{Epoch, RunId};
use sortie_core::ports::store::{Admission, AdmissionRefusal, Admit, ParentClaim, StoreError};
use sortie_core::run::{EdgeMode, Lane, ParentLink, RunSpec};

use crate::chain::{Stamp, Tail};
use crate::fault::{Done, Fault};
use crate::row::{self, NewRow};
use crate::sql::{self, Connection, params};
use crate::transitions::{accounts, deliver, letters, read, tenants};

/// Admits the run, unless its parent's call already has a child. `body` is its first event.
pub(crate) fn admit(connection: &Connection, admit: &Admit, body: &str) -> Done<Admission> {
    if let Some(ParentClaim { fence, reached }) = admit.parent {
        let head = row::fenced(connection, fence)?.tail.head();
        if head < reached {
            let (run, follows) = (fence.run, reached);
            return Err(StoreError::NotNext { run, head, follows }.into());
        }
    }
    if let Some(run) = existing(connection, admit)? {
        return Ok(Admission::Existing { run });
    }
    if let Some(refusal) = refusal(connection, admit)? {
        return Ok(Admission::Refused(refusal));
    }
    let plan = match accounts::plan(connection, admit)? {
        Ok(plan) => plan,
        Err(refusal) => return Ok(Admission::Refused(refusal)),
    };
    let handle = free_handle(connection, admit.run)?;
    let new = NewRow {
        admit,
        handle: &handle,
        account: plan.account.as_deref(),
        paused: parent_is_paused(connection, admit)?,
    };
    row::insert(connection, new)?;
    count_in_tree(connection, &admit.spec)?;
    accounts::open(connection, admit.run, &plan)?;
    let mut tail = Tail::new(admit.run);
    let stamp = Stamp {
        at: admit.at,
        epoch: Epoch::default(),
    };
    tail.push(connection, stamp, body)?;
    if new.paused {
        tail.push(connection, stamp, &serde_json::to_string(&Event::Paused)?)?;
    }
    row::save_tail(connection, &tail)?;
    letters::of_admission(connection, admit)?;
    if admit.spec.parent.is_none() && admit.spec.lane == Lane::Main {
        deliver::turn_begins(connection, &admit.spec.session, admit.at)?;
    }
    let in_background = |link: &ParentLink| link.mode == EdgeMode::Background;
    let queue_position = if admit.spec.parent.as_ref().is_some_and(in_background) {
        read::queue_position(connection, &tail.run)?
    } else {
        None
    };
    Ok(Admission::Admitted { queue_position })
}

/// Returns the shortest handle of the run that no other run has, or its id. Six characters name a
/// billion runs, so the id is practically never needed.
fn free_handle(connection: &Connection, run: RunId) -> Done<String> {
    for handle in run.handles() {
        let taken: Option<i64> = sql::first(
            connection,
            "SELECT 1 FROM runs WHERE handle = ?1",
            [&handle],
            |row| row.get(0),
        )?;
        if taken.is_none() {
            return Ok(handle);
        }
    }
    Ok(run.to_string())
}

/// Returns the run that an earlier attempt of the same admission wrote.
fn existing(connection: &Connection, admit: &Admit) -> Done<Option<RunId>> {
    let by_call = match &admit.spec.parent {
        Some(link) => sql::first(
            connection,
            "SELECT run_id FROM runs WHERE parent_id = ?1 AND parent_call = ?2",
            params![link.run.to_string(), link.call.as_str()],
            |row| sql::word(row, "run_id"),
        )?,
        None => None,
    };
    match by_call {
        Some(run) => Ok(Some(run)),
        None => sql::first(
            connection,
            "SELECT run_id FROM runs WHERE run_id = ?1",
            [admit.run.to_string()],
            |row| sql::word(row, "run_id"),
        ),
    }
}

fn refusal(connection: &Connection, admit: &Admit) -> Done<Option<AdmissionRefusal>> {
    let of_tree = refusal_of_tree(connection, &admit.spec)?;
    let Some(tenant) = admit.spec.tenant.as_ref().filter(|_| of_tree.is_none()) else {
        return Ok(of_tree);
    };
    let reached = tenants::reached(connection, tenant, admit.at)?;
    Ok(reached.map(AdmissionRefusal::Quota))
}

fn refusal_of_tree(connection: &Connection, spec: &RunSpec) -> Done<Option<AdmissionRefusal>> {
    let caps = spec.caps;
    let Some(link) = &spec.parent else {
        return Ok(None);
    };
    if is_ending(connection, link.run)? {
        return Ok(Some(AdmissionRefusal::ParentEnding));
    }
    if spec.depth > caps.max_depth {
        return Ok(Some(AdmissionRefusal::TooDeep {
            max: caps.max_depth,
        }));
    }
    if children_in_tree(connection, spec)? >= u64::from(caps.max_children_per_tree) {
        return Ok(Some(AdmissionRefusal::TreeFull {
            max: caps.max_children_per_tree,
        }));
    }
    Ok(None)
}

fn is_ending(connection: &Connection, parent: RunId) -> Done<bool> {
    let ending = sql::first(
        connection,
        "SELECT phase = 'ended' OR cancel IS NOT NULL FROM runs WHERE run_id = ?1",
        [parent.to_string()],
        |row| row.get(0),
    )?;
    ending.ok_or_else(|| Fault::Refused(StoreError::NotFound(parent.to_string())))
}

/// Whether the parent is paused: a child that it spawns in its last step is paused too.
fn parent_is_paused(connection: &Connection, admit: &Admit) -> Done<bool> {
    let Some(link) = &admit.spec.parent else {
        return Ok(false);
    };
    let paused = sql::first(
        connection,
        "SELECT paused FROM runs WHERE run_id = ?1",
        [link.run.to_string()],
        |row| row.get(0),
    )?;
    Ok(paused.unwrap_or(false))
}

/// Returns how many runs the tree ever had, without its root.
fn children_in_tree(connection: &Connection, spec: &RunSpec) -> Done<u64> {
    let descendants = sql::first(
        connection,
        "SELECT descendants FROM trees WHERE root_id = ?1",
        [spec.root.to_string()],
        |row| Ok(row.get::<_, i64>(0)?.unsigned_abs()),
    )?;
    Ok(descendants.unwrap_or(0))
}

/// Counts a new descendant of a tree.
fn count_in_tree(connection: &Connection, spec: &RunSpec) -> Done<()> {
    if spec.parent.is_some() {
        sql::run(
            connection,
            "INSERT INTO trees (root_id, descendants) VALUES (?1, 1)
             ON CONFLICT (root_id) DO UPDATE SET descendants = trees.descendants + 1",
            [spec.root.to_string()],
        )?;
    }
    Ok(())
}
