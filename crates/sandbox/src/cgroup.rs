//! Control groups: the only limit on processes and memory that also binds root and that counts all
//! processes of a command together. Where no group can be created, only per-process limits apply.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::owned::{Owned, remove_abandoned};
use crate::policy::Limits;
use crate::probe::Cgroups;

/// The mount point of the control group file system.
const MOUNT: &str = "/sys/fs/cgroup";
/// The name prefix of control groups that Sortie creates.
const PREFIX: &str = "sortie-";
/// Other tools may inspect the groups; only root or the owner changes them.
const MODE: u32 = 0o755;

/// Creates one control group per command.
#[derive(Debug)]
pub(crate) struct Cages {
    parents: Vec<PathBuf>,
}

/// The control group of one command. Dropping it removes the group if it has no process left.
#[derive(Debug)]
pub(crate) struct Cage {
    folders: Vec<Owned>,
}

impl Cages {
    /// Creates groups beneath the parent folders that the probe found.
    pub(crate) fn beneath(found: &Cgroups) -> Self {
        Self {
            parents: found.parents.clone(),
        }
    }

    /// Creates a group with these limits; returns `None` where groups cannot be created.
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
    /// Removes the group and returns whether it is gone. The last process stays in the group until
    /// the kernel has reaped it, a moment after its parent was notified of the exit.
    pub(crate) fn remove(&mut self) -> bool {
        self.folders.retain(|folder| !removed(folder.path()));
        self.folders.is_empty()
    }

    /// Returns the files through which a single-threaded process enters the group.
    ///
    /// To move a whole process, the kernel blocks every fork on the machine and waits about a dozen
    /// milliseconds until it has done so; to move the calling thread it need not. In the unified
    /// hierarchy, single threads cannot move to another group.
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
        // A group that remains is unlocked once this process has ended, and a later start removes
        // it.
        self.remove();
    }
}

fn removed(folder: &Path) -> bool {
    fs::remove_dir(folder).is_ok() || !folder.exists()
}

/// Writes the limits that this group supports. Where the limit file exists, the write must succeed.
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

/// Finds the parent folders in which groups can be created, by creating one. Removes groups that a
/// dead process left behind.
pub(crate) fn find() -> Cgroups {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let parents = unified(&own).or_else(|| separate(&own));
    let parents = parents.unwrap_or_default();
    for parent in &parents {
        remove_abandoned(parent, PREFIX, |group| {
            // A group that still has processes stays.
            fs::remove_dir(group).ok();
        });
    }
    Cgroups { parents }
}

/// Finds the parent in the unified hierarchy (cgroup v2): our own group, or its parent.
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

/// Finds one parent per controller (cgroup v1).
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
