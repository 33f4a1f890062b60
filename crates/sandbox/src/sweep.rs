//! Neutralises what a command left behind that would act later, outside of the sandbox.
//!
//! After a command, every git folder that it could have changed is reduced so that git runs no
//! program because of it: its settings to an allow list of data, no own hooks, no redirect to
//! another folder. Objects, branches and the working tree stay. Removed entries are moved aside
//! under a name that no program looks for, because they may contain work.
//!
//! Decisions ([`plan`]) are separate from actions. Everything is read and renamed relative to open
//! folders, without following links, because concurrent commands may swap folders for links.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, RenameFlags, fchmod, fstat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sortie_base::atomic_file::Draft;
use sortie_base::regular_file;

use crate::git;
use crate::git_config;
use crate::git_places::{Kind, ScanResult, Time, find, is_git_name, open_beneath};
use crate::open_exact::open_folder;

/// The largest git configuration file that is read. Larger ones are moved aside.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// The longest pointer to a git folder that is read.
const MAX_POINTER_BYTES: u64 = 16 * 1024;
/// The most entries of one report.
const MAX_REPORTED: usize = 100;
/// The most settings that a report names for one file.
const MAX_DROPPED: usize = 20;
/// The most names that are tried for an entry that is moved aside. A command can occupy the first
/// one; it cannot predict the others.
const MAX_TRIES: usize = 8;
/// The most bytes of settings that a baseline stores. A repository beyond this limit is protected
/// instead.
const MAX_SETTINGS_BYTES: usize = 16 << 20;
/// The name suffix of entries that were moved aside.
const ASIDE: &str = ".sortie-quarantine";

/// An entry that would have acted later, and how it was neutralised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neutralised {
    /// The path relative to the workspace.
    pub path: String,
    pub measure: Measure,
    /// The settings that were dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// The path at which the original is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_as: Option<String>,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// The action taken on an entry that would have acted later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Git settings were reduced to those that never run a program.
    Reduced,
    MovedAside,
    /// The state before the command was restored.
    Restored,
    /// It acts only after a person has agreed, so it stays.
    LeftInPlace,
    /// It could not be neutralised.
    Failed,
    /// It could not be scanned.
    NotChecked,
    /// The report is truncated.
    More,
}

impl Neutralised {
    pub(crate) fn new(path: &Path, measure: Measure) -> Self {
        Self {
            path: path.to_string_lossy().into_owned(),
            measure,
            dropped: Vec::new(),
            kept_as: None,
            cause: None,
        }
    }

    pub(crate) fn failed(path: &Path, cause: &io::Error) -> Self {
        Self {
            cause: Some(cause.to_string()),
            ..Self::new(path, Measure::Failed)
        }
    }

    pub(crate) fn aside(path: &Path, kept_as: &OsStr) -> Self {
        let kept_as = path.with_file_name(kept_as).to_string_lossy().into_owned();
        Self {
            kept_as: Some(kept_as),
            ..Self::new(path, Measure::MovedAside)
        }
    }

    /// Returns one sentence for models and people: what was changed, and what to do instead.
    pub fn sentence(&self) -> String {
        let path = &self.path;
        let kept = self.kept_as.as_deref().unwrap_or("nowhere");
        match self.measure {
            Measure::Reduced => format!(
                "{path}: settings that can make git run a program were removed ({}); the original is {kept}. Pass such settings with `git -c` in the command that needs them.",
                self.dropped.join(", ")
            ),
            Measure::MovedAside if self.kept_as.is_none() => format!(
                "{path} was removed because it could not be moved aside: git would act on it outside the sandbox. Do not create it again; report what it should contain."
            ),
            Measure::MovedAside => format!(
                "{path} was moved to {kept}: git, an editor, a shell or an agent would act on it outside the sandbox. Do not create it again; report what it should contain."
            ),
            Measure::Restored => format!(
                "{path} is protected and was restored to its state before the command. Report what it should contain."
            ),
            Measure::LeftInPlace => format!(
                "{path} was left in place: an editor, a shell or an agent acts on it when a person opens or enters its folder. Mention it in your report."
            ),
            Measure::Failed => format!(
                "{path} would act outside the sandbox and could not be neutralised: {}. Remove it, and mention it in your report.",
                self.cause.as_deref().unwrap_or("unknown cause")
            ),
            Measure::NotChecked => format!(
                "{} could not be checked for repositories that act outside the sandbox. Mention it in your report.",
                if path.is_empty() {
                    "A part of the workspace"
                } else {
                    path
                }
            ),
            Measure::More => format!("Further paths of this kind are not listed here: {path}."),
        }
    }
}

