//! What file tools leave alone also where it lies in the workspace: secrets of a home folder, what
//! runs when its person logs in, and Sortie's own folders. The sandbox keeps the same from
//! commands.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use sortie_core::ToolFailure;
use sortie_sandbox::Places;

use super::protected::is_beneath;

/// How many links are followed to where a place really lies: as many as the system follows.
const MAX_LINKS: usize = 40;

/// The places, absolute and as they are named.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    home: Option<PathBuf>,
    hidden: Vec<PathBuf>,
    protected: Vec<PathBuf>,
}

impl Kept {
    /// Those of this machine.
    pub(crate) fn of(places: &Places) -> Self {
        Self {
            home: places.home.clone(),
            hidden: places.hidden(),
            protected: places.protected_in_home(),
        }
    }

    /// Those that lie in the workspace now. Links may have changed since the last call.
    pub(super) fn inside(&self, root: &Path) -> KeptInside {
        let mut finder = Finder::default();
        let mut inside = |places: &[PathBuf]| -> BTreeSet<PathBuf> {
            let real = places.iter().flat_map(|place| finder.find(place));
            real.filter_map(|place| beneath(root, &place)).collect()
        };
        let hidden = inside(&self.hidden);
        let mut protected = inside(&self.protected);
        // A run whose workspace is such a folder was sent there on purpose, unlike into secrets.
        protected.remove(Path::new(""));
        KeptInside {
            home: self.home.clone(),
            hidden,
            protected,
        }
    }
}

/// The places in one workspace, relative to it and without links.
#[derive(Debug, Default)]
pub(super) struct KeptInside {
    home: Option<PathBuf>,
    hidden: BTreeSet<PathBuf>,
    protected: BTreeSet<PathBuf>,
}

impl KeptInside {
    /// The home folder of the person.
    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Whether nothing is hidden.
    pub(super) fn hides_nothing(&self) -> bool {
        self.hidden.is_empty()
    }

    /// Whether what really lies there is neither read nor written.
    pub(super) fn hides(&self, real: &Path) -> bool {
        self.hidden.iter().any(|place| is_beneath(real, place))
    }

    /// Refuses to use what is hidden.
    pub(super) fn refuse(&self, real: &Path, shown: &Path) -> Result<(), ToolFailure> {
        if !self.hides(real) {
            return Ok(());
        }
        Err(ToolFailure::new(format!(
            "{} belongs to the secrets of a person or to Sortie's own files, which file tools do not use. Work with another file, or report what you need.",
            shown.display()
        )))
    }

    /// Refuses to write what is hidden or protected.
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

/// Where a place lies in the workspace; empty if it is the workspace. Of a folder that the
/// workspace itself lies in, only the workspace is open to file tools anyway.
fn beneath(root: &Path, place: &Path) -> Option<PathBuf> {
    let count = root.components().count();
    is_beneath(place, root).then(|| place.components().skip(count).collect())
}

/// Finds where places really lie, whether or not there is anything yet.
#[derive(Debug, Default)]
struct Finder {
    /// What was looked at and is no link: most places share their folders.
    plain: BTreeSet<PathBuf>,
}

impl Finder {
    /// The name itself, in the folder where it really lies, and where it leads if it is a link.
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
                // A target from the root replaces everything at its first part.
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

/// The parts of a path, the last one first.
fn reversed(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    let named = parts.filter(|part| *part != Component::CurDir);
    named.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests;
