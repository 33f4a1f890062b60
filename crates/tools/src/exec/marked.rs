//! Processes that carry the name of an effect in their environment, found in `/proc`.
//!
//! On systems other than Linux no process is found this way, and none is ended.

use sortie_core::EffectId;

/// The variable that every command and all its descendants carry.
pub(super) const VARIABLE: &str = "SORTIE_EFFECT";

/// Sends the signal that cannot be refused to everyone who carries the effect, but never to this
/// process; returns their numbers. One that is dead and not yet buried no longer counts.
pub(super) fn kill_marked(effect: &EffectId) -> Vec<u32> {
    platform::kill_with(format!("{VARIABLE}={effect}").as_bytes())
}

#[cfg(target_os = "linux")]
mod platform {
    use std::os::fd::OwnedFd;

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// Kills all other processes with this entry in their environment.
    pub(super) fn kill_with(entry: &[u8]) -> Vec<u32> {
        let own = std::process::id();
        let held: Vec<(u32, OwnedFd)> = processes()
            .filter(|number| *number != own && carries(*number, entry))
            .filter_map(|number| Some((number, hold(number, entry)?)))
            .collect();
        // All are halted before the first one dies: else a shell would take the death of one step
        // for its end, and continue with the next.
        for (_, process) in &held {
            // It may have ended by now.
            pidfd_send_signal(process, Signal::STOP).ok();
        }
        held.into_iter()
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

    /// Whether it was started with this entry. One that vanished was not, nor one that we may not
    /// look into. The kernel bounds the size of an environment to a few MiB.
    fn carries(number: u32, entry: &[u8]) -> bool {
        std::fs::read(format!("/proc/{number}/environ")).is_ok_and(|environment| {
            environment
                .split(|byte| *byte == 0)
                .any(|candidate| candidate == entry)
        })
    }

    /// Holds a process with this entry. Its id may be reused by another process at any moment, so
    /// it is looked at again once it is held, and signals go to the one that is held.
    fn hold(number: u32, entry: &[u8]) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(number).ok()?)?;
        let held = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        carries(number, entry).then_some(held)
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    /// Finds no process.
    pub(super) fn kill_with(_entry: &[u8]) -> Vec<u32> {
        Vec::new()
    }
}
