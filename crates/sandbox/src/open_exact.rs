//! Opens files without following links, also while another process swaps folders for links.
//!
//! Every path passed to this module is canonical, so a link on the way was put there by another
//! process after the path was checked.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use sortie_base::exact_folder;

/// A name in a folder that is open.
#[derive(Debug)]
pub(crate) struct Reached {
    /// Keeps the folder open, even if it is renamed.
    _folder: OwnedFd,
    path: PathBuf,
}

impl AsRef<Path> for Reached {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Opens a folder for listing, by a path without links: a link that was put anywhere on the path
/// since the check is not followed.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    exact_folder::open(path)
}

/// Opens the parent folder of a path; the last name need not exist, and may be that of a link.
pub(crate) fn reach(path: &Path) -> io::Result<Reached> {
    use std::os::fd::AsRawFd as _;
    let parts = path.parent().zip(path.file_name());
    let (folder, name) = parts.ok_or(io::ErrorKind::InvalidInput)?;
    let folder = exact_folder::pass(folder)?;
    let descriptor_path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    Ok(Reached {
        _folder: folder,
        path: descriptor_path.join(name),
    })
}

/// Returns the device and the inode number at a path.
pub(crate) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let facts = rustix::fs::fstat(walk(path)?)?;
    Ok((facts.st_dev, facts.st_ino))
}

/// Opens a handle to the entry at a path, which may itself be a link.
pub(crate) fn walk(path: &Path) -> io::Result<OwnedFd> {
    let place = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match path.parent().zip(path.file_name()) {
        Some((folder, name)) => Ok(openat(
            exact_folder::pass(folder)?,
            name,
            place,
            Mode::empty(),
        )?),
        None => exact_folder::pass(path),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("real/inner")).unwrap();
        symlink("real", root.join("link")).unwrap();
        for (path, reached) in [
            ("real/new", true),
            ("real/inner/new", true),
            ("link", true),
            ("link/new", false),
            ("link/inner/new", false),
            ("real/../real/new", false),
            ("missing/new", false),
        ] {
            let path = root.join(path);
            assert_eq!(reach(&path).is_ok(), reached, "{}", path.display());
        }
        let place = reach(&root.join("real/made")).unwrap();
        fs::create_dir(&place).unwrap();
        let facts = fs::metadata(root.join("real/made")).unwrap();
        let known = identity(&root.join("real/made")).unwrap();
        assert_eq!(known, (facts.dev(), facts.ino()));
        // A folder that was renamed is still the one that was opened.
        fs::rename(root.join("real"), root.join("moved")).unwrap();
        symlink(&root, root.join("real")).unwrap();
        assert!(place.as_ref().exists());
    }

    #[test]
    fn a_folder_is_opened_by_its_own_path_alone() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("real/inner")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        symlink("real", root.join("link")).unwrap();
        for (path, wrong) in [
            ("real/inner", None),
            ("link", Some("a link or not a folder")),
            ("link/inner", Some("a link or not a folder")),
            ("file", Some("a link or not a folder")),
            ("real/../real", Some("invalid")),
            ("missing", Some("No such file")),
        ] {
            let opened = open_folder(&root.join(path)).map_err(|error| error.to_string());
            match (opened, wrong) {
                (Ok(opened), None) => {
                    let (found, identity_by_path) =
                        (rustix::fs::fstat(&opened), identity(&root.join(path)));
                    let found = found.unwrap();
                    assert_eq!(
                        identity_by_path.unwrap(),
                        (found.st_dev, found.st_ino),
                        "{path}"
                    );
                }
                (Err(error), Some(wrong)) => assert!(error.contains(wrong), "{path}: {error}"),
                (opened, wrong) => panic!("{path}: {opened:?} instead of {wrong:?}"),
            }
        }
        assert!(open_folder(Path::new("usr")).is_err(), "seen from nowhere");
    }
}
