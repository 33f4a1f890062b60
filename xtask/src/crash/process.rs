//! Runs a program and kills it after a time limit.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Exited(ExitStatus),
    /// The harness killed it.
    Killed,
}

/// Starts the program in its own process group and kills the group after the limit.
pub(super) fn run_at_most(command: &mut Command, limit: Duration) -> Result<Ending> {
    let start = Instant::now();
    let mut child = command
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let ended = watch(&child).and_then(|descriptor| ends_before(&descriptor, start + limit));
    if !matches!(ended, Ok(true)) {
        // The child is not reaped before `wait`, so its id cannot belong to another process.
        kill(&child)?;
    }
    let status = child.wait().context("cannot wait for a killed program")?;
    Ok(if ended? || status.code().is_some() {
        Ending::Exited(status)
    } else {
        Ending::Killed
    })
}

fn watch(child: &Child) -> Result<OwnedFd> {
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}

fn kill(child: &Child) -> Result<()> {
    match kill_process_group(Pid::from_child(child), Signal::KILL) {
        // The process ended meanwhile.
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context("cannot kill a process group"),
    }
}

fn ends_before(descriptor: &OwnedFd, deadline: Instant) -> Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).context("the time limit is too long")?;
        let mut watched = [PollFd::new(descriptor, PollFlags::IN)];
        match poll(&mut watched, Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for a program"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str, limit: Duration) -> Ending {
        run_at_most(Command::new("sh").args(["-c", script]), limit).unwrap()
    }

    #[test]
    fn a_program_ends_by_itself_or_is_killed() {
        let Ending::Exited(status) = check("exit 3", Duration::from_secs(60)) else {
            panic!("killed within a minute");
        };
        assert_eq!(status.code(), Some(3));
        assert_eq!(
            check("sleep 600", Duration::from_millis(20)),
            Ending::Killed
        );
    }
}
