//! The server and the workers: real processes, each with a home of its own.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{LEASE, sleep};

/// The label that only workers have.
const WORKERS_LABEL: &str = "pool";
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Members {
    binary: PathBuf,
    folder: PathBuf,
    store: String,
    /// Part of the store to break, for the control.
    broken: Option<&'static str>,
    server: Option<Child>,
    workers: Vec<Member>,
}

/// A main run to create.
#[derive(Debug)]
pub(crate) struct NewTree<'a> {
    pub(crate) label: &'a str,
    pub(crate) task: &'a str,
    pub(crate) model: &'a str,
    pub(crate) folder: &'a Path,
    /// Whether the server may not execute it.
    pub(crate) on_workers: bool,
}

#[derive(Debug)]
struct Member {
    process: Child,
    stopped: Option<Instant>,
}

impl Members {
    /// Starts a server and workers.
    pub(crate) fn start(
        binary: &Path,
        folder: &Path,
        store: &str,
        workers: u64,
        broken: Option<&'static str>,
    ) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let mut members = Self {
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            store: store.to_owned(),
            broken,
            server: None,
            workers: Vec::new(),
        };
        members.start_server()?;
        for number in 0..workers {
            let process = members.spawn_worker(number)?;
            members.workers.push(Member {
                process,
                stopped: None,
            });
        }
        Ok(members)
    }

    fn sortie(&self, home: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .arg("--home")
            .arg(self.folder.join(home))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .env("LANG", "C.UTF-8")
            .env("SORTIE__STORE", &self.store)
            .env("SORTIE__LEASE_SECONDS", LEASE.as_secs().to_string())
            .env("SORTIE__SUBAGENTS__MAX_DEPTH", "2")
            .env_remove("SORTIE_CRASH_AT")
            .env_remove("SORTIE_BREAK");
        if let Some(part) = self.broken {
            command.env("SORTIE_BREAK", part);
        }
        command
    }

    /// Redirects the output to files beside the home.
    fn logged(&self, mut command: Command, name: &str) -> Result<Child> {
        let open = |ending: &str| {
            let path = self.folder.join(format!("{name}.{ending}"));
            let file = File::options().create(true).append(true).open(&path);
            file.with_context(|| format!("cannot open {}", path.display()))
        };
        let command = command.stdout(open("out")?).stderr(open("err")?);
        command.spawn().context("cannot start the binary")
    }

    /// Starts the server, and waits until it listens.
    fn start_server(&mut self) -> Result<()> {
        let output = self.folder.join("server.out");
        let length = fs::metadata(&output).map_or(0, |file| file.len());
        let mut command = self.sortie("server");
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        self.server = Some(self.logged(command, "server")?);
        let started = Instant::now();
        while fs::metadata(&output)?.len() <= length {
            ensure!(
                started.elapsed() < PATIENCE,
                "the server does not start; see {}",
                self.folder.join("server.err").display()
            );
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn spawn_worker(&self, number: u64) -> Result<Child> {
        let name = format!("worker-{number}");
        let mut command = self.sortie(&name);
        command.args(["worker", "--limit", "4", "--label", WORKERS_LABEL]);
        self.logged(command, &name)
    }

    /// Kills the server and starts another one.
    pub(crate) fn kill_server(&mut self) -> Result<()> {
        if let Some(mut server) = self.server.take() {
            server.kill()?;
            server.wait()?;
        }
        self.start_server()
    }

    /// Kills a worker and starts another one in its home.
    pub(crate) fn kill_worker(&mut self, number: u64) -> Result<()> {
        let next = {
            let member = self.worker(number)?;
            member.process.kill()?;
            member.process.wait()?;
            self.spawn_worker(number)?
        };
        *self.worker(number)? = Member {
            process: next,
            stopped: None,
        };
        Ok(())
    }

    /// Stops a worker until [`Members::continue_stopped`].
    pub(crate) fn stop_worker(&mut self, number: u64) -> Result<()> {
        let member = self.worker(number)?;
        if member.stopped.is_none() {
            kill_process(Pid::from_child(&member.process), Signal::STOP)?;
            member.stopped = Some(Instant::now());
        }
        Ok(())
    }

    /// Continues the workers that were stopped this long ago.
    pub(crate) fn continue_stopped(&mut self, after: Duration) -> Result<()> {
        for member in &mut self.workers {
            if member.stopped.is_some_and(|since| since.elapsed() >= after) {
                kill_process(Pid::from_child(&member.process), Signal::CONT)?;
                member.stopped = None;
            }
        }
        Ok(())
    }

    fn worker(&mut self, number: u64) -> Result<&mut Member> {
        let index = usize::try_from(number)?;
        self.workers.get_mut(index).context("no such worker")
    }

    /// Returns whether all runs have ended.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        let stats = self.json(&["tasks", "stats", "--json"])?;
        let stats = stats.first().context("no statistics")?;
        Ok(stats["pending"] == 0 && stats["running"] == 0)
    }

    /// Runs a command that prints JSON: an array, or one value on each line.
    pub(crate) fn json(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let output = self.sortie("server").args(arguments).output()?;
        ensure!(
            output.status.success(),
            "`sortie {}` ended with {}: {}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let text = String::from_utf8_lossy(&output.stdout);
        let mut values = Vec::new();
        for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            let value = value.with_context(|| format!("invalid output of {arguments:?}"))?;
            if let Value::Array(items) = value {
                values.extend(items);
            } else {
                values.push(value);
            }
        }
        Ok(values)
    }

    /// Creates a main run through the API of the server.
    pub(crate) fn create(&self, new: &NewTree<'_>) -> Result<()> {
        let lines = fs::read_to_string(self.folder.join("server.out"))?;
        let started: Value = serde_json::from_str(lines.lines().last().unwrap_or_default())
            .context("the server printed no address")?;
        let address = started["address"].as_str().context("no address")?;
        let token = fs::read_to_string(self.folder.join("server/token"))?;
        let requires: &[&str] = if new.on_workers {
            &[WORKERS_LABEL]
        } else {
            &[]
        };
        let body = json!({
            "message": new.task, "label": new.label, "model": new.model, "main": true,
            "mode": "yolo", "max_depth": 2, "workspace": new.folder.display().to_string(),
            "requires": requires,
        })
        .to_string();
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "POST /api/tasks HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            token.trim(),
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if !answer.starts_with("HTTP/1.1 20") {
            bail!("the server refused a task: {answer}");
        }
        Ok(())
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        let workers = self.workers.iter_mut().map(|member| &mut member.process);
        for process in workers.chain(self.server.as_mut()) {
            if process.kill().is_ok()
                && let Err(error) = process.wait()
            {
                eprintln!("warning: cannot wait for a process: {error}");
            }
        }
    }
}
