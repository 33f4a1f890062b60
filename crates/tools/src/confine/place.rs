//! The destination of a write: the open directory of a file, and its name there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use sortie_base::atomic_file::Draft;
use sortie_core::ports::tool::ToolFailure;

use super::protected::{self, GIT_FOLDER, of_git, refuse_git_paths};
use super::{FILE_FLAGS, FOLDER_FLAGS, OpenFile, Workspace, describe, is_same, read_link, regular};
use crate::blocking::Stop;

/// The most components of a directory that is written to.
const MAX_WRITE_DEPTH: usize = 256;

impl Workspace {
    /// Returns the destination of a write and opens its directory.
    pub(crate) fn place(&self, path: &Path, parents: Parents) -> Result<WriteTarget, ToolFailure> {
        match (self.find_place(path)?, parents) {
            (Some(place), _) => Ok(place),
            (None, Parents::Require) => Err(self.missing(path)),
            (None, Parents::Create) => {
                let (folder, name) = parts(path)?;
                let parent = self.create_folders(folder, name, path)?;
                self.checked(parent, name, path, path)
            }
        }
    }

    /// Returns the destination of a write if its directory exists. If the path names a symbolic
    /// link to a file in the workspace, the destination is that file: the link stays, and policy
    /// must permit both.
    pub(crate) fn find_place(&self, path: &Path) -> Result<Option<WriteTarget>, ToolFailure> {
        let Some(place) = self.find_exact(path, path)? else {
            return Ok(None);
        };
        if !place.is_link() {
            return Ok(Some(place));
        }
        if !self.resolver.follows_links() {
            return Err(place.is_a_link());
        }
        let directory = self.directory.as_fd();
        let file = match self.resolver.open(directory, path, FILE_FLAGS) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Err(place.is_a_dangling_link()),
            Err(errno) => return Err(self.explain(path, errno)),
        };
        let real = self.real(file.as_fd(), path)?;
        let Some(target) = self.find_exact(&real, path)? else {
            return Err(self.explain(path, Errno::AGAIN));
        };
        Ok(Some(WriteTarget {
            target: Some(real),
            ..target
        }))
    }

    /// Returns the destination that a path names, without following a link in its last component.
    /// Failures show the path `shown`.
    fn find_exact(&self, path: &Path, shown: &Path) -> Result<Option<WriteTarget>, ToolFailure> {
        let (folder, name) = parts(path)?;
        refuse_git_paths(path).map_err(|_| of_git(shown))?;
        let directory = self.directory.as_fd();
        match self.resolver.open(directory, folder, FOLDER_FLAGS) {
            Ok(parent) => self.checked(parent, name, path, shown).map(Some),
            Err(Errno::NOENT) if goes_back(folder) => Err(through_nothing(shown)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.explain(folder, errno)),
        }
    }

    fn checked(
        &self,
        parent: OwnedFd,
        name: &OsStr,
        path: &Path,
        shown: &Path,
    ) -> Result<WriteTarget, ToolFailure> {
        self.refuse_git_objects(&parent, shown)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let real = self.real(parent.as_fd(), folder)?.join(name);
        self.refuse_write(&real, shown)?;
        Ok(WriteTarget {
            path: shown.to_owned(),
            target: None,
            parent,
            name: name.to_owned(),
        })
    }

    /// Rejects a write to a path that is protected or that policy denies.
    fn refuse_write(&self, real: &Path, path: &Path) -> Result<(), ToolFailure> {
        protected::refuse(&self.real_root(path)?, real, path, self.kept.home())?;
        self.kept.refuse_write(real, path)?;
        self.permit(real, path)
    }

    fn create_folders(
        &self,
        folder: &Path,
        name: &OsStr,
        path: &Path,
    ) -> Result<OwnedFd, ToolFailure> {
        let mut here = self.directory.try_clone().map_err(|error| {
            ToolFailure::new(format!(
                "{error}: too many files are open. Try again later."
            ))
        })?;
        let mut prefix = PathBuf::new();
        let mut components = folder.components();
        while let Some(component) = components.next() {
            let above = prefix.clone();
            prefix.push(component);
            let directory = self.directory.as_fd();
            here = match self.resolver.open(directory, &prefix, FOLDER_FLAGS) {
                Ok(next) => next,
                Err(Errno::NOENT) => {
                    // Check before each directory is created: no directory may be created for a
                    // file that policy denies, even if another process moves directories meanwhile.
                    let rest = Path::new(&component).join(components.as_path()).join(name);
                    let planned = self.real(here.as_fd(), &above)?.join(rest);
                    self.refuse_write(&planned, path)?;
                    self.create_folder(&here, component.as_os_str(), &prefix)?
                }
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
            .open(self.directory.as_fd(), prefix, FOLDER_FLAGS)
            .map_err(|errno| self.explain(prefix, errno))
    }

    /// Rejects a directory that is a `.git` or inside one, whatever links led to it.
    fn refuse_git_objects(&self, directory: &OwnedFd, path: &Path) -> Result<(), ToolFailure> {
        let failed = |errno| self.explain(path, errno);
        let root = rustix::fs::fstat(&self.directory).map_err(failed)?;
        let mut here = directory.try_clone().map_err(|error| {
            ToolFailure::new(format!(
                "{error}: too many files are open. Try again later."
            ))
        })?;
        for _ in 0..MAX_WRITE_DEPTH {
            let stat = rustix::fs::fstat(&here).map_err(failed)?;
            if is_same(&stat, &root) {
                return Ok(());
            }
            let up =
                rustix::fs::openat(&here, "..", FOLDER_FLAGS, Mode::empty()).map_err(failed)?;
            // Only the identity is compared, so following a link here reveals nothing.
            let git = rustix::fs::statat(&up, GIT_FOLDER, AtFlags::empty());
            if git.is_ok_and(|git| is_same(&git, &stat)) {
                return Err(of_git(path));
            }
            here = up;
        }
        Err(ToolFailure::new(format!(
            "{} is nested too deep, or was moved out of the workspace while it was being opened. Nothing was written.",
            path.display()
        )))
    }
}

/// Whether missing directories of a path are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parents {
    Create,
    Require,
}