/// The state of a workspace before a command, as far as the sweep after it depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Baseline {
    /// Places that the command cannot change.
    pub(crate) protected: BTreeSet<PathBuf>,
    /// Settings of git folders that the command can change, and that did not make git run a
    /// program.
    pub(crate) settings: BTreeMap<PathBuf, Vec<u8>>,
    /// Existing files and folders that editors, shells and agents act on.
    pub(crate) notable: BTreeSet<PathBuf>,
    /// Folders that could not be scanned.
    pub(crate) unseen: BTreeSet<PathBuf>,
}

impl Baseline {
    /// Keeps only entries that another command, running in the same workspace, found before its own
    /// start as well. That command may have created the rest: together the two could do what
    /// neither may.
    pub(crate) fn retain_known_to(&mut self, other: &Self) {
        self.protected.retain(|path| other.protected.contains(path));
        self.settings
            .retain(|path, settings| other.settings.get(path) == Some(settings));
        self.unseen.retain(|path| other.unseen.contains(path));
    }
}

/// The result of the scan before a command.
#[derive(Debug, Default)]
pub(crate) struct Before {
    pub(crate) baseline: Baseline,
    /// The places to protect, beside the `.git` at the top.
    pub(crate) protect: BTreeMap<PathBuf, Kind>,
}

/// Scans a workspace before a command. A repository that makes git run no program may be changed,
/// because the sweep reduces it to that state afterwards; every other repository belongs to the
/// user, and is protected.
pub(crate) fn before(workspace: &Path) -> io::Result<Before> {
    let root = open_folder(workspace)?;
    let ScanResult {
        places,
        notable,
        unseen,
    } = find(root.as_fd(), Time::Before);
    let mut baseline = Baseline {
        notable,
        unseen,
        ..Baseline::default()
    };
    let mut protect = BTreeMap::new();
    let mut stored = 0;
    for (path, kind) in places.iter().filter(|(_, kind)| **kind == Kind::Folder) {
        let is_top = path == Path::new(".git");
        let settings = open_beneath(root.as_fd(), path)
            .ok()
            .filter(|_| !is_top)
            .and_then(|folder| harmless_settings(&folder, path, &places))
            .filter(|settings| stored + settings.len() <= MAX_SETTINGS_BYTES);
        match settings {
            Some(settings) => {
                stored += settings.len();
                baseline.settings.insert(path.clone(), settings);
            }
            None => drop(protect.insert(path.clone(), *kind)),
        }
    }
    // A folder that contains a protected repository is protected as a whole.
    let inner: Vec<PathBuf> = protect.keys().cloned().collect();
    for (path, kind) in places.iter().filter(|(_, kind)| **kind == Kind::Folder) {
        if is_git_name(path) && inner.iter().any(|other| other.starts_with(path)) {
            baseline.settings.remove(path);
            protect.insert(path.clone(), *kind);
        }
    }
    for (path, kind) in &places {
        let free = match kind {
            Kind::Folder => continue,
            Kind::Pointer => {
                let target = pointed_to(root.as_fd(), workspace, path);
                target.is_some_and(|target| baseline.settings.contains_key(&target))
            }
            Kind::Link | Kind::Other => false,
        };
        if !free {
            protect.insert(path.clone(), *kind);
        }
    }
    baseline.protected = protect.keys().cloned().collect();
    // The protection of a `.git` covers its parts.
    let outer: Vec<PathBuf> = protect
        .keys()
        .filter(|path| is_git_name(path))
        .cloned()
        .collect();
    protect.retain(|path, _| {
        let mut above = outer.iter().filter(|other| *other != path);
        !above.any(|other| path.starts_with(other))
    });
    Ok(Before { baseline, protect })
}

/// Returns the settings of a git folder, if it makes git run no program as it is.
fn harmless_settings(
    folder: &OwnedFd,
    path: &Path,
    places: &BTreeMap<PathBuf, Kind>,
) -> Option<Vec<u8>> {
    if is_hard_link(folder, "config").ok()? {
        return None;
    }
    let settings = match regular_file::read_at(folder, Path::new("config"), MAX_CONFIG_BYTES) {
        Ok(settings) => settings,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(_) => return None,
    };
    let text = String::from_utf8(settings).ok()?;
    if !git_config::reduce(&text).dropped.is_empty() {
        return None;
    }
    let settings = text.into_bytes();
    let steps = plan(folder, path, Some(&settings), places).ok()?;
    steps.is_empty().then_some(settings)
}

