//! Keeps file tools inside the workspace.
//!
//! Every path is resolved beneath an open descriptor of the workspace, and the opened object is the
//! one that is used: no path is checked first and opened again later. Policy decides about the path
//! that the kernel reports for the open object. A write goes to a new file beside the old one,
//! which is then renamed over it, so that the write is atomic and never reaches a file outside the
//! workspace that shares a hard link.

mod kept;
mod place;
mod protected;
mod real;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use sortie_base::beneath::{FILE_FLAGS, FOLDER_FLAGS, Resolver};
use sortie_base::exact_folder;
use sortie_base::nearest::similarity;
use sortie_core::ports::tool::ToolFailure;

use crate::gate::{PathGate, Verdict};
pub(crate) use kept::Kept;
use kept::KeptInside;
pub(crate) use place::{NewContent, Parents, WriteTarget};

/// The most bytes of a path from a model: `PATH_MAX` of Linux.
const MAX_PATH_BYTES: usize = 4096;
/// The most components of a path from a model. The deepest folders of real projects have about 50;
/// without a limit each file tool would open up to 2,048 folders for one path.
const MAX_PATH_PARTS: usize = 256;
/// The most entries of one directory that are read.
pub(crate) const MAX_DIRECTORY_ENTRIES: usize = 50_000;
/// The most similar names that are suggested when a file is missing.
const MAX_SIMILAR_NAMES: usize = 3;
/// The least similarity of a suggested name to the requested one, from 0 to 1.
const SIMILAR_ENOUGH: f64 = 0.5;

/// The folder that file tools are confined to.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The root as the run names it; absolute paths may begin with it.
    root: PathBuf,
    directory: OwnedFd,
    resolver: Resolver,
    gate: PathGate,
    kept: KeptInside,
}

/// A file that is open for reading.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// The metadata of the open file.
    pub(crate) stat: Stat,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: Kind,
}

/// An open directory and its entries.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) directory: OwnedFd,
    /// The entries that policy permits, sorted by name.
    pub(crate) entries: Vec<Entry>,
    /// Whether the directory has more entries than were read.
    pub(crate) cut: bool,
    /// The number of entries that policy denies.
    pub(crate) withheld: usize,
}

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    /// A device, a socket or a FIFO.
    Special,
}

impl Kind {
    const fn of(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Self::Special,
        }
    }
}

impl Workspace {
    /// Opens the workspace. `root` contains no links: a link that has replaced one of its
    /// components since is not followed.
    pub(crate) fn open(root: &Path) -> Result<Self, ToolFailure> {
        let directory = exact_folder::open(root).map_err(|error| {
            ToolFailure::new(format!(
                "The workspace {} cannot be opened: {error}. Nothing was done; report this.",
                root.display(),
            ))
        })?;
        let resolver = resolver(directory.as_fd());
        Ok(Self {
            root: root.to_owned(),
            directory,
            resolver,
            gate: PathGate::open(),
            kept: KeptInside::default(),
        })
    }

    /// Sets the gate that asks policy about each opened object.
    pub(crate) fn behind(self, gate: PathGate) -> Self {
        Self { gate, ..self }
    }

    /// Sets the protected places; those inside the workspace are not accessed.
    pub(crate) fn keeping(self, kept: &Kept) -> Result<Self, ToolFailure> {
        let root = self.real_root(Path::new("."))?;
        Ok(Self {
            kept: kept.inside(&root, Instant::now()),
            ..self
        })
    }

    /// Returns the path relative to the workspace, computed from its text alone.
    pub(crate) fn locate(&self, path: &str) -> Result<PathBuf, ToolFailure> {
        crate::arguments::at_most("path", path, MAX_PATH_BYTES)?;
        if path.contains('\0') {
            return Err(ToolFailure::new(
                "`path` contains a NUL character, which no file name can have. Remove it.",
            ));
        }
        let given = Path::new(path);
        if given.components().count() > MAX_PATH_PARTS {
            return Err(ToolFailure::new(format!(
                "`path` has more than {MAX_PATH_PARTS} parts. Give a shorter path, relative to the workspace and without `..`."
            )));
        }
        let relative = if given.is_absolute() {
            let stripped = given.strip_prefix(&self.root);
            stripped.map_err(|_| outside(path, &self.root))?
        } else {
            given
        };
        let tidy: PathBuf = relative
            .components()
            .filter(|component| *component != Component::CurDir)
            .collect();
        if tidy.as_os_str().is_empty() {
            return Ok(PathBuf::from("."));
        }
        Ok(tidy)
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, path: &Path) -> Result<OpenFile, ToolFailure> {
        self.find_file(path)?.ok_or_else(|| self.missing(path))
    }

