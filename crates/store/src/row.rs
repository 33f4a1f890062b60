//! The row of a run: written at admission, read as a record and by transitions.

use std::fmt;
use std::str::FromStr;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use sortie_core::id::{CallId, Epoch, Fence, RunId, Seq};
use sortie_core::inbox::Announcement;
use sortie_core::message::Usage;
use sortie_core::ports::store::{Admit, RunRef, StoreError};
use sortie_core::run::{
    Announce, Cancellation, Changes, Delivery, EdgeMode, Outcome, Priority, RunRecord, RunSpec,
    SinkAddress, Summary, WaitingOn,
};
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;
use sortie_core::words::UnknownWord;

use crate::chain::{GENESIS, Tail};
use crate::columns::{Columns, columns};
use crate::fault::{Done, Fault};
use crate::sql::{self, json, optional_json, optional_word, whole, word};

/// The waiting time that one step of priority is worth: a run that has waited a minute longer is as
/// urgent as one with a priority one step higher, so no run starves.
pub(crate) const PRIORITY_STEP_MS: i64 = 60_000;

/// The phase of a run, internal to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits for a slot.
    Queued,
    /// An executor holds its lease.
    Leased,
    /// It waits for its inbox, without a lease.
    Parked,
    /// It has its outcome.
    Ended,
}

impl FromStr for Phase {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "queued" => Ok(Self::Queued),
            "leased" => Ok(Self::Leased),
            "parked" => Ok(Self::Parked),
            "ended" => Ok(Self::Ended),
            other => Err(UnknownWord {
                word: other.to_owned(),
                expected: "queued, leased, parked, ended".to_owned(),
            }),
        }
    }
}

/// An edge mode with its word in the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModeWord(pub(crate) EdgeMode);

impl fmt::Display for ModeWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            EdgeMode::Blocking => "blocking",
            EdgeMode::Background => "background",
        })
    }
}

impl FromStr for ModeWord {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "blocking" => Ok(Self(EdgeMode::Blocking)),
            "background" => Ok(Self(EdgeMode::Background)),
            other => Err(UnknownWord {
                word: other.to_owned(),
                expected: "blocking, background".to_owned(),
            }),
        }
    }
}

/// Returns the sort key in the queue: the time of admission, moved by the priority.
pub(crate) fn queue_key(at: Timestamp, priority: Priority) -> i64 {
    let ahead_ms = match priority {
        Priority::High => PRIORITY_STEP_MS,
        Priority::Normal => 0,
        Priority::Low => -PRIORITY_STEP_MS,
    };
    at.0.saturating_sub(ahead_ms)
}

/// What the store adds to the spec of a new run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The account that it draws from.
    pub(crate) account: Option<&'a str>,
    /// Whether it is paused because its parent is.
    pub(crate) paused: bool,
}

/// Writes the row of a new run.
pub(crate) fn insert(connection: &Connection, admit: &Admit, place: Place<'_>) -> Done<()> {
    let Admit { run, spec, at, .. } = admit;
    let parent = spec.parent.as_ref();
    sql::insert(
        connection,
        "runs",
        &[
            ("run_id", &run.to_string()),
            ("root_id", &spec.root.to_string()),
            ("parent_id", &parent.map(|link| link.run.to_string())),
            ("parent_call", &parent.map(|link| link.call.as_str())),
            ("mode", &parent.map(|link| ModeWord(link.mode).to_string())),
            ("session", &spec.session.as_str()),
            ("child_session", &spec.child_session(*run).as_str()),
            ("tenant", &spec.tenant.as_ref().map(Tenant::as_str)),
            ("agent", &spec.agent.name),
            ("lane", &spec.lane.as_str()),
            ("priority", &spec.priority.as_str()),
            ("label", &spec.label),
            ("task", &spec.task),
            ("thinking", &spec.thinking),
            ("workspace", &spec.workspace.to_string_lossy()),
            ("depth", &spec.depth),
            ("announce", &spec.announce.as_str()),
            ("cleanup", &spec.cleanup.as_str()),
            ("report_to", &serde_json::to_string(&spec.report_to)?),
            ("timeout_ms", &spec.limits.timeout_ms.map(whole)),
            ("wall_ms", &spec.limits.budget.wall_ms.map(whole)),
            ("not_after", &spec.not_after.map(|moment| moment.0)),
            ("account_id", &place.account),
            ("queue_key", &queue_key(*at, spec.priority)),
            ("paused", &place.paused),
            ("delivery", &first_delivery(spec).as_str()),
            ("created_at", &at.0),
            ("head_hash", &GENESIS),
            ("model", &spec.model),
            (
                "waiting_on",
                &(!place.paused).then_some(WaitingOn::Slot.as_str()),
            ),
        ],
    )
}

