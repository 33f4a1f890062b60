//! Copies all rows of a store into another database, and checks that both are equal and sound.
//!
//! Tables are copied after those that they reference, in the order of their keys, in batches that are
//! one transaction each. A copy that was killed therefore continues after the last key that is there.
//! The marker table `copy_progress` in the target contains the digest of the source: a copy of another
//! source, or of one that has changed since, begins again.

use std::fmt::Write as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use sortie_core::ports::store::StoreResult;

use crate::backup::{self, CopyError, CopyProgress, CopyReport};
use crate::chain::Hash;
use crate::execute::transact;
use crate::fault::{Done, Fault};
use crate::lock::Owner;
use crate::sql::target::Target;
use crate::sql::{self, Begin, Bind, Connection, Kind, OwnedValue, Row, Value};
use crate::transitions::rebuild::Fold;
use crate::{DATABASE, LOCK, files, postgres_schema, schema};

/// Rows that one statement inserts. Below the limits on parameters of both databases.
const ROWS_PER_STATEMENT: usize = 32;
/// The most rows of a batch, and the most of tables whose rows contain whole outputs.
const MANY: usize = 512;
const FEW: usize = 32;

/// A table, with the columns that order its rows.
struct Table {
    name: &'static str,
    key: &'static [&'static str],
    rows_per_batch: usize,
}

const fn table(name: &'static str, key: &'static [&'static str], rows_per_batch: usize) -> Table {
    Table {
        name,
        key,
        rows_per_batch,
    }
}

/// All tables of both databases, each after those that it references.
const TABLES: [Table; 25] = [
    table("runs", &["run_id"], MANY),
    table("trees", &["root_id"], MANY),
    table("snapshots", &["session", "tenant"], FEW),
    table("journal", &["run_id", "seq"], MANY),
    table("archives", &["run_id"], FEW),
    table("inbox", &["id"], MANY),
    table("outbox", &["id"], MANY),
    table("letters", &["id"], MANY),
    table("blobs", &["run_id", "id"], FEW),
    table("requests", &["id"], MANY),
    table("mailbox", &["id"], MANY),
    table("grants", &["tenant", "session", "rule"], MANY),
    table("accounts", &["account_id"], MANY),
    table("account_lines", &["account_id", "kind"], MANY),
    table("reservations", &["run_id"], MANY),
    table(
        "usage_days",
        &["day", "tenant", "agent", "model", "shard"],
        MANY,
    ),
    table("tenants", &["tenant"], MANY),
    table("tenant_days", &["tenant", "day", "shard"], MANY),
    table("tenant_storage", &["tenant", "shard"], MANY),
    table("tenant_turns", &["lane", "tenant"], MANY),
    table("audit", &["seq"], MANY),
    table("audit_head", &["id"], MANY),
    table("lineage", &["run_id"], MANY),
    table("once", &["key"], FEW),
    table(
        "deleted_usage",
        &["session", "agent", "model", "tenant"],
        MANY,
    ),
];

/// Tables whose ids the database assigns.
const NUMBERED: [&str; 4] = ["inbox", "outbox", "letters", "mailbox"];

/// The stores of a copy: the file in a home folder, and a database.
#[derive(Clone, Copy, Debug)]
pub struct CopyStores<'a> {
    pub home: &'a Path,
    pub target: &'a Target,
    /// This process, which locks both.
    pub owner: &'a Owner,
    pub fold: Fold,
}

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyTo {
    /// From the file in the home folder to the database.
    Database,
    /// From the database to the file in the home folder.
    File,
}

/// Copies all tasks, and checks the copy. Fails while another process owns one of the stores, and if
/// the target contains tasks that are not part of an interrupted copy. The source stays as it is.
/// Blocks, so an async thread must not call it.
pub fn copy(
    stores: CopyStores<'_>,
    to: CopyTo,
    progress: &mut dyn FnMut(CopyProgress),
) -> StoreResult<CopyReport> {
    let lock = crate::lock_home(stores.home, stores.owner)?;
    let copied = match to {
        CopyTo::Database => to_database(stores, progress),
        CopyTo::File => to_file(stores, progress),
    };
    drop(lock);
    copied.map_err(|fault| fault.while_doing("copy the tasks"))
}

