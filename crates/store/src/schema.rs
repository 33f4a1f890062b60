//! The schema and its versions. `PRAGMA user_version` counts the applied migrations.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use rusqlite::config::DbConfig;
use rusqlite::{Connection as Sqlite, OpenFlags};

use crate::fault::{Done, Fault};
#[cfg(feature = "postgres")]
use crate::postgres_schema;
#[cfg(feature = "postgres")]
use crate::sql::Kind;
use crate::sql::{self, Connection};

/// Earlier versions can corrupt a database in WAL mode when a checkpoint coincides with a restart
/// of the log.
const OLDEST_SQLITE: i32 = 3_051_003;
/// How long a statement waits for a checkpoint of another connection.
const BUSY_TIMEOUT_MS: i64 = 5_000;
/// The size of the log, in pages, after which a commit also runs a checkpoint: 16 MB, so that
/// checkpoints are rare and still short.
const CHECKPOINT_PAGES: i64 = 4_000;
/// The log file is truncated to this size after a checkpoint.
const LOG_BYTES: i64 = 64 << 20;
/// More than the number of distinct statements of the store.
const CACHED_STATEMENTS: usize = 240;

/// The migrations, in order; the first brings an empty database to version 1.
const MIGRATIONS: &[&str] = &[concat!(
    include_str!("migrations/0001_tables.sql"),
    include_str!("migrations/0001_sqlite.sql")
)];

/// The database that the migrations create, compressed: running them takes as long as all else that
/// `sortie run` does before its first prompt. A test keeps it true.
const EMPTY: &[u8] = include_bytes!("migrations/empty.db.gz");

/// The tables of both databases.
#[cfg(feature = "postgres")]
pub(crate) const TABLES: &str = include_str!("migrations/0001_tables.sql");

/// The version of a database while tasks are copied into it. No program opens it.
pub(crate) const UNFINISHED: i64 = -1;
/// Creates the table that marks the target of a copy.
#[cfg(feature = "postgres")]
pub(crate) const MARKER: &str = "CREATE TABLE IF NOT EXISTS copy_progress (source TEXT NOT NULL)";
/// The sums that SQLite keeps of ended runs. Its triggers only see runs that end.
#[cfg(feature = "postgres")]
const SUMS: [&str; 4] = [
    "DELETE FROM usage",
    "DELETE FROM usage_totals",
    "INSERT INTO usage SELECT session, agent, model, tenant, SUM(runs), SUM(tool_calls),
         SUM(unpriced), SUM(input_tokens), SUM(output_tokens), SUM(cache_read_tokens),
         SUM(cache_write_tokens), SUM(cost_nanos)
     FROM ended_usage GROUP BY session, agent, model, tenant",
    "INSERT INTO usage_totals SELECT tenant, SUM(runs), SUM(tool_calls), SUM(unpriced),
         SUM(input_tokens), SUM(output_tokens), SUM(cache_read_tokens), SUM(cache_write_tokens),
         SUM(cost_nanos)
     FROM usage GROUP BY tenant",
];

/// `PRAGMA application_id` of a store: "Sort" in ASCII.
const APPLICATION_ID: i64 = 0x536f_7274;
/// The most schema differences that an error lists.
const SHOWN_DIFFERENCES: usize = 20;

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    /// A newer program wrote it.
    #[error(
        "the store has schema version {found} and this program knows versions up to {known}; \
         use the newer program that made it"
    )]
    TooNew { found: i64, known: i64 },
    /// An older program wrote it, and this connection may not migrate it.
    #[error(
        "the store has schema version {found} and this program needs version {known}; \
         bring it up to date with: sortie store migrate"
    )]
    TooOld { found: i64, known: i64 },
    /// A copy into the database was interrupted.
    #[error(
        "the database contains an unfinished copy of tasks; \
         continue it with: sortie store copy --to database"
    )]
    Unfinished,
    /// Another application created it.
    #[error(
        "the database belongs to another application (application id {application}, {tables} tables \
         and indexes); choose another folder with --home, or move it away"
    )]
    Foreign {
        application: i64,
        /// Its tables, indexes, views and triggers.
        tables: i64,
    },
    /// Tables, indexes or triggers were changed by hand.
    #[error("the tables of the store were changed: {0}; restore it from a backup")]
    Changed(String),
    /// The SQLite library has a known bug.
    #[error("the SQLite library is version {0}, which can damage a store; 3.51.3 is needed")]
    UnsafeLibrary(&'static str),
    /// The file system does not support the write-ahead log.
    #[error("the file system does not support a write-ahead log (got {0:?})")]
    NoLog(String),
}

