//! Opening beneath a directory: the one place with platform code.
//!
//! Linux resolves the whole path in the kernel (`openat2`), which no race can cheat. Elsewhere, and
//! on kernels without it, every component is opened by itself and symbolic links are refused.

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// How often the kernel is asked again when renames disturb the resolution of `..`.
#[cfg(target_os = "linux")]
const MAX_RETRIES: u32 = 256;

/// How a path is resolved beneath a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolver {
    /// By the kernel; symbolic links that stay beneath are followed.
    #[cfg(target_os = "linux")]
    Kernel,
    /// Component by component; symbolic links are refused.
    Components,
}

impl Resolver {
    /// The best one that works here.
    #[cfg(target_os = "linux")]
    pub(crate) fn detect(root: BorrowedFd<'_>) -> Self {
        // Who follows a link must be able to tell where it led.
        if super::real::path_of(root).is_err() {
            return Self::Components;
        }
        match Self::Kernel.open(root, Path::new("."), super::DIRECTORY_FLAGS) {
            // Old kernels lack the call; some container filters forbid it.
            Err(Errno::NOSYS | Errno::PERM) => Self::Components,
            Ok(_) | Err(_) => Self::Kernel,
        }
    }

    /// The best one that works here.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn detect(_root: BorrowedFd<'_>) -> Self {
        Self::Components
    }

    /// Whether it follows links. If not, a path without `..` is where the object really lies.
    pub(crate) const fn follows_links(self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Kernel => true,
            Self::Components => false,
        }
    }

    /// Opens what is at `path` beneath `root`, or fails with `XDEV` if it leads out.
    pub(crate) fn open(
        self,
        root: BorrowedFd<'_>,
        path: &Path,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Kernel => open_by_kernel(root, path, flags),
            Self::Components => open_by_components(root, path, flags),
        }
    }
}

#[cfg(target_os = "linux")]
fn open_by_kernel(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..MAX_RETRIES {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

fn open_by_components(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let components: Vec<Component<'_>> = path.components().collect();
    let open = |at: BorrowedFd<'_>, name: &OsStr, flags: OFlags| {
        openat(at, name, flags | OFlags::NOFOLLOW, Mode::empty())
    };
    // Every directory on the way, so that `..` goes back to where the path came from.
    let mut way = vec![open(root, OsStr::new("."), super::DIRECTORY_FLAGS)?];
    for (index, component) in components.iter().enumerate() {
        let is_last = index + 1 == components.len();
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                way.pop();
            }
            Component::Normal(name) => {
                let here = way.last().ok_or(Errno::XDEV)?;
                let flags = if is_last {
                    flags
                } else {
                    super::DIRECTORY_FLAGS
                };
                way.push(open(std::os::fd::AsFd::as_fd(here), name, flags)?);
            }
            Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        }
        if way.is_empty() {
            return Err(Errno::XDEV);
        }
    }
    way.pop().ok_or(Errno::XDEV)
}