/// Copies a database into a new file, as it is at this moment, and checks the copy. Blocks, so an
/// async thread must not call it.
pub fn back_up_database(
    target: &Target,
    file: &Path,
    fold: Fold,
    progress: &mut dyn FnMut(CopyProgress),
) -> StoreResult<CopyReport> {
    let copied = (|| {
        let source = postgres_schema::open_existing(target)?
            .ok_or_else(|| CopyError::NoSource(target.to_string()))?;
        backup::into_new_file(file, |draft| {
            schema::create(draft)?;
            let copy = schema::open_for_writing(draft)?;
            Copier {
                source: &source,
                target: &copy,
                fold,
                progress,
            }
            .run()
        })
    })();
    copied.map_err(|fault: Fault| fault.while_doing("back up the tasks"))
}

fn to_database(stores: CopyStores<'_>, progress: &mut dyn FnMut(CopyProgress)) -> Done<CopyReport> {
    let file = stores.home.join(DATABASE);
    files::refuse_damaged(&file, &stores.home.join(LOCK))?;
    if !file.exists() {
        return Err(CopyError::NoSource(file.display().to_string()).into());
    }
    let source = schema::open_for_writing(&file)?;
    let target = postgres_schema::open_for_copy(stores.target, stores.owner)?;
    if !postgres_schema::is_unfinished(&target)? {
        refuse_used(&target, &stores.target.to_string())?;
        postgres_schema::begin_copy(&target)?;
    }
    let report = Copier {
        source: &source,
        target: &target,
        fold: stores.fold,
        progress,
    }
    .run()?;
    postgres_schema::end_copy(&target)?;
    Ok(report)
}

fn to_file(stores: CopyStores<'_>, progress: &mut dyn FnMut(CopyProgress)) -> Done<CopyReport> {
    let file = stores.home.join(DATABASE);
    files::refuse_damaged(&file, &stores.home.join(LOCK))?;
    if file.exists() {
        refuse_used(
            &schema::open_for_writing(&file)?,
            &file.display().to_string(),
        )?;
    }
    if postgres_schema::open_existing(stores.target)?.is_none() {
        return Err(CopyError::NoSource(stores.target.to_string()).into());
    }
    let source = postgres_schema::open_as_source(stores.target, stores.owner)?;
    let draft = files::open_draft(&file)?;
    let target = schema::open_for_writing(&draft)?;
    let report = Copier {
        source: &source,
        target: &target,
        fold: stores.fold,
        progress,
    }
    .run()?;
    // Closing the only connection moves the log into the file.
    drop(target);
    files::publish(&draft, &file)?;
    Ok(report)
}

/// A copy from one connection to another. No other process writes either of them.
struct Copier<'a> {
    source: &'a Connection,
    target: &'a Connection,
    fold: Fold,
    progress: &'a mut dyn FnMut(CopyProgress),
}

impl Copier<'_> {
    /// Copies everything into a target that is empty or contains a part of a copy. The target keeps
    /// its marker if the database is PostgreSQL: the caller removes it when it opens the target for
    /// tasks.
    fn run(&mut self) -> Done<CopyReport> {
        // One snapshot of the source for everything that follows.
        self.source.begin(Begin::Reading)?;
        let copied = self.copy();
        self.source.roll_back();
        copied
    }

    fn copy(&mut self) -> Done<CopyReport> {
        let layouts = layouts()?;
        let mut digests = Vec::new();
        for layout in &layouts {
            let table = layout.table.name;
            (self.progress)(CopyProgress::Reading { table });
            digests.push(digest(self.source, layout, self.target)?);
        }
        let continued = self.prepare(&fingerprint(&digests))?;
        for layout in &layouts {
            self.copy_table(layout)?;
        }
        transact(self.target, Begin::Writing, |target| {
            number_like(self.source, target)?;
            schema::sum_up(target)
        })?;
        (self.progress)(CopyProgress::Checking);
        for (layout, expected) in layouts.iter().zip(&digests) {
            if digest(self.target, layout, self.target)? != *expected {
                return Err(CopyError::Different(layout.table.name).into());
            }
        }
        schema::remove_marker_of_file(self.target)?;
        let report = backup::check(self.target, self.fold)?;
        Ok(CopyReport {
            continued,
            ..report
        })
    }

    /// Empties the target, unless it contains a part of a copy of this source.
    fn prepare(&self, fingerprint: &str) -> Done<bool> {
        transact(self.target, Begin::Writing, |target| {
            sql::run(target, schema::MARKER, ())?;
            let found: Option<String> =
                sql::first(target, "SELECT source FROM copy_progress", (), |row| {
                    row.get(0)
                })?;
            if found.as_deref() == Some(fingerprint) {
                return Ok(true);
            }
            for table in TABLES.iter().rev() {
                sql::run(target, &format!("DELETE FROM {}", table.name), ())?;
            }
            sql::run(target, "DELETE FROM copy_progress", ())?;
            sql::run(
                target,
                "INSERT INTO copy_progress (source) VALUES (?1)",
                [fingerprint],
            )?;
            Ok(false)
        })
    }

    fn copy_table(&mut self, layout: &Layout) -> Done<()> {
        let table = layout.table.name;
        let counting = format!("SELECT COUNT(*) FROM {table}");
        let mut rows = sql::count(self.target, &counting, ())?;
        let mut last = layout.last_key(self.target)?;
        loop {
            let page = layout.page(self.source, last.as_deref())?;
            let Some(end) = page.last() else {
                break;
            };
            last = Some(layout.key_of(end));
            transact(self.target, Begin::Writing, |target| {
                layout.insert(target, &page)
            })?;
            rows += page.len() as u64;
            (self.progress)(CopyProgress::Copying { table, rows });
        }
        Ok(())
    }
}

