//! Opens foreign folders without following links, also while an attacker swaps folders for links.
//!
//! Every path passed to this module had no links when it was decided about: a link that is there
//! now was put there since, by an attacker who wants to redirect the writes.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use sortie_base::{beneath, exact_folder, regular_file};

use crate::error::At as _;
use crate::{Result, WorktreeError};

/// Opens a folder by a path without links.
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd> {
    match exact_folder::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(WorktreeError::Swapped(path.to_owned()))
        }
        other => other.at("open", path),
    }
}

/// Returns a path that leads to an open folder, even if it is renamed. A process that is started
/// while the folder is open may use it as its working directory.
pub(crate) fn path_of(folder: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd as _;
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// Reads a file of a folder without following links. Returns `None` for a link or anything but a
/// regular file; refuses a file longer than a limit, because its beginning could mean something
/// else.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>> {
    let Ok(file) = regular_file::open_exact(path) else {
        return Ok(None);
    };
    regular_file::read_all(file, max_bytes)
        .map(Some)
        .at("read", path)
}

/// Creates a folder beneath another, with its ancestors; none of them may be a link.
pub(crate) fn make_beneath(root: &Path, path: &Path) -> Result<()> {
    let root_folder = open_folder(root)?;
    beneath::make_folders(root_folder.as_fd(), path).at("make", &root.join(path))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(folder.path()).expect("found");
        fs::create_dir_all(root.join("real/inner")).expect("made");
        symlink("real", root.join("link")).expect("linked");
        for (path, opens) in [
            ("real", true),
            ("real/inner", true),
            ("link", false),
            ("link/inner", false),
            ("real/../real", false),
            ("missing", false),
        ] {
            assert_eq!(open_folder(&root.join(path)).is_ok(), opens, "{path}");
        }
        for (path, makes) in [("real/a/b", true), ("link/c", false), ("../d", false)] {
            let made = make_beneath(&root, Path::new(path));
            assert_eq!(made.is_ok(), makes, "{path}");
            assert_eq!(root.join(path).is_dir(), makes, "{path}");
        }
    }

    #[test]
    fn only_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(folder.path()).expect("found");
        fs::create_dir(root.join("real")).expect("made");
        fs::write(root.join("real/file"), "text").expect("written");
        symlink("real", root.join("link")).expect("linked");
        symlink("file", root.join("real/other")).expect("linked");
        for (path, text) in [
            ("real/file", Some(&b"text"[..])),
            ("real/other", None),
            ("link/file", None),
            ("real", None),
            ("missing", None),
        ] {
            let read = read_file(&root.join(path), 4).expect("no failure");
            assert_eq!(read.as_deref(), text, "{path}");
        }
        read_file(&root.join("real/file"), 3).expect_err("a part is not the file");
    }

    #[test]
    fn an_open_folder_is_found_after_its_name_was_reused() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(folder.path()).expect("found");
        fs::create_dir(root.join("sub")).expect("made");
        let folder = open_folder(&root.join("sub")).expect("opened");
        fs::rename(root.join("sub"), root.join("away")).expect("moved");
        symlink("/", root.join("sub")).expect("linked");
        let real = fs::canonicalize(path_of(&folder));
        assert_eq!(real.expect("found"), root.join("away"));
    }
}
