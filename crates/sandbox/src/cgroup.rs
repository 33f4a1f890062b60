//! Control groups: the only bound on processes and memory that holds for root, and for all processes
//! of a command together. Where none can be made, limits of single processes remain.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::policy::Limits;
use crate::probe::Cgroups;

/// Where control groups are found.
const MOUNT: &str = "/sys/fs/cgroup";
/// The beginning of the names of ours.
const PREFIX: &str = "sortie-";

/// Makes groups, one for each command.
#[derive(Debug)]
pub(crate) struct Cages {
    parents: Vec<PathBuf>,
    /// Groups whose last process was still dying when they should have been removed.
    retired: Arc<Mutex<Vec<PathBuf>>>,
}

/// The group of one command. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Cage {
    folders: Vec<PathBuf>,
    retired: Arc<Mutex<Vec<PathBuf>>>,
}

impl Cages {
    /// Makes groups beneath the folders that were found.
    pub(crate) fn beneath(found: &Cgroups) -> Self {
        Self {
            parents: found.parents.clone(),
            retired: Arc::default(),
        }
    }

    /// A group with these limits; none where groups cannot be made.
    pub(crate) fn make(&self, limits: &Limits) -> Option<Cage> {
        self.remove_retired();
        let name = format!("{PREFIX}{}-{}", std::process::id(), unique());
        let mut cage = Cage {
            folders: Vec::new(),
            retired: Arc::clone(&self.retired),
        };
        for parent in &self.parents {
            let folder = parent.join(&name);
            fs::create_dir(&folder).ok()?;
            cage.folders.push(folder.clone());
            bound(&folder, limits).ok()?;
        }
        (!cage.folders.is_empty()).then_some(cage)
    }

    fn remove_retired(&self) {
        if let Ok(mut retired) = self.retired.lock() {
            retired.retain(|folder| !removed(folder));
        }
    }
}

impl Cage {
    /// The files through which a process of one thread enters.
    ///
    /// To move a whole process the kernel stops every fork on the machine, and waits a dozen
    /// milliseconds until it has; for the thread that asks it need not. Where there is one tree for
    /// everything, single threads cannot move to another group.
    pub(crate) fn lists(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().map(|folder| {
            let threads = folder.join("tasks");
            if threads.exists() {
                threads
            } else {
                folder.join("cgroup.procs")
            }
        })
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        for folder in self.folders.drain(..) {
            if !removed(&folder)
                && let Ok(mut retired) = self.retired.lock()
            {
                retired.push(folder);
            }
        }
    }
}

/// A number that this process has not used before.
pub(crate) fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
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
        remove_left(parent);
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
    let probe = parent.join(format!("{PREFIX}{}-probe", std::process::id()));
    let made = fs::create_dir(&probe).is_ok();
    let writable = |file: &&str| {
        fs::OpenOptions::new()
            .write(true)
            .open(probe.join(file))
            .is_ok()
    };
    let works = made && files.iter().chain(&["cgroup.procs"]).all(writable);
    made && removed(&probe) && works
}

fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| {
            name.strip_prefix(PREFIX)?
                .split('-')
                .next()?
                .parse::<u32>()
                .ok()
        });
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            // One with processes in it stays.
            fs::remove_dir(entry.path()).ok();
        }
    }
}