/// Rejects a target that contains tasks or an audit.
fn refuse_used(connection: &Connection, place: &str) -> Done<()> {
    let tasks = sql::count(connection, "SELECT COUNT(*) FROM runs", ())?;
    let audited = sql::count(connection, "SELECT COUNT(*) FROM audit", ())?;
    if tasks + audited > 0 {
        let place = place.to_owned();
        return Err(CopyError::InUse { place, tasks }.into());
    }
    Ok(())
}

/// A value with the type of its column, which a null needs too.
struct Cell {
    kind: Kind,
    value: OwnedValue,
}

impl Bind for Cell {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn value(&self) -> Value<'_> {
        match &self.value {
            OwnedValue::Null => Value::Null,
            OwnedValue::Integer(number) => Value::Integer(*number),
            OwnedValue::Real(number) => Value::Real(*number),
            OwnedValue::Text(text) => Value::Text(text),
            OwnedValue::Blob(bytes) => Value::Blob(bytes),
        }
    }
}

/// A table with its columns.
struct Layout {
    table: &'static Table,
    columns: Vec<(String, Kind)>,
}

fn layouts() -> Done<Vec<Layout>> {
    let mut columns = schema::columns_with_kinds()?;
    let layouts = TABLES.iter().map(|table| Layout {
        table,
        columns: columns.remove(table.name).unwrap_or_default(),
    });
    Ok(layouts.collect())
}

impl Layout {
    fn names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    }

    fn read(&self, row: &Row<'_>) -> Done<Vec<Cell>> {
        let cells = self.columns.iter().enumerate();
        cells
            .map(|(position, (_, kind))| {
                Ok(Cell {
                    kind: *kind,
                    value: row.get(position)?,
                })
            })
            .collect()
    }

    /// Reads the next rows after a key, or the first ones.
    fn page(&self, connection: &Connection, after: Option<&[Cell]>) -> Done<Vec<Vec<Cell>>> {
        let key = self.table.key.join(", ");
        let mut statement = format!("SELECT {} FROM {}", self.names(), self.table.name);
        let after = after.unwrap_or_default();
        if !after.is_empty() {
            let marks = vec!["?"; after.len()].join(", ");
            // Writing to a string cannot fail.
            write!(statement, " WHERE ({key}) > ({marks})").ok();
        }
        let limit = self.table.rows_per_batch;
        write!(statement, " ORDER BY {key} LIMIT {limit}").ok();
        let after: Vec<&dyn Bind> = after.iter().map(|cell| cell as &dyn Bind).collect();
        sql::all(connection, &statement, after.as_slice(), |row| {
            self.read(row)
        })
    }

    fn key_of(&self, row: &[Cell]) -> Vec<Cell> {
        let position = |name: &&str| self.columns.iter().position(|(column, _)| column == name);
        let cells = self.table.key.iter().filter_map(position);
        cells
            .filter_map(|position| row.get(position))
            .map(|cell| Cell {
                kind: cell.kind,
                value: cell.value.clone(),
            })
            .collect()
    }

    fn last_key(&self, connection: &Connection) -> Done<Option<Vec<Cell>>> {
        let backwards: Vec<String> = self
            .table
            .key
            .iter()
            .map(|column| format!("{column} DESC"))
            .collect();
        let statement = format!(
            "SELECT {} FROM {} ORDER BY {} LIMIT 1",
            self.names(),
            self.table.name,
            backwards.join(", ")
        );
        let last = sql::first(connection, &statement, (), |row| self.read(row))?;
        Ok(last.map(|row| self.key_of(&row)))
    }

    fn insert(&self, connection: &Connection, rows: &[Vec<Cell>]) -> Done<()> {
        let mut chunks = rows.chunks_exact(ROWS_PER_STATEMENT);
        for chunk in chunks.by_ref() {
            self.insert_together(connection, chunk)?;
        }
        // One by one, so that there are two statements for each table and not one for each number.
        for row in chunks.remainder().chunks(1) {
            self.insert_together(connection, row)?;
        }
        Ok(())
    }

    fn insert_together(&self, connection: &Connection, rows: &[Vec<Cell>]) -> Done<()> {
        let marks = format!("({})", vec!["?"; self.columns.len()].join(", "));
        let statement = format!(
            "INSERT INTO {} ({}) VALUES {}",
            self.table.name,
            self.names(),
            vec![marks.as_str(); rows.len()].join(", ")
        );
        let values: Vec<&dyn Bind> = rows
            .iter()
            .flatten()
            .map(|cell| cell as &dyn Bind)
            .collect();
        sql::run(connection, &statement, values.as_slice())?;
        Ok(())
    }
}

