//! Runs git: without a shell, with a fixed environment, and with limits on time and output.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::stall::{STALLED_AFTER, stalled};
use crate::{Result, WorktreeError};

/// Long enough to check out a large repository from a slow disk.
const MAX_CALL_SECONDS: u64 = 300;
/// Long enough for a command that only reads a few small files, including two waits for a lock.
const MAX_SHORT_CALL_SECONDS: u64 = 30;
/// The commands that read or write a few small files.
const SHORT_CALLS: &[&str] = &[
    "rev-parse",
    "config",
    "update-ref",
    "worktree",
    "commit-tree",
];
/// The memory limit of one git process, without mapped files. A repository can make git read a
/// sparse file of a terabyte as a whole.
const MAX_MEMORY_BYTES: u64 = 4 << 30;
/// Enough for the names of about 500,000 files.
const MAX_OUTPUT_BYTES: usize = 64 << 20;
/// The most bytes of git's error output that are repeated.
const MAX_COMPLAINT_BYTES: usize = 2_000;

/// Settings that override those of any repository: no program that a repository names is run.
const CONFIG: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.pager=cat",
    "core.quotePath=false",
    "core.editor=true",
    "core.sshCommand=false",
    "core.alternateRefsCommand=true",
    "core.safecrlf=false",
    // An agent that can write to the object store could plant false trees in it.
    "core.commitGraph=false",
    "credential.helper=",
    "protocol.allow=never",
    "commit.gpgSign=false",
    "submodule.recurse=false",
    "diff.submodule=short",
    "diff.ignoreSubmodules=all",
    "merge.directoryRenames=false",
    "gc.auto=0",
    "maintenance.auto=false",
    // The owner of the folder does not matter, because nothing in it is run.
    "safe.directory=*",
    "safe.bareRepository=explicit",
    // Several children of one repository end at the same moment.
    "core.packedRefsTimeout=10000",
    "core.filesRefLockTimeout=10000",
];

/// The complete environment of git, except the search path and the variables that a call adds.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_ADVICE", "0"),
    ("GIT_AUTHOR_NAME", AUTHOR_NAME),
    ("GIT_AUTHOR_EMAIL", AUTHOR_EMAIL),
    ("GIT_COMMITTER_NAME", AUTHOR_NAME),
    ("GIT_COMMITTER_EMAIL", AUTHOR_EMAIL),
];

/// The author of our commits.
pub(crate) const AUTHOR_NAME: &str = "Sortie";
/// The email address of the author of our commits.
pub(crate) const AUTHOR_EMAIL: &str = "sortie@localhost";

/// The git program and how it is started.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    search_path: OsString,
    launcher: Vec<OsString>,
}

impl Git {
    /// Creates a handle for git at this path, or of this name on the search path. Git inherits only
    /// the search path from the environment.
    pub fn new(program: impl Into<PathBuf>, search_path: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            search_path: search_path.into(),
            launcher: Vec::new(),
        }
    }

    /// Runs git through a launcher that gets git's command line as its last arguments and ends git
    /// together with this process.
    pub fn through(mut self, launcher: Vec<OsString>) -> Self {
        self.launcher = launcher;
        self
    }

    /// Returns a call that discovers the repository of a folder.
    pub(crate) fn discovering(&self, folder: &Path) -> Call<'_> {
        Call::new(self, folder)
    }

    /// Returns a call on a known git folder, without a working tree.
    pub(crate) fn on(&self, git_dir: &Path) -> Call<'_> {
        Call::new(self, git_dir).env("GIT_DIR", git_dir)
    }

    /// Returns the program that is really started: a bare name is looked up here, because the
    /// child's search path differs from ours.
    fn found(&self) -> PathBuf {
        if self.program.components().count() > 1 {
            return self.program.clone();
        }
        std::env::split_paths(&self.search_path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(&self.program))
            .find(|candidate| candidate.is_file())
            .unwrap_or_else(|| self.program.clone())
    }
}

