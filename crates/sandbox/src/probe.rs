//! Probes, by trying, which sandbox features this machine supports.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;
use sortie_base::lifeline::Lifeline;
use sortie_base::private_files::others_may_write;

use crate::HELPER_COMMAND;
use crate::applied::Backend;
use crate::cgroup;
use crate::orders::{self, Order};
use crate::places::Places;

/// The first Landlock version that can confine a command by itself: it also restricts truncation.
pub(crate) const LEAST_LANDLOCK: u32 = 3;
/// The first Landlock version that restricts ports.
pub(crate) const LANDLOCK_WITH_PORTS: u32 = 4;
/// The first bubblewrap version with all the options that we use.
const LEAST_BUBBLEWRAP: (u32, u32) = (0, 7);
/// The longest output of a program's version query.
const MAX_ANSWER_BYTES: usize = 256;

/// The findings of the probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Offer {
    pub bubblewrap: Option<Bubblewrap>,
    /// Whether our helper can create namespaces and a file view.
    pub namespaces: bool,
    /// The Landlock ABI version; 0 if unavailable.
    pub landlock: u32,
    pub cgroups: Cgroups,
}

/// A `bwrap` that works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bubblewrap {
    pub path: PathBuf,
    /// The version that it reports.
    pub version: String,
}

/// The folders in which control groups can be created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cgroups {
    /// One folder for the unified hierarchy, or one per controller; empty if none can be created.
    pub parents: Vec<PathBuf>,
}

impl Offer {
    /// Returns the best backend that works on this machine.
    pub fn best(&self) -> Option<Backend> {
        if self.bubblewrap.is_some() {
            Some(Backend::Bubblewrap)
        } else if self.namespaces {
            Some(Backend::Namespaces)
        } else if self.landlock >= LEAST_LANDLOCK {
            Some(Backend::Landlock)
        } else {
            None
        }
    }

    /// Returns the findings as lines for a person.
    pub fn explain(&self) -> Vec<String> {
        let bubblewrap = match &self.bubblewrap {
            Some(found) => format!("{} at {}", found.version, found.path.display()),
            None => "not found, or it does not work here".to_owned(),
        };
        let landlock = match self.landlock {
            0 => "none".to_owned(),
            version => format!("version {version}"),
        };
        let cgroups = if self.cgroups.parents.is_empty() {
            "not available: limits apply to each process"
        } else {
            "limits apply to all processes of a command together"
        };
        let chosen = self.best().map_or(
            "none: commands do not run; install bubblewrap, or switch the sandbox off",
            Backend::name,
        );
        vec![
            format!("sandbox: {chosen}"),
            format!("bubblewrap: {bubblewrap}"),
            format!(
                "namespaces: {}",
                if self.namespaces {
                    "work"
                } else {
                    "do not work"
                }
            ),
            format!("landlock: {landlock}"),
            format!("control groups: {cgroups}"),
        ]
    }
}

/// Tries what works on this machine, with this binary as the helper.
pub fn probe(places: &Places, helper: &Path) -> Offer {
    Prober::new(places, helper).probe()
}

/// The programs of a later probe. They are looked up when it is created, before an agent runs that
/// could put a file of the same name into a folder of the search path.
#[derive(Debug)]
pub(crate) struct Prober {
    /// The files named `bwrap` in the search path, in order.
    bubblewraps: Vec<PathBuf>,
    helper: PathBuf,
}

impl Prober {
    pub(crate) fn new(places: &Places, helper: &Path) -> Self {
        let found = places.path.iter().filter_map(|folder| trusted(folder));
        Self {
            bubblewraps: found.collect(),
            helper: helper.to_owned(),
        }
    }

    /// Tries what works. Starts four processes, and more if a `bwrap` does not work.
    pub(crate) fn probe(&self) -> Offer {
        Offer {
            bubblewrap: self.bubblewraps.iter().find_map(|path| bubblewrap(path)),
            namespaces: namespaces(&self.helper),
            landlock: landlock(&self.helper),
            cgroups: cgroup::find(),
        }
    }
}

/// Returns the `bwrap` of a folder, if only root or the current user could have put it there.
fn trusted(folder: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(folder.join("bwrap")).ok()?;
    (folder.is_absolute() && is_trusted(&path)).then_some(path)
}

fn bubblewrap(path: &Path) -> Option<Bubblewrap> {
    // The file may have been replaced since it was looked up.
    if !is_trusted(path) {
        return None;
    }
    let version = answer(Command::new(path).arg("--version"))?;
    let number = version.trim().rsplit(' ').next()?.to_owned();
    let mut parts = number.split('.').map(|part| part.parse().ok());
    if (parts.next()??, parts.next()??) < LEAST_BUBBLEWRAP {
        return None;
    }
    let words = [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--cap-drop",
        "ALL",
        "--die-with-parent",
        "--as-pid-1",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--",
        "/bin/sh",
        "-c",
        "exit 0",
    ];
    answer(Command::new(path).args(words))?;
    Some(Bubblewrap {
        path: path.to_owned(),
        version: format!("bubblewrap {number}"),
    })
}

/// Returns whether only root or the current user could have put the file there.
fn is_trusted(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let us = rustix::process::geteuid().as_raw();
    fs::metadata(path).is_ok_and(|facts| {
        let owner = facts.uid() == 0 || facts.uid() == us;
        facts.is_file() && owner && !others_may_write(&facts)
    })
}

fn namespaces(helper: &Path) -> bool {
    let root = PathBuf::from("/usr");
    let read = |path: &Path| Order::Read {
        from: path.to_owned(),
        at: path.to_owned(),
    };
    let build = [
        Order::DieWithParent {},
        Order::Lifeline { pass_on: false },
        Order::NewRoot {},
        read(&root),
        read(helper),
        Order::Processes {},
        Order::Devices {},
        Order::EnterRoot {},
        Order::Loopback {},
        Order::DropPrivileges {},
        Order::Report {},
    ];
    let outer = [
        Order::Lifeline { pass_on: true },
        Order::Adopt { at_end: true },
        Order::Unshare { network: true },
    ];
    let mut inner = vec![helper.into(), OsString::from(HELPER_COMMAND)];
    inner.extend(orders::words(&build, &[]));
    let words = orders::words(&outer, &inner);
    answer(Command::new(helper).arg(HELPER_COMMAND).args(words)).is_some()
}

fn landlock(helper: &Path) -> u32 {
    let words = orders::words(&[Order::Report {}], &[]);
    let answer = answer(Command::new(helper).arg(HELPER_COMMAND).args(words));
    answer
        .and_then(|answer| answer.trim().strip_prefix("landlock ")?.parse().ok())
        .unwrap_or(0)
}

/// Returns the output of a program that exits successfully. The lifeline ends a helper with this
/// process; other programs ignore it.
fn answer(command: &mut Command) -> Option<String> {
    let (_own_end, given) = Lifeline::new().ok()?;
    let command = command.env_clear().stdin(Stdio::from(given));
    let output = command.stderr(Stdio::null()).output().ok()?;
    let bytes = output
        .stdout
        .get(..MAX_ANSWER_BYTES)
        .unwrap_or(&output.stdout);
    let text = String::from_utf8_lossy(bytes).into_owned();
    output.status.success().then_some(text)
}