/// The destination of a write: the open directory of a file, and its name there.
#[derive(Debug)]
pub(crate) struct WriteTarget {
    path: PathBuf,
    /// The target relative to the workspace, if `path` names a link.
    target: Option<PathBuf>,
    pub(super) parent: OwnedFd,
    pub(super) name: OsString,
}

/// New content for a file.
#[derive(Debug)]
pub(crate) struct NewContent<'a> {
    pub(crate) bytes: &'a [u8],
    /// The name of the temporary file that is renamed to the destination; only a crash leaves it
    /// behind.
    pub(crate) temporary: &'a str,
    /// The file that the content was made from or replaces.
    pub(crate) replaces: Option<&'a Stat>,
}

impl WriteTarget {
    /// Returns the path for people and models, with the target of a link.
    pub(crate) fn shown(&self) -> String {
        match &self.target {
            None => self.path.display().to_string(),
            Some(target) => format!("{} -> {}", self.path.display(), target.display()),
        }
    }

    fn is_link(&self) -> bool {
        rustix::fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode as RawMode).is_symlink())
    }

    /// Opens the file at the destination, if there is one and it can be replaced.
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

    /// Replaces the content atomically: all of it or none.
    pub(crate) fn replace(&self, new: &NewContent<'_>, stop: &Stop) -> Result<(), ToolFailure> {
        let failed = |error: std::io::Error| {
            ToolFailure::new(format!(
                "{} could not be written: {error}. It is unchanged.",
                self.path.display()
            ))
        };
        let temporary = draft(&self.parent, new).map_err(failed)?;
        let mut file = temporary.file();
        file.write_all(new.bytes).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        self.refuse_change(new.replaces)?;
        if stop.is_dropped() {
            return Err(ToolFailure::new(
                "The call was stopped; nothing was written.",
            ));
        }
        temporary.rename_to(&self.name).map_err(failed)?;
        // The rename is visible already. Only a power failure could still undo it, and then both
        // files are intact.
        rustix::fs::fsync(&self.parent).ok();
        Ok(())
    }

    /// Fails if the file at the destination is not the one that the new content was made from.
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
            "{} was changed by another process, so nothing was written. Read it again, then repeat the change.",
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

    fn is_a_dangling_link(&self) -> ToolFailure {
        let target = read_link(&self.parent, &self.name).unwrap_or_default();
        ToolFailure::new(format!(
            "{} is a symbolic link to {target}, which does not exist. Create the file it points to by its own path instead.",
            self.path.display()
        ))
    }
}

/// Creates a temporary file with owner and permissions of the file it replaces.
pub(super) fn draft<'a>(parent: &'a OwnedFd, new: &NewContent<'a>) -> std::io::Result<Draft<'a>> {
    let draft = Draft::create(parent.as_fd(), new.temporary, 0o666)?;
    if let Some(before) = new.replaces {
        keep_owner(draft.file(), before);
        let mode = before.st_mode as RawMode & 0o777;
        rustix::fs::fchmod(draft.file(), Mode::from_raw_mode(mode))?;
    }
    Ok(draft)
}

/// Gives a new file the owner of the one it replaces, if the system permits it.
fn keep_owner(file: &File, before: &Stat) {
    use rustix::process::{Gid, Uid};
    let same = rustix::fs::fstat(file)
        .is_ok_and(|new| new.st_uid == before.st_uid && new.st_gid == before.st_gid);
    if !same {
        let owner = Some(Uid::from_raw(before.st_uid));
        let group = Some(Gid::from_raw(before.st_gid));
        // Only root may change the owner; for other users the file becomes their own.
        rustix::fs::fchown(file, owner, group).ok();
    }
}

/// Splits a path into its directory and the file name.
fn parts(path: &Path) -> Result<(&Path, &OsStr), ToolFailure> {
    let Some(Component::Normal(name)) = path.components().next_back() else {
        return Err(ToolFailure::new(format!(
            "{} does not name a file. Give the path of a file in the workspace.",
            path.display()
        )));
    };
    Ok(match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => (parent, name),
        Some(_) | None => (Path::new("."), name),
    })
}

/// Returns whether a path leaves a folder again by `..`.
fn goes_back(path: &Path) -> bool {
    path.components()
        .any(|component| component == Component::ParentDir)
}

/// Returns the failure for a path whose folders would be created only to be left again by `..`.
fn through_nothing(path: &Path) -> ToolFailure {
    ToolFailure::new(format!(
        "{} goes through a folder that does not exist and has `..` in it. Give the path without `..`.",
        path.display()
    ))
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
