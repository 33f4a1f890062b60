//! Builds a new root for the helper from parts of the old one.
//!
//! While it is built, `/` is a scratch folder in memory that contains two folders: the old root and
//! the new one. Every requested path is canonical, so that no link leads from one root into the
//! other.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
};
use rustix::process::{chdir, pivot_root};

const OLD: &str = "/old";
const NEW: &str = "/new";
/// A folder that every system has, used as the first mount point.
const BEGINNING: &str = "/tmp";
/// Devices that expose nothing of the machine.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Links that programs expect beside the devices.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];
/// Parts of `/proc` through which root can change the machine, even without capabilities.
const MACHINE: [&str; 5] = ["sys", "sysrq-trigger", "irq", "bus", "fs"];
/// The mount options of the folders that only form the frame of the tree.
const FRAME: &CStr = c"mode=0755,size=1m";

/// The access to a part of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    Read,
    Write,
}

/// The mount points in the old root when construction of the new one began.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    places: Vec<PathBuf>,
}

/// Moves to a new, empty root beside the old one.
pub(super) fn begin() -> io::Result<Mounts> {
    let places = mounts(crate::mounts::TABLE)?;
    let quiet = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", quiet)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", BEGINNING, "tmpfs", flags, FRAME)?;
    let old = format!("{BEGINNING}{OLD}");
    fs::create_dir(format!("{BEGINNING}{NEW}"))?;
    fs::create_dir(&old)?;
    pivot_root(BEGINNING, &old)?;
    chdir("/")?;
    mount("tmpfs", NEW, "tmpfs", flags, FRAME)?;
    Ok(Mounts { places })
}

/// Bind-mounts a part of the old root in the new one.
pub(super) fn show(mounts: &Mounts, from: &Path, at: &Path, rights: Rights) -> io::Result<()> {
    let at = beneath(NEW, at);
    let others_come_along = mounts.any_beneath(from);
    let from = beneath(OLD, from);
    if fs::metadata(&from)?.is_dir() {
        fs::create_dir_all(&at)?;
    } else {
        make_file(&at)?;
    }
    mount_bind_recursive(&from, &at)?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, rights == Rights::Read);
    narrow(&at, flags)?;
    if !others_come_along {
        return Ok(());
    }
    for inner in mounts_beneath(&at)? {
        match narrow(&inner, flags) {
            // A folder that this process may not read has no rights to drop.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            other => other?,
        }
    }
    Ok(())
}

/// Creates a folder in memory.
pub(super) fn scratch(at: &Path, size_bytes: u64) -> io::Result<()> {
    let at = beneath(NEW, at);
    fs::create_dir_all(&at)?;
    let options = CString::new(format!("mode=0755,size={size_bytes}"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("tmpfs", &at, "tmpfs", flags, options.as_c_str())?)
}

/// Creates a symbolic link.
pub(super) fn link(to: &Path, at: &Path) -> io::Result<()> {
    let at = beneath(NEW, at);
    if let Some(folder) = at.parent() {
        fs::create_dir_all(folder)?;
    }
    std::os::unix::fs::symlink(to, at)
}

/// Covers a file with a device that cannot be opened.
pub(super) fn hide_file(at: &Path) -> io::Result<()> {
    let at = beneath(NEW, at);
    mount_bind(format!("{OLD}/dev/null"), &at)?;
    narrow(
        &at,
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY,
    )
}

/// Covers a folder with an empty one that cannot be entered.
pub(super) fn hide_folder(at: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    let options = c"mode=0000,size=4k";
    Ok(mount("tmpfs", beneath(NEW, at), "tmpfs", flags, options)?)
}

/// Mounts `/proc` of this PID namespace, without the parts that can change the machine.
pub(super) fn processes() -> io::Result<()> {
    let at = beneath(NEW, Path::new("/proc"));
    fs::create_dir_all(&at)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", &at, "proc", flags, None::<&CStr>)?;
    for part in MACHINE.map(|name| at.join(name)) {
        if part.exists() {
            mount_bind(&part, &part)?;
            narrow(&part, flags | MountFlags::RDONLY)?;
        }
    }
    Ok(())
}

/// Provides the harmless devices, and a private set of terminals.
pub(super) fn devices() -> io::Result<()> {
    let folder = beneath(NEW, Path::new("/dev"));
    fs::create_dir_all(&folder)?;
    let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", &folder, "tmpfs", quiet, c"mode=0755,size=64m")?;
    for name in DEVICES {
        let at = folder.join(name);
        make_file(&at)?;
        mount_bind(format!("{OLD}/dev/{name}"), &at)?;
    }
    fs::create_dir(folder.join("shm"))?;
    let terminals = folder.join("pts");
    fs::create_dir(&terminals)?;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    mount("devpts", &terminals, "devpts", quiet, options)?;
    for (to, name) in DEVICE_LINKS {
        std::os::unix::fs::symlink(to, folder.join(name))?;
    }
    Ok(())
}

/// Detaches the old root permanently.
pub(super) fn enter() -> io::Result<()> {
    unmount(OLD, UnmountFlags::DETACH)?;
    chdir(NEW)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    narrow(
        Path::new("/"),
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY,
    )
}

fn beneath(root: &str, path: &Path) -> PathBuf {
    let relative = path.strip_prefix("/").unwrap_or(path);
    Path::new(root).join(relative)
}

fn make_file(at: &Path) -> io::Result<()> {
    if let Some(folder) = at.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::File::create_new(at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

/// Adds flags to a mount. The flags that it already has must be repeated: the kernel does not let a
/// process that does not own the mount clear them.
fn narrow(at: &Path, flags: MountFlags) -> io::Result<()> {
    let now = statvfs(at)?.f_flag;
    let mut all = flags | MountFlags::BIND;
    for (has, flag) in [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if now.contains(has) {
            all |= flag;
        }
    }
    match mount_remount(at, all, c"") {
        Err(Errno::ACCESS) => Err(io::ErrorKind::PermissionDenied.into()),
        other => Ok(other?),
    }
}

impl Mounts {
    /// Returns whether a bind mount of a folder may include nested mounts. The table is read once
    /// for this check, not for each part of the view: the kernel writes the whole table each time,
    /// and it grows with each part.
    fn any_beneath(&self, folder: &Path) -> bool {
        let mut places = self.places.iter();
        places.any(|place| place != folder && place.starts_with(folder))
    }
}

/// Returns the nested mounts that a bind mount of a folder included.
fn mounts_beneath(at: &Path) -> io::Result<Vec<PathBuf>> {
    let mut places = mounts(&format!("{OLD}{}", crate::mounts::TABLE))?;
    places.retain(|place| place != at && place.starts_with(at));
    Ok(places)
}

/// Returns the mount points in a table.
fn mounts(table: &str) -> io::Result<Vec<PathBuf>> {
    let table = crate::mounts::read(&fs::read(table)?);
    Ok(table.into_iter().map(|mount| mount.at).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_in_a_folder_comes_along() {
        let mounts = Mounts {
            places: ["/", "/a", "/a/b c", "/a/d/e", "/ab"]
                .map(PathBuf::from)
                .to_vec(),
        };
        for (folder, any) in [
            ("/a", true),
            ("/a/d", true),
            ("/a/d/e", false),
            ("/ab", false),
        ] {
            assert_eq!(mounts.any_beneath(Path::new(folder)), any, "{folder}");
        }
    }
}