/// Returns the target of a pointer relative to the workspace; `None` if it is outside or missing.
fn pointed_to(root: BorrowedFd<'_>, workspace: &Path, path: &Path) -> Option<PathBuf> {
    let (parent, name) = (path.parent()?, path.file_name()?);
    let folder = open_beneath(root, parent).ok()?;
    let text = regular_file::read_at(&folder, Path::new(name), MAX_POINTER_BYTES).ok()?;
    let target = workspace.join(parent).join(git::pointed_to(&text)?);
    let real = std::fs::canonicalize(target).ok()?;
    Some(real.strip_prefix(workspace).ok()?.to_owned())
}

/// One change of a git folder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Rewrites the settings; `dropped` names those that are removed.
    Write { text: String, dropped: Vec<String> },
    /// Moves a part of the folder aside.
    Aside(&'static str),
}

/// Plans the changes of a git folder after which git runs no program because of it. Settings that
/// are the same as before need no change.
fn plan(
    folder: &OwnedFd,
    path: &Path,
    before: Option<&Vec<u8>>,
    places: &BTreeMap<PathBuf, Kind>,
) -> io::Result<Vec<Step>> {
    let mut steps = Vec::new();
    match kind_at(folder, "config")? {
        // A folder contains no settings.
        None | Some(FileType::Directory) => {}
        // One large file with many names would be read once for each.
        Some(FileType::RegularFile) if is_hard_link(folder, "config")? => {
            steps.push(Step::Aside("config"));
        }
        Some(FileType::RegularFile) => {
            let config = regular_file::read_at(folder, Path::new("config"), MAX_CONFIG_BYTES);
            match config.map(String::from_utf8) {
                Ok(Ok(text)) if before.is_some_and(|before| before == text.as_bytes()) => {}
                Ok(Ok(text)) => {
                    let reduced = git_config::reduce(&text);
                    if reduced.text != text {
                        steps.push(Step::Write {
                            text: reduced.text,
                            dropped: reduced.dropped,
                        });
                    }
                }
                Ok(Err(_)) | Err(_) => steps.push(Step::Aside("config")),
            }
        }
        Some(_) => steps.push(Step::Aside("config")),
    }
    match kind_at(folder, "config.worktree")? {
        None | Some(FileType::Directory) => {}
        Some(FileType::RegularFile) => {
            let facts = statat(folder, "config.worktree", AtFlags::SYMLINK_NOFOLLOW)?;
            if facts.st_size != 0 {
                steps.push(Step::Aside("config.worktree"));
            }
        }
        Some(_) => steps.push(Step::Aside("config.worktree")),
    }
    match kind_at(folder, "commondir")? {
        None | Some(FileType::Directory) => {}
        Some(FileType::RegularFile) => {
            let text = regular_file::read_at(folder, Path::new("commondir"), MAX_POINTER_BYTES);
            let text = text.unwrap_or_default();
            let common = git::without_line_end(&text);
            let own = common == b".";
            let linked = common == b"../.." && is_linked(path, places);
            if !own && !linked {
                steps.push(Step::Aside("commondir"));
            }
        }
        Some(_) => steps.push(Step::Aside("commondir")),
    }
    match kind_at(folder, "hooks")? {
        None => {}
        Some(FileType::Directory) if !has_hooks(folder)? => {}
        Some(_) => steps.push(Step::Aside("hooks")),
    }
    Ok(steps)
}

/// Returns whether this is `worktrees/NAME` of a git folder that is scanned too.
fn is_linked(path: &Path, places: &BTreeMap<PathBuf, Kind>) -> bool {
    let parent = path.parent().filter(|parent| parent.ends_with("worktrees"));
    let owner = parent.and_then(Path::parent);
    owner.is_some_and(|owner| places.get(owner) == Some(&Kind::Folder))
}

