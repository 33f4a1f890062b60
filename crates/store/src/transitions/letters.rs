//! Letters: messages for receivers outside, written with the facts that they report, and removed once
//! they are delivered.

use sortie_core::hook::{
    HookEvent, HookInput, HookSubject, HookSubscription, Letter, LetterState, NewLetter,
};
use sortie_core::ports::store::{Admit, DeliveryAttempt, LetterCount, Unblock};
use sortie_core::run::Outcome;
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::row::RunRow;
use crate::sql::{self, Connection, Row, params};

/// Due letters returned at once; the rest stays due.
const MAX_DUE: i64 = 256;
/// How long a letter stays pending that no process delivers, because no configuration has its receiver.
const UNCLAIMED_MS: i64 = 7 * 24 * 3_600_000;
/// How long a dead letter is kept.
const DEAD_MS: i64 = 30 * 24 * 3_600_000;

/// Writes letters. One whose key is known already is left as it is.
pub(crate) fn post(connection: &Connection, letters: &[NewLetter], at: Timestamp) -> Done<()> {
    for letter in letters {
        sql::run(
            connection,
            "INSERT INTO letters (key, receiver, run_id, kind, body, queue, at, next_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7) ON CONFLICT (key) DO NOTHING",
            params![
                letter.key,
                letter.receiver,
                letter.run.map(|run| run.to_string()),
                letter.kind,
                letter.body,
                letter.queue,
                at.0
            ],
        )?;
    }
    Ok(())
}

/// Writes the letters of the hooks that observe the admission of a run.
pub(crate) fn of_admission(connection: &Connection, admit: &Admit) -> Done<()> {
    let spec = &admit.spec;
    let subject = HookSubject {
        run: admit.run,
        parent: spec.parent.as_ref().map(|link| link.run),
        root: spec.root,
        session: &spec.session,
        agent: &spec.agent.name,
        label: &spec.label,
        cwd: &spec.workspace,
    };
    let input = || {
        HookInput::new(HookEvent::Spawn, subject)
            .with_mode(spec.policy.mode)
            .with_task(&spec.task)
    };
    post_to(
        connection,
        &spec.hooks,
        (HookEvent::Spawn, subject),
        input,
        admit.at,
    )
}

/// Writes the letters of the hooks that observe this event of a run.
pub(crate) fn of_run(
    connection: &Connection,
    row: &RunRow,
    event: HookEvent,
    outcome: Option<&Outcome>,
    at: Timestamp,
) -> Done<()> {
    let record = &row.record;
    let subject = HookSubject {
        run: record.run_id,
        parent: record.parent,
        root: record.root,
        session: &record.session,
        agent: &record.agent,
        label: &record.label,
        cwd: &record.workspace,
    };
    let input = || {
        let mut input = HookInput::new(event, subject).with_task(&record.task);
        if let Some(outcome) = outcome {
            let started = record.started_at;
            input = input.with_outcome(outcome);
            input.tool_calls = Some(record.summary.tool_calls);
            input.seconds = started.map(|started| {
                let end = record.ended_at.unwrap_or(at);
                end.ms_since(started) as f64 / 1000.0
            });
            input.usage = Some(record.summary.usage);
        }
        input
    };
    post_to(connection, &row.hooks, (event, subject), input, at)
}