impl From<SchemaError> for Fault {
    fn from(error: SchemaError) -> Self {
        Self::Broken(Box::new(error))
    }
}

/// Opens the database for the writer and migrates it.
pub(crate) fn open_for_writing(path: &Path) -> Done<Connection> {
    let connection = Sqlite::open(path)?;
    // Before anything is written.
    refuse_foreign(&connection)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(SchemaError::NoLog(mode).into());
    }
    prepare(&connection)?;
    migrate(&connection, MIGRATIONS)?;
    if !is_as_written(&connection)? {
        refuse_changed(&connection)?;
    }
    Ok(Connection::Sqlite(connection))
}

/// Whether the schema consists of exactly the statements of the migrations, in their order: SQLite
/// stores them word for word. `false` decides nothing; it saves building a second schema to compare
/// with, which takes longer than everything else that a start does with the store.
fn is_as_written(connection: &Sqlite) -> Done<bool> {
    let written = MIGRATIONS.concat();
    let statements = written
        .lines()
        .filter(|line| line.starts_with("CREATE "))
        .count();
    let mut found = connection.prepare(
        "SELECT sql FROM sqlite_schema
         WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid",
    )?;
    let found: Vec<String> = found
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut rest = written.as_str();
    let in_order = found.iter().all(|sql| {
        let after = rest.split_once(sql.as_str()).map(|(_, after)| after);
        rest = after.unwrap_or_default();
        // Not only the beginning of a statement.
        rest.trim_start().starts_with(';')
    });
    Ok(in_order && found.len() == statements)
}

/// Compares the schema with the one that the migrations create.
fn refuse_changed(connection: &Sqlite) -> Done<()> {
    let mut changed = differences_from(expected()?, &objects(connection)?);
    // An additional index, or a table of a backup tool, does not affect what the store writes.
    // `doctor` reports it.
    changed.retain(|what| !is_addition(what));
    if !changed.is_empty() {
        return Err(SchemaError::Changed(changed.join("; ")).into());
    }
    Ok(())
}

/// Writes the tables into a new, empty file that no other process knows. Flushes nothing: the caller
/// flushes the complete file before it gets its name.
pub(crate) fn create(path: &Path) -> Done<()> {
    let copied = || -> io::Result<()> {
        let mut file = File::options().write(true).open(path)?;
        io::copy(&mut GzDecoder::new(EMPTY), &mut file).map(|_| ())
    };
    copied().map_err(|error| Fault::Broken(error.into()))
}

/// Opens an existing database for reading; `None` if it has no tables yet.
pub(crate) fn open_for_reading(path: &Path) -> Done<Option<Connection>> {
    let Some(connection) = existing(path)? else {
        return Ok(None);
    };
    connection.pragma_update(None, "query_only", true)?;
    Ok(Some(Connection::Sqlite(connection)))
}

/// Opens an existing database beside the process that owns it, to read it or to leave a reply;
/// `None` if it has no tables yet. Does not migrate.
pub(crate) fn open_existing(path: &Path) -> Done<Option<Connection>> {
    Ok(existing(path)?.map(Connection::Sqlite))
}

fn existing(path: &Path) -> Done<Option<Sqlite>> {
    // Not SQLITE_OPEN_READ_ONLY: after a crash the first reader has to rebuild the log's index.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Sqlite::open_with_flags(path, flags)?;
    refuse_foreign(&connection)?;
    prepare(&connection)?;
    let has_tables = is_current(version(&connection)?, newest(MIGRATIONS))?;
    Ok(has_tables.then_some(connection))
}

/// Opens an empty database that lives as long as the connection.
pub(crate) fn open_in_memory() -> Done<Connection> {
    sqlite_in_memory().map(Connection::Sqlite)
}

pub(crate) fn sqlite_in_memory() -> Done<Sqlite> {
    let connection = Sqlite::open_in_memory()?;
    prepare(&connection)?;
    migrate(&connection, MIGRATIONS)?;
    Ok(connection)
}

