//! Verifies that the file view is the one that was planned.
//!
//! A path that was checked while a view was planned can lead elsewhere when it is mounted: another
//! command may swap a folder for a link in between. The mount table shows what is really visible.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::mounts::{self, Mount};
use crate::open_exact;

/// The major and minor number of the device that covers a hidden file.
const NULL: (u32, u32) = (1, 3);

/// The expected mount at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// This part of this file system; if the file system does not report its parts, this very file.
    Part {
        /// The device number in the mount table.
        device: OsString,
        /// The mounted part of the file system.
        root: OsString,
    },
    /// This very file, by its device and inode number.
    File(u64, u64),
    /// A part that was already mounted outside; it may be absent from the view.
    Along {
        /// The device number in the mount table.
        device: OsString,
        /// The mounted part of the file system.
        root: OsString,
    },
    /// A mount of our own that shows no content.
    Mask,
}

/// All expected mounts of a view.
pub(super) type Promises = Vec<(PathBuf, Promise)>;

/// Checks that the mount table meets all expectations.
pub(super) fn check(promises: &Promises) -> io::Result<()> {
    let table = mounts::read(&fs::read(mounts::TABLE)?);
    let wrong = first_wrong(promises, &mounts::visible(&table), &RealFiles);
    match wrong {
        None => Ok(()),
        Some(path) => Err(io::Error::other(format!(
            "{} was replaced by another file after the sandbox was planned. Nothing was started; try again",
            path.display()
        ))),
    }
}

/// Access to the properties of a file.
trait FileProperties {
    fn identity(&self, path: &Path) -> Option<(u64, u64)>;
    fn is_null(&self, path: &Path) -> bool;
}

struct RealFiles;

impl FileProperties for RealFiles {
    fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        open_exact::identity(path).ok()
    }

    fn is_null(&self, path: &Path) -> bool {
        use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
        let facts = fs::symlink_metadata(path);
        facts.is_ok_and(|facts| {
            let number = facts.rdev();
            let number = (rustix::fs::major(number), rustix::fs::minor(number));
            facts.file_type().is_char_device() && number == NULL
        })
    }
}

fn first_wrong<'a>(
    promises: &'a Promises,
    visible: &[&'a Mount],
    look: &impl FileProperties,
) -> Option<&'a Path> {
    let broken = promises.iter().find(|(path, promise)| {
        let found = visible.iter().find(|mount| mount.at == *path);
        let optional = matches!(promise, Promise::Along { .. });
        found.map_or(!optional, |mount| !keeps(mount, promise, look))
    });
    if let Some((path, _)) = broken {
        return Some(path);
    }
    // A mount without an expectation may show anything, so it fails the check.
    let unknown = visible.iter().find(|mount| {
        let at = &mount.at;
        let is_promised = promises.iter().any(|(path, _)| path == at);
        let is_beneath = promises.iter().any(|(path, _)| at.starts_with(path));
        is_beneath && !is_promised
    });
    unknown.map(|mount| mount.at.as_path())
}

fn keeps(mount: &Mount, promise: &Promise, look: &impl FileProperties) -> bool {
    match promise {
        Promise::Part { device, root } | Promise::Along { device, root } => {
            mount.device == *device && mount.root.as_os_str() == *root
        }
        Promise::File(device, number) => look.identity(&mount.at) == Some((*device, *number)),
        Promise::Mask => {
            let empty = mount.kind == "tmpfs" && mount.root == Path::new("/");
            empty || look.is_null(&mount.at)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Played;

    impl FileProperties for Played {
        fn identity(&self, path: &Path) -> Option<(u64, u64)> {
            (path == Path::new("/net")).then_some((7, 8))
        }
        fn is_null(&self, path: &Path) -> bool {
            path.ends_with("null")
        }
    }

    fn part(path: &str, root: &str) -> (PathBuf, Promise) {
        let promise = Promise::Part {
            device: "8:1".into(),
            root: root.into(),
        };
        (path.into(), promise)
    }

    fn along(path: &str, root: &str) -> (PathBuf, Promise) {
        let promise = Promise::Along {
            device: "8:1".into(),
            root: root.into(),
        };
        (path.into(), promise)
    }

    fn check(promises: &[(PathBuf, Promise)], lines: &[&str], wrong: Option<&str>) {
        let root = "1 0 0:1 / / rw - tmpfs t rw".to_owned();
        let numbered = lines.iter().enumerate().map(|(index, line)| {
            let number = index + 2;
            let (place, kind) = line.rsplit_once(' ').unwrap();
            format!("{number} 1 {place} rw - {kind} x rw")
        });
        let table: Vec<String> = std::iter::once(root).chain(numbered).collect();
        let table = mounts::read(table.join("\n").as_bytes());
        let promises = promises.to_vec();
        let found = first_wrong(&promises, &mounts::visible(&table), &Played);
        assert_eq!(found, wrong.map(Path::new), "{lines:?}");
    }

    #[test]
    fn only_what_was_planned_is_shown() {
        let work = part("/work", "/home/work");
        let work = std::slice::from_ref(&work);
        check(work, &["8:1 /home/work /work ext4"], None);
        check(work, &["8:1 /home/.ssh /work ext4"], Some("/work"));
        check(work, &["8:2 /home/work /work ext4"], Some("/work"));
        check(work, &["8:1 /home/work//deleted /work ext4"], Some("/work"));
        check(work, &[], Some("/work"));
        check(
            work,
            &["8:1 /home/work /work ext4", "8:1 /x /elsewhere ext4"],
            None,
        );
        let file = [("/net".into(), Promise::File(7, 8))];
        check(&file, &["0:9 / /net nfs4"], None);
        let other = [("/net".into(), Promise::File(7, 9))];
        check(&other, &["0:9 / /net nfs4"], Some("/net"));
    }

    #[test]
    fn masks_show_nothing() {
        for (line, wrong) in [
            ("0:3 / /m tmpfs", None),
            ("0:3 /part /m tmpfs", Some("/m")),
            ("8:1 / /m ext4", Some("/m")),
        ] {
            check(&[("/m".into(), Promise::Mask)], &[line], wrong);
        }
        let file = [("/null".into(), Promise::Mask)];
        check(&file, &["0:5 /null /null devtmpfs"], None);
        check(&file, &[], Some("/null"));
    }

    #[test]
    fn what_was_mounted_outside_may_come_along() {
        let promises = [part("/w", "/w"), along("/w/data", "/volume")];
        // If all had one parent they would cover each other, as they would outside.
        let lines = |inner: &str| {
            format!("1 0 0:1 / / rw - tmpfs t rw\n2 1 8:1 /w /w rw - ext4 x rw\n{inner}")
        };
        for (inner, wrong) in [
            ("", None),
            ("3 2 8:1 /volume /w/data rw - ext4 x rw", None),
            ("3 2 8:1 /home/.ssh /w/data rw - ext4 x rw", Some("/w/data")),
            ("3 2 8:1 /volume /w/other rw - ext4 x rw", Some("/w/other")),
        ] {
            let table = mounts::read(lines(inner).as_bytes());
            let promises = promises.to_vec();
            let found = first_wrong(&promises, &mounts::visible(&table), &Played);
            assert_eq!(found, wrong.map(Path::new), "{inner}");
        }
    }
}
