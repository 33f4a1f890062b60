//! Opens paths beneath an open folder, so that no link and no race leads out of it.
//!
//! The kernel resolves the whole path (`openat2`), which no race can cheat. On kernels without the
//! call every component is opened by itself and symbolic links are refused.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;

/// How often a resolution is repeated that renames have disturbed.
const MAX_RETRIES: u32 = 256;

/// The flags that open a folder for listing.
pub const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
/// The flags that open a folder for listing, and no link to one.
pub const EXACT_FOLDER_FLAGS: OFlags = FOLDER_FLAGS.union(OFlags::NOFOLLOW);
/// The flags that open a file for reading. Without NONBLOCK, opening a FIFO would block until its
/// other end is opened.
pub const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// How a path is resolved beneath a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// By the kernel; symbolic links that stay beneath the folder are followed.
    Kernel,
    /// Component by component; symbolic links are refused.
    Components,
}

impl Resolver {
    /// Returns the best resolver that works here.
    pub fn detect(root: BorrowedFd<'_>) -> Self {
        match Self::Kernel.open(root, Path::new("."), FOLDER_FLAGS) {
            // Old kernels lack the call; some container filters forbid it.
            Err(Errno::NOSYS | Errno::PERM) => Self::Components,
            Ok(_) | Err(_) => Self::Kernel,
        }
    }

    /// Returns whether links are followed. If not, a path without `..` is where the object really lies.
    pub const fn follows_links(self) -> bool {
        match self {
            Self::Kernel => true,
            Self::Components => false,
        }
    }

    /// Opens what is at `path` beneath `root`; fails with `XDEV` if the path leads out.
    pub fn open(self, root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        match self {
            Self::Kernel => open_by_kernel(root, path, flags),
            Self::Components => open_by_components(root, path, flags),
        }
    }
}

fn open_by_kernel(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..MAX_RETRIES {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens what is at `path` beneath `root`; no part of the path may be a link.
pub fn open_without_links(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let is_empty = path.as_os_str().is_empty();
    let whole = if is_empty { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(root, whole, flags, Mode::empty(), resolve) {
        // Older kernels, system call filters, and paths that are too long for one call.
        Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG | Errno::AGAIN) => {
            open_by_components(root, path, flags)
        }
        done => done,
    }
}

/// Creates a folder beneath another, with its ancestors; none of them may be a link.
pub fn make_folders(root: BorrowedFd<'_>, path: &Path) -> Result<(), Errno> {
    let mut here = openat(root, ".", EXACT_FOLDER_FLAGS, Mode::empty())?;
    for part in path.components() {
        let Component::Normal(name) = part else {
            return Err(Errno::INVAL);
        };
        match mkdirat(&here, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        here = openat(&here, name, EXACT_FOLDER_FLAGS, Mode::empty())?;
    }
    Ok(())
}

fn open_by_components(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let components: Vec<Component<'_>> = path.components().collect();
    let open = |at: BorrowedFd<'_>, name: &std::ffi::OsStr, flags: OFlags| {
        openat(at, name, flags | OFlags::NOFOLLOW, Mode::empty())
    };
    // Every folder on the way, if `..` has to return to where the path came from.
    let returns = components.contains(&Component::ParentDir);
    let mut way = vec![open(root, ".".as_ref(), FOLDER_FLAGS)?];
    for (index, component) in components.iter().enumerate() {
        let is_last = index + 1 == components.len();
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                way.pop();
            }
            Component::Normal(name) => {
                let here = way.last().ok_or(Errno::XDEV)?;
                let flags = if is_last { flags } else { FOLDER_FLAGS };
                let opened = open(here.as_fd(), name, flags)?;
                if !returns {
                    way.clear();
                }
                way.push(opened);
            }
            Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        }
        if way.is_empty() {
            return Err(Errno::XDEV);
        }
    }
    way.pop().ok_or(Errno::XDEV)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_resolver_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap().join("root");
        fs::create_dir_all(root.join("sub/inner")).unwrap();
        symlink("sub", root.join("inside")).unwrap();
        symlink("..", root.join("outside")).unwrap();
        let folder = crate::exact_folder::open(&root).unwrap();
        let opens = |resolver: Resolver, path: &str| {
            let opened = resolver.open(folder.as_fd(), Path::new(path), FOLDER_FLAGS);
            opened.map(drop)
        };
        for resolver in [Resolver::detect(folder.as_fd()), Resolver::Components] {
            assert_eq!(opens(resolver, "."), Ok(()));
            assert_eq!(opens(resolver, "sub/inner"), Ok(()));
            assert_eq!(opens(resolver, "sub/../sub/inner"), Ok(()));
            assert_eq!(opens(resolver, "missing"), Err(Errno::NOENT));
            assert_eq!(opens(resolver, ".."), Err(Errno::XDEV));
            assert_eq!(opens(resolver, "sub/../../root"), Err(Errno::XDEV));
            assert_eq!(opens(resolver, "/"), Err(Errno::XDEV));
            assert!(opens(resolver, "outside").is_err());
            assert_eq!(opens(resolver, "inside").is_ok(), resolver.follows_links());
        }
    }
}
