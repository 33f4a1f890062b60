//! The row of a run: written at admission, read as a record and by transitions.

use std::fmt;
use std::str::FromStr;

use sortie_core::hook::HookSubscription;
use sortie_core::id::{CallId, Epoch, Fence, RunId, Seq};
use sortie_core::inbox::Announcement;
use sortie_core::message::Usage;
use sortie_core::ports::store::{Admit, RunRef, StoreError};
use sortie_core::run::{
    Announce, Cancellation, Changes, Delivery, EdgeMode, Lane, Outcome, ParentLink, Priority,
    RecordField, RunRecord, RunSpec, SinkAddress, Summary, WaitingOn,
};
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;
use sortie_core::words::UnknownWord;
use sortie_core::worker::Label;

use crate::chain::{GENESIS, Tail};
use crate::columns::{Columns, columns};
use crate::fault::{Done, Fault};
use crate::sql::{
    self, Connection, Row, Value, json, optional_json, optional_word, params, whole, word,
};

/// The waiting time that one step of priority is worth: a run that has waited a minute longer is as
/// urgent as one with a priority one step higher, so no run starves.
pub(crate) const PRIORITY_STEP_MS: i64 = 60_000;

/// The phase of a run, internal to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredPhase {
    /// It waits for a slot.
    Queued,
    /// An executor holds its lease.
    Leased,
    /// It waits for its inbox, without a lease.
    Parked,
    /// It has its outcome.
    Ended,
}

impl FromStr for StoredPhase {
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

/// A new run, as its row is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRow<'a> {
    pub(crate) admit: &'a Admit,
    /// The account that it draws from.
    pub(crate) account: Option<&'a str>,
    /// Whether it is paused because its parent is.
    pub(crate) paused: bool,
    /// Its name for people.
    pub(crate) handle: &'a str,
}

/// What determines a column, and so what can find it altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnSource {
    /// The journaled spec. The column never changes, so inserting the run again yields it.
    Spec,
    /// Later journal entries.
    Journal,
    /// No journal entry: leases, deliveries, accounts, retention, and what holds only for now.
    State,
}

/// One column of `runs`.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) source: ColumnSource,
}

/// Declares the columns of `runs`: name, source and, if it has one, the value in the row of a new
/// run. Queries, insertion and the checks of doctor derive from this list. `read` are the columns
/// that records and transitions read, in the order of the query.
macro_rules! run_columns {
    ($new:ident: read { $($read:literal $from:ident $(= $value:expr)?,)* }
     unread { $($unread:literal $of:ident $(= $initial:expr)?,)* }) => {
        /// The columns that records and transitions read. Readers name a column with `at!`, and a
        /// name that is not listed does not compile.
        pub(crate) const COLUMNS: Columns = columns![$($read),*];

        /// All columns of the table.
        pub(crate) const ALL_COLUMNS: &[Column] = &[
            $(Column { name: $read, source: ColumnSource::$from },)*
            $(Column { name: $unread, source: ColumnSource::$of },)*
        ];

        /// Writes the row of a new run.
        pub(crate) fn insert(connection: &Connection, $new: NewRow<'_>) -> Done<()> {
            sql::insert(connection, "runs", &[
                $($(($read, &$value),)?)*
                $($(($unread, &$initial),)?)*
            ])
        }
    };
}

