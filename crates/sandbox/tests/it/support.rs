//! A small world for tests: a home folder with secrets, a workspace with a repository, and a
//! sandbox.

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::LazyLock;

use sortie_base::lifeline::Lifeline;
use sortie_sandbox::{
    Backend, Command, CommandRefusal, Confined, Limits, Mode, Neutralised, Offer, Places, Policy,
    Sandbox, probe,
};

/// The helper binary of these tests.
pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_sortie-sandbox-helper");
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The probe's findings, computed once.
pub(crate) static OFFER: LazyLock<Offer> = LazyLock::new(|| probe(&places(), Path::new(HELPER)));

fn places() -> Places {
    Places {
        home: None,
        path: PATH.split(':').map(PathBuf::from).collect(),
        scratch: std::env::temp_dir(),
        own: Vec::new(),
    }
}

/// Returns every backend that works on this machine; there must be one.
pub(crate) fn backends() -> Vec<Backend> {
    let mut all = Vec::new();
    if OFFER.bubblewrap.is_some() {
        all.push(Backend::Bubblewrap);
    }
    if OFFER.namespaces {
        all.push(Backend::Namespaces);
    }
    if OFFER.landlock >= 3 {
        all.push(Backend::Landlock);
    }
    assert!(!all.is_empty(), "no sandbox works here: {:#?}", *OFFER);
    all
}

/// Returns the backends that have a private file view.
pub(crate) fn with_namespaces() -> Vec<Backend> {
    let mut all = backends();
    all.retain(|backend| *backend != Backend::Landlock);
    all
}

/// A home folder, a workspace in it, and their surroundings.
pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) home: PathBuf,
    pub(crate) workspace: PathBuf,
}

/// The result of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
    pub(crate) undone: Vec<Neutralised>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::named("work space 分析")
    }

    pub(crate) fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let (home, workspace) = (root.join("home"), root.join("home/code").join(name));
        fs::create_dir_all(&workspace).unwrap();
        let world = Self {
            folder,
            home,
            workspace,
        };
        world.put("home/.ssh/id_ed25519", "SECRET");
        world.put("home/.netrc", "SECRET");
        world.put("home/.cargo/credentials.toml", "SECRET");
        world.put("home/.local/state/sortie/token", "SECRET");
        world.put("home/notes.txt", "SECRET");
        world.put("other/notes.txt", "SECRET");
        world.put(
            "home/.gitconfig",
            "[user]\nname = Test\nemail = test@example.com\n[http]\nextraheader = SECRET\n",
        );
        fs::write(world.workspace.join("file.txt"), "old\n").unwrap();
        world
    }

    /// Creates the world with a repository in the workspace.
    pub(crate) fn with_git() -> Self {
        let world = Self::new();
        let script = "git init -q -b main . && git add . && git commit -qm first";
        assert_eq!(world.bare(script), (Some(0), String::new()));
        world
    }

    /// Returns the folder that contains everything.
    pub(crate) fn root(&self) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap()
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy::of(self.workspace.clone())
    }

    pub(crate) fn put_in_workspace(&self, path: &str, text: &str) {
        let path = self.workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn sandbox(&self, backend: Backend) -> Sandbox {
        self.sandbox_at_home(backend, &self.home)
    }

    pub(crate) fn sandbox_at_home(&self, backend: Backend, home: &Path) -> Sandbox {
        self.sandbox_of(backend, home, Path::new(HELPER))
    }

    pub(crate) fn sandbox_with(&self, backend: Backend, helper: &Path) -> Sandbox {
        self.sandbox_of(backend, &self.home, helper)
    }

    fn sandbox_of(&self, backend: Backend, home: &Path, helper: &Path) -> Sandbox {
        let places = Places {
            home: Some(home.to_owned()),
            own: vec![self.home.join(".local/state/sortie")],
            ..places()
        };
        Sandbox::new(
            Mode::Only(backend),
            OFFER.clone(),
            places,
            helper.to_owned(),
        )
    }

    pub(crate) fn shell(&self, script: &str) -> Command {
        let words = ["/bin/sh", "-c", script];
        Command {
            argv: words.map(OsString::from).to_vec(),
            cwd: self.workspace.clone(),
            env: self.environment(),
        }
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("PATH".into(), PATH.into()),
            ("HOME".into(), self.home.clone().into()),
            ("LANG".into(), "C.UTF-8".into()),
        ]
    }

    pub(crate) fn confine(
        &self,
        backend: Backend,
        policy: &Policy,
        script: &str,
    ) -> Result<Confined, CommandRefusal> {
        self.sandbox(backend).confine(policy, self.shell(script))
    }

    /// Runs a script in the sandbox.
    pub(crate) fn run(&self, backend: Backend, policy: &Policy, script: &str) -> Answer {
        let confined = self.confine(backend, policy, script).unwrap();
        let (child, mut output) = start(&confined);
        let (code, text) = finish(child, &mut output);
        Answer {
            code,
            text,
            undone: confined.guard.finish(),
        }
    }

    /// Runs a script without a sandbox.
    pub(crate) fn bare(&self, script: &str) -> (Option<i32>, String) {
        let command = self.shell(script);
        let input = Stdio::null();
        let (child, mut output) = launch(&command.argv, &command.cwd, &command.env, input);
        finish(child, &mut output)
    }
}

/// The output of a started command, which is killed when this is dropped.
pub(crate) struct Output {
    reader: std::io::PipeReader,
    _lifeline: Option<Lifeline>,
}

impl std::io::Read for Output {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

pub(crate) fn start(confined: &Confined) -> (Child, Output) {
    let (lifeline, input) = if confined.supervised {
        let (own_end, given_end) = Lifeline::new().unwrap();
        (Some(own_end), Stdio::from(given_end))
    } else {
        (None, Stdio::null())
    };
    let (child, reader) = launch(&confined.argv, &confined.cwd, &confined.env, input);
    let output = Output {
        reader,
        _lifeline: lifeline,
    };
    (child, output)
}

fn launch(
    argv: &[OsString],
    cwd: &Path,
    env: &[(OsString, OsString)],
    input: Stdio,
) -> (Child, std::io::PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    let child = std::process::Command::new(&argv[0])
        .args(&argv[1..])
        .current_dir(cwd)
        .env_clear()
        .envs(env.iter().cloned())
        .stdin(input)
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .process_group(0)
        .spawn();
    (child.unwrap(), reader)
}

pub(crate) fn finish(mut child: Child, output: &mut impl std::io::Read) -> (Option<i32>, String) {
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes).unwrap();
    let status = child.wait().unwrap();
    (status.code(), String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns all names in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Returns small limits, so that a failing test does not exhaust the machine.
pub(crate) fn small() -> Limits {
    const MIB: u64 = 1 << 20;
    Limits {
        processes: 64,
        memory_bytes: 256 * MIB,
        cpu_seconds: 1,
        file_bytes: 4 * MIB,
        open_files: 128,
        scratch_bytes: 8 * MIB,
    }
}
