//! Installs staged files: all of them or none, also when the process dies in between.
//!
//! New files are staged in our own folder and moved into their places; the files that they replace
//! are linked or copied aside first. The plan is on disk before the first step and removed after
//! the last: a process that finds a plan undoes its steps. Nothing that decides what is written
//! lies in the checkout or its git folder, where a child may write. Every place is reached through
//! descriptors of its folders, none of which may be a symbolic link or a git folder.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sortie_base::atomic_file;
use sortie_base::beneath::EXACT_FOLDER_FLAGS;

use crate::error::At as _;
use crate::open_exact::open_folder;
use crate::paths::{below, is_safe, parents};
use crate::record::remove_folder;
use crate::relocate::{Route, Spot, duplicate, relocate};
use crate::snapshot::Stamp;
use crate::{Result, WorktreeError};

const PLAN_FILE: &str = "plan.json";
const NEW_FOLDER: &str = "new";
const OLD_FOLDER: &str = "old";
/// The mode of a new folder, before the umask.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);

/// A checkout, and our folder for its installation.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    /// The top of the checkout.
    pub(crate) root: PathBuf,
    /// The folder with the staged files and the plan.
    pub(crate) staging: PathBuf,
}

impl Installation {
    fn plan_file(&self) -> PathBuf {
        self.staging.join(PLAN_FILE)
    }
}

/// The change of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The path below the root, as git spells it.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    /// The file that is there now.
    pub(crate) stamp: Option<Stamp>,
    /// The new file, if there is one. Not needed to undo a step.
    #[serde(skip)]
    pub(crate) object: Option<Object>,
}

/// A file or a link as git stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// The mode in git's notation.
    pub(crate) mode: String,
    /// The object name: the hash of the content.
    pub(crate) name: String,
}

/// The kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A file is removed.
    Remove,
    /// A file is added.
    Add,
    /// The content of a file is replaced.
    Replace,
    /// A file becomes executable, or a link, or stops being so.
    ReplaceWithMode,
}

/// All steps, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
}

/// The outcome of an installation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Installed {
    All,
    /// Another writer changed this path; every step was undone.
    Nothing {
        path: Vec<u8>,
    },
}

/// Creates an empty staging folder and returns its path.
pub(crate) fn stage_folder(place: &Installation) -> Result<PathBuf> {
    remove_folder(&place.staging)?;
    for name in [OLD_FOLDER, NEW_FOLDER] {
        let folder = place.staging.join(name);
        fs::create_dir_all(&folder).at("make", &folder)?;
    }
    Ok(place.staging.join(NEW_FOLDER))
}

/// Removes the staged files.
pub(crate) fn abandon(place: &Installation) -> Result<()> {
    remove_folder(&place.staging)
}

/// Performs all steps, or none.
pub(crate) fn install(place: &Installation, plan: &Plan) -> Result<Installed> {
    let installer = Installer::begin(place, plan, is_far(place)?)?;
    for number in 0..plan.steps.len() {
        match installer.perform(number) {
            Ok(true) => {}
            Ok(false) => {
                installer.undo()?;
                let path = plan.steps[number].path.clone();
                return Ok(Installed::Nothing { path });
            }
            Err(error) => {
                installer.undo()?;
                return Err(error).at("change", &below(&place.root, &plan.steps[number].path));
            }
        }
    }
    installer.finish()?;
    Ok(Installed::All)
}

/// Undoes the steps of a process that died. Only a plan in our own folder counts.
pub(crate) fn recover(place: &Installation) -> Result<bool> {
    let path = place.plan_file();
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            abandon(place)?;
            return Ok(false);
        }
        Err(error) => return Err(error).at("read", &path),
    };
    let written: Written =
        serde_json::from_slice(&bytes).map_err(|source| WorktreeError::Damaged {
            path: path.clone(),
            source,
        })?;
    if !written.is_sound() {
        return Err(WorktreeError::UnsafePlan(path));
    }
    Installer {
        root: open_folder(&place.root)?,
        place: place.clone(),
        written,
    }
    .undo()?;
    Ok(true)
}