/// Returns the tables and columns of both databases.
#[cfg(feature = "postgres")]
pub(crate) fn table_columns() -> Done<Vec<(String, String)>> {
    let memory = Sqlite::open_in_memory()?;
    memory.execute_batch(TABLES)?;
    let mut statement = memory.prepare(
        "SELECT tables.name, columns.name
         FROM sqlite_schema AS tables JOIN pragma_table_info(tables.name) AS columns
         WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite%'",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the columns of all tables of both databases, with their types.
#[cfg(feature = "postgres")]
pub(crate) fn columns_with_kinds() -> Done<BTreeMap<String, Vec<(String, Kind)>>> {
    let memory = Sqlite::open_in_memory()?;
    memory.execute_batch(TABLES)?;
    let mut statement = memory.prepare(
        "SELECT tables.name, columns.name, columns.type
         FROM sqlite_schema AS tables JOIN pragma_table_info(tables.name) AS columns
         WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite%'
         ORDER BY tables.name, columns.cid",
    )?;
    let mut rows = statement.query([])?;
    let mut found: BTreeMap<String, Vec<(String, Kind)>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (table, column, kind): (String, String, String) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let kind = match kind.as_str() {
            "INTEGER" => Kind::Integer,
            "REAL" => Kind::Real,
            "BLOB" => Kind::Blob,
            _ => Kind::Text,
        };
        found.entry(table).or_default().push((column, kind));
    }
    Ok(found)
}

/// Computes the sums that triggers maintain, after rows were inserted as they are.
#[cfg(feature = "postgres")]
pub(crate) fn sum_up(connection: &Connection) -> Done<()> {
    match connection {
        Connection::Sqlite(_) => {
            for statement in SUMS {
                sql::run(connection, statement, ())?;
            }
            Ok(())
        }
        // Views, which need nothing.
        Connection::Postgres(_) => Ok(()),
    }
}

/// Removes the marker of a copy from a file, which no process opens before it is renamed. A database keeps
/// it until the copy has been checked.
#[cfg(feature = "postgres")]
pub(crate) fn remove_marker_of_file(connection: &Connection) -> Done<()> {
    match connection {
        Connection::Sqlite(_) => sql::run(connection, "DROP TABLE copy_progress", ()).map(|_| ()),
        Connection::Postgres(_) => Ok(()),
    }
}

/// Returns the highest id that a table ever had.
#[cfg(feature = "postgres")]
pub(crate) fn last_number(connection: &Connection, table: &str) -> Done<i64> {
    let last: Option<i64> = match connection {
        Connection::Sqlite(_) => sql::first(
            connection,
            "SELECT seq FROM sqlite_sequence WHERE name = ?1",
            [table],
            |row| row.get(0),
        )?,
        Connection::Postgres(_) => sql::first(
            connection,
            "SELECT COALESCE(last_value, 0) FROM pg_sequences
             WHERE schemaname = current_schema() AND sequencename = CAST(?1 AS name)",
            [format!("{table}_id_seq")],
            |row| row.get(0),
        )?,
    };
    Ok(last.unwrap_or(0))
}

/// Makes the next id of a table follow this one.
#[cfg(feature = "postgres")]
pub(crate) fn set_last_number(connection: &Connection, table: &str, last: i64) -> Done<()> {
    if last == 0 {
        return Ok(());
    }
    match connection {
        Connection::Sqlite(_) => {
            sql::run(
                connection,
                "DELETE FROM sqlite_sequence WHERE name = ?1",
                [table],
            )?;
            let add = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
            sql::run(connection, add, sql::params![table, last])?;
        }
        Connection::Postgres(_) => {
            sql::first(
                connection,
                "SELECT setval(CAST(?1 AS regclass), ?2)",
                sql::params![format!("{table}_id_seq"), last],
                |_| Ok(()),
            )?;
        }
    }
    Ok(())
}

/// Writes a consistent copy of a database file into an empty file, beside a process that writes it.
pub(crate) fn copy_file(connection: &Connection, file: &Path) -> Done<()> {
    let path = file
        .to_str()
        .ok_or_else(|| Fault::Broken("the name of the file is not UTF-8".into()))?;
    sql::run(connection, "VACUUM INTO ?1", [path])?;
    Ok(())
}

fn prepare(connection: &Sqlite) -> Done<()> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(SchemaError::UnsafeLibrary(rusqlite::version()).into());
    }
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // Query plans must not depend on bound values. Otherwise SQLite prepares a cached statement
    // with a bound `LIMIT` again on every use.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "busy_timeout", BUSY_TIMEOUT_MS)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    Ok(())
}

fn migrate(connection: &Sqlite, migrations: &[&str]) -> Done<()> {
    let found = version(connection)?;
    refuse_newer(found, newest(migrations))?;
    let done = usize::try_from(found).unwrap_or(0);
    let missing: String = migrations.iter().skip(done).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    // One transaction: no reader or restart ever finds a store between two versions.
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;\n{missing}\nPRAGMA user_version = {};\n\
         PRAGMA application_id = {APPLICATION_ID};\nCOMMIT;",
        newest(migrations)
    ))?;
    Ok(())
}