run_columns! { new:
    read {
        "run_id" Spec = new.admit.run.to_string(),
        "handle" State = new.handle,
        "root_id" Spec = new.admit.spec.root.to_string(),
        "parent_id" Spec = new.parent().map(|link| link.run.to_string()),
        "parent_call" Spec = new.parent().map(|link| link.call.as_str()),
        "mode" Spec = new.parent().map(|link| ModeWord(link.mode).to_string()),
        "session" Spec = new.admit.spec.session.as_str(),
        "child_session" Spec = new.admit.spec.child_session(new.admit.run).as_str(),
        "tenant" Spec = new.admit.spec.tenant.as_ref().map(Tenant::as_str),
        "agent" Spec = new.admit.spec.agent.name,
        "lane" Spec = new.admit.spec.lane.as_str(),
        "priority" Spec = new.admit.spec.priority.as_str(),
        "label" Spec = new.admit.spec.label,
        "task" Spec = new.admit.spec.task,
        "workspace" Spec = new.admit.spec.workspace.to_string_lossy(),
        "thinking" Spec = new.admit.spec.thinking,
        "depth" Spec = new.admit.spec.depth,
        "announce" Spec = new.admit.spec.announce.as_str(),
        "cleanup" Spec = new.admit.spec.cleanup.as_str(),
        "report_to" Spec = serde_json::to_string(&new.admit.spec.report_to)?,
        "hooks" Spec = observing(&new.admit.spec.hooks)?,
        "timeout_ms" Spec = new.admit.spec.limits.timeout_ms.map(whole),
        "account_id" State = new.account,
        "status" Journal,
        "phase" State,
        "cancel" State,
        "paused" Journal = new.paused,
        "outcome" Journal,
        "delivery" State = first_delivery(&new.admit.spec).as_str(),
        "delivery_error" State,
        "created_at" Spec = new.admit.at.0,
        "started_at" Journal,
        "deadline_at" Journal,
        "ended_at" Journal,
        "cleaned_at" State,
        "archived_at" State,
        "epoch" State,
        "deaths" State,
        "deaths_since_progress" State,
        "head_at_claim" State,
        "head_seq" Journal,
        "head_hash" Journal = GENESIS,
        "model" Journal = new.admit.spec.model,
        "waiting_on" State = (!new.paused).then_some(WaitingOn::Slot.as_str()),
        "wait_position" State,
        "progress" State,
        "tool_calls" Journal,
        "input_tokens" Journal,
        "output_tokens" Journal,
        "cache_read_tokens" Journal,
        "cache_write_tokens" Journal,
        "cost_usd" Journal,
        "unpriced" Journal,
        "last_text" Journal,
        "children_input_tokens" State,
        "children_output_tokens" State,
        "children_cache_read_tokens" State,
        "children_cache_write_tokens" State,
        "children_cost_usd" State,
        "children_unpriced" State,
        "changes" Journal,
        "changes_fate" State,
    }
    unread {
        "wall_ms" Spec = new.admit.spec.limits.budget.wall_ms.map(whole),
        "requires" Spec = required(&new.admit.spec.requires)?,
        "not_after" Spec = new.admit.spec.not_after.map(|moment| moment.0),
        "queue_key" Spec = queue_key(new.admit.at, new.admit.spec.priority),
        "inbox_count" Journal,
        "stored_bytes" State = whole(new.admit.spec.task.len() as u64),
        "lease_owner" State,
        "lease_until" State,
        "recovered" State,
    }
}

impl<'a> NewRow<'a> {
    fn parent(&self) -> Option<&'a ParentLink> {
        self.admit.spec.parent.as_ref()
    }
}

/// Returns the labels that a run requires as they are stored; `None` for none.
fn required(labels: &[Label]) -> Done<Option<String>> {
    if labels.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::to_string(labels)?))
}

/// Returns what hooks observe of a run as it is stored; `None` for nothing.
fn observing(hooks: &[HookSubscription]) -> Done<Option<String>> {
    if hooks.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::to_string(hooks)?))
}

/// Returns the delivery of a run that has not ended. Whether the session of a background task can
/// receive the result is decided at its end.
fn first_delivery(spec: &RunSpec) -> Delivery {
    let for_parent = spec.parent.is_some() && spec.announce.reaches_parent();
    if for_parent || !spec.report_to.is_empty() {
        Delivery::Pending
    } else {
        Delivery::NotRequired
    }
}

/// Returns the columns of `runs` that no journal entry determines, so that doctor cannot find them
/// altered.
pub fn undetermined_columns() -> impl Iterator<Item = &'static str> {
    let state = ALL_COLUMNS
        .iter()
        .filter(|column| column.source == ColumnSource::State);
    state.map(|column| column.name)
}

/// Sets a field of a record that its executor does not write.
pub(crate) fn set(connection: &Connection, run: RunId, field: &RecordField) -> Done<()> {
    let record = must_load(connection, run)?.record;
    if !field.replaces(&record) {
        return Ok(());
    }
    let (column, value) = match field {
        RecordField::ChangesFate(fate) => ("changes_fate", fate.as_str()),
    };
    sql::run(
        connection,
        &format!("UPDATE runs SET {column} = ?2 WHERE run_id = ?1"),
        params![run.to_string(), value],
    )?;
    Ok(())
}

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
    pub(crate) phase: StoredPhase,
    /// The account that it draws from.
    pub(crate) account: Option<String>,
}

/// Reads a record, without its queue position and its budget.
pub(crate) fn record(row: &Row<'_>) -> Done<BareRecord> {
    let record = RunRecord {
        run_id: word(row, at!("run_id"))?,
        handle: row.get(at!("handle"))?,
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
        workspace: row.get::<_, String>(at!("workspace"))?.into(),
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
        cancel_requested: row.value(at!("cancel"))? != Value::Null,
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
    pub(crate) phase: StoredPhase,
    /// The account that it draws from.
    pub(crate) account: Option<String>,
    pub(crate) epoch: Epoch,
    pub(crate) tail: Tail,
    pub(crate) cancel: Option<Cancellation>,
    pub(crate) deadline_at: Option<Timestamp>,
    pub(crate) deaths_since_progress: u32,
    pub(crate) head_at_claim: i64,
    pub(crate) report_to: Vec<SinkAddress>,
    /// What hooks observe of it.
    pub(crate) hooks: Vec<HookSubscription>,
    announce: Announce,
    call: Option<CallId>,
    changes: Option<Changes>,
}

impl RunRow {
    /// Whether the result is announced inside the store.
    pub(crate) const fn is_announced(&self) -> bool {
        self.announce.reaches_parent()
    }

    /// Whether the run is a turn of its session.
    pub(crate) fn is_turn(&self) -> bool {
        self.record.parent.is_none() && self.record.lane == Lane::Main
    }

    /// Whether a person or a program created the run beside the turns of its session.
    pub(crate) fn is_background_task(&self) -> bool {
        self.record.parent.is_none() && self.record.lane == Lane::Subagent
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
        hooks: optional_json(row, at!("hooks"))?.unwrap_or_default(),
        announce: word(row, at!("announce"))?,
        call: call.map(CallId::from_stored),
        changes: optional_json(row, at!("changes"))?,
        record,
    })
}