/// Returns whether staged files must be copied into the checkout, because it is on another file
/// system.
fn is_far(place: &Installation) -> Result<bool> {
    let device = |path: &Path| fs::metadata(path).map(|seen| seen.dev()).at("read", path);
    Ok(device(&place.root)? != device(&place.staging)?)
}

/// The plan as stored on disk, with the data that undoing it needs.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    steps: Vec<Step>,
    /// The stamp of the file that each step installs.
    staged: Vec<Option<Stamp>>,
    /// Folders that do not exist yet.
    made: Vec<Vec<u8>>,
    /// A random part for the names of copies beside their targets, so that an attacker cannot
    /// predict them.
    token: u64,
    /// Whether the checkout is known to be on another file system than our folder.
    is_far: bool,
}

impl Written {
    /// Returns whether each step is complete, and no path leads outside.
    fn is_sound(&self) -> bool {
        let mut paths = self.steps.iter().map(|step| &step.path).chain(&self.made);
        self.steps.len() == self.staged.len() && paths.all(|path| is_safe(path))
    }
}

#[derive(Debug)]
struct Installer {
    root: OwnedFd,
    place: Installation,
    written: Written,
}

impl Installer {
    /// Writes the plan to disk.
    fn begin(place: &Installation, plan: &Plan, is_far: bool) -> Result<Self> {
        let mut staged = Vec::with_capacity(plan.steps.len());
        for step in &plan.steps {
            staged.push(ready(place, step)?);
        }
        let written = Written {
            steps: plan.steps.clone(),
            staged,
            made: missing_folders(&place.root, &plan.steps),
            token: RandomState::new().build_hasher().finish(),
            is_far,
        };
        let path = place.plan_file();
        if !written.is_sound() {
            return Err(WorktreeError::UnsafePlan(path));
        }
        let bytes = serde_json::to_vec(&written).map_err(|source| WorktreeError::Damaged {
            path: path.clone(),
            source,
        })?;
        let root = open_folder(&place.root)?;
        atomic_file::replace(&path, &bytes).at("write", &path)?;
        Ok(Self {
            root,
            place: place.clone(),
            written,
        })
    }

    fn aside(&self, number: usize) -> PathBuf {
        self.place.staging.join(OLD_FOLDER).join(number.to_string())
    }

    /// Returns the name of a copy beside its target while it is incomplete.
    fn passing(&self, number: usize) -> OsString {
        format!(".sortie-{:016x}-{number}", self.written.token).into()
    }

    fn relocate(&self, number: usize, from: &Path, to: Spot<'_>) -> io::Result<()> {
        let route = Route {
            is_far: self.written.is_far,
            passing: &self.passing(number),
        };
        relocate(Spot::of(from), to, route)
    }

    /// Performs one step; `false` if the path changed since it was checked.
    fn perform(&self, number: usize) -> io::Result<bool> {
        let step = &self.written.steps[number];
        let (folder, name) = match self.folder_of(&step.path, step.kind != Kind::Remove) {
            Ok(found) => found,
            // An ancestor is no longer a folder.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        clear_folder(&folder, name)?;
        let spot = Spot {
            folder: folder.as_fd(),
            name,
        };
        if stamp_at(spot)? != step.stamp {
            return Ok(false);
        }
        if step.stamp.is_some() && !self.put_aside(spot, number)? {
            return Ok(false);
        }
        match step.kind {
            Kind::Remove => spot.remove()?,
            Kind::Add | Kind::Replace | Kind::ReplaceWithMode => {
                let staged = below(&self.place.staging.join(NEW_FOLDER), &step.path);
                self.relocate(number, &staged, spot)?;
            }
        }
        Ok(true)
    }

    /// Keeps the existing file: as a hard link, or if that is impossible, as the file itself or a
    /// copy. Returns `false` if it changed while it was copied.
    fn put_aside(&self, spot: Spot<'_>, number: usize) -> io::Result<bool> {
        let aside = self.aside(number);
        if !self.written.is_far {
            let (folder, name) = (spot.folder, spot.name);
            let linked = rustix::fs::linkat(folder, name, CWD, &aside, AtFlags::empty());
            let kept = linked.or_else(|_| rustix::fs::renameat(folder, name, CWD, &aside));
            match kept {
                Err(Errno::XDEV) => {}
                kept => return Ok(kept.map(|()| true)?),
            }
        }
        duplicate(spot, Spot::of(&aside))?;
        Ok(stamp_at(spot)? == self.written.steps[number].stamp)
    }

    /// Restores the earlier state, from the last step to the first.
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
        let spot = Spot {
            folder: folder.as_fd(),
            name,
        };
        spot.beside(&self.passing(number)).remove()?;
        let (now, staged) = (stamp_at(spot)?, self.written.staged[number]);
        let is_ours = now
            .zip(staged)
            .is_some_and(|(now, staged)| now.is_like(&staged));
        if step.stamp.is_some() {
            // Content that was written since then is not overwritten.
            if now.is_none() || is_ours {
                self.relocate(number, &self.aside(number), spot)?;
            }
        } else if is_ours {
            spot.remove()?;
            self.remove_made(&step.path)?;
        }
        Ok(())
    }

