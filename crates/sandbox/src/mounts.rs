//! Parses the mount table of the kernel.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The mount table of the process that reads it.
pub(crate) const TABLE: &str = "/proc/self/mountinfo";

/// One line of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    number: u64,
    parent: u64,
    /// The file system, by its device number.
    pub(crate) device: OsString,
    /// The mounted part, relative to the root of the file system.
    pub(crate) root: PathBuf,
    pub(crate) at: PathBuf,
    /// The file system type.
    pub(crate) kind: OsString,
}

/// Parses the table. Invalid lines are skipped.
pub(crate) fn read(table: &[u8]) -> Vec<Mount> {
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(read_line).collect()
}

fn read_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let plain = |field: &[u8]| OsString::from_vec(unescape(field));
    Some(Mount {
        number: number(fields.next()?)?,
        parent: number(fields.next()?)?,
        device: plain(fields.next()?),
        root: plain(fields.next()?).into(),
        at: plain(fields.next()?).into(),
        // Between them is a varying number of fields, up to a dash.
        kind: plain(fields.by_ref().skip_while(|field| *field != b"-").nth(1)?),
    })
}

/// Returns the visible mounts: no other mount covers them or a folder above them.
pub(crate) fn visible(all: &[Mount]) -> Vec<&Mount> {
    let open = |mount: &&Mount| !is_covered(all, mount) && !has_lid(all, mount);
    all.iter().filter(open).collect()
}

/// Returns whether another mount lies exactly on this one.
fn has_lid(all: &[Mount], mount: &Mount) -> bool {
    let mut others = all.iter();
    others.any(|other| {
        other.parent == mount.number && other.number != mount.number && other.at == mount.at
    })
}

/// Returns whether another mount covers a folder above this one, in its parent mount or in any
/// further ancestor.
fn is_covered(all: &[Mount], mount: &Mount) -> bool {
    let mut inner = mount;
    // A chain of parents is no longer than the table.
    for _ in all {
        let covers = |other: &&Mount| {
            other.parent == inner.parent
                && other.number != inner.number
                && inner.at != other.at
                && inner.at.starts_with(&other.at)
        };
        if all.iter().any(|other| covers(&other)) {
            return true;
        }
        let parent = all.iter().find(|other| other.number == inner.parent);
        match parent {
            Some(parent) if parent.number != inner.number => inner = parent,
            _ => return false,
        }
    }
    false
}

/// Returns the expected mount for a path: the file system, and the part of it. `None` if the table
/// does not show it.
pub(crate) fn expected(visible: &[&Mount], path: &Path) -> Option<(OsString, PathBuf)> {
    let holding = visible.iter().filter(|mount| path.starts_with(&mount.at));
    let nearest = holding.max_by_key(|mount| mount.at.components().count())?;
    // NFS reports the same root for each of its folders.
    if nearest.kind.as_encoded_bytes().starts_with(b"nfs") {
        return None;
    }
    let rest = path.strip_prefix(&nearest.at).ok()?;
    Some((nearest.device.clone(), joined(&nearest.root, rest)))
}

fn joined(root: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        root.to_owned()
    } else {
        root.join(rest)
    }
}

/// Decodes `\040` and other octal escapes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let escape = (*first == b'\\').then(|| after.get(..3)).flatten();
        let number = escape
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match number {
            Some(number) => {
                plain.push(number);
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    const HOST: &[u8] = b"\
1 0 8:1 / / rw - ext4 /dev/sda rw
2 1 0:5 / /home rw,relatime shared:1 master:2 - tmpfs hidden rw
3 2 0:6 / /home/old rw - tmpfs under rw
4 2 8:2 /@home /home rw - btrfs /dev/sdb rw
5 4 0:7 /vol /home/work\\040space/data rw - ext4 v rw
6 1 0:8 / /net rw - nfs4 server:/x rw
nonsense
";

    #[test]
    fn covered_mounts_are_not_seen() {
        let all = read(HOST);
        let seen: Vec<_> = visible(&all).iter().map(|mount| mount.number).collect();
        assert_eq!(seen, [1, 4, 5, 6]);
    }

    #[test]
    fn what_a_path_must_show_is_known_from_the_table() {
        let all = read(HOST);
        let seen = visible(&all);
        for (path, wanted) in [
            ("/usr", Some(("8:1", "/usr"))),
            ("/home", Some(("8:2", "/@home"))),
            ("/home/old/x", Some(("8:2", "/@home/old/x"))),
            ("/homes", Some(("8:1", "/homes"))),
            ("/home/work space/data", Some(("0:7", "/vol"))),
            ("/home/work space/data/a", Some(("0:7", "/vol/a"))),
            ("/net/a", None),
        ] {
            let wanted = wanted.map(|(device, root)| (device.into(), root.into()));
            assert_eq!(expected(&seen, Path::new(path)), wanted, "{path}");
        }
    }

    #[test]
    fn names_in_the_table_of_mounts_are_read() {
        for (field, name) in [
            ("/plain", "/plain"),
            (r"/a\040b", "/a b"),
            (r"/a\134040", r"/a\040"),
            (r"/a\", r"/a\"),
            (r"/a\9", r"/a\9"),
            ("/安\\012", "/安\n"),
        ] {
            let read = OsString::from_vec(unescape(field.as_bytes()));
            assert_eq!(read.as_bytes(), name.as_bytes());
        }
    }
}