    /// Opens a regular file for reading, if it exists and policy permits it.
    pub(crate) fn find_file(&self, path: &Path) -> Result<Option<OpenFile>, ToolFailure> {
        let found = self.find_unasked(path)?;
        if let Some(open) = &found {
            let real = self.real(open.file.as_fd(), path)?;
            self.permit(&real, path)?;
        }
        Ok(found)
    }

    /// Opens a regular file, if it exists, without asking policy. Its content must never be shown.
    pub(crate) fn find_unasked(&self, path: &Path) -> Result<Option<OpenFile>, ToolFailure> {
        match self.resolver.open(self.directory.as_fd(), path, FILE_FLAGS) {
            Ok(fd) => {
                if !self.kept.hides_nothing() {
                    let real = self.real(fd.as_fd(), path)?;
                    self.kept.refuse(&real, path)?;
                }
                regular(fd, path).map(Some)
            }
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.explain(path, errno)),
        }
    }

    /// Opens a regular file of a listing, for which policy was already asked.
    pub(crate) fn open_listed(
        &self,
        directory: &OwnedFd,
        path: &Path,
    ) -> Result<OpenFile, ToolFailure> {
        let name = path.file_name().unwrap_or_default();
        let flags = FILE_FLAGS | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(directory, name, flags, Mode::empty());
        regular(opened.map_err(|errno| self.explain(path, errno))?, path)
    }

    pub(crate) fn open_directory(&self, path: &Path) -> Result<OwnedFd, ToolFailure> {
        self.resolver
            .open(self.directory.as_fd(), path, FOLDER_FLAGS)
            .map_err(|errno| match errno {
                Errno::NOENT => self.missing(path),
                Errno::NOTDIR => ToolFailure::new(format!(
                    "{} is not a directory. Give the path of a directory, or read it with read_file.",
                    path.display()
                )),
                other => self.explain(path, other),
            })
    }

    /// Lists the entries of a directory that policy permits.
    pub(crate) fn list(&self, path: &Path) -> Result<Listing, ToolFailure> {
        let directory = self.open_directory(path)?;
        self.listing(directory, path)
    }

    /// Lists the entries of an open directory that policy permits.
    fn listing(&self, directory: OwnedFd, path: &Path) -> Result<Listing, ToolFailure> {
        let (mut entries, cut) =
            read_entries(&directory).map_err(|errno| unreadable(path, errno))?;
        let real = self.real(directory.as_fd(), path)?;
        self.kept.refuse(&real, path)?;
        let all = entries.len();
        entries.retain(|entry| !self.kept.hides(&real.join(&entry.name)));
        permitted(self.gate.judge(&real), path)?;
        entries.retain(|entry| self.gate.judge(&real.join(&entry.name)).is_ok());
        Ok(Listing {
            withheld: all - entries.len(),
            entries: sorted(entries),
            directory,
            cut,
        })
    }

    /// Returns the real path of an open object, relative to the workspace and without links. An
    /// empty path is the workspace itself.
    fn real(&self, object: BorrowedFd<'_>, named: &Path) -> Result<PathBuf, ToolFailure> {
        if !self.resolver.follows_links() {
            return Ok(real::plain(named));
        }
        let unknown = |_| self.explain(named, Errno::AGAIN);
        let path = real::path_of(object).map_err(unknown)?;
        let root = self.real_root(named)?;
        let Ok(inside) = path.strip_prefix(&root) else {
            return Err(outside(&named.display().to_string(), &self.root));
        };
        if real::may_be_gone(inside) && !self.is_named(object, inside) {
            return Err(self.explain(named, Errno::AGAIN));
        }
        Ok(inside.to_owned())
    }

    fn real_root(&self, named: &Path) -> Result<PathBuf, ToolFailure> {
        if self.resolver.follows_links() {
            let root = real::path_of(self.directory.as_fd());
            return root.map_err(|_| self.explain(named, Errno::AGAIN));
        }
        Ok(self.root.clone())
    }

    /// Returns whether the name leads to this open object.
    fn is_named(&self, object: BorrowedFd<'_>, name: &Path) -> bool {
        let found = rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let opened = rustix::fs::fstat(object);
        matches!((found, opened), (Ok(found), Ok(opened)) if is_same(&found, &opened))
    }

    /// Rejects a path that is hidden or that policy denies.
    fn permit(&self, real: &Path, named: &Path) -> Result<(), ToolFailure> {
        self.kept.refuse(real, named)?;
        permitted(self.gate.judge(real), named)
    }

    /// Reads a whole file of at most `max_bytes`.
    pub(crate) fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, ToolFailure> {
        let mut open = self.open_file(path)?;
        open.read(path, max_bytes)
    }

    fn missing(&self, path: &Path) -> ToolFailure {
        let similar = self.similar_names(path);
        let hint = if similar.is_empty() {
            "Find the right path with list_dir or glob.".to_owned()
        } else {
            format!("Did you mean {}?", similar.join(" or "))
        };
        ToolFailure::new(format!("{} does not exist. {hint}", path.display()))
    }

    fn similar_names(&self, path: &Path) -> Vec<String> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Vec::new();
        };
        let shown = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        // Not by `list`: its failure would search for names similar to the folder's, and so on
        // upwards.
        let opened = self
            .resolver
            .open(self.directory.as_fd(), shown, FOLDER_FLAGS);
        let Ok(Ok(Listing { entries, .. })) = opened.map(|folder| self.listing(folder, shown))
        else {
            return Vec::new();
        };
        let name = name.to_string_lossy();
        let mut scored: Vec<(f64, String)> = entries
            .iter()
            .take(1000)
            .map(|entry| {
                let similarity = similarity(&name, &entry.name.to_string_lossy());
                (similarity, folder.join(&entry.name).display().to_string())
            })
            .filter(|(similarity, _)| *similarity >= SIMILAR_ENOUGH)
            .collect();
        scored.sort_by(|left, right| right.0.total_cmp(&left.0));
        scored
            .into_iter()
            .map(|(_, name)| name)
            .take(MAX_SIMILAR_NAMES)
            .collect()
    }

    fn explain(&self, path: &Path, errno: Errno) -> ToolFailure {
        let path_shown = path.display();
        ToolFailure::new(match errno {
            Errno::XDEV => return outside(&path_shown.to_string(), &self.root),
            Errno::NOENT => return self.missing(path),
            Errno::LOOP => format!(
                "{path_shown} goes through a symbolic link that file tools do not follow. Use the real path."
            ),
            Errno::NOTDIR => format!(
                "A part of {path_shown} is not a directory. Find the right path with list_dir or glob."
            ),
            Errno::ISDIR => {
                format!("{path_shown} is a directory. Use list_dir to see its content.")
            }
            Errno::ACCESS | Errno::PERM | Errno::ROFS => format!(
                "The system does not permit this with {path_shown}. Work with another file, or report it."
            ),
            Errno::NXIO => format!(
                "{path_shown} is a socket or a device. File tools work with regular files only."
            ),
            Errno::AGAIN => {
                format!("{path_shown} was moved while it was being opened. Try again.")
            }
            other => return unreadable(path, other),
        })
    }

    #[cfg(test)]
    pub(crate) fn with_components_only(mut self) -> Self {
        self.resolver = Resolver::Components;
        self
    }
}