    /// Removes the folders that were created for a path.
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

    /// Removes the plan after all steps are done, and cleans up.
    fn finish(self) -> Result<()> {
        rustix::fs::syncfs(&self.root).at("write", &self.place.root)?;
        for step in &self.written.steps {
            if step.kind == Kind::Remove {
                self.remove_emptied(&step.path);
            }
        }
        self.close()
    }

    /// Removes folders that lost their last file, as git does. A folder that stays does no harm.
    fn remove_emptied(&self, path: &[u8]) {
        for parent in parents(path) {
            if !matches!(self.remove_folder_if_empty(parent), Ok(true)) {
                return;
            }
        }
    }

    fn close(&self) -> Result<()> {
        let plan = self.place.plan_file();
        fs::remove_file(&plan).at("remove", &plan)?;
        atomic_file::sync_parent(&plan).at("write", &plan)?;
        abandon(&self.place)
    }

    /// Returns the parent folder of a path, and its last name. No component may be a symbolic link,
    /// lead upwards or be a git folder.
    fn folder_of<'a>(
        &self,
        path: &'a [u8],
        is_made: bool,
    ) -> std::result::Result<(OwnedFd, &'a OsStr), Errno> {
        if !is_safe(path) {
            return Err(Errno::PERM);
        }
        let mut folder = rustix::io::dup(&self.root)?;
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            let name = OsStr::from_bytes(part);
            if parts.peek().is_none() {
                return Ok((folder, name));
            }
            folder = match rustix::fs::openat(&folder, name, EXACT_FOLDER_FLAGS, Mode::empty()) {
                Err(Errno::NOENT) if is_made => {
                    rustix::fs::mkdirat(&folder, name, FOLDER_MODE)?;
                    rustix::fs::openat(&folder, name, EXACT_FOLDER_FLAGS, Mode::empty())?
                }
                found => found?,
            };
        }
        Err(Errno::NOENT)
    }
}

/// Gives a staged file the permissions of the one it replaces, and returns its stamp.
fn ready(place: &Installation, step: &Step) -> Result<Option<Stamp>> {
    if step.kind == Kind::Remove {
        return Ok(None);
    }
    let staged = below(&place.staging.join(NEW_FOLDER), &step.path);
    if step.kind == Kind::Replace
        && let Ok(old) = fs::symlink_metadata(below(&place.root, &step.path))
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

/// Removes a folder at the place of a new file if it contains only empty folders.
fn clear_folder(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let folder = match rustix::fs::openat(parent, name, EXACT_FOLDER_FLAGS, Mode::empty()) {
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
        // The folder is not empty; the step detects that the path is not free.
        Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn stamp_at(spot: Spot<'_>) -> io::Result<Option<Stamp>> {
    match spot.look() {
        Ok(stat) => Ok(Some(Stamp::of_stat(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests;
