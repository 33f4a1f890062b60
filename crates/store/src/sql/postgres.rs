//! A session with a PostgreSQL server.
//!
//! Statements are those of SQLite, translated once and prepared once for each session. A writing
//! transaction is `SERIALIZABLE`: the rules of transitions were written for one writer, and
//! PostgreSQL aborts a transaction whose result would depend on running beside another. Aborted
//! transactions are transient failures ([`is_transient`]), and the caller runs them again. One that was
//! aborted several times waits until no other process writes and then runs alone, so that every
//! transaction succeeds however many processes share the store.
//!
//! The client blocks its thread, so a session must not be used or opened on a thread that drives an
//! async runtime; see [`off_runtime`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::{BufMut as _, BytesMut};
use postgres::error::SqlState;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Row, SimpleQueryMessage, Statement};

use crate::execute::wait;
use crate::fault::{Done, Fault};
use crate::outage::{Outage, PATIENCE};
use crate::sql::target::{NoPrimary, Target};
use crate::sql::value::Kind;
use crate::sql::{Begin, Params, Value};

/// More than the number of distinct statements of the store.
const CACHED_STATEMENTS: usize = 240;
/// Between two attempts to find the outcome of a commit that the server still works on.
const OUTCOME_PAUSE: Duration = Duration::from_millis(100);
/// Aborted attempts after which a transaction runs alone.
const MAX_CONFLICTS: u32 = 3;
/// The advisory lock that every process which executes runs holds shared. Its first key is "Sorm".
pub(crate) const MEMBERS: &str = "1399812717, hashtext(CAST(current_schema() AS TEXT))";
/// The number of base-10000 digits before the decimal point that fit an `i64`.
const MAX_NUMERIC_WEIGHT: i16 = 4;

/// Prepares a new session, also after a lost connection: takes the lock of the store.
type OnConnect = Box<dyn Fn(&mut Client) -> Done<()> + Send>;

/// A session, which reconnects when a transaction begins after the connection was lost.
pub struct Session {
    target: Target,
    on_connect: OnConnect,
    outage: Arc<Outage>,
    state: RefCell<State>,
    /// Names the session in `commit_tokens`, across reconnects.
    name: String,
    /// The token of the last transaction that changed something.
    token: Cell<u64>,
    /// Whether this session holds [`MEMBERS`] exclusively.
    is_sole: Cell<bool>,
    /// Aborted attempts since the last commit.
    conflicts: Cell<u32>,
    /// Whether the present transaction runs alone.
    runs_alone: Cell<bool>,
}

#[derive(Default)]
struct State {
    /// `None` after the connection was lost.
    client: Option<Client>,
    statements: HashMap<String, Statement>,
    /// The open transaction.
    transaction: Option<Begin>,
}

/// The outcome of a transaction whose commit was not answered.
#[derive(Debug, thiserror::Error)]
enum LostCommit {
    /// The server rolled it back.
    #[error("the connection was lost before the transaction was committed")]
    RolledBack,
    #[error("the connection was lost during a commit, and its outcome is not known")]
    Unknown,
}