/// Returns the number of rows and a hash over their values, as `store` stores them.
fn digest(connection: &Connection, layout: &Layout, store: &Connection) -> Done<(u64, Hash)> {
    let mut hasher = Sha256::new();
    let mut rows = 0_u64;
    let mut last: Option<Vec<Cell>> = None;
    loop {
        let page = layout.page(connection, last.as_deref())?;
        let Some(end) = page.last() else {
            break;
        };
        last = Some(layout.key_of(end));
        rows += page.len() as u64;
        for cell in page.into_iter().flatten() {
            hash_value(&mut hasher, &store.stored(cell.value));
        }
    }
    Ok((rows, hasher.finalize().into()))
}

/// Hashes a value with its type and length, so that no two rows give the same bytes.
fn hash_value(hasher: &mut Sha256, value: &OwnedValue) {
    let (kind, bytes): (u8, &[u8]) = match value {
        OwnedValue::Null => (0, &[]),
        OwnedValue::Integer(number) => (1, &number.to_be_bytes()),
        OwnedValue::Real(number) => (2, &number.to_be_bytes()),
        OwnedValue::Text(text) => (3, text.as_bytes()),
        OwnedValue::Blob(bytes) => (4, bytes),
    };
    hasher.update([kind]);
    hasher.update((bytes.len() as u64).to_be_bytes());
    hasher.update(bytes);
}

fn fingerprint(digests: &[(u64, Hash)]) -> String {
    let mut hasher = Sha256::new();
    for (rows, hash) in digests {
        hasher.update(rows.to_be_bytes());
        hasher.update(hash);
    }
    let mut words = String::new();
    for byte in hasher.finalize() {
        write!(words, "{byte:02x}").ok();
    }
    words
}

/// Continues the numbers of the source, so that no id of a deleted row is used again.
fn number_like(source: &Connection, target: &Connection) -> Done<()> {
    for table in NUMBERED {
        let last = schema::last_number(source, table)?;
        schema::set_last_number(target, table, last)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_table_is_copied() {
        let found: BTreeSet<String> = schema::columns_with_kinds().unwrap().into_keys().collect();
        let copied: BTreeSet<String> = TABLES.iter().map(|table| table.name.to_owned()).collect();
        assert_eq!(found, copied);
    }

    #[test]
    fn values_of_different_types_have_different_hashes() {
        let hash = |values: &[OwnedValue]| {
            let mut hasher = Sha256::new();
            for value in values {
                hash_value(&mut hasher, value);
            }
            Hash::from(hasher.finalize())
        };
        let text = |words: &str| OwnedValue::Text(words.to_owned());
        assert_ne!(
            hash(&[text("ab"), text("c")]),
            hash(&[text("a"), text("bc")])
        );
        assert_ne!(hash(&[text("")]), hash(&[OwnedValue::Null]));
        assert_ne!(hash(&[text("a")]), hash(&[OwnedValue::Blob(b"a".to_vec())]));
    }
}
