//! Finds processes in `/proc` that carry the id of an effect in their environment.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sortie_core::id::EffectId;

/// The environment variable of every command and all its descendants.
pub(super) const VARIABLE: &str = "SORTIE_EFFECT";

/// Sends SIGKILL to every process that carries the effect, except this one, and returns their pids.
/// Zombies are not counted.
pub(super) fn kill_marked(effect: &EffectId) -> Vec<u32> {
    kill_with(format!("{VARIABLE}={effect}").as_bytes())
}

/// Kills all other processes with this entry in their environment.
fn kill_with(entry: &[u8]) -> Vec<u32> {
    let own = std::process::id();
    let opened: Vec<(u32, OwnedFd)> = processes()
        .filter(|number| *number != own && carries(*number, entry))
        .filter_map(|number| Some((number, open_marked(number, entry)?)))
        .collect();
    // Stop all of them before the first one is killed: otherwise a shell would treat the death
    // of one step as its end and continue with the next.
    for (_, process) in &opened {
        // The process may have ended by now.
        pidfd_send_signal(process, Signal::STOP).ok();
    }
    opened
        .into_iter()
        .filter(|(_, process)| pidfd_send_signal(process, Signal::KILL).is_ok())
        .map(|(number, _)| number)
        .collect()
}

fn processes() -> impl Iterator<Item = u32> {
    // Without /proc no process can be found.
    let folder = std::fs::read_dir("/proc").ok();
    folder
        .into_iter()
        .flatten()
        .filter_map(|process| process.ok()?.file_name().to_str()?.parse().ok())
}

/// Returns whether the process was started with this entry. False for a process that has
/// vanished or whose environment is not readable. The kernel limits the size of an environment
/// to a few MiB.
fn carries(number: u32, entry: &[u8]) -> bool {
    std::fs::read(format!("/proc/{number}/environ")).is_ok_and(|environment| {
        environment
            .split(|byte| *byte == 0)
            .any(|candidate| candidate == entry)
    })
}

/// Opens a pidfd of a process with this entry. Its pid may be reused by another process at any
/// moment, so the environment is checked again after opening, and signals go to the pidfd.
fn open_marked(number: u32, entry: &[u8]) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(number).ok()?)?;
    let opened = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    carries(number, entry).then_some(opened)
}
