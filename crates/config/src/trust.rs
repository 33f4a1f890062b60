//! The folders that the user trusts, stored outside every workspace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sortie_base::private_files::others_may_write;

use crate::file;

/// The version of the file format.
const VERSION: u32 = 1;
/// The most bytes that are read: more than any list of trusted folders needs.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The trusted folders, and the file that stores them.
#[derive(Debug)]
pub struct TrustStore {
    file: PathBuf,
    folders: Vec<PathBuf>,
}

/// The outcome of [`TrustStore::revoke`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// The folder was trusted and no longer is.
    Removed,
    /// The folder was not trusted.
    NotThere,
}

/// Why the trust file could not be read or changed. While it cannot be read, no folder is trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file cannot be read or written.
    #[error("cannot use {}; until it can be, no folder is trusted", file.display())]
    Unusable { file: PathBuf, source: io::Error },
    /// The file is not the JSON that [`TrustStore`] writes.
    #[error(
        "{} is damaged; no folder is trusted. Repair the file, or delete it and run `sortie trust` again",
        file.display()
    )]
    Damaged {
        file: PathBuf,
        source: serde_json::Error,
    },
    /// The file was written by a later version, is too large, or is not a list of absolute paths.
    #[error(
        "{} has a format that this version cannot read; no folder is trusted. Delete the file and run `sortie trust` again",
        file.display()
    )]
    NotUnderstood { file: PathBuf },
    /// Another user may have written the file.
    #[error(
        "{} is writable by other users; no folder is trusted. Check its content, then run `chmod 600` on it",
        file.display()
    )]
    Writable { file: PathBuf },
    /// The folder does not exist or is not a folder.
    #[error("cannot trust {}", folder.display())]
    NoFolder { folder: PathBuf, source: io::Error },
    /// The folder's path is not UTF-8, so JSON cannot represent it.
    #[error("cannot trust {}: its path is not UTF-8", folder.display())]
    NotText { folder: PathBuf },
}

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    folders: Vec<String>,
}

impl TrustStore {
    /// Reads the file. Without a file no folder is trusted.
    pub fn open(file: &Path) -> Result<Self, TrustError> {
        Ok(Self {
            file: file.to_owned(),
            folders: read(file)?,
        })
    }

    /// Trusts a folder under its canonical path, with links resolved. Returns that path.
    pub fn trust(&mut self, folder: &Path) -> Result<PathBuf, TrustError> {
        let folder = existing_folder(folder)?;
        if folder.to_str().is_none() {
            return Err(TrustError::NotText { folder });
        }
        self.change(|folders| {
            if !folders.contains(&folder) {
                folders.push(folder.clone());
                folders.sort();
            }
        })?;
        Ok(folder)
    }

    /// Revokes the trust in a folder, even if the folder no longer exists.
    pub fn revoke(&mut self, folder: &Path) -> Result<Revoked, TrustError> {
        let path = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let mut removed = false;
        self.change(|folders| {
            let before = folders.len();
            folders.retain(|trusted| *trusted != path);
            removed = folders.len() < before;
        })?;
        Ok(if removed {
            Revoked::Removed
        } else {
            Revoked::NotThere
        })
    }

    /// Returns whether this exact folder is trusted. A folder inside a trusted one is not: an agent
    /// that works in the trusted one can write settings there.
    pub fn is_trusted(&self, folder: &Path) -> bool {
        existing_folder(folder).is_ok_and(|folder| self.folders.contains(&folder))
    }

    /// Returns the trusted folders, sorted.
    pub fn list(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Reads, changes and replaces the file under a lock that excludes other processes.
    fn change(&mut self, change: impl FnOnce(&mut Vec<PathBuf>)) -> Result<(), TrustError> {
        let unusable = |source| TrustError::Unusable {
            file: self.file.clone(),
            source,
        };
        let lock = lock(&self.file).map_err(unusable)?;
        let before = read(&self.file)?;
        let mut folders = before.clone();
        change(&mut folders);
        if folders != before {
            let text = written(&self.file, &folders)?;
            file::replace(&self.file, &text).map_err(unusable)?;
        }
        self.folders = folders;
        drop(lock);
        Ok(())
    }
}

fn existing_folder(folder: &Path) -> Result<PathBuf, TrustError> {
    let missing = |source| TrustError::NoFolder {
        folder: folder.to_owned(),
        source,
    };
    let path = fs::canonicalize(folder).map_err(missing)?;
    if !path.is_dir() {
        return Err(missing(io::ErrorKind::NotADirectory.into()));
    }
    Ok(path)
}

/// Locks a file beside the trust file: a change replaces the trust file itself.
fn lock(file: &Path) -> io::Result<File> {
    if let Some(folder) = file.parent() {
        sortie_base::private_files::make_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false);
    let lock = options.open(file.with_extension("lock"))?;
    lock.lock()?;
    Ok(lock)
}

fn read(file: &Path) -> Result<Vec<PathBuf>, TrustError> {
    let file_of = || file.to_owned();
    let unusable = |source| TrustError::Unusable {
        file: file_of(),
        source,
    };
    let metadata = match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        metadata => metadata.map_err(unusable)?,
    };
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err(TrustError::NotUnderstood { file: file_of() });
    }
    if others_may_write(&metadata) {
        return Err(TrustError::Writable { file: file_of() });
    }
    let bytes = fs::read(file).map_err(unusable)?;
    let written: Written = serde_json::from_slice(&bytes).map_err(|source| {
        let file = file_of();
        TrustError::Damaged { file, source }
    })?;
    let folders: Vec<PathBuf> = written.folders.into_iter().map(PathBuf::from).collect();
    if written.version != VERSION || !folders.iter().all(|folder| folder.is_absolute()) {
        return Err(TrustError::NotUnderstood { file: file_of() });
    }
    Ok(folders)
}

fn written(file: &Path, folders: &[PathBuf]) -> Result<String, TrustError> {
    // Paths that are not UTF-8 were rejected earlier.
    let folders = folders.iter().map(|folder| folder.display().to_string());
    let written = Written {
        version: VERSION,
        folders: folders.collect(),
    };
    serde_json::to_string_pretty(&written)
        .map(|text| text + "\n")
        .map_err(|source| TrustError::Damaged {
            file: file.to_owned(),
            source,
        })
}
