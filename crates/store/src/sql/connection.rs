//! A connection to a database, and the rows that it returns.
//!
//! Transitions are written once, in SQL that SQLite and PostgreSQL both understand. This module and
//! `schema` are the only ones that know which of the two it is.

use std::fmt;

use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::fault::{Done, Fault};
#[cfg(feature = "postgres")]
use crate::sql::postgres::{Session, storable};
use crate::sql::{FromValue, OwnedValue, Params, Value};

/// A connection to a database. A thread uses it alone.
pub enum Connection {
    Sqlite(rusqlite::Connection),
    #[cfg(feature = "postgres")]
    Postgres(Box<Session>),
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(_) => f.write_str("Sqlite"),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.fmt(f),
        }
    }
}

/// The kind of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begin {
    /// Queries: one snapshot for all of them.
    Reading,
    /// Changes: takes the write lock at once, so that no statement has to be retried.
    Writing,
}

impl Connection {
    /// Begins a transaction.
    pub(crate) fn begin(&self, begin: Begin) -> Done<()> {
        match self {
            Self::Sqlite(sqlite) => execute(
                sqlite,
                match begin {
                    Begin::Reading => "BEGIN",
                    Begin::Writing => "BEGIN IMMEDIATE",
                },
            ),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.begin(begin),
        }
    }

    /// Commits the transaction.
    pub(crate) fn commit(&self) -> Done<()> {
        match self {
            Self::Sqlite(sqlite) => execute(sqlite, "COMMIT"),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.commit(),
        }
    }

    /// Rolls back the transaction, if one is open.
    pub(crate) fn roll_back(&self) {
        let rolled_back = match self {
            Self::Sqlite(sqlite) if sqlite.is_autocommit() => return,
            Self::Sqlite(sqlite) => execute(sqlite, "ROLLBACK"),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.roll_back(),
        };
        if let Err(fault) = rolled_back {
            let error = fault.while_doing("roll back");
            // SQLite has usually rolled back by itself; otherwise the next BEGIN fails.
            tracing::warn!(%error, "could not roll back");
        }
    }

    /// Marks the point in the transaction to which [`Connection::roll_back_job`] returns.
    pub(crate) fn begin_job(&self) -> Done<()> {
        match self {
            Self::Sqlite(sqlite) => execute(sqlite, "SAVEPOINT job"),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.command("SAVEPOINT job"),
        }
    }

    /// Undoes everything since [`Connection::begin_job`]. SQLite may have rolled back the whole
    /// transaction by itself, on a full disk; then this fails.
    pub(crate) fn roll_back_job(&self) -> Done<()> {
        match self {
            Self::Sqlite(sqlite) => execute(sqlite, "ROLLBACK TO job"),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.command("ROLLBACK TO job"),
        }
    }

    /// Makes everything since [`Connection::begin_job`] part of the transaction.
    pub(crate) fn end_job(&self) -> Done<()> {
        match self {
            Self::Sqlite(sqlite) => execute(sqlite, "RELEASE job"),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.command("RELEASE job"),
        }
    }