/// One invocation of git.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    git: &'a Git,
    command: Command,
    what: String,
    input: Input,
}

#[derive(Debug)]
enum Input {
    Nothing,
    Bytes(Vec<u8>),
    File(File),
}

/// The result of a git call.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) output: Vec<u8>,
    /// Whether the output was truncated.
    pub(crate) is_cut: bool,
    complaint: String,
}

impl<'a> Call<'a> {
    fn new(git: &'a Git, folder: &Path) -> Self {
        let program = git.found();
        let mut command = match git.launcher.as_slice() {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        command.env_clear().envs(ENVIRONMENT.iter().copied());
        command.env("PATH", &git.search_path);
        command.current_dir(folder).kill_on_drop(true);
        for setting in CONFIG {
            command.arg("-c").arg(setting);
        }
        Self {
            git,
            command,
            what: String::new(),
            input: Input::Nothing,
        }
    }

    fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the working tree.
    pub(crate) fn work_tree(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        // Relative to the working directory: no other name of an open folder is certain to keep
        // leading to it.
        self.env("GIT_WORK_TREE", ".")
    }

    /// Sets the index file.
    pub(crate) fn index(self, file: &Path) -> Self {
        self.env("GIT_INDEX_FILE", file)
    }

    /// Sets the object folder, for writing and for reading.
    pub(crate) fn objects(self, folder: &Path) -> Self {
        self.env("GIT_OBJECT_DIRECTORY", folder)
    }

    /// Adds the command and its options.
    pub(crate) fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Self {
        for arg in args {
            if self.what.is_empty() {
                self.what = arg.as_ref().to_string_lossy().into_owned();
            }
            self.command.arg(arg);
        }
        self
    }

    /// Sets the standard input to these bytes.
    pub(crate) fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = Input::Bytes(bytes);
        self
    }

    /// Sets the standard input to this file.
    pub(crate) fn input_file(mut self, file: File) -> Self {
        self.input = Input::File(file);
        self
    }

    /// Runs git and returns its output; fails if git fails.
    pub(crate) async fn output(self) -> Result<Vec<u8>> {
        let what = self.what.clone();
        let answer = self.answer().await?;
        match answer.code {
            0 => Ok(answer.output),
            _ => Err(answer.into_error(what)),
        }
    }

    /// Runs git and returns its output as text, without the last line break.
    pub(crate) async fn line(self) -> Result<String> {
        let what = self.what.clone();
        let text = String::from_utf8(self.output().await?);
        let mut text = text.map_err(|_| WorktreeError::Strange { what })?;
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }

    /// Runs git and writes its output to a file.
    pub(crate) async fn output_to(mut self, file: File) -> Result<()> {
        let what = self.what.clone();
        self.command.stdout(Stdio::from(file));
        let answer = self.bounded(0).await?;
        match answer.code {
            0 => Ok(()),
            _ => Err(answer.into_error(what)),
        }
    }

    /// Runs git and returns its output and exit code, also if it fails.
    pub(crate) async fn answer(mut self) -> Result<Answer> {
        let what = self.what.clone();
        self.command.stdout(Stdio::piped());
        let answer = self.bounded(MAX_OUTPUT_BYTES).await?;
        if answer.is_cut {
            return Err(WorktreeError::Loud {
                what,
                bytes: MAX_OUTPUT_BYTES,
            });
        }
        Ok(answer)
    }

    /// Runs git, and kills it when it has written this many bytes.
    pub(crate) async fn beginning(mut self, max_bytes: usize) -> Result<Answer> {
        let what = self.what.clone();
        self.command.stdout(Stdio::piped());
        let answer = self.bounded(max_bytes).await?;
        if answer.code != 0 && !answer.is_cut {
            return Err(answer.into_error(what));
        }
        Ok(answer)
    }