/// A constraint was violated beside other writers. PostgreSQL checks constraints before it detects
/// that a transaction would have to be aborted, so the cause may be a concurrent transaction. Alone,
/// the same error is what it says.
#[derive(Debug, thiserror::Error)]
#[error("a concurrent transaction may have violated a constraint")]
struct PossibleConflict(#[source] postgres::Error);

impl Session {
    /// Connects to a server. Fails at once if that is not possible.
    pub(crate) fn open(target: &Target, on_connect: OnConnect, outage: Arc<Outage>) -> Done<Self> {
        let mut session = Self {
            target: target.clone(),
            on_connect,
            outage,
            state: RefCell::default(),
            name: String::new(),
            token: Cell::new(0),
            is_sole: Cell::new(false),
            conflicts: Cell::new(0),
            runs_alone: Cell::new(false),
        };
        session.reconnect()?;
        let name = session.value("SELECT gen_random_uuid()")?;
        session.name = name.ok_or_else(|| Fault::Broken("the database gave no name".into()))?;
        Ok(session)
    }

    fn reconnect(&self) -> Done<()> {
        let mut client = self.target.connect()?;
        // An acknowledged commit must be durable, whatever the server's default is.
        client.batch_execute(
            "SELECT set_config('synchronous_commit', 'on', FALSE)
             WHERE current_setting('synchronous_commit') = 'off'",
        )?;
        (self.on_connect)(&mut client)?;
        *self.state.borrow_mut() = State {
            client: Some(client),
            ..State::default()
        };
        // The locks of the session before ended with it.
        self.is_sole.set(false);
        Ok(())
    }

    /// Tries to become the only process that shares the store, until [`Session::share`]. Returns
    /// whether it is.
    pub(crate) fn become_sole(&self) -> Done<bool> {
        if !self.is_sole.get() {
            let locked = self.value(&format!("SELECT pg_try_advisory_lock({MEMBERS})"))?;
            self.is_sole.set(locked.as_deref() == Some("t"));
        }
        Ok(self.is_sole.get())
    }

    /// Lets other processes share the store.
    pub(crate) fn share(&self) -> Done<()> {
        if self.is_sole.replace(false) {
            self.command(&format!("SELECT pg_advisory_unlock({MEMBERS})"))?;
        }
        Ok(())
    }

    /// Begins a transaction.
    pub(crate) fn begin(&self, begin: Begin) -> Done<()> {
        if self.is_lost() {
            self.reconnect()?;
        }
        // Set first: if the lock fails, the transaction has begun and must be rolled back.
        self.state.borrow_mut().transaction = Some(begin);
        match begin {
            Begin::Reading => self.command("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            // Locking a table takes no snapshot, so a transaction that waited here to run alone sees
            // what the others have committed.
            Begin::Writing => {
                let is_alone = self.conflicts.get() >= MAX_CONFLICTS;
                self.runs_alone.set(is_alone);
                self.command(if is_alone {
                    "BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK TABLE turnstile IN EXCLUSIVE MODE"
                } else {
                    "BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK TABLE turnstile IN ROW SHARE MODE"
                })
            }
        }
    }

    /// Counts an attempt of a transaction.
    fn end_attempt(&self, committed: bool) {
        let conflicts = if committed {
            0
        } else {
            self.conflicts.get().saturating_add(1)
        };
        self.conflicts.set(conflicts);
    }

    /// Commits the transaction. When the connection is lost before the server answers, looks for
    /// the transaction's token instead of assuming either. The id of the transaction alone proves
    /// nothing: after a crash of the server an id without a trace in its log is assigned again.
    pub(crate) fn commit(&self) -> Done<()> {
        let begun = self.state.borrow().transaction;
        let transaction = match begun {
            // Fails if the transaction was aborted, where `COMMIT` would silently roll it back.
            Some(Begin::Writing) => self.value("SELECT pg_current_xact_id_if_assigned()")?,
            Some(Begin::Reading) | None => None,
        };
        if transaction.is_some() {
            self.token.set(self.token.get() + 1);
            self.command(&format!(
                "INSERT INTO commit_tokens (session, token) VALUES ('{}', {})
                 ON CONFLICT (session) DO UPDATE SET token = EXCLUDED.token, at = now()",
                self.name,
                self.token.get()
            ))?;
        }
        let committed = self.command("COMMIT");
        self.state.borrow_mut().transaction = None;
        if matches!(begun, Some(Begin::Writing)) {
            self.end_attempt(committed.is_ok());
        }
        match (committed, transaction) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(transaction)) if self.is_lost() => self.find_outcome(&transaction),
            (Err(fault), _) => Err(fault),
        }
    }

    /// Finds out whether a transaction was committed whose answer was lost: its token is there, or
    /// the server no longer works on it.
    fn find_outcome(&self, transaction: &str) -> Done<()> {
        let question = format!(
            "SELECT CASE
                 WHEN EXISTS (SELECT 1 FROM commit_tokens WHERE session = '{}' AND token = {})
                     THEN 'committed'
                 WHEN CAST('{transaction}' AS xid8) >= pg_snapshot_xmax(pg_current_snapshot())
                     THEN 'aborted'
                 WHEN pg_xact_status(CAST('{transaction}' AS xid8)) = 'in progress'
                     THEN 'in progress'
                 ELSE 'aborted' END",
            self.name,
            self.token.get()
        );
        let started = Instant::now();
        loop {
            let connected = match self.is_lost() {
                true => self.reconnect(),
                false => Ok(()),
            };
            let outcome = connected.and_then(|()| self.value(&question));
            match outcome.as_ref().map(Option::as_deref) {
                Ok(Some("committed")) => return Ok(()),
                Ok(Some("aborted")) => {
                    return Err(Fault::Broken(LostCommit::RolledBack.into()));
                }
                // The old session still works on it.
                Ok(_) if started.elapsed() < PATIENCE => wait(OUTCOME_PAUSE),
                Err(fault) if fault.is_outage() => {
                    self.outage.record(fault);
                    if !self.outage.wait() {
                        break;
                    }
                }
                // Another process owns the store now, or the server rejects the session.
                Ok(_) | Err(_) => break,
            }
        }
        Err(Fault::Broken(LostCommit::Unknown.into()))
    }

    /// Frees the locks of the session now; the server would do it a moment after the session ends.
    pub(crate) fn release_locks(&self) {
        if !self.is_lost()
            && let Err(fault) = self.command("SELECT pg_advisory_unlock_all()")
        {
            let error = fault.while_doing("free its locks");
            tracing::debug!(%error, "the server frees the locks of the session");
        }
    }

    /// Marks an error that a concurrent transaction may have caused.
    fn marked<T>(&self, result: Result<T, postgres::Error>) -> Done<T> {
        let constraints = [SqlState::UNIQUE_VIOLATION, SqlState::FOREIGN_KEY_VIOLATION];
        result.map_err(|error| {
            let is_constraint = error.code().is_some_and(|code| constraints.contains(code));
            if is_constraint && !self.runs_alone.get() {
                Fault::Broken(PossibleConflict(error).into())
            } else {
                error.into()
            }
        })
    }

    /// Rolls back the transaction, if one is open.
    pub(crate) fn roll_back(&self) -> Done<()> {
        let open = self.state.borrow_mut().transaction.take();
        if open.is_none() || self.is_lost() {
            return Ok(());
        }
        self.command("ROLLBACK")?;
        if matches!(open, Some(Begin::Writing)) {
            self.end_attempt(false);
        }
        Ok(())
    }

    /// Whether the connection is lost.
    pub(crate) fn is_lost(&self) -> bool {
        let state = self.state.borrow();
        state.client.as_ref().is_none_or(Client::is_closed)
    }

    /// Executes commands without parameters.
    pub(crate) fn command(&self, sql: &str) -> Done<()> {
        let mut state = self.state.borrow_mut();
        let executed = state.client()?.batch_execute(sql);
        state.checked(executed)
    }

    /// Reads the first column of the first row as text.
    pub(crate) fn value(&self, sql: &str) -> Done<Option<String>> {
        let messages = self.state.borrow_mut().client()?.simple_query(sql)?;
        let value = messages.iter().find_map(|message| {
            let SimpleQueryMessage::Row(row) = message else {
                return None;
            };
            row.get(0)
        });
        Ok(value.map(str::to_owned))
    }

    /// Executes a statement; returns the number of changed rows.
    pub(crate) fn run(&self, sql: &str, params: &impl Params) -> Done<usize> {
        let mut state = self.state.borrow_mut();
        let statement = state.prepare(sql, params)?;
        let changed = with_values(params, |values| {
            let executed = state.client()?.execute(&statement, values);
            state.check(&executed);
            self.marked(executed)
        })?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    /// Returns all rows of a query.
    pub(crate) fn query(&self, sql: &str, params: &impl Params) -> Done<Vec<Row>> {
        let mut state = self.state.borrow_mut();
        let statement = state.prepare(sql, params)?;
        with_values(params, |values| {
            self.marked(state.client()?.query(&statement, values))
        })
    }
}

impl Drop for Session {
    /// Closing waits for the server, which a thread of an async runtime must not do.
    fn drop(&mut self) {
        let client = self.state.get_mut().client.take();
        if client.is_some() && tokio::runtime::Handle::try_current().is_ok() {
            thread::spawn(move || drop(client));
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl State {
    fn client(&mut self) -> Done<&mut Client> {
        let lost = || Fault::Broken("the connection to the database is lost".into());
        self.client.as_mut().ok_or_else(lost)
    }

    fn checked<T>(&mut self, result: Result<T, postgres::Error>) -> Done<T> {
        self.check(&result);
        Ok(result?)
    }

    /// Gives up a session whose server has become read-only: another host is the primary now.
    fn check<T>(&mut self, result: &Result<T, postgres::Error>) {
        let writes = !matches!(self.transaction, Some(Begin::Reading));
        if let Err(error) = result
            && writes
            && error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
        {
            self.client = None;
        }
    }

    fn prepare(&mut self, sql: &str, params: &impl Params) -> Done<Statement> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let kinds = (0..params.count()).filter_map(|position| params.at(position));
        let types: Vec<Type> = kinds.map(|param| type_of(param.kind())).collect();
        let statement = self.client()?.prepare_typed(&translate(sql), &types)?;
        if self.statements.len() >= CACHED_STATEMENTS {
            self.statements.clear();
        }
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

fn with_values<T>(
    params: &impl Params,
    job: impl FnOnce(&[&(dyn ToSql + Sync)]) -> Done<T>,
) -> Done<T> {
    let values: Vec<Value<'_>> = (0..params.count())
        .filter_map(|position| params.at(position))
        .map(|param| param.value())
        .collect();
    let values: Vec<&(dyn ToSql + Sync)> = values
        .iter()
        .map(|value| value as &(dyn ToSql + Sync))
        .collect();
    job(&values)
}

fn type_of(kind: Kind) -> Type {
    match kind {
        Kind::Integer => Type::INT8,
        Kind::Real => Type::FLOAT8,
        Kind::Text => Type::TEXT,
        Kind::Blob => Type::BYTEA,
    }
}

/// Translates a statement of SQLite: its parameters, its `LIKE`, which ignores case, and its hint
/// for the planner, which PostgreSQL does not have.
fn translate(sql: &str) -> String {
    let sql = without_hints(&sql.replace(" LIKE ", " ILIKE "));
    let mut translated = String::with_capacity(sql.len() + 16);
    let mut is_literal = false;
    let mut position = 0_usize;
    let mut characters = sql.chars().peekable();
    while let Some(character) = characters.next() {
        is_literal ^= character == '\'';
        if character != '?' || is_literal {
            translated.push(character);
            continue;
        }
        translated.push('$');
        if !characters.peek().is_some_and(char::is_ascii_digit) {
            position += 1;
            translated.push_str(&position.to_string());
        }
    }
    translated
}

fn without_hints(sql: &str) -> String {
    let mut parts = sql.split(" INDEXED BY ");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(char::is_whitespace).unwrap_or(part.len());
        kept.push_str(part.get(end..).unwrap_or_default());
    }
    kept
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        _type: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => return Ok(IsNull::Yes),
            Self::Integer(number) => out.put_i64(*number),
            Self::Real(number) => out.put_f64(*number),
            Self::Text(text) => out.put_slice(storable(text).as_bytes()),
            Self::Blob(bytes) => out.put_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(_type: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Replaces NUL, which PostgreSQL cannot store in text, by its symbol. Journal entries never contain
/// one, because JSON escapes it.
pub(crate) fn storable(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "\u{2400}").into()
    } else {
        text.into()
    }
}

impl<'a> FromSql<'a> for Value<'a> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *kind {
            Type::BOOL => Self::Integer(i64::from(bool::from_sql(kind, raw)?)),
            Type::INT4 => Self::Integer(i64::from(i32::from_sql(kind, raw)?)),
            Type::INT8 => Self::Integer(i64::from_sql(kind, raw)?),
            Type::NUMERIC => numeric(raw)?,
            Type::FLOAT8 => Self::Real(f64::from_sql(kind, raw)?),
            Type::BYTEA => Self::Blob(raw),
            Type::TEXT | Type::VARCHAR | Type::NAME => Self::Text(str::from_utf8(raw)?),
            _ => return Err(format!("a column has the type {kind}").into()),
        })
    }

    fn from_sql_null(_type: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(_type: &Type) -> bool {
        true
    }
}

/// Reads a `NUMERIC`, which the sums of integers have: a header of four numbers, then the digits to
/// base 10000.
fn numeric(raw: &[u8]) -> Result<Value<'static>, Box<dyn Error + Sync + Send>> {
    let mut words = raw
        .chunks_exact(2)
        .map(|pair| i16::from_be_bytes([pair[0], pair[1]]));
    let header: Vec<i16> = words.by_ref().take(4).collect();
    let [_, weight, sign, _] = header[..] else {
        return Err("a number is too short".into());
    };
    let digits: Vec<i16> = words.collect();
    let whole = usize::try_from(weight + 1).unwrap_or(0);
    let is_negative = match sign {
        0 => false,
        0x4000 => true,
        _ => return Err("a sum is not a number".into()),
    };
    if weight > MAX_NUMERIC_WEIGHT || digits.len() > whole {
        return Err("a sum is no integer, or too large".into());
    }
    let padded = digits.iter().copied().chain(std::iter::repeat(0));
    let sum = padded.take(whole).try_fold(0_i64, |sum, digit| {
        sum.checked_mul(10_000)?.checked_add(i64::from(digit))
    });
    let sum = sum.ok_or("a sum is too large")?;
    Ok(Value::Integer(if is_negative { -sum } else { sum }))
}