fn has_hooks(folder: &OwnedFd) -> io::Result<bool> {
    let hooks = open_beneath(folder.as_fd(), Path::new("hooks"))?;
    for item in Dir::read_from(&hooks)? {
        let name = item?.file_name().to_bytes().to_owned();
        if name != b"." && name != b".." && !name.ends_with(b".sample") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_hard_link(folder: &OwnedFd, name: &str) -> io::Result<bool> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(facts) => {
            let file = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile;
            Ok(file && facts.st_nlink > 1)
        }
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn kind_at(folder: &OwnedFd, name: &str) -> io::Result<Option<FileType>> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(facts) => Ok(Some(FileType::from_raw_mode(facts.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The result of a sweep after a command.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    pub(crate) things: Vec<Neutralised>,
    /// Whether the scan was complete and everything was neutralised. A single folder that even its
    /// owner cannot traverse does not count: a later scan with the same baseline would not see
    /// more.
    pub(crate) complete: bool,
}

/// Neutralises what a command left in a workspace.
pub(crate) fn after(workspace: &Path, baseline: &Baseline) -> Swept {
    let root = match open_folder(workspace) {
        Ok(root) => root,
        // A workspace that is gone contains nothing to neutralise.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Swept {
                things: Vec::new(),
                complete: true,
            };
        }
        Err(error) => {
            return Swept {
                things: vec![Neutralised::failed(workspace, &error)],
                complete: false,
            };
        }
    };
    let time = Time::After {
        protected: &baseline.protected,
        unseen: &baseline.unseen,
    };
    let found = find(root.as_fd(), time);
    let mut things = Vec::new();
    let open: Vec<(&PathBuf, Kind)> = found
        .places
        .iter()
        .filter(|(path, _)| !is_protected(baseline, path))
        .map(|(path, kind)| (path, *kind))
        .collect();
    let folders: BTreeSet<&PathBuf> = open
        .iter()
        .filter(|(_, kind)| *kind == Kind::Folder)
        .map(|(path, _)| *path)
        .collect();
    // The deepest first: moving a folder aside, such as `hooks`, moves repositories in it, too.
    for (path, kind) in open.iter().rev() {
        let done = match kind {
            Kind::Folder => {
                let before = baseline.settings.get(*path);
                clean(root.as_fd(), path, before, &found.places)
            }
            Kind::Pointer => {
                let target = pointed_to(root.as_fd(), workspace, path);
                match target.filter(|target| folders.contains(target)) {
                    Some(_) => Ok(Vec::new()),
                    None => aside(root.as_fd(), path),
                }
            }
            Kind::Link | Kind::Other => aside(root.as_fd(), path),
        };
        match done {
            Ok(done) => things.extend(done),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => things.push(Neutralised::failed(path, &error)),
        }
    }
    things.sort_by(|one, other| {
        Path::new(&one.path)
            .parent()
            .cmp(&Path::new(&other.path).parent())
    });
    let new = found.notable.difference(&baseline.notable);
    things.extend(new.map(|path| Neutralised::new(path, Measure::LeftInPlace)));
    let unseen = found.unseen.difference(&baseline.unseen);
    things.extend(unseen.map(|path| Neutralised::new(path, Measure::NotChecked)));
    let complete = !things.iter().any(|thing| match thing.measure {
        Measure::Failed => true,
        // An empty path means that the rest of the workspace was not scanned.
        Measure::NotChecked => thing.path.is_empty(),
        Measure::Reduced
        | Measure::MovedAside
        | Measure::Restored
        | Measure::LeftInPlace
        | Measure::More => false,
    });
    Swept {
        things: bounded(things),
        complete,
    }
}

/// Returns whether a place is one that the command could not change, or a part of one.
fn is_protected(baseline: &Baseline, path: &Path) -> bool {
    let mut above = path.ancestors().skip(1).filter(|path| is_git_name(path));
    baseline.protected.contains(path) || above.any(|path| baseline.protected.contains(path))
}

fn bounded(mut things: Vec<Neutralised>) -> Vec<Neutralised> {
    let more = things.len().saturating_sub(MAX_REPORTED);
    if more > 0 {
        // Failures are listed first.
        things.sort_by_key(|thing| !matches!(thing.measure, Measure::Failed | Measure::NotChecked));
        things.truncate(MAX_REPORTED);
        let more = PathBuf::from(format!("{more} more"));
        things.push(Neutralised::new(&more, Measure::More));
    }
    things
}

fn clean(
    root: BorrowedFd<'_>,
    path: &Path,
    before: Option<&Vec<u8>>,
    places: &BTreeMap<PathBuf, Kind>,
) -> io::Result<Vec<Neutralised>> {
    let folder = open_beneath(root, path)?;
    let steps = plan(&folder, path, before, places)?;
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    // Each step is attempted, even if another failed.
    let things = steps.into_iter().flat_map(|step| {
        let (at, done) = match step {
            Step::Write { text, dropped } => {
                let at = path.join("config");
                let done = reduce(&folder, &at, &text, dropped);
                (at, done)
            }
            Step::Aside(name) => {
                let at = path.join(name);
                let done = out_of_the_way(folder.as_fd(), &at, OsStr::new(name));
                (at, done.map(|thing| vec![thing]))
            }
        };
        done.unwrap_or_else(|error| vec![Neutralised::failed(&at, &error)])
    });
    Ok(things.collect())
}

/// Rewrites the settings of a git folder.
fn reduce(
    folder: &OwnedFd,
    at: &Path,
    text: &str,
    dropped: Vec<String>,
) -> io::Result<Vec<Neutralised>> {
    let name = OsStr::new("config");
    if dropped.is_empty() {
        // The same settings in canonical form: nothing is lost.
        make_changeable(folder.as_fd());
        return match write_new(folder, "config", text) {
            Ok(()) => Ok(Vec::new()),
            Err(_) => Ok(vec![out_of_the_way(folder.as_fd(), at, name)?]),
        };
    }
    let mut thing = out_of_the_way(folder.as_fd(), at, name)?;
    if thing.kept_as.is_some() {
        thing.measure = Measure::Reduced;
        thing.dropped = dropped;
        thing.dropped.truncate(MAX_DROPPED);
    }
    let mut things = vec![thing];
    if let Err(error) = write_new(folder, "config", text) {
        things.push(Neutralised::failed(at, &error));
    }
    Ok(things)
}

/// Moves an entry of a folder aside. If that is impossible, removes it: losing it is better than
/// letting it act.
fn out_of_the_way(folder: BorrowedFd<'_>, path: &Path, name: &OsStr) -> io::Result<Neutralised> {
    make_changeable(folder);
    let cause = match move_aside(folder, name) {
        Ok(kept_as) => return Ok(Neutralised::aside(path, &kept_as)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Err(cause),
        Err(cause) => cause,
    };
    let removed = match unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => remove_folder(folder, name),
        other => Ok(other?),
    };
    match removed {
        Ok(()) => Ok(Neutralised::new(path, Measure::MovedAside)),
        Err(_) => Err(cause),
    }
}

/// Removes the files of a folder, which are only hooks, and then the folder. Subfolders are not
/// hooks.
fn remove_folder(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let folder = open_beneath(parent, Path::new(name))?;
    make_changeable(folder.as_fd());
    for item in Dir::read_from(&folder)? {
        let item = item?;
        let inner = OsStr::from_bytes(item.file_name().to_bytes());
        if inner == "." || inner == ".." {
            continue;
        }
        match unlinkat(&folder, inner, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // A folder without files may stay: git runs no program because of it.
    unlinkat(parent, name, AtFlags::REMOVEDIR).ok();
    Ok(())
}

/// Restores the owner's right to change the entries of a folder. If that fails, the later change
/// fails, too.
pub(crate) fn make_changeable(folder: BorrowedFd<'_>) {
    if let Ok(facts) = fstat(folder) {
        let mode = facts.st_mode & 0o7777;
        if mode & 0o700 != 0o700 {
            fchmod(folder, Mode::from_raw_mode(mode | 0o700)).ok();
        }
    }
}

fn aside(root: BorrowedFd<'_>, path: &Path) -> io::Result<Vec<Neutralised>> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = open_beneath(root, parent)?;
    Ok(vec![out_of_the_way(folder.as_fd(), path, name)?])
}

/// Renames an entry within its folder to a name that no program looks for.
pub(crate) fn move_aside(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<OsString> {
    for number in 0..MAX_TRIES {
        let mut other = name.to_owned();
        other.push(ASIDE);
        if number > 0 {
            let random = RandomState::new().build_hasher().finish();
            other.push(format!("-{random:016x}"));
        }
        match renameat_with(folder, name, folder, &other, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(other),
            Err(Errno::EXIST) => {}
            // Not every file system supports a rename that refuses to replace.
            Err(Errno::INVAL | Errno::NOSYS) => {
                let there = statat(folder, &other, AtFlags::SYMLINK_NOFOLLOW);
                if there.is_err_and(|errno| errno == Errno::NOENT) {
                    renameat(folder, name, folder, &other)?;
                    return Ok(other);
                }
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::other("too many files were moved aside there"))
}

/// Writes a file with this content atomically.
fn write_new(folder: &OwnedFd, name: &str, text: &str) -> io::Result<()> {
    let random = RandomState::new().build_hasher().finish();
    let temporary = format!("{name}.sortie-{random:016x}");
    let draft = Draft::create(folder.as_fd(), &temporary, 0o644)?;
    draft.file().write_all(text.as_bytes())?;
    draft.rename_to(OsStr::new(name))
}
