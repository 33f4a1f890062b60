//! A program with all its descendants: started, read, and stopped as one group.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use sortie_sandbox::Confined;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdout, Command};
use tokio::signal::unix::{Signal as Signals, SignalKind};
use tokio::time::timeout;

use super::capture::Capture;

/// How long a program may clean up after it was asked to end.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long output is awaited after the program ended and others still hold it open.
const PIPE_GRACE: Duration = Duration::from_millis(250);
/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself or by a signal.
    Exited {
        /// Its status.
        status: ExitStatus,
        /// Whether others kept its output open and were stopped.
        held_open: bool,
    },
    /// By its time limit.
    TimedOut,
}

/// A running program. Dropping it kills the whole group at once.
#[derive(Debug)]
pub(super) struct Process {
    group: Group,
    child: Child,
    output: Option<ChildStdout>,
    buffer: Vec<u8>,
    exits: Signals,
}

impl Process {
    /// Starts the program as the leader of its own group, both outputs in one pipe.
    pub(super) fn start(confined: &Confined) -> io::Result<Self> {
        // Listened to before the start, so that no exit is missed.
        let exits = tokio::signal::unix::signal(SignalKind::child())?;
        let (reader, writer) = io::pipe()?;
        let reader = std::process::ChildStdout::from(OwnedFd::from(reader));
        let output = ChildStdout::from_std(reader)?;
        let [program, arguments @ ..] = confined.argv.as_slice() else {
            return Err(io::Error::other("there is no program to start"));
        };
        let child = Command::new(program)
            .args(arguments)
            .current_dir(&confined.cwd)
            .env_clear()
            .envs(confined.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = leader.and_then(Pid::from_raw);
        let leader = leader.ok_or_else(|| io::Error::other("the program has no process id"))?;
        Ok(Self {
            group: Group { leader },
            child,
            output: Some(output),
            buffer: vec![0; READ_BYTES],
            exits,
        })
    }

    /// Reads until the program has ended or its time is up; nothing of it is left afterwards.
    pub(super) async fn finish(
        &mut self,
        limit: Duration,
        capture: &mut Capture,
    ) -> io::Result<Ending> {
        let in_time = timeout(limit, self.read_until_exit(capture)).await;
        if in_time.is_err() {
            self.group.signal(Signal::TERM);
            // Whether it went in peace or not, the whole group is killed next.
            timeout(TERM_GRACE, self.read_until_exit(capture))
                .await
                .ok();
        }
        let drained = timeout(PIPE_GRACE, self.drain(capture)).await;
        self.group.signal(Signal::KILL);
        let status = self.child.wait().await?;
        Ok(match in_time {
            Err(_) => Ending::TimedOut,
            Ok(()) => Ending::Exited {
                status,
                held_open: drained.is_err(),
            },
        })
    }

    async fn read_until_exit(&mut self, capture: &mut Capture) {
        while !self.group.leader_has_exited() {
            tokio::select! {
                count = read(&mut self.output, &mut self.buffer) => capture.push(&self.buffer[..count]),
                // The stream only ends with the runtime.
                _ = self.exits.recv() => {}
            }
        }
    }

    async fn drain(&mut self, capture: &mut Capture) {
        while self.output.is_some() {
            let count = read(&mut self.output, &mut self.buffer).await;
            capture.push(&self.buffer[..count]);
        }
    }
}

/// Reads once; at the end of the output closes it, and then never returns.
async fn read(output: &mut Option<ChildStdout>, buffer: &mut [u8]) -> usize {
    let Some(open) = output else {
        return std::future::pending().await;
    };
    // An output that cannot be read has ended as well.
    let count = open.read(buffer).await.unwrap_or(0);
    if count == 0 {
        *output = None;
    }
    count
}

/// A process group, named by its leader. While the leader is not reaped, its number cannot become
/// anybody else's, so signals are sent only before that.
#[derive(Debug)]
struct Group {
    leader: Pid,
}

impl Group {
    fn signal(&self, signal: Signal) {
        // There may be nobody left to hear it.
        rustix::process::kill_process_group(self.leader, signal).ok();
    }

    /// Whether the leader has ended; it is looked at but not reaped, so that its number stays ours.
    fn leader_has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match rustix::process::waitid(WaitId::Pid(self.leader), options) {
            Ok(status) => status.is_some(),
            // Nobody but us may wait for it; if it is gone, it has ended.
            Err(_) => true,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Once the leader was reaped it has no id, and the group was killed before.
        if self.child.id().is_some() {
            self.group.signal(Signal::KILL);
        }
    }
}
