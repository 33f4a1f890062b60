//! Opens folders by paths that no symbolic link may be part of.
//!
//! A path that had no links when it was checked may contain one now: an agent that can write
//! above a folder replaces it by a link, so that the runtime works elsewhere with its own rights.
//! Every part of the path is opened by itself and links are refused, on Linux without the right to
//! list the folders on the way.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, open as open_path, openat};
use rustix::io::Errno;

use crate::beneath::EXACT_FOLDER_FLAGS;

const PASSING: OFlags = EXACT_FOLDER_FLAGS.union(OFlags::PATH);

/// Opens a folder, so that it can be listed, by an absolute path without links, `.` and `..`.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(pass(path)?, ".", EXACT_FOLDER_FLAGS, Mode::empty())?)
}

/// Opens a folder, so that names in it can be used, by an absolute path without links, `.` and `..`.
pub fn pass(path: &Path) -> io::Result<OwnedFd> {
    if !path.is_absolute() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut opened = open_path("/", PASSING, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => {
                opened = openat(&opened, name, PASSING, Mode::empty()).map_err(explained)?;
            }
            Component::Prefix(_) | Component::CurDir | Component::ParentDir => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(opened)
}

/// Unifies the error for a link in the path, which depends on the system.
fn explained(errno: Errno) -> io::Error {
    match errno {
        Errno::NOTDIR | Errno::LOOP => io::Error::new(
            io::ErrorKind::NotADirectory,
            "a component of the path is a link or not a folder; links are not followed here",
        ),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("real/inner")).unwrap();
        symlink("real", root.join("link")).unwrap();
        for (path, opens) in [
            ("real", true),
            ("real/inner", true),
            ("link", false),
            ("link/inner", false),
            ("real/../real", false),
            ("missing", false),
        ] {
            assert_eq!(open(&root.join(path)).is_ok(), opens, "{path}");
            assert_eq!(pass(&root.join(path)).is_ok(), opens, "{path}");
        }
        assert!(open(Path::new("relative")).is_err());
    }
}
