//! Folders by open descriptor, so that a read returns the entry that the search found.
//!
//! Every path is resolved beneath a descriptor: a symbolic link may point to another path in the
//! folder, and nowhere else.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, openat};
use rustix::io::Errno;
use sortie_base::beneath::{FILE_FLAGS, FOLDER_FLAGS, Resolver};
use sortie_base::{exact_folder, regular_file};

/// Limit of entries that are read of one folder.
pub(crate) const MAX_ENTRIES: usize = 4_096;

/// A folder, opened by descriptor.
#[derive(Debug)]
pub(crate) struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// Why something in a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// The path does not exist.
    #[error("it does not exist")]
    Missing,
    /// The path leads out of the folder.
    #[error("it leads out of {}, which is not allowed", .0.display())]
    Outside(PathBuf),
    /// A pipe, a socket, a device, or a folder instead of a file.
    #[error("it is not a regular file")]
    NotAFile,
    /// Larger than the limit.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// The file is not UTF-8.
    #[error("it is not text in UTF-8")]
    NotText,
    /// An error of the operating system.
    #[error("it cannot be opened: {0}")]
    System(std::io::Error),
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    /// The type; links are not followed.
    pub(crate) kind: Kind,
}

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    Other,
}

impl Folder {
    /// Opens a folder that a trusted source named; links in its path are followed.
    pub(crate) fn open(path: &Path) -> Result<Self, FolderError> {
        let descriptor =
            openat(CWD, path, FOLDER_FLAGS, Mode::empty()).map_err(|errno| explain(errno, path))?;
        Self::named(descriptor, path)
    }

    /// Opens a folder by a path that no symbolic link may be part of.
    pub(crate) fn open_exact(path: &Path) -> Result<Self, FolderError> {
        let descriptor = exact_folder::open(path).map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                FolderError::Missing
            } else if error.kind() == ErrorKind::NotADirectory {
                FolderError::Outside(path.to_owned())
            } else {
                FolderError::System(error)
            }
        })?;
        Ok(Self {
            descriptor,
            path: path.to_owned(),
        })
    }

    /// Opens a folder in this one.
    pub(crate) fn folder(&self, path: &Path) -> Result<Self, FolderError> {
        let descriptor = self.open_beneath(path, FOLDER_FLAGS)?;
        Self::named(descriptor, &self.path.join(path))
    }

    /// Reads a text file in this folder, of at most `max_bytes`.
    pub(crate) fn read(&self, path: &Path, max_bytes: u64) -> Result<String, FolderError> {
        let descriptor = self.open_beneath(path, FILE_FLAGS)?;
        let bytes = regular_file::checked(descriptor)
            .and_then(|file| regular_file::read_all(file, max_bytes))
            .map_err(|error| {
                if error.kind() == ErrorKind::InvalidInput {
                    FolderError::NotAFile
                } else if error.kind() == ErrorKind::FileTooLarge {
                    FolderError::TooLarge(max_bytes)
                } else {
                    FolderError::System(error)
                }
            })?;
        String::from_utf8(bytes).map_err(|_| FolderError::NotText)
    }

    /// Returns the entries, sorted by name; `true` if there are more than the limit.
    pub(crate) fn entries(&self) -> Result<(Vec<Entry>, bool), FolderError> {
        let failed = |errno| explain(errno, &self.path);
        let mut entries = Vec::new();
        let mut more = false;
        for item in Dir::read_from(&self.descriptor).map_err(failed)? {
            let item = item.map_err(failed)?;
            let name = OsStr::from_bytes(item.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() == MAX_ENTRIES {
                more = true;
                break;
            }
            entries.push(Entry {
                name: name.to_owned(),
                kind: self.kind(name, item.file_type()),
            });
        }
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok((entries, more))
    }

    /// Returns its path, without symbolic links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether both are the same folder.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let identity = |folder: &Self| {
            let stat = rustix::fs::fstat(&folder.descriptor).ok()?;
            Some((stat.st_dev, stat.st_ino))
        };
        identity(self).is_some_and(|own| identity(other) == Some(own))
    }

    /// Names an open folder by its real path. Opening that path again without following links
    /// gives the same folder, or nothing.
    fn named(descriptor: OwnedFd, path: &Path) -> Result<Self, FolderError> {
        let path = std::fs::canonicalize(path).map_err(FolderError::System)?;
        let found = Self::open_exact(&path)?;
        let opened = Self { descriptor, path };
        if opened.is_same(&found) {
            return Ok(opened);
        }
        let moved = std::io::Error::other("it was moved while it was opened");
        Err(FolderError::System(moved))
    }

    fn open_beneath(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, FolderError> {
        let root = self.descriptor.as_fd();
        Resolver::detect(root)
            .open(root, path, flags)
            .map_err(|errno| explain(errno, &self.path))
    }

    fn kind(&self, name: &OsStr, known: FileType) -> Kind {
        let mut file_type = known;
        // Some file systems do not report the type in a listing.
        if known == FileType::Unknown
            && let Ok(stat) = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)
        {
            file_type = FileType::from_raw_mode(stat.st_mode as RawMode);
        }
        match file_type {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Kind::Other,
        }
    }
}

fn explain(errno: Errno, folder: &Path) -> FolderError {
    match errno {
        Errno::NOENT | Errno::NOTDIR => FolderError::Missing,
        // LOOP: a link where none is allowed, or a cycle of links.
        Errno::XDEV | Errno::LOOP => FolderError::Outside(folder.to_owned()),
        Errno::NXIO => FolderError::NotAFile,
        other => FolderError::System(other.into()),
    }
}

#[cfg(test)]
mod tests;
