//! Helpers over a connection. Every statement is prepared once for each connection.
#![expect(
    clippy::needless_pass_by_value,
    reason = "parameters are written as a list at the call"
)]

mod connection;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "postgres")]
pub(crate) mod target;
#[cfg(feature = "postgres")]
mod tls;
mod value;

use std::error::Error;
use std::str::FromStr;

use serde::de::DeserializeOwned;

use crate::fault::{Done, Fault};

pub(crate) use connection::{Begin, Column, Connection, Row};
#[cfg(feature = "postgres")]
pub(crate) use value::Kind;
pub(crate) use value::{Bind, FromValue, OwnedValue, Params, Value, mismatch, params};

/// A `LIMIT` that limits nothing.
pub(crate) const UNLIMITED: i64 = i64::MAX;

/// Returns the `LIMIT` of a page size, where 0 is unlimited.
pub(crate) fn limit(page: u32) -> i64 {
    match page {
        0 => UNLIMITED,
        page => i64::from(page),
    }
}

/// Executes a statement; returns the number of changed rows.
pub(crate) fn run(connection: &Connection, sql: &str, params: impl Params) -> Done<usize> {
    connection.run(sql, &params)
}

/// Inserts one row. The columns are named once, beside their values.
pub(crate) fn insert(
    connection: &Connection,
    table: &str,
    columns: &[(&str, &dyn Bind)],
) -> Done<()> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    let statement = format!(
        "INSERT INTO {table} ({}) VALUES ({marks})",
        names.join(", ")
    );
    let values: Vec<&dyn Bind> = columns.iter().map(|(_, value)| *value).collect();
    run(connection, &statement, values.as_slice())?;
    Ok(())
}

/// Reads the first row, if there is one.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    map: impl FnOnce(&Row<'_>) -> Done<T>,
) -> Done<Option<T>> {
    let mut map = Some(map);
    let mut found = None;
    connection.visit(sql, &params, |row| {
        found = map.take().map(|map| map(row)).transpose()?;
        Ok(false)
    })?;
    Ok(found)
}

/// Reads all rows. `map` must not use the connection.
pub(crate) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut map: impl FnMut(&Row<'_>) -> Done<T>,
) -> Done<Vec<T>> {
    let mut found = Vec::new();
    connection.visit(sql, &params, |row| {
        found.push(map(row)?);
        Ok(true)
    })?;
    Ok(found)
}

/// Reads rows until `visit` returns `false`. `visit` must not use the connection.
pub(crate) fn each(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    visit: impl FnMut(&Row<'_>) -> Done<bool>,
) -> Done<()> {
    connection.visit(sql, &params, visit)
}

/// Reads one number from a query that always returns one row.
pub(crate) fn count(connection: &Connection, sql: &str, params: impl Params) -> Done<u64> {
    let number: Option<i64> = first(connection, sql, params, |row| row.get(0))?;
    let number = number.ok_or_else(no_row)?;
    Ok(number.unsigned_abs())
}

/// The failure of a query that must return a row.
pub(crate) fn no_row() -> Fault {
    Fault::Broken("a query returned no row".into())
}

/// Reads a column of text.
pub(crate) fn text<'a>(row: &'a Row<'_>, column: impl Column) -> Done<&'a str> {
    let value = row.value(column)?;
    let Value::Text(text) = value else {
        return Err(mismatch("text", value));
    };
    Ok(text)
}

/// Reads a column of text that may be null.
pub(crate) fn optional_text<'a>(row: &'a Row<'_>, column: impl Column) -> Done<Option<&'a str>> {
    let value = row.value(column)?;
    if value == Value::Null {
        return Ok(None);
    }
    let Value::Text(text) = value else {
        return Err(mismatch("text", value));
    };
    Ok(Some(text))
}

/// Reads a column that contains an enum's word or an id.
pub(crate) fn word<T>(row: &Row<'_>, column: impl Column) -> Done<T>
where
    T: FromStr,
    T::Err: Error + Send + Sync + 'static,
{
    parse(text(row, column)?)
}

/// Reads such a column that may be null.
pub(crate) fn optional_word<T>(row: &Row<'_>, column: impl Column) -> Done<Option<T>>
where
    T: FromStr,
    T::Err: Error + Send + Sync + 'static,
{
    optional_text(row, column)?.map(parse).transpose()
}

/// Reads a column that contains JSON.
pub(crate) fn json<T: DeserializeOwned>(row: &Row<'_>, column: impl Column) -> Done<T> {
    Ok(serde_json::from_str(text(row, column)?)?)
}

/// Reads a column that contains JSON or null.
pub(crate) fn optional_json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: impl Column,
) -> Done<Option<T>> {
    let text = optional_text(row, column)?;
    Ok(text.map(serde_json::from_str).transpose()?)
}

/// Converts to the database's integer type. Counts never come near the end of its range.
pub(crate) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn parse<T>(text: &str) -> Done<T>
where
    T: FromStr,
    T::Err: Error + Send + Sync + 'static,
{
    text.parse()
        .map_err(|error: T::Err| Fault::Broken(Box::new(error)))
}

/// Returns SQLite's query plan, for tests.
#[cfg(test)]
pub(crate) fn plan(statement: &str) -> Vec<String> {
    let connection = crate::schema::sqlite_in_memory().unwrap();
    let mut explained = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {statement}"))
        .unwrap();
    // Nothing is bound: plans do not depend on it.
    let lines = explained.raw_query().mapped(|row| row.get("detail"));
    lines.collect::<Result<_, _>>().unwrap()
}
