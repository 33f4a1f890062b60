//! Puts staged files in their places: all of them, or none, also when the process dies in between.
//!
//! New files are staged in the git folder of the checkout and renamed into their places; what they
//! replace is linked aside first. The plan is on disk before the first step and removed after the
//! last: whoever finds one undoes its steps. Every place is reached through descriptors of its
//! folders, none of which may be a symbolic link.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::At as _;
use crate::record::{remove_folder, sync_parent, write_durably};
use crate::snapshot::Stamp;
use crate::{Result, WorktreeError};

const STAGING_FOLDER: &str = "sortie-apply";
const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Who may do what with a new folder, before the person's own mask.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);

/// What is to be done to one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The path below the root, as git spells it.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    /// What is there now.
    pub(crate) stamp: Option<Stamp>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A file goes.
    Remove,
    /// A file comes.
    Add,
    /// A file gets another content.
    Replace,
    /// A file becomes executable, or a link, or stops being so.
    ReplaceWithMode,
}

/// All that is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
}

/// What was done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done {
    All,
    /// Somebody changed this path; everything is as it was.
    Nothing {
        path: Vec<u8>,
    },
}

/// Makes an empty folder for new files and gives its place.
pub(crate) fn stage_folder(git_dir: &Path) -> Result<PathBuf> {
    let staging = git_dir.join(STAGING_FOLDER);
    remove_folder(&staging)?;
    for name in ["old", "new"] {
        let folder = staging.join(name);
        fs::create_dir_all(&folder).at("make", &folder)?;
    }
    Ok(staging.join("new"))
}

/// Removes what was staged.
pub(crate) fn abandon(git_dir: &Path) -> Result<()> {
    remove_folder(&git_dir.join(STAGING_FOLDER))
}

/// Does all steps, or none.
pub(crate) fn install(root: &Path, git_dir: &Path, plan: &Plan) -> Result<Done> {
    let installer = Installer::begin(root, git_dir, plan)?;
    for number in 0..plan.steps.len() {
        match installer.perform(number) {
            Ok(true) => {}
            Ok(false) => {
                installer.undo()?;
                let path = plan.steps[number].path.clone();
                return Ok(Done::Nothing { path });
            }
            Err(error) => {
                installer.undo()?;
                return Err(error).at("change", &below(root, &plan.steps[number].path));
            }
        }
    }
    installer.finish()?;
    Ok(Done::All)
}

/// Undoes what a process that died had begun.
pub(crate) fn recover(root: &Path, git_dir: &Path) -> Result<bool> {
    let staging = git_dir.join(STAGING_FOLDER);
    let path = staging.join("plan.json");
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            remove_folder(&staging)?;
            return Ok(false);
        }
        Err(error) => return Err(error).at("read", &path),
    };
    let written =
        serde_json::from_slice(&bytes).map_err(|source| WorktreeError::Damaged { path, source })?;
    Installer {
        root: open_root(root)?,
        staging,
        written,
    }
    .undo()?;
    Ok(true)
}

/// The plan as it is kept, with what is needed to undo it.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    steps: Vec<Step>,
    /// What each step puts in place.
    staged: Vec<Option<Stamp>>,
    /// Folders that are not there yet.
    made: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Installer {
    root: OwnedFd,
    staging: PathBuf,
    written: Written,
}

impl Installer {
    /// Writes down what is going to happen.
    fn begin(root: &Path, git_dir: &Path, plan: &Plan) -> Result<Self> {
        let staging = git_dir.join(STAGING_FOLDER);
        let mut staged = Vec::with_capacity(plan.steps.len());
        for step in &plan.steps {
            staged.push(ready(&staging, root, step)?);
        }
        let installer = Self {
            root: open_root(root)?,
            written: Written {
                steps: plan.steps.clone(),
                staged,
                made: missing_folders(root, &plan.steps),
            },
            staging,
        };
        let path = installer.plan_file();
        let bytes = serde_json::to_vec(&installer.written);
        let bytes = bytes.map_err(|source| WorktreeError::Damaged {
            path: path.clone(),
            source,
        })?;
        write_durably(&path, &bytes)?;
        Ok(installer)
    }

    fn plan_file(&self) -> PathBuf {
        self.staging.join("plan.json")
    }

    fn aside(&self, number: usize) -> PathBuf {
        self.staging.join("old").join(number.to_string())
    }