/// Rejects a database that another application created. An empty one becomes a store.
fn refuse_foreign(connection: &Sqlite) -> Done<()> {
    let application: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if application == APPLICATION_ID {
        return Ok(());
    }
    let tables: i64 =
        connection.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == 0 && tables == 0 && version(connection)? == 0 {
        return Ok(());
    }
    Err(SchemaError::Foreign {
        application,
        tables,
    }
    .into())
}

/// Returns the tables, indexes, views and triggers that differ from what the migrations create.
pub(crate) fn differences(connection: &Connection) -> Done<Vec<String>> {
    match connection {
        Connection::Sqlite(sqlite) => Ok(differences_from(expected()?, &objects(sqlite)?)),
        #[cfg(feature = "postgres")]
        Connection::Postgres(_) => postgres_schema::differences(connection),
    }
}

fn differences_from(expected: &Objects, found: &Objects) -> Vec<String> {
    let missing_or_changed = expected
        .iter()
        .filter_map(|(name, sql)| match found.get(name) {
            None => Some(format!("{name} is missing")),
            Some(there) if there != sql => Some(format!("{name} was changed")),
            Some(_) => None,
        });
    let foreign = found
        .keys()
        .filter(|name| !expected.contains_key(*name))
        .map(|name| format!("{name} is not ours"));
    let mut differences: Vec<String> = missing_or_changed.chain(foreign).collect();
    // A missing table first: its indexes are missing because of it.
    differences.sort_by_key(|what| !what.starts_with("table "));
    differences.truncate(SHOWN_DIFFERENCES);
    differences
}

/// Runs the database's own check of pages and indexes; returns what it found.
pub(crate) fn damaged_pages(connection: &Connection) -> Done<Vec<String>> {
    match connection {
        Connection::Sqlite(_) => {
            let mut lines: Vec<String> =
                sql::all(connection, "PRAGMA quick_check(10)", (), |row| row.get(0))?;
            lines.retain(|line| line != "ok");
            Ok(lines)
        }
        // `pg_amcheck` checks pages and indexes; it needs rights that the store does not have.
        #[cfg(feature = "postgres")]
        Connection::Postgres(_) => Ok(Vec::new()),
    }
}

/// Whether a difference is an additional table or index. A trigger or a view could change what the
/// store reads and writes.
fn is_addition(difference: &str) -> bool {
    difference.ends_with(" is not ours")
        && (difference.starts_with("table ") || difference.starts_with("index "))
}

/// Opens a database in memory that has only the table `runs`.
pub(crate) fn open_for_rebuilding() -> Done<Connection> {
    let connection = Sqlite::open_in_memory()?;
    let sql = expected()?.get("table runs").and_then(Option::as_deref);
    connection.execute_batch(sql.unwrap_or_default())?;
    Ok(Connection::Sqlite(connection))
}

/// Returns the schema that the migrations create. Computed once for each process.
fn expected() -> Done<&'static Objects> {
    static EXPECTED: OnceLock<Objects> = OnceLock::new();
    if let Some(known) = EXPECTED.get() {
        return Ok(known);
    }
    let memory = Sqlite::open_in_memory()?;
    migrate(&memory, MIGRATIONS)?;
    let made = objects(&memory)?;
    Ok(EXPECTED.get_or_init(|| made))
}

/// The SQL of the objects of a schema, by type and name.
type Objects = BTreeMap<String, Option<String>>;

