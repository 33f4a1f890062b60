//! The real server, in its own home folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::http::{Address, Http};

/// How long it may take to start and to stop.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// More concurrent children than any scene has.
const MAX_CONCURRENT: &str = "512";
/// The rate limit of one key: the server is measured, not its limit.
const RATE: &str = "1000000";

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    folder: TempDir,
    pub address: Address,
}

impl Server {
    /// Starts it in a folder of its own and waits until it responds.
    pub async fn start(sortie: &Path) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a folder")?;
        let workspace = folder.path().join("workspace");
        fs::create_dir(&workspace).context("make a workspace")?;
        fs::write(workspace.join("note.txt"), "one\ntwo\nthree\nfour\nfive\n")?;
        Self::start_in(sortie, folder, &[]).await
    }

    /// Starts it in a folder that has a `workspace` and may have a `home`, with more variables.
    pub async fn start_in(
        sortie: &Path,
        folder: TempDir,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        let home = folder.path().join("home");
        let log = File::create(folder.path().join("log")).context("make a log")?;
        let child = Command::new(sortie)
            .arg("--home")
            .arg(&home)
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .current_dir(folder.path().join("workspace"))
            .env("HOME", folder.path())
            .env("SORTIE__SUBAGENTS__MAX_CONCURRENT", MAX_CONCURRENT)
            .env("SORTIE__SERVER__RATE__PER_SECOND", RATE)
            .env("SORTIE__SERVER__RATE__BURST", RATE)
            .env_remove("SORTIE_HOME")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("start sortie serve")?;
        let mut server = Self {
            child,
            folder,
            address: Address {
                host: String::new(),
                token: String::new(),
            },
        };
        server.address = server.until_ready(&home).await?;
        Ok(server)
    }

    /// Returns the folder with its home and its workspace.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    async fn until_ready(&mut self, home: &Path) -> Result<Address> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(address) = address_in(home) {
                let answer = match Http::connect(&address).await {
                    Ok(mut http) => http
                        .send("GET /readyz", None)
                        .await
                        .map(|(status, _)| status),
                    Err(error) => Err(error),
                };
                if answer.is_ok_and(|status| status == 200) {
                    return Ok(address);
                }
            }
            if let Some(status) = self.child.try_wait().context("watch the server")? {
                bail!("the server ended with {status}: {}", self.log());
            }
            ensure!(
                Instant::now() < deadline,
                "the server is not ready: {}",
                self.log()
            );
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns the token file.
    pub fn token_file(&self) -> PathBuf {
        self.folder.path().join("home/token")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Writes a scenario for the scripted model and returns its name.
    pub fn script(&self, name: &str, script: &Value) -> Result<String> {
        let path = self.folder.path().join(name);
        fs::write(&path, script.to_string()).context("write a scenario")?;
        Ok(format!("script:{}", path.display()))
    }

    /// Requests a main run and returns its id.
    pub async fn run(&self, http: &mut Http, model: &str, session: &str) -> Result<String> {
        let body = json!({
            "message": "go",
            "label": session,
            "session_id": format!("api:{session}"),
            "agent": "main",
            "main": true,
            "model": model,
            "mode": "yolo",
            "workspace": self.folder.path().join("workspace"),
        });
        let task = http.json("POST /api/tasks", Some(&body)).await?;
        let id = task["task_id"].as_str().context("a task without an id")?;
        Ok(id.to_owned())
    }

    /// Waits until a run has completed, and returns its record.
    pub async fn end_of(&self, http: &mut Http, run: &str) -> Result<Value> {
        let deadline = Instant::now() + PATIENCE * 3;
        loop {
            let task = http.json(&format!("GET /api/tasks/{run}"), None).await?;
            match task["status"].as_str() {
                Some("completed") => return Ok(task),
                Some("pending" | "running") => {}
                other => bail!("{run} ended as {other:?}: {}", task["error"]),
            }
            ensure!(Instant::now() < deadline, "{run} does not end: {task}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns a line of its /proc/PID/status in MiB, for example `VmRSS`.
    pub fn memory_mib(&self, name: &str) -> Result<f64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(path).context("read the server's size")?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kilobytes.context("the kernel does not say")? / 1024.0)
    }

    /// Returns its CPU time so far, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = fs::read_to_string(path).context("read the server's times")?;
        let rest = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest)
            .unwrap_or_default();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|word| word.parse::<f64>().ok());
        let both = ticks(11)
            .zip(ticks(12))
            .context("the kernel does not say")?;
        Ok((both.0 + both.1) / 100.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // It may have ended by itself; waiting reports that.
        if let Some(pid) = pid {
            kill_process(pid, Signal::TERM).ok();
        }
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while std::time::Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::yield_now();
        }
        eprintln!("warning: the server did not stop in time and is killed");
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn address_in(home: &Path) -> Option<Address> {
    let state = fs::read(home.join("server.json")).ok()?;
    let state: Value = serde_json::from_slice(&state).ok()?;
    let token = fs::read_to_string(home.join("token")).ok()?;
    Some(Address {
        host: state["address"]
            .as_str()?
            .trim_start_matches("http://")
            .to_owned(),
        token: token.trim().to_owned(),
    })
}
