//! A connection to a database, and the rows that it returns.
//!
//! Transitions are written once, in SQL that SQLite and PostgreSQL both understand. This module and
//! `schema` are the only ones that know which of the two it is.

use std::fmt;

use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::fault::{Done, Fault};
use crate::sql::{FromValue, Params, Value};

/// A connection to a database. A thread uses it alone.
pub enum Connection {
    Sqlite(rusqlite::Connection),
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(_) => f.write_str("Sqlite"),
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
        }
    }

    /// Commits the transaction.
    pub(crate) fn commit(&self) -> Done<()> {
        match self {
            Self::Sqlite(sqlite) => execute(sqlite, "COMMIT"),
        }
    }

    /// Rolls back the transaction, if one is open.
    pub(crate) fn roll_back(&self) {
        let rolled_back = match self {
            Self::Sqlite(sqlite) if sqlite.is_autocommit() => return,
            Self::Sqlite(sqlite) => execute(sqlite, "ROLLBACK"),
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
        }
    }

    /// Undoes everything since [`Connection::begin_job`]. SQLite may have rolled back the whole
    /// transaction by itself, on a full disk; then this fails.
    pub(crate) fn roll_back_job(&self) -> Done<()> {
        match self {
            Self::Sqlite(sqlite) => execute(sqlite, "ROLLBACK TO job"),
        }
    }

    /// Makes everything since [`Connection::begin_job`] part of the transaction.
    pub(crate) fn end_job(&self) -> Done<()> {
        match self {
            Self::Sqlite(sqlite) => execute(sqlite, "RELEASE job"),
        }
    }

    /// Whether another query may use the connection. The empty database of a missing store lives in
    /// memory and is not reusable: the store may exist by the next query.
    pub(crate) fn is_reusable(&self) -> bool {
        match self {
            Self::Sqlite(sqlite) => sqlite.path().is_some_and(|path| !path.is_empty()),
        }
    }

    /// Executes a statement; returns the number of changed rows.
    pub(crate) fn run(&self, sql: &str, params: &impl Params) -> Done<usize> {
        match self {
            Self::Sqlite(sqlite) => Ok(bound(sqlite, sql, params)?.raw_execute()?),
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
}

/// The position or the name of a column.
pub(crate) trait Column: rusqlite::RowIndex {}

impl Column for usize {}

impl Column for &str {}

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
        }
    }
}
