//! Keeps file tools inside the workspace.
//!
//! Every path is resolved beneath a held descriptor of the workspace, and what was opened is what
//! is used: nothing is ever checked by one path and opened by another. Writes go to a new file
//! beside the old one and are renamed over it, so that they are atomic and never reach a file
//! that a hard link shares with the world outside.

mod beneath;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use sortie_core::ToolFailure;

use crate::blocking::Stop;
use beneath::Resolver;

/// The longest path taken from a model.
const MAX_PATH_BYTES: usize = 4096;
/// How many entries of one directory are read.
pub(crate) const MAX_DIRECTORY_ENTRIES: usize = 50_000;
/// How deep a directory may lie that something is written to.
const MAX_WRITE_DEPTH: usize = 256;
/// A folder whose content makes programs run; never written to.
const GIT_FOLDER: &str = ".git";
/// How many similar names are named when a file is missing.
const MAX_SIMILAR_NAMES: usize = 3;
/// How much a name must resemble the one asked for, from 0 to 1.
const SIMILAR_ENOUGH: f32 = 0.6;

const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
// Without NONBLOCK, opening a FIFO would wait for its other end.
const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// The folder that file tools are confined to.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The spellings of the root that absolute paths may begin with.
    roots: Vec<PathBuf>,
    directory: OwnedFd,
    resolver: Resolver,
}

/// A file that is open for reading.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// The file.
    pub(crate) file: File,
    /// What the file system says about it.
    pub(crate) stat: Stat,
}