fn first_delivery(spec: &RunSpec) -> Delivery {
    let for_parent = spec.parent.is_some() && spec.announce.reaches_parent();
    if for_parent || !spec.report_to.is_empty() {
        Delivery::Pending
    } else {
        Delivery::NotRequired
    }
}

/// The columns that records and transitions read. The only list: readers name a column with `at!`,
/// and a name that is not listed does not compile.
pub(crate) const COLUMNS: Columns = columns![
    "run_id",
    "root_id",
    "parent_id",
    "parent_call",
    "mode",
    "session",
    "child_session",
    "tenant",
    "agent",
    "lane",
    "priority",
    "label",
    "task",
    "thinking",
    "depth",
    "announce",
    "cleanup",
    "report_to",
    "timeout_ms",
    "account_id",
    "status",
    "phase",
    "cancel",
    "paused",
    "outcome",
    "delivery",
    "delivery_error",
    "created_at",
    "started_at",
    "deadline_at",
    "ended_at",
    "cleaned_at",
    "archived_at",
    "epoch",
    "deaths",
    "deaths_since_progress",
    "head_at_claim",
    "head_seq",
    "head_hash",
    "model",
    "waiting_on",
    "wait_position",
    "progress",
    "tool_calls",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost_usd",
    "unpriced",
    "last_text",
    "children_input_tokens",
    "children_output_tokens",
    "children_cache_read_tokens",
    "children_cache_write_tokens",
    "children_cost_usd",
    "children_unpriced",
    "changes",
    "changes_fate",
];

/// Returns the position of a column in [`COLUMNS`].
macro_rules! at {
    ($name:literal) => {
        const { COLUMNS.at($name) }
    };
}

/// A record without the parts that come from other rows.
#[derive(Debug)]
pub(crate) struct BareRecord {
    pub(crate) record: RunRecord,
    /// Decides whether it has a position in the queue.
    pub(crate) phase: Phase,
    /// The account that it draws from.
    pub(crate) account: Option<String>,
}

/// Reads a record, without its queue position and its budget.
pub(crate) fn record(row: &Row<'_>) -> Done<BareRecord> {
    let record = RunRecord {
        run_id: word(row, at!("run_id"))?,
        child_session: word(row, at!("child_session"))?,
        session: word(row, at!("session"))?,
        tenant: optional_word(row, at!("tenant"))?,
        parent: optional_word(row, at!("parent_id"))?,
        mode: optional_word(row, at!("mode"))?.map(|ModeWord(mode)| mode),
        root: word(row, at!("root_id"))?,
        depth: row.get(at!("depth"))?,
        agent: row.get(at!("agent"))?,
        lane: word(row, at!("lane"))?,
        priority: word(row, at!("priority"))?,
        label: row.get(at!("label"))?,
        task: row.get(at!("task"))?,
        thinking: row.get(at!("thinking"))?,
        status: word(row, at!("status"))?,
        summary: Summary {
            waiting_on: optional_word(row, at!("waiting_on"))?,
            progress: row.get(at!("progress"))?,
            tool_calls: row.get(at!("tool_calls"))?,
            usage: usage(row, at!("input_tokens"))?,
            unpriced: row.get(at!("unpriced"))?,
            model: row.get(at!("model"))?,
            last_text: row.get(at!("last_text"))?,
        },
        children_usage: usage(row, at!("children_input_tokens"))?,
        children_unpriced: row.get(at!("children_unpriced"))?,
        outcome: optional_json(row, at!("outcome"))?,
        delivery: word(row, at!("delivery"))?,
        delivery_error: row.get(at!("delivery_error"))?,
        created_at: Timestamp(row.get(at!("created_at"))?),
        started_at: moment(row, at!("started_at"))?,
        ended_at: moment(row, at!("ended_at"))?,
        timeout_ms: natural(row, at!("timeout_ms"))?,
        cleanup: word(row, at!("cleanup"))?,
        cleaned_at: moment(row, at!("cleaned_at"))?,
        archived_at: moment(row, at!("archived_at"))?,
        queue_position: row.get(at!("wait_position"))?,
        head: Seq(row.get(at!("head_seq"))?),
        crashes: row.get(at!("deaths"))?,
        cancel_requested: row.get_ref(at!("cancel"))? != ValueRef::Null,
        paused: row.get(at!("paused"))?,
        changes_fate: optional_word(row, at!("changes_fate"))?,
        budget: Vec::new(),
    };
    Ok(BareRecord {
        record,
        phase: word(row, at!("phase"))?,
        account: row.get(at!("account_id"))?,
    })
}

