//! The steps of the build: looking for Node, installing, bundling.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The oldest Node that Vite 8 runs on.
const NODE: (u32, u32) = (20, 19);
/// A download that takes longer is a network that does not answer.
const PATIENCE: Duration = Duration::from_secs(300);
/// Of what a failed step printed, what a warning shows: the end, where the error is.
const SHOWN_BYTES: usize = 600;
/// What was installed last, kept beside it: equal to the lock file, or stale.
const STAMP: &str = "node_modules/.sortie-installed";

/// Why there is no page.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Not built, because `SORTIE_SKIP_WEB` is set.
    Skipped,
    /// This is the crate alone, without `/web`.
    NoSources,
    /// Node or npm is missing or too old.
    NoNode(String),
    Failed(String),
    /// A file could not be read or written.
    File(io::Error),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped => write!(f, "it was skipped"),
            Self::NoSources => write!(f, "its sources are not here"),
            Self::NoNode(what) => write!(
                f,
                "{what}; install Node {}.{} or newer with npm, then build again",
                NODE.0, NODE.1
            ),
            Self::Failed(what) => write!(f, "{what}"),
            Self::File(error) => write!(f, "{error}"),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// Makes the folder, with nothing in it.
pub(super) fn empty(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::create_dir_all(folder)
}

/// Checks that Node is new enough and that npm starts.
pub(super) fn need_node() -> Result<(), Trouble> {
    let version = first_line("node")?;
    let mut numbers = version
        .trim_start_matches('v')
        .split('.')
        .map_while(|part| part.parse().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < NODE {
        return Err(Trouble::NoNode(format!("Node {version} is too old")));
    }
    first_line("npm").map(|_| ())
}

fn first_line(program: &str) -> Result<String, Trouble> {
    let missing = |why: String| Trouble::NoNode(format!("{program} does not start ({why})"));
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| missing(error.to_string()))?;
    if !output.status.success() {
        return Err(missing(output.status.to_string()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Waits until no other build uses `node_modules`. The lock ends with the file, also in a crash.
pub(super) fn take_turn(web: &Path) -> Result<File, Trouble> {
    // An existing file, so that the lock adds nothing to the source tree. No other program locks it.
    let file = File::open(web.join("package.json"))?;
    file.lock()?;
    Ok(file)
}

/// Installs what the lock file names, if something else is installed.
pub(super) fn install(web: &Path) -> Result<(), Trouble> {
    let wanted = fs::read(web.join("package-lock.json"))?;
    let stamp = web.join(STAMP);
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.args([
        "ci",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--fetch-retries=1",
    ]);
    run(npm.current_dir(web), "npm ci")?;
    fs::write(stamp, wanted)?;
    Ok(())
}

/// Bundles the page into the folder.
pub(super) fn bundle(web: &Path, dist: &Path) -> Result<(), Trouble> {
    let mut vite = Command::new("node");
    vite.arg(Path::new("node_modules/vite/bin/vite.js"));
    vite.args(["build", "--logLevel", "warn", "--emptyOutDir", "--outDir"]);
    run(vite.arg(dist).current_dir(web), "vite build")
}

/// Runs a step to its end, or ends it when it takes too long.
fn run(command: &mut Command, name: &str) -> Result<(), Trouble> {
    let failed = |what: String| Trouble::Failed(format!("`{name}` {what}"));
    let mut child = command
        .stdin(Stdio::null())
        // Cargo reads our standard output for instructions; a step has none to give.
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("did not start: {error}")))?;
    let pipe = child.stderr.take();
    let (done, over) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes));
        // The receiver is gone only after it gave up waiting.
        let sent = done.send(());
        (read.is_ok() && sent.is_ok(), bytes)
    });
    if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
        child.kill()?;
        child.wait()?;
        return Err(failed(format!("took longer than {} s", PATIENCE.as_secs())));
    }
    let status = child.wait()?;
    let (_, bytes) = reader
        .join()
        .map_err(|_| failed("broke its reader".to_owned()))?;
    if status.success() {
        return Ok(());
    }
    Err(failed(format!("ended with {status}: {}", shown(&bytes))))
}

/// The end of an output in one line, as a warning of cargo is one.
fn shown(bytes: &[u8]) -> String {
    let from = bytes.len().saturating_sub(SHOWN_BYTES);
    let text = String::from_utf8_lossy(&bytes[from..]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