/// Returns the resolver for paths beneath the workspace. Links are followed only where the kernel
/// reports the target: policy decides about that path.
fn resolver(directory: BorrowedFd<'_>) -> Resolver {
    match real::path_of(directory) {
        Ok(_) => Resolver::detect(directory),
        Err(_) => Resolver::Components,
    }
}

impl OpenFile {
    /// Reads the whole file, at most `max_bytes`.
    pub(crate) fn read(&mut self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, ToolFailure> {
        // One byte more, so that the read that finds the end needs no larger buffer.
        let expected = u64::try_from(self.stat.st_size).unwrap_or_default();
        let expected = expected.min(max_bytes).saturating_add(1);
        let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or_default());
        (&mut self.file)
            .take(max_bytes + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| {
                ToolFailure::new(format!(
                    "{} cannot be read: {error}. Try again.",
                    path.display()
                ))
            })?;
        if bytes.len() as u64 <= max_bytes {
            return Ok(bytes);
        }
        Err(ToolFailure::new(format!(
            "{} is larger than {} MiB. Search it with grep, or use exec and a command that prints a part.",
            path.display(),
            max_bytes >> 20
        )))
    }
}

fn regular(fd: OwnedFd, path: &Path) -> Result<OpenFile, ToolFailure> {
    let stat = rustix::fs::fstat(&fd).map_err(|errno| {
        ToolFailure::new(format!(
            "{} cannot be inspected ({}). Check the path, then try again.",
            path.display(),
            describe(errno)
        ))
    })?;
    match Kind::of(FileType::from_raw_mode(stat.st_mode as RawMode)) {
        Kind::File => Ok(OpenFile {
            file: File::from(fd),
            stat,
        }),
        Kind::Directory => Err(ToolFailure::new(format!(
            "{} is a directory. Use list_dir to see its content.",
            path.display()
        ))),
        Kind::Symlink | Kind::Special => Err(ToolFailure::new(format!(
            "{} is a pipe, a socket or a device. File tools work with regular files only.",
            path.display()
        ))),
    }
}

