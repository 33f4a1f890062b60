//! Detects a git process that waits for input that never arrives.
//!
//! A repository can make git open a pipe: as a file of the git folder, as a file that its
//! configuration includes, as an object, or as a `.gitignore` anywhere. No list of names is
//! complete, so the process itself is watched: a git process that sleeps and neither computes nor
//! wakes up even once within [`STALLED_AFTER`] is stuck. Work on a slow disk counts as progress,
//! because the process is then in uninterruptible sleep; so do waits for a lock, which wake up
//! repeatedly.

use std::time::Duration;

/// The interval between samples of the process.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// The number of identical samples that indicate a stall.
const SAME_SAMPLES: u64 = 5;
/// The longest time without progress.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(SAME_SAMPLES);

/// Completes when a process has stalled; never where the system does not report activity.
pub(crate) async fn stalled(process: Option<u32>) {
    let Some(process) = process else {
        return std::future::pending().await;
    };
    let mut last: Option<Activity> = None;
    let mut same = 0;
    loop {
        tokio::time::sleep(SAMPLE_EVERY).await;
        let now = Activity::of(process);
        let is_idle = now.as_ref().is_some_and(|now| now.sleeps) && now == last;
        same = if is_idle { same + 1 } else { 0 };
        if same == SAME_SAMPLES {
            return;
        }
        last = now;
    }
}

/// The activity of the threads of a process so far.
#[derive(Debug, PartialEq, Eq)]
struct Activity {
    /// Whether all threads are in interruptible sleep.
    sleeps: bool,
    /// Their CPU times and context switches, as the system reports them.
    numbers: Vec<String>,
}

impl Activity {
    fn of(process: u32) -> Option<Self> {
        let mut activity = Self {
            sleeps: true,
            numbers: Vec::new(),
        };
        for thread in std::fs::read_dir(format!("/proc/{process}/task")).ok()? {
            let thread = thread.ok()?.path();
            let status = std::fs::read_to_string(thread.join("status")).ok()?;
            let stat = std::fs::read_to_string(thread.join("stat")).ok()?;
            activity.add(&stat, &status)?;
        }
        activity.numbers.sort();
        Some(activity)
    }

    fn add(&mut self, stat: &str, status: &str) -> Option<()> {
        // The program name stands in brackets and may contain any character.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        self.sleeps &= fields.next()? == "S";
        let mut used = fields.skip(10);
        let times = (used.next()?, used.next()?);
        let switches: Vec<&str> = status
            .lines()
            .filter(|line| line.contains("ctxt_switches"))
            .collect();
        self.numbers.push(format!("{times:?} {switches:?}"));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 55 66 0 0 20 0 1 0 9";
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n";
        let mut activity = Activity {
            sleeps: true,
            numbers: Vec::new(),
        };
        activity.add(stat, status).unwrap();
        assert!(activity.sleeps);
        let numbers = activity.numbers.concat();
        for part in ["\"55\", \"66\"", "\\t3", "\\t4"] {
            assert!(numbers.contains(part), "{part} in {numbers}");
        }
        activity.add(&stat.replace(" S ", " D "), status).unwrap();
        assert!(!activity.sleeps, "waiting for a disk is progress");
    }

    #[tokio::test]
    async fn only_a_process_that_does_nothing_has_stalled() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        let start = |program: &str, arguments: &[&str]| {
            let mut command = tokio::process::Command::new(program);
            command.args(arguments).kill_on_drop(true).spawn().unwrap()
        };
        let stuck = start("cat", &[&pipe.display().to_string()]);
        let waking = start("sh", &["-c", "while :; do sleep 0.2; done"]);
        tokio::select! {
            () = stalled(waking.id()) => panic!("it wakes up again and again"),
            () = stalled(stuck.id()) => {}
        }
    }
}
