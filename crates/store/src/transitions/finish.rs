//! Ends a run: outcome, announcements and the cancellation of its descendants in one transaction.

use sortie_core::event::Event;
use sortie_core::hook::HookEvent;
use sortie_core::id::Epoch;
use sortie_core::message::Usage;
use sortie_core::ports::store::{EndReport, Ended, Finish, Finishing, RunRef, Unread};
use sortie_core::run::{Cancellation, CancelledBy, Delivery, Outcome};
use sortie_core::time::Timestamp;

use crate::chain::Stamp;
use crate::fault::Done;
use crate::row::{self, RunRow, StoredPhase};
use crate::sql::{self, Connection, params};
use crate::transitions::append::{self, Consequences, Entries};
use crate::transitions::cancel::{self, Cascade, Survivors};
use crate::transitions::{
    accounts, audit, inbox, letters, mailbox, requests, sessions, tenants, usage_days,
};

/// The last events of a run, serialized, and its outcome.
#[derive(Debug)]
pub(crate) struct LastEntries {
    entries: Entries,
    outcome: Outcome,
    unread: Unread,
}

impl LastEntries {
    /// Serializes the events of a finish.
    pub(crate) fn of(finish: Finish) -> Done<Self> {
        Ok(Self {
            entries: Entries {
                fence: finish.fence,
                follows: finish.follows,
                at: finish.at,
                bodies: append::to_bodies(&finish.events)?,
                summary: finish.summary,
                blobs: finish.blobs,
                consequences: Consequences::of(&finish.events),
                audit: audit::to_bodies(&finish.audit)?,
                spent: None,
                letters: Vec::new(),
            },
            outcome: finish.outcome,
            unread: finish.unread,
        })
    }
}

/// Ends a run on behalf of its executor.
pub(crate) fn finish(connection: &Connection, last: &LastEntries) -> Done<Finishing> {
    let LastEntries {
        entries,
        outcome,
        unread,
    } = last;
    let leased = row::fenced_at(connection, entries.fence, entries.follows)?;
    if *unread == Unread::First && leased.inbox_count > 0 {
        return Ok(Finishing::Unread);
    }
    append::append(connection, entries)?;
    let row = row::must_load(connection, entries.fence.run)?;
    let ending = Ending {
        outcome: outcome.clone(),
        epoch: entries.fence.epoch,
        at: entries.at,
    };
    let mut report = EndReport::default();
    end_with_descendants(connection, &row, ending, &mut report)?;
    Ok(Finishing::Ended(report))
}

/// How and when a run ends.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    /// The lease's epoch, or a new one for a run without a lease.
    pub(crate) epoch: Epoch,
    pub(crate) at: Timestamp,
}

/// Ends a run and cancels its descendants, except those that outlive it ([`Survivors`]).
pub(crate) fn end_with_descendants(
    connection: &Connection,
    row: &RunRow,
    ending: Ending,
    report: &mut EndReport,
) -> Done<()> {
    let cascade = Cascade {
        cancellation: Cancellation {
            by: CancelledBy::ParentEnded,
            reason: format!("the run that asked for it is {}", ending.outcome.status()),
        },
        at: ending.at,
        survivors: match (&ending.outcome, row.is_turn()) {
            (Outcome::Cancelled { .. }, _) => Survivors::None,
            (_, true) => Survivors::Background,
            (Outcome::Completed { .. }, false) => Survivors::Silent,
            (Outcome::Failed { .. } | Outcome::Timeout { .. }, false) => Survivors::None,
        },
    };
    report.ended.push(end(connection, row, ending)?);
    cancel::descendants(connection, row.record.run_id, &cascade, report)
}

/// Writes the end of one run.
pub(crate) fn end(connection: &Connection, row: &RunRow, ending: Ending) -> Done<Ended> {
    let mut tail = row.tail.clone();
    let stamp = Stamp {
        at: ending.at,
        epoch: ending.epoch,
    };
    // Unread items stay in the journal.
    mailbox::take_messages(connection, row.record.run_id, ending.at)?;
    inbox::move_unread(connection, &mut tail, stamp)?;
    let outcome = serde_json::to_string(&ending.outcome)?;
    let event = Event::Finished {
        outcome: ending.outcome.clone(),
    };
    tail.push(connection, stamp, &serde_json::to_string(&event)?)?;
    let delivery = announce(connection, row, &ending)?;
    add_to_ancestors(connection, row)?;
    sql::run(
        connection,
        "UPDATE runs SET phase = 'ended', status = ?2, outcome = ?3,
             progress = CASE WHEN progress < ?4 THEN ?4 ELSE progress END,
             waiting_on = NULL, wait_position = NULL, epoch = ?5, inbox_count = 0,
             lease_owner = NULL, lease_until = NULL, delivery = ?6,
             paused = 0, ended_at = ?7, head_seq = ?8, head_hash = ?9
         WHERE run_id = ?1",
        params![
            tail.run,
            ending.outcome.status().as_str(),
            outcome,
            final_progress(&ending.outcome),
            ending.epoch.0,
            delivery.as_str(),
            ending.at.0,
            tail.seq,
            tail.hash,
        ],
    )?;
    letters::of_run(
        connection,
        row,
        HookEvent::Finish,
        Some(&ending.outcome),
        ending.at,
    )?;
    requests::close_ended(connection, &tail.run)?;
    accounts::close_draws(connection, row)?;
    tenants::store_ended(connection, &tail.run)?;
    usage_days::count(connection, row, ending.at)?;
    let RunRef {
        run,
        session,
        root,
        parent,
        tenant,
        head,
    } = row.about(tail.head());
    Ok(Ended {
        run,
        session,
        root,
        parent,
        tenant,
        head,
        outcome: ending.outcome,
        cleanup: row.record.cleanup,
    })
}

