//! The places that file tools do not access even inside the workspace: secrets of a home folder,
//! files that run at login, and Sortie's own folders. The sandbox keeps commands from the same
//! places.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use sortie_core::ports::tool::ToolFailure;
use sortie_sandbox::Places;

use super::protected::is_beneath;

/// The most links that are followed to find the real path of a place: the limit of the system.
const MAX_LINKS: usize = 40;

/// The hidden and protected places, absolute and as they are named.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    home: Option<PathBuf>,
    hidden: Vec<PathBuf>,
    protected: Vec<PathBuf>,
}

impl Kept {
    /// Returns the places of this machine.
    pub(crate) fn of(places: &Places) -> Self {
        Self {
            home: places.home.clone(),
            hidden: places.hidden(),
            protected: places.protected_in_home(),
        }
    }

    /// Returns the places that are inside the workspace now. Links may have changed since the last
    /// call.
    pub(super) fn inside(&self, root: &Path) -> KeptInside {
        let mut finder = Finder::default();
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
            "{} is protected: programs of a person run or obey it by themselves. Do not write it; report what should stand there.",
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
    /// Paths that are known not to be links: most places share their parent folders.
    plain: BTreeSet<PathBuf>,
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
        if self.plain.contains(path) {
            return None;
        }
        let target = std::fs::read_link(path).ok();
        if target.is_none() {
            self.plain.insert(path.to_owned());
        }
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
