//! Rebuilds the row of a run from its journal and names every column that differs.
//!
//! The row is inserted again from the journaled spec, into an empty database with the same schema,
//! and compared column by column, as far as the spec determines them ([`ColumnSource::Spec`]). Later
//! entries determine others: [`after_admission`], the fold and the checks of outcome, pause and
//! chain compare those.

use std::collections::BTreeMap;

use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::RunId;
use sortie_core::ports::store::Admit;
use sortie_core::run::{RunRecord, Summary};

use crate::fault::{Done, Fault};
use crate::row::{self, ALL_COLUMNS, ColumnSource, NewRow};
use crate::schema;
use crate::sql::{self, Connection, OwnedValue};

/// Computes the summaries that a record may have after its journal; the fold is not part of the
/// store. Empty if the journal alone does not determine them, an error if the journal cannot be
/// folded.
pub type Fold = fn(&[JournalEntry]) -> Result<Vec<Summary>, String>;

/// Costs are sums of fractions; the order of the summands may differ.
const COST_TOLERANCE: f64 = 1e-9;

/// An empty table of runs in memory, in which rows are rebuilt.
#[derive(Debug)]
pub(crate) struct Rebuilder {
    memory: Connection,
}

impl Rebuilder {
    pub(crate) fn new() -> Done<Self> {
        Ok(Self {
            memory: schema::open_for_rebuilding()?,
        })
    }

    /// Returns the names of the columns that differ from the journal.
    pub(crate) fn differences(
        &self,
        store: &Connection,
        run: RunId,
        entries: &[JournalEntry],
    ) -> Done<Vec<String>> {
        let Some(admit) = admission(run, entries) else {
            // A journal without a first entry is reported by another check.
            return Ok(Vec::new());
        };
        let found = columns(store, run)?;
        let new = NewRow {
            admit: &admit,
            account: None,
            paused: false,
            handle: "",
        };
        row::insert(&self.memory, new)?;
        let inserted = columns(&self.memory, run)?;
        sql::run(
            &self.memory,
            "DELETE FROM runs WHERE run_id = ?1",
            [run.to_string()],
        )?;
        let mut expected: BTreeMap<String, OwnedValue> = inserted
            .into_iter()
            .filter(|(name, _)| is_fixed(name))
            .collect();
        expected.extend(after_admission(&admit, entries)?);
        let expected: BTreeMap<String, OwnedValue> = expected
            .into_iter()
            .map(|(name, value)| (name, store.stored(value)))
            .collect();
        let differs = |(name, value): (&String, &OwnedValue)| {
            (found.get(name) != Some(value)).then(|| name.clone())
        };
        Ok(expected.iter().filter_map(differs).collect())
    }
}

fn is_fixed(name: &str) -> bool {
    ALL_COLUMNS
        .iter()
        .any(|column| column.name == name && column.source == ColumnSource::Spec)
}

/// Returns the admission: the first entry, with later changes of label and priority.
fn admission(run: RunId, entries: &[JournalEntry]) -> Option<Admit> {
    let first = entries.first()?;
    let Event::Admitted { spec } = &first.event else {
        return None;
    };
    let mut spec = (**spec).clone();
    for entry in entries {
        if let Event::Updated { label, priority } = &entry.event {
            if let Some(label) = label {
                spec.label.clone_from(label);
            }
            spec.priority = priority.unwrap_or(spec.priority);
        }
    }
    Some(Admit {
        run,
        spec,
        at: first.at,
        parent: None,
    })
}

/// Returns the columns that later entries determine.
fn after_admission(admit: &Admit, entries: &[JournalEntry]) -> Done<BTreeMap<String, OwnedValue>> {
    let moment_of = |is_it: fn(&Event) -> bool| {
        let found = entries.iter().find(|entry| is_it(&entry.event));
        found.map(|entry| entry.at)
    };
    let started = moment_of(|event| matches!(event, Event::Claimed { .. }));
    let ended = moment_of(|event| matches!(event, Event::Finished { .. }));
    let limits = &admit.spec.limits;
    let after = |limit: Option<u64>| {
        let limit = limit.and_then(|ms| i64::try_from(ms).ok());
        limit.and_then(|ms| started.map(|at| at.0.saturating_add(ms)))
    };
    let deadline = started.and_then(|_| {
        let own = [after(limits.timeout_ms), after(limits.budget.wall_ms)];
        let tree = admit.spec.not_after.map(|moment| moment.0);
        own.into_iter().flatten().chain(tree).min()
    });
    let mut changes = None;
    for entry in entries {
        if let Event::Collected { changes: collected } = &entry.event {
            changes = collected.as_ref().map(serde_json::to_string).transpose()?;
        }
    }
    let number = |value: Option<i64>| value.map_or(OwnedValue::Null, OwnedValue::Integer);
    Ok(BTreeMap::from([
        ("started_at".to_owned(), number(started.map(|at| at.0))),
        ("ended_at".to_owned(), number(ended.map(|at| at.0))),
        ("deadline_at".to_owned(), number(deadline)),
        (
            "changes".to_owned(),
            changes.map_or(OwnedValue::Null, OwnedValue::Text),
        ),
    ]))
}

/// Returns the fields in which a record differs from the summary closest to it.
pub(crate) fn summary_differences(record: &RunRecord, folded: &[Summary]) -> Vec<&'static str> {
    let differences = folded.iter().map(|folded| differing(record, folded));
    differences.min_by_key(Vec::len).unwrap_or_default()
}

fn differing(record: &RunRecord, folded: &Summary) -> Vec<&'static str> {
    let Summary {
        // Change without a journal entry.
        waiting_on: _,
        progress,
        tool_calls,
        usage,
        unpriced,
        model,
        last_text,
    } = folded;
    let found = &record.summary;
    let same_cost = match (found.usage.cost_usd, usage.cost_usd) {
        (Some(found), Some(folded)) => (found - folded).abs() <= COST_TOLERANCE,
        (found, folded) => found.is_none() && folded.is_none(),
    };
    let differs = [
        ("progress", found.progress < *progress),
        ("tool_calls", found.tool_calls != *tool_calls),
        (
            "input_tokens",
            found.usage.input_tokens != usage.input_tokens,
        ),
        (
            "output_tokens",
            found.usage.output_tokens != usage.output_tokens,
        ),
        (
            "cache_read_tokens",
            found.usage.cache_read_tokens != usage.cache_read_tokens,
        ),
        (
            "cache_write_tokens",
            found.usage.cache_write_tokens != usage.cache_write_tokens,
        ),
        ("cost_usd", !same_cost),
        ("unpriced", found.unpriced != *unpriced),
        ("model", found.model != *model),
        ("last_text", found.last_text != *last_text),
    ];
    differs
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
        .collect()
}

fn columns(connection: &Connection, run: RunId) -> Done<BTreeMap<String, OwnedValue>> {
    let found = sql::first(
        connection,
        "SELECT * FROM runs WHERE run_id = ?1",
        [run.to_string()],
        |row| {
            let named = row.names().into_iter().enumerate();
            named
                .map(|(position, name)| Ok((name, row.get(position)?)))
                .collect::<Done<_>>()
        },
    )?;
    found.ok_or_else(|| Fault::not_found(run))
}
