//! Control groups: the only bound on processes and memory that holds for root, and for all
//! processes of a command together. Where none can be made, limits of single processes remain.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::owned::{Owned, remove_abandoned};
use crate::policy::Limits;
use crate::probe::Cgroups;

/// Where control groups are found.
const MOUNT: &str = "/sys/fs/cgroup";
/// The beginning of the names of ours.
const PREFIX: &str = "sortie-";
/// Groups are looked into by other tools; only root or their owner changes them.
const MODE: u32 = 0o755;

/// Makes groups, one for each command.
#[derive(Debug)]
pub(crate) struct Cages {
    parents: Vec<PathBuf>,
}

/// The group of one command. Dropping it removes it if no process is left in it.
#[derive(Debug)]
pub(crate) struct Cage {
    folders: Vec<Owned>,
}

impl Cages {
    /// Makes groups beneath the folders that were found.
    pub(crate) fn beneath(found: &Cgroups) -> Self {
        Self {
            parents: found.parents.clone(),
        }
    }

    /// A group with these limits; none where groups cannot be made.
    pub(crate) fn make(&self, limits: &Limits) -> Option<Cage> {
        let mut cage = Cage {
            folders: Vec::new(),
        };
        for parent in &self.parents {
            let folder = Owned::make(parent, PREFIX, MODE).ok()?;
            let path = folder.path().to_owned();
            cage.folders.push(folder);
            bound(&path, limits).ok()?;
        }
        (!cage.folders.is_empty()).then_some(cage)
    }
}

impl Cage {
    /// Removes it; says whether it is gone. The last process is in it until the kernel has buried
    /// it, which is a moment after its parent was notified of its exit.
    pub(crate) fn remove(&mut self) -> bool {
        self.folders.retain(|folder| !removed(folder.path()));
        self.folders.is_empty()
    }

    /// The files through which a process of one thread enters.
    ///
    /// To move a whole process the kernel stops every fork on the machine, and waits a dozen
    /// milliseconds until it has; for the thread that asks it need not. Where there is one tree for
    /// everything, single threads cannot move to another group.
    pub(crate) fn lists(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().map(|folder| {
            let threads = folder.path().join("tasks");
            if threads.exists() {
                threads
            } else {
                folder.path().join("cgroup.procs")
            }
        })
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        // One that is left is no longer locked once this process has ended, and goes at a next
        // start.
        self.remove();
    }
}

fn removed(folder: &Path) -> bool {
    fs::remove_dir(folder).is_ok() || !folder.exists()
}

/// Sets the limits that this group knows. A file that is there must take them.
fn bound(folder: &Path, limits: &Limits) -> io::Result<()> {
    let memory = limits.memory_bytes.to_string();
    for (file, value) in [
        ("pids.max", limits.processes.to_string()),
        ("memory.max", memory.clone()),
        ("memory.swap.max", "0".to_owned()),
        ("memory.limit_in_bytes", memory),
    ] {
        let file = folder.join(file);
        if file.exists() {
            let mut file = fs::OpenOptions::new().write(true).open(file)?;
            file.write_all(value.as_bytes())?;
        }
    }
    Ok(())
}

/// Where groups can be made: tried, not guessed. Groups that a dead process left are removed.
pub(crate) fn find() -> Cgroups {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let parents = unified(&own).or_else(|| separate(&own));
    let parents = parents.unwrap_or_default();
    for parent in &parents {
        remove_abandoned(parent, PREFIX, |group| {
            // One with processes in it stays.
            fs::remove_dir(group).ok();
        });
    }
    Cgroups { parents }
}

/// One tree for everything: beneath our own group, or beside it.
fn unified(own: &str) -> Option<Vec<PathBuf>> {
    if !Path::new(MOUNT).join("cgroup.controllers").is_file() {
        return None;
    }
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let own = Path::new(MOUNT).join(path);
    let beside = own.parent().filter(|folder| folder.starts_with(MOUNT));
    [Some(own.as_path()), beside]
        .into_iter()
        .flatten()
        .find(|folder| works(folder, &["pids.max", "memory.max"]))
        .map(|folder| vec![folder.to_owned()])
}

/// A tree for each kind.
fn separate(own: &str) -> Option<Vec<PathBuf>> {
    let found = [("pids", "pids.max"), ("memory", "memory.limit_in_bytes")].map(|(kind, file)| {
        let path = own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (kinds, path) = rest.split_once(':')?;
            kinds.split(',').any(|other| other == kind).then_some(path)
        })?;
        let folder = Path::new(MOUNT)
            .join(kind)
            .join(path.trim_start_matches('/'));
        works(&folder, &[file]).then_some(folder)
    });
    found.into_iter().collect()
}

fn works(parent: &Path, files: &[&str]) -> bool {
    let Ok(probe) = Owned::make(parent, PREFIX, MODE) else {
        return false;
    };
    let writable = |file: &&str| {
        fs::OpenOptions::new()
            .write(true)
            .open(probe.path().join(file))
            .is_ok()
    };
    let works = files.iter().chain(&["cgroup.procs"]).all(writable);
    removed(probe.path()) && works
}
