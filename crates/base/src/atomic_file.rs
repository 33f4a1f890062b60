//! The one way to replace a file: readers see the old content or the new content, also after a power
//! loss.
//!
//! The content goes to a new file beside the target, which is flushed, renamed over the target, and
//! made durable by flushing the folder. The name of the new file is random, so that two writers never
//! share it.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};

use crate::private_files::FILE_MODE;

/// Replaces a file by one that only its owner can read, independent of the umask.
///
/// A link at `path` is replaced, not followed.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    write(path, content, None)
}

/// Replaces a file that people edit: the target of a link is replaced, the link stays, and an existing
/// file keeps its permissions. A new file can be read only by its owner.
pub fn replace_followed(path: &Path, content: &[u8]) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let permissions = fs::metadata(&target).ok().map(|found| found.permissions());
    write(&target, content, permissions)
}

/// Gives a file that another writer has completed its name, durably.
pub fn rename(draft: &Path, path: &Path) -> io::Result<()> {
    File::open(draft)?.sync_all()?;
    fs::rename(draft, path)?;
    sync_parent(path)
}

/// Flushes the folder of a path: a new name survives a power loss only once its folder is on disk.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn write(path: &Path, content: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    // Only its owner can read the draft from the beginning; it is removed if a later step fails.
    let mut draft = tempfile::Builder::new()
        .prefix(".")
        .suffix(".new")
        .tempfile_in(folder_of(path))?;
    draft.write_all(content)?;
    let permissions = permissions.unwrap_or_else(|| Permissions::from_mode(FILE_MODE));
    draft.as_file().set_permissions(permissions)?;
    draft.as_file().sync_all()?;
    draft.persist(path)?;
    sync_parent(path)
}

/// A new file in an open folder, which gets its real name when its content is complete. Without a
/// rename it is removed.
#[derive(Debug)]
pub struct Draft<'a> {
    folder: BorrowedFd<'a>,
    name: &'a str,
    file: File,
    is_renamed: bool,
}

impl<'a> Draft<'a> {
    /// Creates the file with these permissions, less the umask. A file that a crash left under the
    /// same name is removed first.
    pub fn create(folder: BorrowedFd<'a>, name: &'a str, mode: u32) -> io::Result<Self> {
        unlinkat(folder, name, AtFlags::empty()).ok();
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(folder, name, flags, Mode::from_raw_mode(mode))?;
        Ok(Self {
            folder,
            name,
            file: file.into(),
            is_renamed: false,
        })
    }

    /// Returns the open file.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name in the folder; a file or link of that name is replaced.
    pub fn rename_to(mut self, name: &OsStr) -> io::Result<()> {
        renameat(self.folder, self.name, self.folder, name)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            // A file that is gone already needs no removal.
            unlinkat(self.folder, self.name, AtFlags::empty()).ok();
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_remains() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.json");
        for content in ["one", "two, longer", ""] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(mode(&path), 0o600);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folder");
        fs::create_dir(&path).unwrap();
        replace(&path, b"x").unwrap_err();
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_replace_followed_keeps_a_link_and_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        symlink("file", &link).unwrap();

        replace_followed(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(mode(&path), 0o644);
        assert!(link.is_symlink());

        replace(&link, b"own").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(!link.is_symlink());
        assert_eq!(mode(&link), 0o600);
    }
}