/// What a directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: OsString,
    /// What it is.
    pub(crate) kind: Kind,
}

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else.
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
    /// Takes hold of the workspace.
    pub(crate) fn open(root: &Path) -> Result<Self, ToolFailure> {
        let directory =
            rustix::fs::open(root, DIRECTORY_FLAGS, Mode::empty()).map_err(|errno| {
                ToolFailure::new(format!(
                    "The workspace {} cannot be opened ({}). Report this; no file tool can work.",
                    root.display(),
                    describe(errno)
                ))
            })?;
        let resolver = Resolver::detect(directory.as_fd());
        let mut roots = vec![root.to_owned()];
        // Only a second spelling to strip from absolute paths; nothing is opened by it.
        roots.extend(std::fs::canonicalize(root).ok().filter(|real| real != root));
        Ok(Self {
            roots,
            directory,
            resolver,
        })
    }

    /// The path relative to the workspace, by its words alone.
    pub(crate) fn locate(&self, path: &str) -> Result<PathBuf, ToolFailure> {
        crate::arguments::at_most("path", path, MAX_PATH_BYTES)?;
        let given = Path::new(path);
        let relative = if given.is_absolute() {
            let stripped = self
                .roots
                .iter()
                .find_map(|root| given.strip_prefix(root).ok());
            stripped.ok_or_else(|| outside(path, &self.roots[0]))?
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

    /// Opens a regular file for reading, if there is one.
    pub(crate) fn find_file(&self, path: &Path) -> Result<Option<OpenFile>, ToolFailure> {
        match self.resolver.open(self.directory.as_fd(), path, FILE_FLAGS) {
            Ok(fd) => regular(fd, path).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.explain(path, errno)),
        }
    }

    /// Opens a directory.
    pub(crate) fn open_directory(&self, path: &Path) -> Result<OwnedFd, ToolFailure> {
        self.resolver
            .open(self.directory.as_fd(), path, DIRECTORY_FLAGS)
            .map_err(|errno| match errno {
                Errno::NOENT => self.missing(path),
                Errno::NOTDIR => ToolFailure::new(format!(
                    "{} is not a directory. Give the path of a directory, or read it with read_file.",
                    path.display()
                )),
                other => self.explain(path, other),
            })
    }

    /// What a directory holds, by name; `true` if there is more than is read.
    pub(crate) fn entries(&self, path: &Path) -> Result<(Vec<Entry>, bool), ToolFailure> {
        let directory = self.open_directory(path)?;
        let mut entries = Vec::new();
        let reading = Dir::read_from(&directory).map_err(|errno| self.explain(path, errno))?;
        for item in reading {
            let item = item.map_err(|errno| self.explain(path, errno))?;
            let name = OsStr::from_bytes(item.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() == MAX_DIRECTORY_ENTRIES {
                return Ok((sorted(entries), true));
            }
            entries.push(Entry {
                name: name.to_owned(),
                kind: kind_of(&directory, name, item.file_type()),
            });
        }
        Ok((sorted(entries), false))
    }

    /// Size and time of an entry, without following it.
    pub(crate) fn stat(&self, directory: &Path, name: &OsStr) -> Option<Stat> {
        let directory = self.open_directory(directory).ok()?;
        rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Where a symbolic link points, as written.
    pub(crate) fn link_target(&self, directory: &Path, name: &OsStr) -> Option<String> {
        let directory = self.open_directory(directory).ok()?;
        read_link(&directory, name)
    }

    /// Reads a whole file of at most `max_bytes`.
    pub(crate) fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, ToolFailure> {
        let mut open = self.open_file(path)?;
        open.read(path, max_bytes)
    }

    /// The place of a file that is to be written, with its directory held.
    pub(crate) fn place(&self, path: &Path, parents: Parents) -> Result<Place, ToolFailure> {
        let Some(Component::Normal(name)) = path.components().next_back() else {
            return Err(ToolFailure::new(format!(
                "{} does not name a file. Give the path of a file in the workspace.",
                path.display()
            )));
        };
        refuse_git_words(path)?;
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            Some(_) | None => Path::new("."),
        };
        let parent = match self
            .resolver
            .open(self.directory.as_fd(), folder, DIRECTORY_FLAGS)
        {
            Ok(parent) => parent,
            Err(Errno::NOENT) if parents == Parents::Create => self.create_folders(folder)?,
            Err(Errno::NOENT) => return Err(self.missing(path)),
            Err(errno) => return Err(self.explain(folder, errno)),
        };
        self.refuse_git_objects(&parent, path)?;
        Ok(Place {
            path: path.to_owned(),
            parent,
            name: name.to_owned(),
        })
    }

    fn create_folders(&self, folder: &Path) -> Result<OwnedFd, ToolFailure> {
        let mut here = self
            .directory
            .try_clone()
            .map_err(|error| ToolFailure::new(format!("No more files can be opened: {error}.")))?;
        let mut prefix = PathBuf::new();
        for component in folder.components() {
            prefix.push(component);
            here = match self
                .resolver
                .open(self.directory.as_fd(), &prefix, DIRECTORY_FLAGS)
            {
                Ok(next) => next,
                Err(Errno::NOENT) => self.create_folder(&here, component.as_os_str(), &prefix)?,
                Err(errno) => return Err(self.explain(&prefix, errno)),
            };
        }
        Ok(here)
    }

    fn create_folder(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        prefix: &Path,
    ) -> Result<OwnedFd, ToolFailure> {
        self.refuse_git_objects(parent, prefix)?;
        match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(self.explain(prefix, errno)),
        }
        self.resolver
            .open(self.directory.as_fd(), prefix, DIRECTORY_FLAGS)
            .map_err(|errno| self.explain(prefix, errno))
    }

    /// Refuses a directory that is a `.git` or lies in one, whatever links led to it.
    fn refuse_git_objects(&self, directory: &OwnedFd, path: &Path) -> Result<(), ToolFailure> {
        let failed = |errno| self.explain(path, errno);
        let root = rustix::fs::fstat(&self.directory).map_err(failed)?;
        let mut here = directory.try_clone().map_err(|error| {
            ToolFailure::new(format!(
                "No more files can be opened: {error}. Try again later."
            ))
        })?;
        for _ in 0..MAX_WRITE_DEPTH {
            let stat = rustix::fs::fstat(&here).map_err(failed)?;
            if is_same(&stat, &root) {
                return Ok(());
            }
            let up =
                rustix::fs::openat(&here, "..", DIRECTORY_FLAGS, Mode::empty()).map_err(failed)?;
            // Only its identity is compared, so following a link here reveals nothing.
            let git = rustix::fs::statat(&up, GIT_FOLDER, AtFlags::empty());
            if git.is_ok_and(|git| is_same(&git, &stat)) {
                return Err(protected(path));
            }
            here = up;
        }
        Err(ToolFailure::new(format!(
            "{} lies too deep, or was moved out of the workspace while it was opened. Nothing was written.",
            path.display()
        )))
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
        let Ok((entries, _)) = self.entries(shown) else {
            return Vec::new();
        };
        let name = name.to_string_lossy().to_lowercase();
        let mut scored: Vec<(f32, String)> = entries
            .iter()
            .take(1000)
            .map(|entry| {
                let other = entry.name.to_string_lossy().to_lowercase();
                let ratio = similar::TextDiff::from_chars(name.as_str(), other.as_str()).ratio();
                (ratio, folder.join(&entry.name).display().to_string())
            })
            .filter(|(ratio, _)| *ratio >= SIMILAR_ENOUGH)
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
            Errno::XDEV => return outside(&path_shown.to_string(), &self.roots[0]),
            Errno::NOENT => return self.missing(path),
            Errno::LOOP => format!(
                "{path_shown} goes through a symbolic link that file tools do not follow. Use the real path."
            ),
            Errno::NOTDIR => format!(
                "A part of {path_shown} is not a directory. Find the right path with list_dir or glob."
            ),
            Errno::ISDIR => {
                format!("{path_shown} is a directory. Use list_dir to see what it holds.")
            }
            Errno::ACCESS | Errno::PERM | Errno::ROFS => format!(
                "The system does not permit this with {path_shown}. Work with another file, or report it."
            ),
            Errno::NXIO => format!(
                "{path_shown} is a socket or a device. File tools work with regular files only."
            ),
            Errno::AGAIN => {
                format!("{path_shown} was moved around while it was opened. Try again.")
            }
            other => format!(
                "{path_shown} cannot be used ({}). Check the path, then try again.",
                describe(other)
            ),
        })
    }

    #[cfg(test)]
    pub(crate) fn with_components_only(mut self) -> Self {
        self.resolver = Resolver::Components;
        self
    }
}