fn post_to(
    connection: &Connection,
    hooks: &[HookSubscription],
    (event, about): (HookEvent, HookSubject<'_>),
    input: impl Fn() -> HookInput,
    at: Timestamp,
) -> Done<()> {
    for hook in hooks.iter().filter(|hook| hook.observes(event, None)) {
        let letter = NewLetter::of_hook(&hook.hook, event, about.run, "", &input());
        post(connection, &[letter], at)?;
    }
    Ok(())
}

const COLUMNS: &str = "id, key, receiver, run_id, kind, body, state, attempts, at, next_at, error";

/// Returns due letters for these receivers, of each queue only the first.
pub(crate) fn due(
    connection: &Connection,
    receivers: &[String],
    now: Timestamp,
) -> Done<Vec<Letter>> {
    let receivers = serde_json::to_string(receivers)?;
    sql::all(
        connection,
        &format!(
            "SELECT {COLUMNS} FROM letters
             WHERE state = 'pending' AND next_at <= ?1
               AND receiver IN (SELECT value FROM json_each(?2))
               AND NOT EXISTS (SELECT 1 FROM letters AS earlier
                               WHERE earlier.queue = letters.queue AND earlier.state = 'pending'
                                 AND earlier.id < letters.id)
             ORDER BY next_at, id LIMIT ?3"
        ),
        params![now.0, receivers, MAX_DUE],
        letter,
    )
}

fn letter(row: &Row<'_>) -> Done<Letter> {
    Ok(Letter {
        id: row.get(0)?,
        key: row.get(1)?,
        receiver: row.get(2)?,
        run: sql::optional_word(row, 3)?,
        kind: row.get(4)?,
        body: row.get(5)?,
        state: sql::word(row, 6)?,
        attempts: row.get(7)?,
        at: Timestamp(row.get(8)?),
        next_at: Timestamp(row.get(9)?),
        error: row.get(10)?,
    })
}

/// Records an attempt to deliver a letter. A letter that is dead already stays dead.
pub(crate) fn record(connection: &Connection, id: i64, attempt: &DeliveryAttempt) -> Done<()> {
    let (state, next_at, error) = match attempt {
        DeliveryAttempt::Delivered => {
            sql::run(
                connection,
                "DELETE FROM letters WHERE id = ?1 AND state = 'pending'",
                [id],
            )?;
            return Ok(());
        }
        DeliveryAttempt::Retry { at, error } => (LetterState::Pending, Some(at.0), error),
        DeliveryAttempt::Blocked { error } => (LetterState::Dead, None, error),
    };
    sql::run(
        connection,
        "UPDATE letters SET state = ?2, next_at = COALESCE(?3, next_at), error = ?4,
             attempts = attempts + 1
         WHERE id = ?1 AND state = 'pending'",
        params![id, state.as_str(), next_at, error],
    )?;
    Ok(())
}

/// Returns letters in a state, the oldest first.
pub(crate) fn list(connection: &Connection, state: LetterState, limit: u32) -> Done<Vec<Letter>> {
    sql::all(
        connection,
        &format!("SELECT {COLUMNS} FROM letters WHERE state = ?1 ORDER BY id LIMIT ?2"),
        params![state.as_str(), sql::limit(limit)],
        letter,
    )
}

/// Counts the letters of each receiver.
pub(crate) fn counts(connection: &Connection) -> Done<Vec<LetterCount>> {
    sql::all(
        connection,
        "SELECT receiver, state, COUNT(*) FROM letters GROUP BY receiver, state
         ORDER BY receiver, state",
        (),
        |row| {
            Ok(LetterCount {
                receiver: row.get(0)?,
                state: sql::word(row, 1)?,
                letters: row.get::<_, i64>(2)?.unsigned_abs(),
            })
        },
    )
}

/// Retries dead letters or drops them.
pub(crate) fn unblock(
    connection: &Connection,
    id: Option<i64>,
    choice: Unblock,
    at: Timestamp,
) -> Done<u64> {
    let changed = match choice {
        Unblock::Retry => sql::run(
            connection,
            "UPDATE letters SET state = 'pending', attempts = 0, next_at = ?2
             WHERE state = 'dead' AND id = COALESCE(?1, id)",
            params![id, at.0],
        )?,
        Unblock::Dismiss => sql::run(
            connection,
            "DELETE FROM letters WHERE state = 'dead' AND id = COALESCE(?1, id)",
            params![id],
        )?,
    };
    Ok(changed as u64)
}

/// Marks old letters as dead whose receivers are not known, and removes old dead ones.
pub(crate) fn tidy(connection: &Connection, known: &[String], now: Timestamp) -> Done<()> {
    sql::run(
        connection,
        "DELETE FROM letters WHERE state = 'dead' AND at <= ?1",
        params![now.plus_ms(-DEAD_MS).0],
    )?;
    sql::run(
        connection,
        "UPDATE letters SET state = 'dead', error = 'no configuration has this receiver'
         WHERE state = 'pending' AND next_at <= ?1
           AND receiver NOT IN (SELECT value FROM json_each(?2))",
        params![now.plus_ms(-UNCLAIMED_MS).0, serde_json::to_string(known)?],
    )?;
    Ok(())
}