/// Reads every object of a schema, without SQLite's own.
fn objects(connection: &Sqlite) -> Done<Objects> {
    let mut statement = connection.prepare(
        "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the version of a database file; 0 if it has no tables.
pub(crate) fn version_of_file(path: &Path) -> Done<i64> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    version(&Sqlite::open_with_flags(path, flags)?)
}

fn version(connection: &Sqlite) -> Done<i64> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// Writes the present version again: one page in the log with its flush, and no change.
pub(crate) fn touch(connection: &Connection) -> Done<()> {
    match connection {
        Connection::Sqlite(sqlite) => {
            let version = version(sqlite)?;
            Ok(sqlite.pragma_update(None, "user_version", version)?)
        }
        #[cfg(feature = "postgres")]
        Connection::Postgres(session) => {
            session.command("UPDATE store_info SET version = version WHERE id = 1")
        }
    }
}

/// Whether a database has the newest schema; `false` if it has no tables yet.
pub(crate) fn is_current(found: i64, known: i64) -> Result<bool, SchemaError> {
    match found {
        UNFINISHED => Err(SchemaError::Unfinished),
        0 => Ok(false),
        found if found < known => Err(SchemaError::TooOld { found, known }),
        found => refuse_newer(found, known).map(|()| true),
    }
}

fn refuse_newer(found: i64, known: i64) -> Result<(), SchemaError> {
    if found > known {
        return Err(SchemaError::TooNew { found, known });
    }
    Ok(())
}

/// Returns the version of a database that has had all these migrations.
fn newest(migrations: &[&str]) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const SECOND: &str = "CREATE TABLE extra (n);";

    fn tables(connection: &Sqlite, name: &str) -> i64 {
        let counting = "SELECT COUNT(*) FROM sqlite_schema WHERE name = ?1";
        connection
            .query_row(counting, [name], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn only_missing_migrations_are_applied() {
        let connection = Sqlite::open_in_memory().unwrap();
        migrate(&connection, MIGRATIONS).unwrap();
        let all = [MIGRATIONS, &[SECOND]].concat();
        for _ in 0..2 {
            migrate(&connection, &all).unwrap();
            assert_eq!(version(&connection).unwrap(), newest(&all));
            assert_eq!(tables(&connection, "extra"), 1);
        }
        assert!(migrate(&connection, MIGRATIONS).is_err());
    }

    /// After a change of the migrations this test fails once, and writes what has to replace the file.
    #[test]
    fn the_empty_database_is_what_the_migrations_create() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("created.db");
        let connection = Sqlite::open(&path).unwrap();
        connection
            .query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
            .unwrap();
        migrate(&connection, MIGRATIONS).unwrap();
        connection.close().unwrap();
        let created = std::fs::read(&path).unwrap();
        let mut stored = Vec::new();
        GzDecoder::new(EMPTY).read_to_end(&mut stored).unwrap();
        if without_counters(&created) != without_counters(&stored) {
            let new = concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/src/migrations/empty.db.gz.new"
            );
            let mut file = GzEncoder::new(File::create(new).unwrap(), Compression::best());
            file.write_all(&created).unwrap();
            file.finish().unwrap();
            panic!("the migrations have changed; replace empty.db.gz by {new}");
        }
    }

    /// Leaves out the change counter and the version of the library, which are no part of the schema.
    fn without_counters(file: &[u8]) -> Vec<u8> {
        let mut file = file.to_vec();
        for range in [24..28, 92..100] {
            file.get_mut(range).unwrap_or_default().fill(0);
        }
        file
    }

    #[test]
    fn a_store_as_the_migrations_made_it_needs_no_comparison() {
        let connection = Sqlite::open_in_memory().unwrap();
        migrate(&connection, MIGRATIONS).unwrap();
        assert!(is_as_written(&connection).unwrap());
        let shortened = "PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = substr(sql, 1, length(sql) - 1)
            WHERE rowid = (SELECT MAX(rowid) FROM sqlite_schema)";
        let other = Sqlite::open_in_memory().unwrap();
        migrate(&other, MIGRATIONS).unwrap();
        other.execute_batch(shortened).unwrap();
        assert!(!is_as_written(&other).unwrap());
        for change in [
            "CREATE INDEX extra ON runs (run_id)",
            "DROP INDEX extra; CREATE VIEW extra AS SELECT 1",
            "DROP VIEW extra; ALTER TABLE runs ADD COLUMN extra",
        ] {
            connection.execute_batch(change).unwrap();
            assert!(!is_as_written(&connection).unwrap(), "{change}");
        }
    }

    #[test]
    fn a_failed_migration_leaves_the_earlier_version() {
        let connection = Sqlite::open_in_memory().unwrap();
        migrate(&connection, MIGRATIONS).unwrap();
        let all = [MIGRATIONS, &[SECOND, "SELECT nonsense;"]].concat();
        assert!(migrate(&connection, &all).is_err());
        connection.execute_batch("ROLLBACK").unwrap();
        assert_eq!(version(&connection).unwrap(), newest(MIGRATIONS));
        assert_eq!(tables(&connection, "extra"), 0);
    }

    #[test]
    fn readers_need_exactly_the_newest_version() {
        assert!(!is_current(0, 2).unwrap());
        assert!(is_current(2, 2).unwrap());
        assert!(matches!(
            is_current(1, 2),
            Err(SchemaError::TooOld { found: 1, known: 2 })
        ));
        assert!(matches!(
            is_current(3, 2),
            Err(SchemaError::TooNew { found: 3, known: 2 })
        ));
    }
}
