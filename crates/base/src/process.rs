//! Detects whether a process is alive.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Where the flags are among the fields of `/proc/PID/stat` after the name; the state is the first.
const FLAGS_FIELD: usize = 6;
/// The kernel's mark of a process that is about to end (`PF_EXITING`).
const EXITING: u64 = 0x4;
/// The bit of SIGKILL in a mask of signals.
const KILL_BIT: u64 = 1 << 8;

/// Returns whether a process has ended, or was killed and is about to end: it keeps its files, and the
/// locks on them, for a moment after the signal was sent. Without `/proc`, a process that waits to be
/// reaped counts as living.
pub fn is_over(pid: u32) -> bool {
    let Some(known) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return true;
    };
    match test_kill_process(known) {
        Ok(()) | Err(Errno::PERM) => is_dying(pid),
        Err(_) => true,
    }
}

fn is_dying(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    is_marked(&stat) || is_killed(&status)
}

/// Returns whether the kernel has marked the process as ending or ended.
fn is_marked(stat: &str) -> bool {
    // A name may contain anything, a parenthesis too.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = fields.split_whitespace();
    let state = fields.next();
    let flags = fields
        .nth(FLAGS_FIELD - 1)
        .and_then(|text| text.parse::<u64>().ok());
    matches!(state, Some("Z" | "X" | "x")) || flags.is_some_and(|flags| flags & EXITING != 0)
}

/// Returns whether SIGKILL is pending.
fn is_killed(status: &str) -> bool {
    status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| matches!(*name, "SigPnd" | "ShdPnd"))
        .filter_map(|(_, mask)| u64::from_str_radix(mask.trim(), 16).ok())
        .any(|mask| mask & KILL_BIT != 0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_living_process_has_not_ended_and_a_killed_one_has_at_once() {
        assert!(!is_over(std::process::id()));
        assert!(is_over(0));
        assert!(is_over(u32::MAX));
        for _ in 0..50 {
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            assert!(!is_over(child.id()));
            child.kill().unwrap();
            // It may not even have noticed yet.
            assert!(is_over(child.id()));
            child.wait().unwrap();
            assert!(is_over(child.id()));
        }
    }

    #[test]
    fn marks_of_the_kernel_are_read_behind_any_name() {
        let stat = |state: &str, flags: u64| format!("7 (a) R 1) {state} 1 7 7 0 -1 {flags} 0 0");
        assert!(!is_marked(&stat("S", 0x40_0000)));
        assert!(is_marked(&stat("S", 0x40_0004)));
        assert!(is_marked(&stat("Z", 0)));
        assert!(!is_marked(""));
        assert!(is_killed("Name:\tx\nSigPnd:\t0000000000000100\n"));
        assert!(is_killed("ShdPnd:\t0000000000004100\n"));
        assert!(!is_killed("SigBlk:\t0000000000000100\nShdPnd:\t0\n"));
    }
}
