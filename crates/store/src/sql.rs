//! Helpers over rusqlite. Every statement is prepared once for each connection.

use std::error::Error;
use std::str::FromStr;

use rusqlite::{Connection, Params, Row, RowIndex, ToSql, params_from_iter};
use serde::de::DeserializeOwned;

use crate::fault::{Done, Fault};

/// Executes a statement; returns the number of changed rows.
pub(crate) fn run(connection: &Connection, sql: &str, params: impl Params) -> Done<usize> {
    Ok(connection.prepare_cached(sql)?.execute(params)?)
}

/// Inserts one row. The columns are named once, beside their values.
pub(crate) fn insert(
    connection: &Connection,
    table: &str,
    columns: &[(&str, &dyn ToSql)],
) -> Done<()> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    let statement = format!(
        "INSERT INTO {table} ({}) VALUES ({marks})",
        names.join(", ")
    );
    let values = columns.iter().map(|(_, value)| *value);
    run(connection, &statement, params_from_iter(values))?;
    Ok(())
}

/// Reads the first row, if there is one.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    map: impl FnOnce(&Row<'_>) -> Done<T>,
) -> Done<Option<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(map).transpose()
}

/// Reads all rows.
pub(crate) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    map: impl FnMut(&Row<'_>) -> Done<T>,
) -> Done<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_and_then(params, map)?.collect()
}

/// Reads one number from a query that always returns one row.
pub(crate) fn count(connection: &Connection, sql: &str, params: impl Params) -> Done<u64> {
    let mut statement = connection.prepare_cached(sql)?;
    let number: i64 = statement.query_row(params, |row| row.get(0))?;
    Ok(number.unsigned_abs())
}

/// Reads a column that contains an enum's word or an id.
pub(crate) fn word<T>(row: &Row<'_>, column: impl RowIndex) -> Done<T>
where
    T: FromStr,
    T::Err: Error + Send + Sync + 'static,
{
    parse(row.get_ref(column)?.as_str()?)
}

/// Reads such a column that may be null.
pub(crate) fn optional_word<T>(row: &Row<'_>, column: impl RowIndex) -> Done<Option<T>>
where
    T: FromStr,
    T::Err: Error + Send + Sync + 'static,
{
    row.get_ref(column)?
        .as_str_or_null()?
        .map(parse)
        .transpose()
}

/// Reads a column that contains JSON.
pub(crate) fn json<T: DeserializeOwned>(row: &Row<'_>, column: impl RowIndex) -> Done<T> {
    Ok(serde_json::from_str(row.get_ref(column)?.as_str()?)?)
}

/// Reads a column that contains JSON or null.
pub(crate) fn optional_json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: impl RowIndex,
) -> Done<Option<T>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    Ok(text.map(serde_json::from_str).transpose()?)
}

/// Converts to SQLite's integer type. Counts never come near the end of its range.
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
    let connection = crate::schema::open_in_memory().unwrap();
    let mut explained = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {statement}"))
        .unwrap();
    // Nothing is bound: plans do not depend on it.
    let lines = explained.raw_query().mapped(|row| row.get("detail"));
    lines.collect::<Result<_, _>>().unwrap()
}