/// Whether running the transaction again may succeed: another transaction was in the way, or the
/// connection was lost before the commit.
pub(crate) fn is_transient(source: &(dyn Error + Send + Sync + 'static)) -> bool {
    if let Some(LostCommit::RolledBack) = source.downcast_ref() {
        return true;
    }
    if source.is::<PossibleConflict>() {
        return true;
    }
    let conflicts = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
    ];
    let code = code_of(source);
    code.is_some_and(|code| conflicts.contains(code)) || is_outage_of(source)
}

/// Whether the database is away, and may be back later or on another host.
pub(crate) fn is_outage_of(source: &(dyn Error + Send + Sync + 'static)) -> bool {
    if let Some(no_primary) = source.downcast_ref::<NoPrimary>() {
        return no_primary.is_outage();
    }
    source
        .downcast_ref::<postgres::Error>()
        .is_some_and(is_outage)
}

/// Whether an error of the client means that the server is away.
pub(crate) fn is_outage(error: &postgres::Error) -> bool {
    let Some(code) = error.code() else {
        return error.is_closed() || is_io(error);
    };
    let away = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        // The server was a primary and is a standby now.
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    // A session that was idle for too long, and a broken connection (class 08).
    away.contains(code) || matches!(code.code(), "57P05" | "25P03") || code.code().starts_with("08")
}

fn is_io(error: &postgres::Error) -> bool {
    error
        .source()
        .is_some_and(<dyn Error>::is::<std::io::Error>)
}

fn code_of<'a>(source: &'a (dyn Error + Send + Sync + 'static)) -> Option<&'a SqlState> {
    source
        .downcast_ref::<postgres::Error>()
        .and_then(postgres::Error::code)
}

/// Whether the server found damaged data.
pub(crate) fn is_damage(source: &(dyn Error + Send + Sync + 'static)) -> bool {
    code_of(source)
        .is_some_and(|code| [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code))
}

/// Runs a job on a thread that drives no async runtime, and waits for it.
pub(crate) fn off_runtime<T: Send>(job: impl FnOnce() -> Done<T> + Send) -> Done<T> {
    thread::scope(|scope| scope.spawn(job).join())
        .unwrap_or_else(|_| Err(Fault::Broken("the database client panicked".into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_hints_and_like_are_translated() {
        assert_eq!(
            translate("SELECT a FROM runs INDEXED BY x WHERE b = ?2 AND c LIKE ?1 ESCAPE '?'"),
            "SELECT a FROM runs WHERE b = $2 AND c ILIKE $1 ESCAPE '?'"
        );
        assert_eq!(translate("VALUES (?, ?)"), "VALUES ($1, $2)");
    }

    #[test]
    fn sums_are_read_as_integers() {
        let raw = |words: &[i16]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_be_bytes()).collect()
        };
        let sum = |words: &[i16]| numeric(&raw(words)).ok();
        assert_eq!(sum(&[0, 0, 0, 0]), Some(Value::Integer(0)));
        assert_eq!(sum(&[2, 1, 0, 0, 12, 34]), Some(Value::Integer(120_034)));
        // Trailing zeros are not sent.
        assert_eq!(
            sum(&[1, 2, 0x4000, 0, 7]),
            Some(Value::Integer(-700_000_000))
        );
        assert_eq!(sum(&[2, 0, 0, 4, 1, 5000]), None);
        assert_eq!(sum(&[1, 5, 0, 0, 1]), None);
    }
}
