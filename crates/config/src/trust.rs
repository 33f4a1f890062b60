//! Which folders the user trusts: kept outside every workspace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::file;

/// The layout of the file.
const VERSION: u32 = 1;
/// Nobody trusts more folders than this fills.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Who may write besides the owner.
#[cfg(unix)]
const OTHERS_WRITE: u32 = 0o022;

/// The trusted folders.
#[derive(Debug)]
pub struct TrustStore {
    file: PathBuf,
    folders: Vec<PathBuf>,
}

/// What became of taking trust away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// It is not trusted any more.
    Removed,
    /// It was not trusted.
    NotThere,
}

/// Why trust could not be read or changed. Until it can, nothing is trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file cannot be read or replaced.
    #[error("cannot use {}; until it can be, no folder is trusted", file.display())]
    Unusable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not what was written.
    #[error(
        "{} is damaged; no folder is trusted. Repair it, or remove it to begin anew",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// How.
        source: serde_json::Error,
    },
    /// Written by a later Sortie, too large, or not a list of absolute paths.
    #[error(
        "{} is not a list of folders that this version understands; no folder is trusted",
        file.display()
    )]
    NotUnderstood {
        /// The file.
        file: PathBuf,
    },
    /// Somebody else may have written it.
    #[error(
        "{} can be written by other users; no folder is trusted. Check it, then `chmod 600` it",
        file.display()
    )]
    Writable {
        /// The file.
        file: PathBuf,
    },
    /// The folder is not there, or no folder.
    #[error("cannot trust {}", folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A path that JSON cannot hold.
    #[error("cannot trust {}: its path is not UTF-8", folder.display())]
    NotText {
        /// The folder.
        folder: PathBuf,
    },
}

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    folders: Vec<String>,
}

impl TrustStore {
    /// Reads the file; one that does not exist trusts nothing.
    pub fn open(file: &Path) -> Result<Self, TrustError> {
        Ok(Self {
            file: file.to_owned(),
            folders: read(file)?,
        })
    }

    /// Trusts a folder, by the path that links in it lead to. Returns that path.
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

    /// Takes trust away from a folder, also from one that is gone.
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

    /// Whether a folder is trusted, by itself. A folder inside a trusted one is not: an agent that
    /// works in the trusted one can write settings there.
    pub fn is_trusted(&self, folder: &Path) -> bool {
        existing_folder(folder).is_ok_and(|folder| self.folders.contains(&folder))
    }

    /// The trusted folders, in order.
    pub fn list(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Reads, changes and replaces the file, one process at a time.
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

/// Held while the file is changed. Beside it, as the file itself is replaced.
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

#[cfg(unix)]
fn others_may_write(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & OTHERS_WRITE != 0
}

#[cfg(not(unix))]
fn others_may_write(_: &fs::Metadata) -> bool {
    false
}

fn written(file: &Path, folders: &[PathBuf]) -> Result<String, TrustError> {
    // Paths that are not text were refused before they came here.
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