/// A leased run whose fence was checked.
#[derive(Debug)]
pub(crate) struct FencedRow {
    pub(crate) tail: Tail,
    pub(crate) inbox_count: i64,
    pub(crate) cancel: Option<Cancellation>,
    /// The account that it draws from.
    pub(crate) account: Option<String>,
    pub(crate) paused: bool,
    pub(crate) tenant: Option<String>,
    /// What it used so far.
    pub(crate) usage: Usage,
}

/// Checks a fence. Every write by an executor starts here.
pub(crate) fn fenced(connection: &Connection, fence: Fence) -> Done<FencedRow> {
    let run = fence.run.to_string();
    let epoch = control::accepted(connection, fence)?;
    let found = sql::first(
        connection,
        "SELECT head_seq, head_hash, inbox_count, cancel, account_id, paused, tenant,
                input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd
         FROM runs WHERE run_id = ?1 AND phase = 'leased' AND epoch = ?2",
        params![run, epoch],
        |row| {
            Ok(FencedRow {
                tail: Tail {
                    run: run.clone(),
                    seq: row.get(0)?,
                    hash: row.get(1)?,
                },
                inbox_count: row.get(2)?,
                cancel: optional_json(row, 3)?,
                account: row.get(4)?,
                paused: row.get(5)?,
                tenant: row.get(6)?,
                usage: usage(row, 7)?,
            })
        },
    )?;
    found.ok_or(Fault::Refused(StoreError::Fenced { run: fence.run }))
}

/// Checks a fence, and that the executor knows the whole journal. An executor hands over several
/// writes at once: if one of them is lost, those behind it are rejected here.
pub(crate) fn fenced_at(connection: &Connection, fence: Fence, follows: Seq) -> Done<FencedRow> {
    let found = fenced(connection, fence)?;
    let head = found.tail.head();
    if head != follows && !control::fences_are_broken() {
        let run = fence.run;
        return Err(StoreError::NotNext { run, head, follows }.into());
    }
    Ok(found)
}

/// The control of the cluster test: without fences its checks must fail.
#[cfg(feature = "crash-points")]
pub(crate) mod control {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{Connection, Done, Fence, sql};

    static BROKEN: AtomicBool = AtomicBool::new(false);

    /// Lets executors write whose claim is gone.
    pub fn break_fences() {
        BROKEN.store(true, Ordering::SeqCst);
    }

    pub(super) fn fences_are_broken() -> bool {
        BROKEN.load(Ordering::SeqCst)
    }

    /// Returns the epoch that a write is compared with: its own, or any if fences are broken.
    pub(super) fn accepted(connection: &Connection, fence: Fence) -> Done<i64> {
        if !fences_are_broken() {
            return Ok(fence.epoch.0);
        }
        let run = fence.run.to_string();
        let epoch = sql::first(
            connection,
            "SELECT epoch FROM runs WHERE run_id = ?1",
            [run],
            |row| row.get(0),
        )?;
        Ok(epoch.unwrap_or(fence.epoch.0))
    }
}

#[cfg(not(feature = "crash-points"))]
mod control {
    use super::{Connection, Done, Fence};

    pub(super) const fn fences_are_broken() -> bool {
        false
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "with the feature it reads the store"
    )]
    pub(super) const fn accepted(_connection: &Connection, fence: Fence) -> Done<i64> {
        Ok(fence.epoch.0)
    }
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
    use std::collections::BTreeSet;

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
        let connection = schema::sqlite_in_memory().unwrap();
        let query = format!("SELECT {} FROM runs", COLUMNS.sql);
        let statement = connection.prepare(&query).unwrap();
        let named: Vec<_> = statement.column_names().collect();
        assert_eq!(named, COLUMNS.names);
        for (position, name) in COLUMNS.names.iter().enumerate() {
            assert_eq!(COLUMNS.at(name), position, "{name} is listed twice");
        }
    }

    #[test]
    fn list_has_exactly_the_columns_of_the_table() {
        let connection = schema::sqlite_in_memory().unwrap();
        let statement = connection.prepare("SELECT * FROM runs").unwrap();
        let table: BTreeSet<&str> = statement.column_names().collect();
        let listed: BTreeSet<&str> = ALL_COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(listed, table);
        assert_eq!(listed.len(), ALL_COLUMNS.len());
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