impl OpenFile {
    /// Reads all of it, at most `max_bytes`.
    pub(crate) fn read(&mut self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, ToolFailure> {
        let mut bytes = Vec::new();
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
            "{} is larger than {} MiB. Look into it with grep, or with exec and a command that prints a part.",
            path.display(),
            max_bytes >> 20
        )))
    }
}

/// Whether missing directories of a path are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parents {
    /// They are.
    Create,
    /// They must exist.
    Require,
}

/// Where a file is written: its directory, held open, and its name there.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    parent: OwnedFd,
    name: OsString,
}

/// A new content for a place.
#[derive(Debug)]
pub(crate) struct NewContent<'a> {
    /// The bytes.
    pub(crate) bytes: &'a [u8],
    /// The name of the file that becomes the new one; left over only by a crash.
    pub(crate) temporary: &'a str,
    /// The file it is made from or replaces.
    pub(crate) replaces: Option<&'a Stat>,
}

impl Place {
    /// The file that is there now and can be replaced.
    pub(crate) fn existing(&self) -> Result<Option<OpenFile>, ToolFailure> {
        let opened = rustix::fs::openat(
            &self.parent,
            &self.name,
            FILE_FLAGS | OFlags::NOFOLLOW,
            Mode::empty(),
        );
        match opened {
            Ok(fd) => {
                let open = regular(fd, &self.path)?;
                refuse_read_only(&open.stat, &self.path)?;
                Ok(Some(open))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP) => Err(self.is_a_link()),
            Err(errno) => Err(ToolFailure::new(format!(
                "{} cannot be opened ({}). Write to another file, or report it.",
                self.path.display(),
                describe(errno)
            ))),
        }
    }

    /// Puts the new content there, wholly or not at all.
    pub(crate) fn replace(&self, new: &NewContent<'_>, stop: &Stop) -> Result<(), ToolFailure> {
        let failed = |error: std::io::Error| {
            ToolFailure::new(format!(
                "{} could not be written: {error}. It is unchanged.",
                self.path.display()
            ))
        };
        let temporary = Temporary::create(&self.parent, new).map_err(failed)?;
        let mut file = &temporary.file;
        file.write_all(new.bytes).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        self.refuse_change(new.replaces)?;
        if stop.is_dropped() {
            return Err(ToolFailure::new(
                "The call was stopped; nothing was written.",
            ));
        }
        temporary.rename_to(&self.name).map_err(failed)?;
        // The rename is visible; only a power cut could still undo it, and then both files are whole.
        rustix::fs::fsync(&self.parent).ok();
        Ok(())
    }