    async fn bounded(mut self, max_bytes: usize) -> Result<Answer> {
        self.command.stderr(Stdio::piped());
        let (stdin, bytes) = match self.input {
            Input::Nothing => (Stdio::null(), Vec::new()),
            Input::Bytes(bytes) => (Stdio::piped(), bytes),
            Input::File(file) => (Stdio::from(file), Vec::new()),
        };
        let child = self.command.stdin(stdin).spawn();
        let child = child.map_err(|source| WorktreeError::NoGit {
            program: self.git.program.clone(),
            source,
        })?;
        let process = child.id();
        bound_memory(process);
        let seconds = if SHORT_CALLS.contains(&self.what.as_str()) {
            MAX_SHORT_CALL_SECONDS
        } else {
            MAX_CALL_SECONDS
        };
        let limit = Duration::from_secs(seconds);
        let talk = tokio::time::timeout(limit, talk(child, bytes, max_bytes));
        // Dropping the future kills git.
        let result = tokio::select! {
            result = talk => result,
            () = stalled(process) => {
                return Err(WorktreeError::Stuck {
                    what: self.what,
                    seconds: STALLED_AFTER.as_secs(),
                });
            }
        };
        let Ok(result) = result else {
            return Err(WorktreeError::Slow {
                what: self.what,
                seconds,
            });
        };
        result.map_err(|source| WorktreeError::NoGit {
            program: self.git.program.clone(),
            source,
        })
    }
}

impl Answer {
    /// Converts the result of a failed call into an error.
    pub(crate) fn into_error(self, what: String) -> WorktreeError {
        WorktreeError::Git {
            what,
            message: self.complaint,
        }
    }

    /// Returns git's error message.
    pub(crate) fn complaint(&self) -> &str {
        &self.complaint
    }
}

/// Limits the memory of a git process that has just been started.
fn bound_memory(process: Option<u32>) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let process = process.and_then(|process| i32::try_from(process).ok());
    if let Some(process) = process.and_then(Pid::from_raw) {
        let limit = Rlimit {
            current: Some(MAX_MEMORY_BYTES),
            maximum: Some(MAX_MEMORY_BYTES),
        };
        // The process may have ended already, and some containers forbid the call.
        prlimit(Some(process), Resource::Data, limit).ok();
    }
}

async fn talk(mut child: Child, input: Vec<u8>, max_bytes: usize) -> std::io::Result<Answer> {
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let write = async {
        if let Some(mut stdin) = stdin {
            // git may stop reading before the end; its exit code gives the reason.
            stdin.write_all(&input).await.ok();
        }
    };
    let listen = async {
        let (output, is_cut) = read(stdout, max_bytes).await?;
        if is_cut {
            child.start_kill()?;
        }
        std::io::Result::Ok((output, is_cut))
    };
    let ((), result, complaint) = tokio::join!(write, listen, complaint(stderr));
    let (output, is_cut) = result?;
    let complaint = complaint?;
    let status = child.wait().await?;
    Ok(Answer {
        code: status.code().unwrap_or(-1),
        output,
        is_cut,
        complaint: String::from_utf8_lossy(&complaint).trim().to_owned(),
    })
}

/// Reads the beginning of git's error output, and drains the rest so that git can finish.
async fn complaint(source: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut source) = source {
        let mut beginning = (&mut source).take(MAX_COMPLAINT_BYTES as u64);
        beginning.read_to_end(&mut bytes).await?;
        tokio::io::copy(&mut source, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}

/// Reads up to a limit; `true` if there was more.
async fn read(
    source: Option<impl AsyncRead + Unpin>,
    max_bytes: usize,
) -> std::io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    let Some(source) = source else {
        return Ok((bytes, false));
    };
    let mut source = source.take(max_bytes as u64 + 1);
    source.read_to_end(&mut bytes).await?;
    let is_cut = bytes.len() > max_bytes;
    bytes.truncate(max_bytes);
    Ok((bytes, is_cut))
}
