//! A PostgreSQL server in a folder of its own, without a system service.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::sleep;
use crate::scratch::Scratch;

/// PostgreSQL refuses to run as root; this user owns nothing.
const NOBODY: u32 = 65_534;
const USER: &str = "sortie";
const MISSING: &str = "install PostgreSQL 15 or newer (Debian: apt-get install postgresql)";
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Database {
    scratch: Scratch,
    process: Child,
    is_root: bool,
}

impl Database {
    pub(crate) fn start() -> Result<Self> {
        let is_root = fs::metadata("/proc/self")?.uid() == 0;
        // The path of a socket is short, and the user that owns nothing must reach it.
        let name = format!("sortie-cluster-{}", std::process::id());
        let scratch = Scratch::new(&std::env::temp_dir(), &name)?;
        let folder = scratch.path();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        if is_root {
            chown(folder, Some(NOBODY), Some(NOBODY))?;
        }
        let made = command(folder, "initdb", is_root)?
            .args(["-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
            .args(["-U", USER, "-D"])
            .arg(folder.join("data"))
            .status()
            .with_context(|| format!("cannot start initdb; {MISSING}"))?;
        ensure!(made.success(), "initdb failed: {}", log(folder));
        let process = command(folder, "postgres", is_root)?
            .arg("-D")
            .arg(folder.join("data"))
            .arg("-k")
            .arg(folder)
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .args(["-c", "max_connections=200", "-c", "shared_buffers=64MB"])
            .spawn()
            .context("cannot start postgres")?;
        let database = Self {
            scratch,
            process,
            is_root,
        };
        let started = Instant::now();
        while !database.sql("SELECT 1")? {
            ensure!(
                started.elapsed() < PATIENCE,
                "postgres does not answer: {}",
                log(database.scratch.path())
            );
            sleep(Duration::from_millis(100));
        }
        Ok(database)
    }

    /// Creates a schema; returns its address.
    pub(crate) fn schema(&self, name: &str) -> Result<String> {
        ensure!(
            self.sql(&format!("CREATE SCHEMA {name}"))?,
            "cannot create a schema: {}",
            log(self.scratch.path())
        );
        let host = self.scratch.path().display().to_string();
        let host = host.replace('/', "%2F");
        Ok(format!(
            "postgres://{USER}@{host}/postgres?options=-csearch_path%3D{name}"
        ))
    }

    /// Runs SQL; returns whether it succeeded.
    fn sql(&self, sql: &str) -> Result<bool> {
        let folder = self.scratch.path();
        let ran = command(folder, "psql", self.is_root)?
            .args(["-q", "-h"])
            .arg(folder)
            .args(["-U", USER, "-d", "postgres", "-c", sql])
            .status()
            .context("cannot start psql")?;
        Ok(ran.success())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // As a crash would: no data is needed any more.
        let ended = kill_process(Pid::from_child(&self.process), Signal::QUIT);
        if ended.is_ok()
            && let Err(error) = self.process.wait()
        {
            eprintln!("warning: cannot wait for postgres: {error}");
        }
    }
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// A program that runs as a user that PostgreSQL accepts, with its output in the log.
fn command(folder: &Path, name: &str, is_root: bool) -> Result<Command> {
    let path = folder.join("log");
    let log = File::options().create(true).append(true).open(&path)?;
    let mut command = Command::new(program(name));
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    Ok(command)
}

/// Finds a program of PostgreSQL 15 or newer, where Debian puts it or on the `PATH`.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let newest = versions
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|version| *version >= 15)
        .max();
    let folder = newest.map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin")));
    folder.map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
}