/// A run as ending, cancelling and recovering read it: its record and the columns that only the
/// store uses. `record` lacks its queue position and its budget.
#[derive(Clone, Debug)]
pub(crate) struct RunRow {
    pub(crate) record: RunRecord,
    pub(crate) phase: Phase,
    /// The account that it draws from.
    pub(crate) account: Option<String>,
    pub(crate) epoch: Epoch,
    pub(crate) tail: Tail,
    pub(crate) cancel: Option<Cancellation>,
    pub(crate) deadline_at: Option<Timestamp>,
    pub(crate) deaths_since_progress: u32,
    pub(crate) head_at_claim: i64,
    pub(crate) report_to: Vec<SinkAddress>,
    announce: Announce,
    call: Option<CallId>,
    changes: Option<Changes>,
}

impl RunRow {
    /// Returns the parent that this run's result is delivered to.
    pub(crate) fn owed_parent(&self) -> Option<RunId> {
        self.record
            .parent
            .filter(|_| self.announce.reaches_parent())
    }

    /// Returns the announcement of the run's result.
    pub(crate) fn announcement(&self, outcome: &Outcome, at: Timestamp) -> Announcement {
        let record = &self.record;
        Announcement {
            child: record.run_id,
            call: self.call.clone(),
            mode: record.mode.unwrap_or(EdgeMode::Background),
            agent: record.agent.clone(),
            label: record.label.clone(),
            task: record.task.clone(),
            outcome: outcome.clone(),
            tool_calls: record.summary.tool_calls,
            elapsed_ms: record.started_at.map_or(0, |started| at.ms_since(started)),
            usage: record.summary.usage,
            changes: self.changes.clone(),
        }
    }

    /// Returns the time from its first claim to its deadline.
    pub(crate) fn given_ms(&self) -> u64 {
        match (self.record.started_at, self.deadline_at) {
            (Some(started), Some(deadline)) => deadline.ms_since(started),
            (None, _) | (_, None) => 0,
        }
    }

    /// Returns the ids that notifications about the run carry.
    pub(crate) fn about(&self, head: Seq) -> RunRef {
        let record = &self.record;
        RunRef {
            run: record.run_id,
            session: record.session.clone(),
            root: record.root,
            parent: record.parent,
            tenant: record.tenant.clone(),
            head,
        }
    }

    /// Returns the next epoch, which fences every earlier lease of the run.
    pub(crate) fn next_epoch(&self) -> Epoch {
        Epoch(self.epoch.0 + 1)
    }
}

/// Reads a run for a transition.
pub(crate) fn load(connection: &Connection, run: RunId) -> Done<Option<RunRow>> {
    sql::first(
        connection,
        &format!("SELECT {} FROM runs WHERE run_id = ?1", COLUMNS.sql),
        [run.to_string()],
        run_row,
    )
}

/// Reads a run; fails if it does not exist.
pub(crate) fn must_load(connection: &Connection, run: RunId) -> Done<RunRow> {
    load(connection, run)?.ok_or_else(|| Fault::not_found(run))
}

fn run_row(row: &Row<'_>) -> Done<RunRow> {
    let BareRecord {
        record,
        phase,
        account,
    } = record(row)?;
    let call: Option<String> = row.get(at!("parent_call"))?;
    Ok(RunRow {
        phase,
        account,
        epoch: Epoch(row.get(at!("epoch"))?),
        tail: Tail {
            run: row.get(at!("run_id"))?,
            seq: row.get(at!("head_seq"))?,
            hash: row.get(at!("head_hash"))?,
        },
        cancel: optional_json(row, at!("cancel"))?,
        deadline_at: moment(row, at!("deadline_at"))?,
        deaths_since_progress: row.get(at!("deaths_since_progress"))?,
        head_at_claim: row.get(at!("head_at_claim"))?,
        report_to: json(row, at!("report_to"))?,
        announce: word(row, at!("announce"))?,
        call: call.map(CallId::from_stored),
        changes: optional_json(row, at!("changes"))?,
        record,
    })
}

/// A leased run whose fence was checked.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) rowid: i64,
    pub(crate) tail: Tail,
    pub(crate) inbox_count: i64,
    pub(crate) cancel: Option<Cancellation>,
    /// The account that it draws from.
    pub(crate) account: Option<String>,
    pub(crate) paused: bool,
}

