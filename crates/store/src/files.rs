//! The database file: creation, permissions, and checks before it is opened.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sortie_base::atomic_file;
use sortie_base::private_files::FILE_MODE;

use crate::fault::{Done, Fault};
use crate::schema;

/// Why a database file cannot be used. A new database is renamed into place when it is complete, so
/// neither state arises from a crash.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DamagedFile {
    #[error(
        "{0} is empty: it was truncated. Restore it from a backup, or move it away to begin with an \
         empty store"
    )]
    Empty(PathBuf),
    /// The file was removed; SQLite would fill a new one from the log of the old one.
    #[error(
        "{0} is missing, but its write-ahead log is there. Restore it from a backup, or move the log \
         away to begin with an empty store"
    )]
    Missing(PathBuf),
}

/// Rejects a database that was truncated or removed. `lock` exists once a process has opened the
/// store: an empty file in a folder without it is a new store.
pub(crate) fn refuse_damaged(database: &Path, lock: &Path) -> Done<()> {
    let log = with_suffix(database, "-wal");
    let was_used = length(lock)?.is_some();
    let damaged = match (length(database)?, length(&log)?) {
        (Some(0), _) if was_used => DamagedFile::Empty(database.to_owned()),
        (None, Some(1..)) => DamagedFile::Missing(database.to_owned()),
        (Some(_), _) | (None, None | Some(0)) => return Ok(()),
    };
    Err(Fault::Broken(damaged.into()))
}

/// Creates the database of a new store under a temporary name and renames it when it is complete.
/// Only the permissions of an existing one are changed.
pub(crate) fn make_database(database: &Path) -> Done<()> {
    let broken = |error: io::Error| Fault::Broken(error.into());
    if length(database)?.unwrap_or(0) == 0 {
        let draft = with_suffix(database, ".new");
        remove_database(&draft)?;
        drop(open_private_file(&draft).map_err(broken)?);
        schema::create(&draft)?;
        atomic_file::rename(&draft, database).map_err(broken)?;
    }
    // SQLite copies the permissions of this file to its other files.
    open_private_file(database).map(drop).map_err(broken)
}

/// Creates an empty draft of a file; removes one that a crash left.
pub(crate) fn new_draft(file: &Path) -> Done<PathBuf> {
    let draft = with_suffix(file, ".new");
    remove_database(&draft)?;
    open_private_file(&draft).map_err(|error| Fault::Broken(error.into()))?;
    Ok(draft)
}

/// Creates the draft of a database into which tasks are copied, or finds the one of a copy that was
/// interrupted.
#[cfg(feature = "postgres")]
pub(crate) fn open_draft(file: &Path) -> Done<PathBuf> {
    let draft = with_suffix(file, ".copy");
    make_database(&draft)?;
    Ok(draft)
}

/// Gives a complete draft its name. The draft must be closed, and so must an empty database that it
/// replaces.
pub(crate) fn publish(draft: &Path, file: &Path) -> Done<()> {
    atomic_file::rename(draft, file).map_err(|error| Fault::Broken(error.into()))
}

fn remove_database(database: &Path) -> Done<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let removed = remove(&with_suffix(database, suffix));
        removed.map_err(|error| Fault::Broken(error.into()))?;
    }
    Ok(())
}

fn length(path: &Path) -> Done<Option<u64>> {
    match fs::symlink_metadata(path) {
        Ok(about) => Ok(Some(about.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Fault::Broken(error.into())),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Opens a file that only its owner can read; creates it if it does not exist.
pub(crate) fn open_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(FILE_MODE);
    let file = options.open(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}
