//! Backups: a database file that contains everything, made while another process may write.

use std::path::Path;

use crate::fault::{Done, Fault};
use crate::files;
use crate::schema;
use crate::sql::Connection;
use crate::transitions::rebuild::Fold;
use crate::transitions::{audit, verify};

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyProgress {
    /// Reading the source, to recognise it after an interruption.
    Reading { table: &'static str },
    /// Rows of this table that are in the target.
    Copying { table: &'static str, rows: u64 },
    /// Comparing both, and checking the journals and the audit of the copy.
    Checking,
}

/// What a complete copy of a store contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyReport {
    pub tasks: u64,
    /// Journal entries.
    pub entries: u64,
    /// Audit entries.
    pub audit: u64,
    /// Whether an interrupted copy was continued.
    pub continued: bool,
}

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error("there are no tasks in {0}")]
    NoSource(String),
    #[error("{0} exists already; choose another name")]
    Exists(String),
    #[error("the tasks are damaged: {0}; `sortie doctor` shows more")]
    Damaged(String),
    #[cfg(feature = "postgres")]
    #[error("{place} already contains {tasks} tasks; copy into an empty one, or move it away")]
    InUse { place: String, tasks: u64 },
    #[cfg(feature = "postgres")]
    #[error("the rows of the table {0} differ from the source")]
    Different(&'static str),
}

impl From<CopyError> for Fault {
    fn from(error: CopyError) -> Self {
        Self::Broken(Box::new(error))
    }
}

/// Writes a consistent copy of a database file to a new file, and checks it.
pub(crate) fn back_up_file(database: &Path, file: &Path, fold: Fold) -> Done<CopyReport> {
    let missing = || CopyError::NoSource(database.display().to_string());
    if !database.exists() {
        return Err(missing().into());
    }
    let source = schema::open_existing(database)?.ok_or_else(missing)?;
    into_new_file(file, |draft| {
        schema::copy_file(&source, draft)?;
        let copy = schema::open_for_reading(draft)?.ok_or_else(missing)?;
        check(&copy, fold)
    })
}

/// Fills a new file under a temporary name, and renames it when it is complete.
pub(crate) fn into_new_file<T>(file: &Path, fill: impl FnOnce(&Path) -> Done<T>) -> Done<T> {
    if file.exists() {
        return Err(CopyError::Exists(file.display().to_string()).into());
    }
    let draft = files::new_draft(file)?;
    let filled = fill(&draft)?;
    files::publish(&draft, file)?;
    Ok(filled)
}

/// Checks the chains of all journals and of the audit.
pub(crate) fn check(connection: &Connection, fold: Fold) -> Done<CopyReport> {
    let journals = verify::verify(connection, Some(fold))?;
    let audited = audit::verify(connection)?;
    let mut problems = journals.problems.iter().chain(&audited.problems);
    if let Some(problem) = problems.next() {
        return Err(CopyError::Damaged(problem.clone()).into());
    }
    Ok(CopyReport {
        tasks: journals.runs,
        entries: journals.entries,
        audit: audited.entries,
        continued: false,
    })
}