    /// Does one step; `false` if somebody changed the path since it was looked at.
    fn perform(&self, number: usize) -> io::Result<bool> {
        let step = &self.written.steps[number];
        let (folder, name) = match self.folder_of(&step.path, step.kind != Kind::Remove) {
            Ok(found) => found,
            // Where a folder should be is something else by now.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        clear_folder(&folder, name)?;
        if stamp_at(&folder, name)? != step.stamp {
            return Ok(false);
        }
        if step.stamp.is_some() {
            self.put_aside(&folder, name, number)?;
        }
        match step.kind {
            Kind::Remove => remove(&folder, name)?,
            Kind::Add | Kind::Replace | Kind::ReplaceWithMode => {
                let staged = below(&self.staging.join("new"), &step.path);
                rustix::fs::renameat(CWD, &staged, &folder, name)?;
            }
        }
        Ok(true)
    }

    /// Keeps what is there: a second name for it, or if that cannot be, the file itself.
    fn put_aside(&self, folder: &OwnedFd, name: &OsStr, number: usize) -> io::Result<()> {
        let aside = self.aside(number);
        match rustix::fs::linkat(folder, name, CWD, &aside, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(_) => Ok(rustix::fs::renameat(folder, name, CWD, &aside)?),
        }
    }

    /// Makes everything as it was, from the last step to the first.
    fn undo(self) -> Result<()> {
        for number in (0..self.written.steps.len()).rev() {
            let path = &self.written.steps[number].path;
            let undone = self.undo_step(number);
            undone.at("restore", Path::new(OsStr::from_bytes(path)))?;
        }
        self.close()
    }

    fn undo_step(&self, number: usize) -> io::Result<()> {
        let step = &self.written.steps[number];
        let is_aside = fs::symlink_metadata(self.aside(number)).is_ok();
        if step.stamp.is_some() && !is_aside {
            // This step was not reached.
            return Ok(());
        }
        let found = self.folder_of(&step.path, step.stamp.is_some());
        let (folder, name) = match found {
            Ok(found) => found,
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let now = stamp_at(&folder, name)?;
        let is_ours = now.is_some() && now == self.written.staged[number];
        if step.stamp.is_some() {
            // What somebody wrote since is not overwritten.
            if now.is_none() || is_ours {
                rustix::fs::renameat(CWD, self.aside(number), &folder, name)?;
            }
        } else if is_ours {
            remove(&folder, name)?;
            self.remove_made(&step.path)?;
        }
        Ok(())
    }

    /// Removes the folders that were made for a path.
    fn remove_made(&self, path: &[u8]) -> io::Result<()> {
        for parent in parents(path) {
            if self.written.made.iter().any(|made| made == parent) {
                self.remove_folder_if_empty(parent)?;
            }
        }
        Ok(())
    }

    fn remove_folder_if_empty(&self, path: &[u8]) -> io::Result<bool> {
        let (folder, name) = match self.folder_of(path, false) {
            Ok(found) => found,
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        match rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Says that all steps are done, and tidies up after them.
    fn finish(self) -> Result<()> {
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(&self.root).at("write", &self.staging)?;
        for step in &self.written.steps {
            if step.kind == Kind::Remove {
                self.remove_emptied(&step.path);
            }
        }
        self.close()
    }

    /// Removes folders that lost their last file, as git does. One that stays harms nobody.
    fn remove_emptied(&self, path: &[u8]) {
        for parent in parents(path) {
            if !matches!(self.remove_folder_if_empty(parent), Ok(true)) {
                return;
            }
        }
    }

    fn close(&self) -> Result<()> {
        let plan = self.plan_file();
        fs::remove_file(&plan).at("remove", &plan)?;
        sync_parent(&plan)?;
        remove_folder(&self.staging)
    }

    /// The folder of a path, and the path's last name. No part of it may be a symbolic link.
    fn folder_of<'a>(
        &self,
        path: &'a [u8],
        is_made: bool,
    ) -> std::result::Result<(OwnedFd, &'a OsStr), Errno> {
        let mut folder = rustix::io::dup(&self.root)?;
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            let name = OsStr::from_bytes(part);
            if parts.peek().is_none() {
                return Ok((folder, name));
            }
            folder = match rustix::fs::openat(&folder, name, FOLDER_FLAGS, Mode::empty()) {
                Err(Errno::NOENT) if is_made => {
                    rustix::fs::mkdirat(&folder, name, FOLDER_MODE)?;
                    rustix::fs::openat(&folder, name, FOLDER_FLAGS, Mode::empty())?
                }
                found => found?,
            };
        }
        Err(Errno::NOENT)
    }
}

/// Gives a staged file the permissions of the one it replaces, and takes its stamp.
fn ready(staging: &Path, root: &Path, step: &Step) -> Result<Option<Stamp>> {
    if step.kind == Kind::Remove {
        return Ok(None);
    }
    let staged = below(&staging.join("new"), &step.path);
    if step.kind == Kind::Replace
        && let Ok(old) = fs::symlink_metadata(below(root, &step.path))
        && old.is_file()
    {
        fs::set_permissions(&staged, old.permissions()).at("change", &staged)?;
    }
    let seen = fs::symlink_metadata(&staged).at("read", &staged)?;
    Ok(Some(Stamp::of(&seen)))
}

fn missing_folders(root: &Path, steps: &[Step]) -> Vec<Vec<u8>> {
    let mut missing: Vec<Vec<u8>> = steps
        .iter()
        .filter(|step| step.kind == Kind::Add)
        .flat_map(|step| parents(&step.path))
        .filter(|parent| !below(root, parent).is_dir())
        .map(<[u8]>::to_vec)
        .collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// Removes a folder that stands where a file is to come and that holds nothing but empty folders.
fn clear_folder(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let folder = match rustix::fs::openat(parent, name, FOLDER_FLAGS, Mode::empty()) {
        Ok(folder) => folder,
        Err(_) => return Ok(()),
    };
    for entry in rustix::fs::Dir::read_from(&folder)? {
        let entry = entry?;
        let inner = OsStr::from_bytes(entry.file_name().to_bytes());
        if inner != "." && inner != ".." {
            clear_folder(&folder, inner)?;
        }
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        // Something is in it; the step will find that the path is not free.
        Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn stamp_at(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<Stamp>> {
    match rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Stamp::of_stat(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn remove(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        // It was put aside by moving it.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn open_root(root: &Path) -> Result<OwnedFd> {
    rustix::fs::open(root, FOLDER_FLAGS, Mode::empty()).at("open", root)
}

/// The folders on the way to a path, the deepest first.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().rev();
    ends.filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| &path[..at])
}

/// A path of git's, below a folder.
pub(crate) fn below(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(path))
}

/// A path of git's, and a name in it.
pub(crate) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    [path, b"/", name].concat()
}

#[cfg(test)]
mod tests;
