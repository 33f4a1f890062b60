//! A temporary home and workspace, and processes of the binary in them.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The longest time of a step; one that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A home and a workspace for one test.
pub(crate) struct World {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// The output and exit code of a process.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("workspace")).unwrap();
        Self {
            folder,
            variables: Vec::new(),
        }
    }

    /// Adds a variable to the environment.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the folder that contains home and workspace.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// Writes a file into the workspace.
    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes a scenario beside the workspace; returns the name of its model.
    pub(crate) fn scenario(&self, rules: &str) -> String {
        self.scenario_in("scenario.yaml", rules)
    }

    /// Writes a scenario under another name: a process reads a scenario file only once.
    pub(crate) fn scenario_in(&self, name: &str, rules: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, format!("version: 1\nrules:\n{rules}")).unwrap();
        format!("script:{}", path.display())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
        command
            .args(arguments)
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("SORTIE_HOME", self.home())
            // The configuration of the user who runs the tests is not read.
            .env("HOME", self.folder.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary until it exits.
    pub(crate) fn sortie(&self, arguments: &[&str]) -> CommandOutput {
        let output = self.command(arguments).output().unwrap();
        CommandOutput {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs the binary and asserts success.
    pub(crate) fn ok(&self, arguments: &[&str]) -> CommandOutput {
        let output = self.sortie(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:#?}");
        output
    }

    /// Runs the binary, asserts success, and parses its JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.ok(arguments);
        serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error}: {output:#?}"))
    }

    /// Runs the binary and parses its JSON, whatever the exit code.
    pub(crate) fn json_any(&self, arguments: &[&str]) -> Value {
        let output = self.sortie(arguments);
        serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error}: {output:#?}"))
    }

    /// Returns all tasks, oldest first.
    pub(crate) fn tasks(&self) -> Vec<Value> {
        let mut tasks = self.json(&["tasks", "list", "--all", "--json"]);
        let tasks = tasks.as_array_mut().unwrap();
        tasks.reverse();
        std::mem::take(tasks)
    }

    /// Returns the task with this label.
    pub(crate) fn task(&self, label: &str) -> Value {
        self.tasks()
            .into_iter()
            .find(|task| task["label"] == label)
            .unwrap_or_else(|| panic!("no task {label}"))
    }

    /// Starts the binary without waiting for it.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Starts the binary from a shell that runs a command first.
    pub(crate) fn start_after(&self, words: &str, arguments: &[&str]) -> Running {
        let inner = self.command(arguments);
        let mut shell = Command::new("/bin/sh");
        shell
            .arg("-c")
            .arg(format!("{words} && exec \"$0\" \"$@\""))
            .arg(inner.get_program())
            .args(inner.get_args())
            .current_dir(self.workspace())
            .env_clear()
            .stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            if let Some(value) = value {
                shell.env(name, value);
            }
        }
        Running::start(shell)
    }

    /// Starts a server on any free port, and waits until it listens.
    pub(crate) fn serve(&self) -> Running {
        self.serve_with(&[])
    }

    /// Starts a server with further arguments, and waits until it listens.
    pub(crate) fn serve_with(&self, arguments: &[&str]) -> Running {
        let listen = ["serve", "--listen", "127.0.0.1:0"];
        let mut server = self.start(&[&listen, arguments].concat());
        server.wait_for_line("Serving ");
        server
    }

    /// Returns the address of the server.
    pub(crate) fn address(&self) -> String {
        let status = self.json_any(&["status", "--json"]);
        status["address"].as_str().unwrap().to_owned()
    }

    /// Polls until the condition is true.
    pub(crate) fn until(&self, what: &str, happened: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !happened(self) {
            assert!(Instant::now() < deadline, "never happened: {what}");
            self.ok(&["tasks", "stats"]);
        }
    }

    /// Returns the process id that a shell command of an agent wrote into this file.
    pub(crate) fn pid_in(&self, name: &str) -> Pid {
        let path = self.workspace().join(name);
        let read = |path: &Path| -> Option<i32> {
            std::fs::read_to_string(path).ok()?.trim().parse().ok()
        };
        self.until("a process id is written", |_| read(&path).is_some());
        Pid::from_raw(read(&path).unwrap()).unwrap()
    }
}

pub(crate) struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    lines_read: Vec<String>,
    out: Option<std::thread::JoinHandle<String>>,
}

impl Running {
    /// Starts the command and reads its output in the background.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let err = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in err.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut stdout = child.stdout.take().unwrap();
        let out = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        });
        Self {
            child,
            lines,
            lines_read: Vec::new(),
            out: Some(out),
        }
    }

    /// Waits for a line on stderr that contains this.
    pub(crate) fn wait_for_line(&mut self, expected: &str) -> &mut Self {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.lines_read.push(line);
                    if self.lines_read.last().unwrap().contains(expected) {
                        return self;
                    }
                }
                Err(error) => panic!(
                    "{error} while waiting for {expected:?}: {:#?}",
                    self.lines_read
                ),
            }
        }
    }

    /// Waits for a line on stderr that contains this, or for the end of the process.
    pub(crate) fn wait_for_line_or_end(&mut self, expected: &str) -> bool {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let found = line.contains(expected);
                    self.lines_read.push(line);
                    if found {
                        return true;
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return false,
                Err(error) => panic!(
                    "{error} while waiting for {expected:?}: {:#?}",
                    self.lines_read
                ),
            }
        }
    }

    /// Sends a signal to a process that may have ended.
    pub(crate) fn try_signal(&mut self, signal: Signal) {
        if self.child.try_wait().unwrap().is_none() {
            self.signal(signal);
        }
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&mut self, signal: Signal) -> &mut Self {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        self
    }

    /// Waits until the process exits.
    pub(crate) fn end(mut self) -> CommandOutput {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.lines_read.push(line);
        }
        let status: ExitStatus = self.child.wait().unwrap();
        CommandOutput {
            code: status.code(),
            out: self.out.take().unwrap().join().unwrap(),
            err: self.lines_read.join("\n"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A failed test leaves no process behind; after a successful one there is none.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