/// Adds the usage of a run to its ancestors, ended ones included.
fn add_to_ancestors(connection: &Connection, row: &RunRow) -> Done<()> {
    if row.record.summary.usage == Usage::default() && row.record.summary.unpriced == 0 {
        return Ok(());
    }
    let mut next = row.record.parent.map(|parent| parent.to_string());
    while let Some(ancestor) = next {
        row::add_usage(connection, &ancestor, row)?;
        next = sql::first(
            connection,
            "SELECT parent_id FROM runs WHERE run_id = ?1",
            [&ancestor],
            |row| row.get::<_, Option<String>>(0),
        )?
        .flatten();
    }
    Ok(())
}

/// Only a completed run has full progress; other outcomes keep what was reached.
fn final_progress(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Completed { .. } => 100,
        Outcome::Failed { .. } | Outcome::Timeout { .. } | Outcome::Cancelled { .. } => 0,
    }
}

/// Puts the result into the outbox for the parent or the session, and for the sinks.
fn announce(connection: &Connection, row: &RunRow, ending: &Ending) -> Done<Delivery> {
    let receiver = receiver(connection, row, &ending.outcome)?;
    if receiver.is_none() && row.report_to.is_empty() {
        return Ok(Delivery::NotRequired);
    }
    let text = serde_json::to_string(&row.announcement(&ending.outcome, ending.at))?;
    let sinks = row.report_to.iter().map(serde_json::to_string);
    for sink in sinks {
        enqueue(connection, row, Target::Sink(&sink?), &text, ending.at)?;
    }
    if let Some(receiver) = receiver {
        enqueue(connection, row, receiver, &text, ending.at)?;
    }
    Ok(Delivery::Pending)
}

/// Returns who receives the result inside the store: the parent while it is active, else the session
/// whose turn started the run, or that the run was created for.
fn receiver<'a>(
    connection: &Connection,
    row: &'a RunRow,
    outcome: &Outcome,
) -> Done<Option<Target<'a>>> {
    if !row.is_announced() {
        return Ok(None);
    }
    let session = Target::Session(row.record.session.as_str());
    let Some(parent) = row.record.parent else {
        let receives = row.is_background_task() && has_turns(connection, row)?;
        return Ok(receives.then_some(session));
    };
    if stopped_with_parent(outcome) || row.cancel.as_ref().is_some_and(by_parents_end) {
        return Ok(None);
    }
    let parent = sql::first(
        connection,
        "SELECT phase, parent_id IS NULL AND lane = 'main' AS is_turn FROM runs WHERE run_id = ?1",
        [parent.to_string()],
        |row| {
            let phase = sql::word::<StoredPhase>(row, "phase")?;
            Ok((phase, row.get::<_, bool>("is_turn")?))
        },
    )?;
    Ok(match parent {
        None | Some((StoredPhase::Ended, false)) => None,
        Some((StoredPhase::Ended, true)) => Some(session),
        Some((StoredPhase::Queued | StoredPhase::Leased | StoredPhase::Parked, _)) => {
            Some(Target::Parent)
        }
    })
}

/// Whether the session of a run is a conversation, which can receive a result.
fn has_turns(connection: &Connection, row: &RunRow) -> Done<bool> {
    let (session, tenant) = (&row.record.session, &row.record.tenant);
    Ok(sessions::newest_turn(connection, session, tenant.as_ref(), None)?.is_some())
}

fn stopped_with_parent(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Cancelled { cancellation, .. } => by_parents_end(cancellation),
        Outcome::Completed { .. } | Outcome::Failed { .. } | Outcome::Timeout { .. } => false,
    }
}

fn by_parents_end(cancellation: &Cancellation) -> bool {
    match cancellation.by {
        CancelledBy::ParentEnded => true,
        CancelledBy::Person | CancelledBy::Parent => false,
    }
}

/// Where an outbox entry is delivered.
#[derive(Clone, Copy, Debug)]
enum Target<'a> {
    Parent,
    /// The active turn of this session, or its next one.
    Session(&'a str),
    /// A sink outside, by its address.
    Sink(&'a str),
}

/// Puts an announcement into the outbox.
fn enqueue(
    connection: &Connection,
    row: &RunRow,
    target: Target<'_>,
    announcement: &str,
    at: Timestamp,
) -> Done<()> {
    let (target, sink) = match target {
        Target::Parent => ("parent", None),
        Target::Session(session) => ("session", Some(session)),
        Target::Sink(address) => ("sink", Some(address)),
    };
    sql::run(
        connection,
        "INSERT INTO outbox (run_id, target, sink, announcement, next_at)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![row.tail.run, target, sink, announcement, at.0],
    )?;
    Ok(())
}
