//! What this machine can hold: tried once, not guessed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;
use sortie_base::lifeline::Lifeline;

use crate::HELPER_COMMAND;
use crate::applied::Backend;
use crate::cgroup;
use crate::orders::{self, Order};
use crate::places::Places;

/// The version of Landlock from which on it alone can hold a command: the first that also refuses
/// to cut files off.
pub(crate) const LEAST_LANDLOCK: u32 = 3;
/// The version of Landlock from which on it knows ports.
pub(crate) const LANDLOCK_WITH_PORTS: u32 = 4;
/// The first bubblewrap that knows all the words we use.
const LEAST_BUBBLEWRAP: (u32, u32) = (0, 7);
/// The longest answer of a program that is asked for its version.
const MAX_ANSWER_BYTES: usize = 256;

/// What probing found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// A `bwrap` that works.
    pub bubblewrap: Option<Bubblewrap>,
    /// Whether our own helper can make namespaces and a view of the files.
    pub namespaces: bool,
    /// The version of Landlock, 0 for none.
    pub landlock: u32,
    /// Where control groups can be made.
    pub cgroups: Cgroups,
}

/// A `bwrap` that works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bubblewrap {
    /// Where it lies.
    pub path: PathBuf,
    /// What it says about itself.
    pub version: String,
}

/// Where control groups can be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cgroups {
    /// One folder for everything, or one for each kind; none where none can be made.
    pub parents: Vec<PathBuf>,
}

impl Offer {
    /// The best backend that works here.
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

    /// What was found, in lines for a person.
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
            "cannot be made: limits hold for each process"
        } else {
            "limits hold for all processes of a command together"
        };
        let chosen = self.best().map_or(
            "none: commands are refused; install bubblewrap, or switch the sandbox off",
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

/// Tries what works here, with this binary of ours as the helper.
pub fn probe(places: &Places, helper: &Path) -> Offer {
    Offer {
        bubblewrap: places.path.iter().find_map(|folder| bubblewrap(folder)),
        namespaces: namespaces(helper),
        landlock: landlock(helper),
        cgroups: cgroup::find(),
    }
}

fn bubblewrap(folder: &Path) -> Option<Bubblewrap> {
    let path = fs::canonicalize(folder.join("bwrap")).ok()?;
    if !folder.is_absolute() || !is_trusted(&path) {
        return None;
    }
    let version = answer(Command::new(&path).arg("--version"))?;
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
    answer(Command::new(&path).args(words))?;
    Some(Bubblewrap {
        path,
        version: format!("bubblewrap {number}"),
    })
}

/// Whether only root or we could have put it there.
fn is_trusted(path: &Path) -> bool {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let us = rustix::process::geteuid().as_raw();
    fs::metadata(path).is_ok_and(|facts| {
        let owner = facts.uid() == 0 || facts.uid() == us;
        facts.is_file() && owner && facts.permissions().mode() & 0o022 == 0
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

/// The output of a program that ended well. The lifeline ends a helper with this process; other
/// programs do not look at it.
fn answer(command: &mut Command) -> Option<String> {
    let (_held, given) = Lifeline::new().ok()?;
    let command = command.env_clear().stdin(Stdio::from(given));
    let output = command.stderr(Stdio::null()).output().ok()?;
    let bytes = output
        .stdout
        .get(..MAX_ANSWER_BYTES)
        .unwrap_or(&output.stdout);
    let text = String::from_utf8_lossy(bytes).into_owned();
    output.status.success().then_some(text)
}