/// Checks a fence. Every write by an executor starts here.
pub(crate) fn hold(connection: &Connection, fence: Fence) -> Done<Held> {
    let run = fence.run.to_string();
    let held = sql::first(
        connection,
        "SELECT rowid, head_seq, head_hash, inbox_count, cancel, account_id, paused FROM runs
         WHERE run_id = ?1 AND phase = 'leased' AND epoch = ?2",
        params![run, fence.epoch.0],
        |row| {
            Ok(Held {
                rowid: row.get(0)?,
                tail: Tail {
                    run: run.clone(),
                    seq: row.get(1)?,
                    hash: row.get(2)?,
                },
                inbox_count: row.get(3)?,
                cancel: optional_json(row, 4)?,
                account: row.get(5)?,
                paused: row.get(6)?,
            })
        },
    )?;
    held.ok_or(Fault::Refused(StoreError::Fenced { run: fence.run }))
}

/// Checks a fence, and that the executor knows the whole journal. An executor hands over several
/// writes at once: if one of them is lost, those behind it are rejected here.
pub(crate) fn hold_at(connection: &Connection, fence: Fence, follows: Seq) -> Done<Held> {
    let held = hold(connection, fence)?;
    let head = held.tail.head();
    if head != follows {
        let run = fence.run;
        return Err(StoreError::NotNext { run, head, follows }.into());
    }
    Ok(held)
}

/// Stores the head of a journal in the record.
pub(crate) fn save_tail(connection: &Connection, tail: &Tail) -> Done<()> {
    sql::run(
        connection,
        "UPDATE runs SET head_seq = ?2, head_hash = ?3 WHERE run_id = ?1",
        params![tail.run, tail.seq, tail.hash],
    )?;
    Ok(())
}

/// Adds the usage of a run to the descendants' usage of an ancestor.
pub(crate) fn add_usage(connection: &Connection, ancestor: &str, row: &RunRow) -> Done<()> {
    let used = row.record.summary.usage;
    sql::run(
        connection,
        "UPDATE runs SET
             children_input_tokens = COALESCE(children_input_tokens + ?2, ?2, children_input_tokens),
             children_output_tokens
                 = COALESCE(children_output_tokens + ?3, ?3, children_output_tokens),
             children_cache_read_tokens
                 = COALESCE(children_cache_read_tokens + ?4, ?4, children_cache_read_tokens),
             children_cache_write_tokens
                 = COALESCE(children_cache_write_tokens + ?5, ?5, children_cache_write_tokens),
             children_cost_usd = COALESCE(children_cost_usd + ?6, ?6, children_cost_usd),
             children_unpriced = children_unpriced + ?7
         WHERE run_id = ?1",
        params![
            ancestor,
            used.input_tokens.map(whole),
            used.output_tokens.map(whole),
            used.cache_read_tokens.map(whole),
            used.cache_write_tokens.map(whole),
            used.cost_usd,
            row.record.summary.unpriced,
        ],
    )?;
    Ok(())
}

/// Reads usage from five consecutive columns, in the order of the fields.
pub(crate) fn usage(row: &Row<'_>, first: usize) -> Done<Usage> {
    Ok(Usage {
        input_tokens: natural(row, first)?,
        output_tokens: natural(row, first + 1)?,
        cache_read_tokens: natural(row, first + 2)?,
        cache_write_tokens: natural(row, first + 3)?,
        cost_usd: row.get(first + 4)?,
    })
}

fn natural(row: &Row<'_>, column: usize) -> Done<Option<u64>> {
    let number: Option<i64> = row.get(column)?;
    Ok(number.map(i64::unsigned_abs))
}

fn moment(row: &Row<'_>, column: usize) -> Done<Option<Timestamp>> {
    let millis: Option<i64> = row.get(column)?;
    Ok(millis.map(Timestamp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    /// The order in which [`usage`] reads.
    const USAGE_COLUMNS: [&str; 5] = [
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cost_usd",
    ];

    #[test]
    fn columns_are_where_the_query_has_them() {
        let connection = schema::open_in_memory().unwrap();
        let query = format!("SELECT {} FROM runs", COLUMNS.sql);
        let statement = connection.prepare(&query).unwrap();
        let named: Vec<_> = statement.column_names().collect();
        assert_eq!(named, COLUMNS.names);
        for (position, name) in COLUMNS.names.iter().enumerate() {
            assert_eq!(COLUMNS.at(name), position, "{name} is listed twice");
        }
    }

    #[test]
    fn columns_of_usage_follow_each_other() {
        for prefix in ["", "children_"] {
            let first = COLUMNS.at(&format!("{prefix}input_tokens"));
            let wanted = USAGE_COLUMNS.map(|name| format!("{prefix}{name}"));
            assert_eq!(COLUMNS.names[first..first + wanted.len()], wanted);
        }
    }
}
