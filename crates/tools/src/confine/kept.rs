//! The places that file tools do not access even inside the workspace: secrets of a home folder,
//! files that run at login, and Sortie's own folders. The sandbox keeps commands from the same
//! places.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sortie_core::ports::tool::ToolFailure;
use sortie_sandbox::Places;

use super::protected::is_beneath;

/// The most links that are followed to find the real path of a place: the limit of the system.
const MAX_LINKS: usize = 40;
/// How long a workspace that no place leads into is assumed to stay so. No agent in it can change that;
/// the user can, by a link from a home folder into the workspace.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);
/// The most such workspaces that are remembered; each worktree is one.
const MAX_REMEMBERED: usize = 64;

/// The hidden and protected places, absolute and as they are named.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    home: Option<PathBuf>,
    hidden: Vec<PathBuf>,
    protected: Vec<PathBuf>,
    /// Workspaces that no place leads into, and until when that is assumed. Finding out reads about
    /// 160 links.
    without: Mutex<BTreeMap<PathBuf, Instant>>,
}

impl Kept {
    /// Returns the places of this machine.
    pub(crate) fn of(places: &Places) -> Self {
        Self {
            home: places.home.clone(),
            hidden: places.hidden(),
            protected: places.protected_in_home(),
            without: Mutex::default(),
        }
    }

    /// Returns the places that are inside the workspace now.
    ///
    /// An agent can change links in its workspace at any time. So the result is remembered only if
    /// the way to no place touches the workspace, which means that none is inside.
    pub(super) fn inside(&self, root: &Path, now: Instant) -> KeptInside {
        // Kept while the links are read: of runs that start together only one reads them.
        let mut without = self.without.lock().unwrap_or_else(PoisonError::into_inner);
        if without.get(root).is_some_and(|until| now < *until) {
            return KeptInside {
                home: self.home.clone(),
                ..KeptInside::default()
            };
        }
        let mut finder = Finder::default();
        let inside = self.resolve(root, &mut finder);
        if !finder.read.keys().any(|path| is_beneath(path, root)) {
            if without.len() >= MAX_REMEMBERED {
                without.clear();
            }
            without.insert(root.to_owned(), now + REMEMBERED_FOR);
        }
        inside
    }

    fn resolve(&self, root: &Path, finder: &mut Finder) -> KeptInside {
        let mut inside = |places: &[PathBuf]| -> BTreeSet<PathBuf> {
            let real = places.iter().flat_map(|place| finder.find(place));
            real.filter_map(|place| beneath(root, &place)).collect()
        };
        let hidden = inside(&self.hidden);
        let mut protected = inside(&self.protected);
        // A run whose workspace is a protected folder was started there on purpose, so it may
        // write. Hidden places (secrets) have no such exception.
        protected.remove(Path::new(""));
        KeptInside {
            home: self.home.clone(),
            hidden,
            protected,
        }
    }
}

/// The places inside one workspace, relative to it and without links.
#[derive(Debug, Default)]
pub(super) struct KeptInside {
    home: Option<PathBuf>,
    hidden: BTreeSet<PathBuf>,
    protected: BTreeSet<PathBuf>,
}

impl KeptInside {
    /// Returns the home folder of the user.
    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Returns whether no place is hidden.
    pub(super) fn hides_nothing(&self) -> bool {
        self.hidden.is_empty()
    }

    /// Returns whether the real path may be neither read nor written.
    pub(super) fn hides(&self, real: &Path) -> bool {
        self.hidden.iter().any(|place| is_beneath(real, place))
    }

    /// Rejects access to a hidden path.
    pub(super) fn refuse(&self, real: &Path, shown: &Path) -> Result<(), ToolFailure> {
        if !self.hides(real) {
            return Ok(());
        }
        Err(ToolFailure::new(format!(
            "{} belongs to the secrets of a person or to Sortie's own files, which file tools do not use. Work with another file, or report what you need.",
            shown.display()
        )))
    }

    /// Rejects writes to a hidden or protected path.
    pub(super) fn refuse_write(&self, real: &Path, shown: &Path) -> Result<(), ToolFailure> {
        self.refuse(real, shown)?;
        if !self.protected.iter().any(|place| is_beneath(real, place)) {
            return Ok(());
        }
        Err(ToolFailure::new(format!(
            "{} is protected: programs of a person read or run it automatically. Do not write it; report what it should contain.",
            shown.display()
        )))
    }
}

/// Returns the path of a place relative to the workspace; empty if it is the workspace. A place
/// that contains the workspace needs no entry: file tools cannot leave the workspace anyway.
fn beneath(root: &Path, place: &Path) -> Option<PathBuf> {
    let count = root.components().count();
    is_beneath(place, root).then(|| place.components().skip(count).collect())
}

/// Finds the real paths of places, whether or not they exist yet.
#[derive(Debug, Default)]
struct Finder {
    /// All paths that were checked for a link, with the target of those that are links. Most places
    /// share their parent folders. Hashed, because comparing paths component by component takes most of
    /// the time otherwise.
    read: HashMap<PathBuf, Option<PathBuf>>,
}

impl Finder {
    /// Returns the place in its real folder and, if the place is a link, also its target.
    fn find(&mut self, place: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        if let (Some(folder), Some(name)) = (place.parent(), place.file_name()) {
            found.push(self.real(folder).join(name));
        }
        found.push(self.real(place));
        found
    }

    fn real(&mut self, path: &Path) -> PathBuf {
        let mut real = PathBuf::new();
        let mut left = MAX_LINKS;
        let mut pending = reversed(path);
        while let Some(name) = pending.pop() {
            if name == ".." {
                real.pop();
                continue;
            }
            real.push(name);
            if let Some(target) = self.target(&real).filter(|_| left > 0) {
                left -= 1;
                // An absolute target replaces the whole path at its first component.
                real.pop();
                pending.extend(reversed(&target));
            }
        }
        real
    }

    fn target(&mut self, path: &Path) -> Option<PathBuf> {
        if let Some(target) = self.read.get(path) {
            return target.clone();
        }
        let target = std::fs::read_link(path).ok();
        self.read.insert(path.to_owned(), target.clone());
        target
    }
}

/// Returns the components of a path, the last one first.
fn reversed(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    let named = parts.filter(|part| *part != Component::CurDir);
    named.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests;