    /// Refuses if what is there is not what the new content was made from.
    fn refuse_change(&self, before: Option<&Stat>) -> Result<(), ToolFailure> {
        let now = rustix::fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let unchanged = match (before, &now) {
            (None, None) => true,
            (Some(before), Some(now)) => {
                is_same(before, now)
                    && before.st_size == now.st_size
                    && (before.st_mtime, before.st_mtime_nsec) == (now.st_mtime, now.st_mtime_nsec)
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
        if unchanged {
            return Ok(());
        }
        Err(ToolFailure::new(format!(
            "{} was changed by somebody else meanwhile, so nothing was written. Read it again, then repeat the change.",
            self.path.display()
        )))
    }

    fn is_a_link(&self) -> ToolFailure {
        let target = read_link(&self.parent, &self.name).unwrap_or_default();
        ToolFailure::new(format!(
            "{} is a symbolic link to {target}. Write to the file it points to instead.",
            self.path.display()
        ))
    }
}

/// A file that will be renamed; removed again if it is not.
struct Temporary<'a> {
    parent: &'a OwnedFd,
    name: &'a str,
    file: File,
    renamed: bool,
}

impl<'a> Temporary<'a> {
    fn create(parent: &'a OwnedFd, new: &NewContent<'a>) -> std::io::Result<Self> {
        // A crash of the same call may have left one behind.
        rustix::fs::unlinkat(parent, new.temporary, AtFlags::empty()).ok();
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(parent, new.temporary, flags, Mode::from_raw_mode(0o666))?;
        let this = Self {
            parent,
            name: new.temporary,
            file: File::from(fd),
            renamed: false,
        };
        if let Some(before) = new.replaces {
            keep_owner(&this.file, before);
            let mode = before.st_mode as RawMode & 0o777;
            rustix::fs::fchmod(&this.file, Mode::from_raw_mode(mode))?;
        }
        Ok(this)
    }

    fn rename_to(mut self, name: &OsStr) -> std::io::Result<()> {
        rustix::fs::renameat(self.parent, self.name, self.parent, name)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // Already gone is as good as removed.
            rustix::fs::unlinkat(self.parent, self.name, AtFlags::empty()).ok();
        }
    }
}

/// Gives a new file the owner of the one it replaces, where the system lets us.
fn keep_owner(file: &File, before: &Stat) {
    use rustix::process::{Gid, Uid};
    let same = rustix::fs::fstat(file)
        .is_ok_and(|new| new.st_uid == before.st_uid && new.st_gid == before.st_gid);
    if !same {
        let owner = Some(Uid::from_raw(before.st_uid));
        let group = Some(Gid::from_raw(before.st_gid));
        // Only root may give files away; for anybody else the file simply becomes theirs.
        rustix::fs::fchown(file, owner, group).ok();
    }
}

fn regular(fd: OwnedFd, path: &Path) -> Result<OpenFile, ToolFailure> {
    let stat = rustix::fs::fstat(&fd).map_err(|errno| {
        ToolFailure::new(format!(
            "{} cannot be looked at ({}).",
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
            "{} is a directory. Use list_dir to see what it holds.",
            path.display()
        ))),
        Kind::Symlink | Kind::Special => Err(ToolFailure::new(format!(
            "{} is a pipe, a socket or a device. File tools work with regular files only.",
            path.display()
        ))),
    }
}

fn refuse_read_only(stat: &Stat, path: &Path) -> Result<(), ToolFailure> {
    if stat.st_mode & 0o222 != 0 {
        return Ok(());
    }
    Err(ToolFailure::new(format!(
        "{} is marked read-only. Leave it as it is, or make it writable first if that was asked for.",
        path.display()
    )))
}

/// Refuses a path that names a `.git`, also one that does not exist yet.
fn refuse_git_words(path: &Path) -> Result<(), ToolFailure> {
    let names_git = path
        .components()
        .any(|component| component.as_os_str().eq_ignore_ascii_case(GIT_FOLDER));
    if names_git {
        Err(protected(path))
    } else {
        Ok(())
    }
}

fn protected(path: &Path) -> ToolFailure {
    ToolFailure::new(format!(
        "{} belongs to git's own files, which file tools never write: hooks and config there run programs. Use git commands instead.",
        path.display()
    ))
}

fn outside(path: &str, root: &Path) -> ToolFailure {
    ToolFailure::new(format!(
        "{path} leads outside the workspace {}. File tools work only inside it: use a path relative to it.",
        root.display()
    ))
}

fn kind_of(directory: &OwnedFd, name: &OsStr, told: FileType) -> Kind {
    if told != FileType::Unknown {
        return Kind::of(told);
    }
    // Some file systems do not tell the type while listing.
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Kind::of(FileType::from_raw_mode(stat.st_mode as RawMode)),
        Err(_) => Kind::Special,
    }
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    entries
}

fn read_link(directory: &OwnedFd, name: &OsStr) -> Option<String> {
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