    /// Whether several processes may write this database.
    pub(crate) const fn is_shared(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => true,
        }
    }

    /// Returns whether no other process shares the store, and keeps others out until
    /// [`Connection::share`]. The lock file of a store in a file does that always.
    pub(crate) fn become_sole(&self) -> Done<bool> {
        match self {
            Self::Sqlite(_) => Ok(true),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.become_sole(),
        }
    }

    /// Lets other processes share the store.
    pub(crate) fn share(&self) -> Done<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.share(),
        }
    }

    /// Frees the locks of a session that is about to end.
    #[cfg(feature = "postgres")]
    pub(crate) fn release_locks(&self) {
        match self {
            Self::Sqlite(_) => {}
            Self::Postgres(session) => session.release_locks(),
        }
    }

    /// Whether another query may use the connection. The empty database of a missing store lives in
    /// memory and is not reusable: the store may exist by the next query.
    pub(crate) fn is_reusable(&self) -> bool {
        match self {
            Self::Sqlite(sqlite) => sqlite.path().is_some_and(|path| !path.is_empty()),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => !session.is_lost(),
        }
    }

    /// Returns a value as this database stores it.
    pub(crate) fn stored(&self, value: OwnedValue) -> OwnedValue {
        match (self, value) {
            #[cfg(feature = "postgres")]
            (Self::Postgres(_), OwnedValue::Text(text)) => {
                OwnedValue::Text(storable(&text).into_owned())
            }
            (_, value) => value,
        }
    }

    /// Executes a statement; returns the number of changed rows.
    pub(crate) fn run(&self, sql: &str, params: &impl Params) -> Done<usize> {
        match self {
            Self::Sqlite(sqlite) => Ok(bound(sqlite, sql, params)?.raw_execute()?),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.run(sql, params),
        }
    }

    /// Calls `visit` with each row until it returns `false`. `visit` must not use the connection.
    pub(crate) fn visit(
        &self,
        sql: &str,
        params: &impl Params,
        mut visit: impl FnMut(&Row<'_>) -> Done<bool>,
    ) -> Done<()> {
        match self {
            Self::Sqlite(sqlite) => {
                let mut statement = bound(sqlite, sql, params)?;
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next()? {
                    if !visit(&Row::Sqlite(row))? {
                        break;
                    }
                }
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => {
                for row in session.query(sql, params)? {
                    if !visit(&Row::Postgres(&row))? {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Executes a statement without parameters.
fn execute(sqlite: &rusqlite::Connection, sql: &str) -> Done<()> {
    sqlite.prepare_cached(sql)?.raw_execute()?;
    Ok(())
}

/// Prepares a statement, once for each connection, and binds its parameters.
fn bound<'a>(
    sqlite: &'a rusqlite::Connection,
    sql: &str,
    params: &impl Params,
) -> Done<rusqlite::CachedStatement<'a>> {
    let mut statement = sqlite.prepare_cached(sql)?;
    let (expected, given) = (statement.parameter_count(), params.count());
    if expected != given {
        return Err(rusqlite::Error::InvalidParameterCount(given, expected).into());
    }
    for position in 0..given {
        if let Some(param) = params.at(position) {
            statement.raw_bind_parameter(position + 1, param.value())?;
        }
    }
    Ok(statement)
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// One row of a result.
#[derive(Debug)]
pub(crate) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    #[cfg(feature = "postgres")]
    Postgres(&'a postgres::Row),
}

/// The position or the name of a column.
pub(crate) trait Column: rusqlite::RowIndex {
    #[cfg(feature = "postgres")]
    fn position(&self, columns: &[postgres::Column]) -> Option<usize>;
}

impl Column for usize {
    #[cfg(feature = "postgres")]
    fn position(&self, columns: &[postgres::Column]) -> Option<usize> {
        (*self < columns.len()).then_some(*self)
    }
}

impl Column for &str {
    #[cfg(feature = "postgres")]
    fn position(&self, columns: &[postgres::Column]) -> Option<usize> {
        columns.iter().position(|column| column.name() == *self)
    }
}

impl Row<'_> {
    pub(crate) fn value(&self, column: impl Column) -> Done<Value<'_>> {
        match self {
            Self::Sqlite(row) => Ok(match row.get_ref(column)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => Value::Integer(number),
                ValueRef::Real(number) => Value::Real(number),
                ValueRef::Text(bytes) => Value::Text(
                    str::from_utf8(bytes).map_err(|error| Fault::Broken(Box::new(error)))?,
                ),
                ValueRef::Blob(bytes) => Value::Blob(bytes),
            }),
            #[cfg(feature = "postgres")]
            Self::Postgres(row) => {
                let missing = || Fault::Broken("a row lacks a column".into());
                let position = column.position(row.columns()).ok_or_else(missing)?;
                Ok(row.try_get(position)?)
            }
        }
    }

    /// Reads a column.
    pub(crate) fn get<C: Column, T: FromValue>(&self, column: C) -> Done<T> {
        T::from_value(self.value(column)?)
    }

    /// Returns the names of the columns.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::Sqlite(row) => {
                let names = row.as_ref().column_names();
                names.map(str::to_owned).collect()
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(row) => {
                let columns = row.columns().iter();
                columns.map(|column| column.name().to_owned()).collect()
            }
        }
    }
}
