//! Process costs, from /proc.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// Returns the CPU time of all threads of this process, ended ones included, in milliseconds.
pub(crate) fn cpu_ms() -> anyhow::Result<f64> {
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
pub(crate) fn memory_kb(name: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("read the process's size")?;
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .context("the kernel does not say")
}

/// Returns the median time from starting a command to its end.
pub(crate) fn median_start(sortie: &Path, times: usize) -> anyhow::Result<Duration> {
    let home = tempfile::tempdir()?;
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        let started = Instant::now();
        let status = Command::new(sortie)
            .arg("--home")
            .arg(home.path())
            .args(["tasks", "stats"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("start sortie")?;
        taken.push(started.elapsed());
        ensure!(status.success(), "sortie tasks stats failed");
    }
    taken.sort();
    Ok(taken[taken.len() / 2])
}
