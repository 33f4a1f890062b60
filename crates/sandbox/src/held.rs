//! Files that are reached without following a link, whoever swaps folders for links meanwhile.
//!
//! Every path that is given here is a canonical one, so that a link on its way was put there by
//! somebody after it was looked at.

use std::io;
use std::path::{Path, PathBuf};

/// Where something lies, in a folder that is held.
#[derive(Debug)]
pub(crate) struct Reached {
    /// Keeps the folder, whatever becomes of its name.
    #[cfg(target_os = "linux")]
    _folder: rustix::fd::OwnedFd,
    path: PathBuf,
}

impl AsRef<Path> for Reached {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Reaches the folder of a path; the last name need not exist, and may be that of a link.
#[cfg(target_os = "linux")]
pub(crate) fn reach(path: &Path) -> io::Result<Reached> {
    use std::os::fd::AsRawFd as _;
    let parts = path.parent().zip(path.file_name());
    let (folder, name) = parts.ok_or(io::ErrorKind::InvalidInput)?;
    let folder = walk_folder(folder)?;
    let held = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    Ok(Reached {
        _folder: folder,
        path: held.join(name),
    })
}

/// Where there is no sandbox nothing is put anywhere.
#[cfg(not(target_os = "linux"))]
pub(crate) fn reach(path: &Path) -> io::Result<Reached> {
    Ok(Reached {
        path: path.to_owned(),
    })
}

/// The device and the number of what lies at a path.
#[cfg(target_os = "linux")]
pub(crate) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let facts = rustix::fs::fstat(walk(path)?)?;
    Ok((facts.st_dev, facts.st_ino))
}

/// The device and the number of what lies at a path.
#[cfg(not(target_os = "linux"))]
pub(crate) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let facts = std::fs::symlink_metadata(path)?;
    Ok((facts.dev(), facts.ino()))
}

/// Holds what lies at a path, which may be a link itself.
#[cfg(target_os = "linux")]
pub(crate) fn walk(path: &Path) -> io::Result<rustix::fd::OwnedFd> {
    use rustix::fs::{Mode, OFlags, openat};
    let place = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match path.parent().zip(path.file_name()) {
        Some((folder, name)) => Ok(openat(walk_folder(folder)?, name, place, Mode::empty())?),
        None => walk_folder(path),
    }
}

/// Holds a folder. A link is none.
#[cfg(target_os = "linux")]
fn walk_folder(path: &Path) -> io::Result<rustix::fd::OwnedFd> {
    use rustix::fs::{Mode, OFlags, open, openat};
    use std::path::Component;
    let folder = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut held = open("/", folder, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => held = openat(&held, name, folder, Mode::empty())?,
            Component::Prefix(_) | Component::CurDir | Component::ParentDir => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(held)
}

#[cfg(all(test, target_os = "linux"))]
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
        // One that was moved away is still the one that was reached.
        fs::rename(root.join("real"), root.join("moved")).unwrap();
        symlink(&root, root.join("real")).unwrap();
        assert!(place.as_ref().exists());
    }
}
