//! What a process costs: CPU time, memory, wall time.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Descriptors that this process and each of its children may open.
const OPEN_FILES: u64 = 40_000;
/// The first argument of this program as a launcher that measures another one.
const LAUNCHER: &str = "measured";

/// What a program cost, together with every process that it started and waited for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// The time just before the program was started, on the clock of [`monotonic_ns`].
    pub started_ns: u64,
    pub wall_ms: f64,
    /// User and system time.
    pub cpu_ms: f64,
    /// The largest resident set of one of the processes. The kernel counts the launcher's own set
    /// too, about 3 MB, so nothing smaller is reported.
    pub peak_kb: u64,
    /// Its standard output.
    pub out: String,
}

/// Returns a command that starts `program` and measures it; [`Cost::of`] runs it.
pub fn measured(program: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.arg(LAUNCHER).arg(program);
    Ok(command)
}

impl Cost {
    /// Runs a command of [`measured`] to its end.
    pub fn of(command: &mut Command) -> anyhow::Result<Self> {
        let output = command.stdin(Stdio::null()).output().context("start")?;
        ensure!(
            output.status.success(),
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        serde_json::from_slice(&output.stdout).context("read what the launcher measured")
    }
}

/// Runs as the launcher if the arguments of this program say so.
///
/// The kernel reports the peak memory of all children together, so each measured program has a
/// launcher of its own. Call it first in `main`, while this process is still small.
pub fn launch(mut words: impl Iterator<Item = OsString>) -> Option<anyhow::Result<()>> {
    if words.next()? != LAUNCHER {
        return None;
    }
    Some(launched(words))
}

fn launched(mut words: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let mut command = Command::new(words.next().context("a program is missing")?);
    command.args(words).stdin(Stdio::null());
    let started_ns = monotonic_ns();
    let output = command.output().context("start the program")?;
    let wall_ns = monotonic_ns() - started_ns;
    ensure!(
        output.status.success(),
        "{}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("read the costs of the program")?;
    let cpu = usage.user_time() + usage.system_time();
    let cost = Cost {
        started_ns,
        wall_ms: wall_ns as f64 / 1e6,
        cpu_ms: cpu.num_microseconds() as f64 / 1e3,
        peak_kb: u64::try_from(usage.max_rss()).unwrap_or(0),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
    };
    println!("{}", serde_json::to_string(&cost)?);
    Ok(())
}

/// Returns CLOCK_MONOTONIC in nanoseconds: all processes of the machine share it.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let nanoseconds = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    u64::try_from(nanoseconds).unwrap_or(0)
}

/// Returns the CPU time of all threads of this process, ended ones included, in milliseconds.
pub fn cpu_ms() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("read the process's times")?;
    // The name in parentheses may contain spaces; the fields follow it.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let ticks = |index: usize| -> f64 {
        fields
            .get(index)
            .and_then(|field| field.parse().ok())
            .unwrap_or(0.0)
    };
    // utime and stime, in hundredths of a second.
    Ok((ticks(11) + ticks(12)) * 10.0)
}

/// Returns a line of /proc/self/status in kB, for example `VmHWM`.
pub fn memory_kb(name: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("read the process's size")?;
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .context("the kernel does not say")
}

/// Raises the limit of open files for this process and its children.
pub fn raise_open_files() -> anyhow::Result<()> {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= OPEN_FILES) {
        return Ok(());
    }
    let maximum = now.maximum.map(|maximum| maximum.max(OPEN_FILES));
    let wanted = Rlimit {
        current: Some(OPEN_FILES),
        maximum,
    };
    let within = Rlimit {
        current: now.maximum.map(|maximum| maximum.min(OPEN_FILES)),
        maximum: now.maximum,
    };
    setrlimit(Resource::Nofile, wanted)
        .or_else(|_| setrlimit(Resource::Nofile, within))
        .context("raise the limit of open files")
}