fn read_entries(directory: &OwnedFd) -> Result<(Vec<Entry>, bool), Errno> {
    let mut entries = Vec::new();
    for item in Dir::read_from(directory)? {
        let item = item?;
        let name = OsStr::from_bytes(item.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if entries.len() == MAX_DIRECTORY_ENTRIES {
            return Ok((entries, true));
        }
        entries.push(Entry {
            name: name.to_owned(),
            kind: kind_of(directory, name, item.file_type()),
        });
    }
    Ok((entries, false))
}

/// Rejects a path that policy denies.
fn permitted(verdict: Verdict, named: &Path) -> Result<(), ToolFailure> {
    verdict.map_err(|why| {
        ToolFailure::new(format!(
            "{} may not be used: {}. Work with another file, or report it.",
            named.display(),
            why.trim_end_matches('.')
        ))
    })
}

fn unreadable(path: &Path, errno: Errno) -> ToolFailure {
    ToolFailure::new(format!(
        "{} cannot be used ({}). Check the path, then try again.",
        path.display(),
        describe(errno)
    ))
}

/// Returns the metadata of a directory entry without following links.
pub(crate) fn stat(directory: &OwnedFd, name: &OsStr) -> Option<Stat> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()
}

fn outside(path: &str, root: &Path) -> ToolFailure {
    ToolFailure::new(format!(
        "{path} leads outside the workspace {}. File tools work only inside it: use a path relative to it, or read the file with exec.",
        root.display()
    ))
}

fn kind_of(directory: &OwnedFd, name: &OsStr, known: FileType) -> Kind {
    if known != FileType::Unknown {
        return Kind::of(known);
    }
    // Some file systems do not report the type of an entry in a listing.
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Kind::of(FileType::from_raw_mode(stat.st_mode as RawMode)),
        Err(_) => Kind::Special,
    }
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    entries
}

/// Returns the target of a symbolic link, as written.
pub(crate) fn read_link(directory: &OwnedFd, name: &OsStr) -> Option<String> {
    let target = rustix::fs::readlinkat(directory, name, Vec::new()).ok()?;
    Some(target.to_string_lossy().into_owned())
}

fn is_same(left: &Stat, right: &Stat) -> bool {
    (left.st_dev, left.st_ino) == (right.st_dev, right.st_ino)
}

fn describe(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

#[cfg(test)]
mod tests;
