//! A program with all its descendants, started, read and stopped as one process group.
//!
//! The program is the supervisor of the command. The runtime owns its lifeline: the supervisor ends
//! all processes when the lifeline is dropped, and also when the runtime dies.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use sortie_base::lifeline::Lifeline;
use sortie_core::id::EffectId;
use sortie_sandbox::{Backend, Confined, GROUP_IS_GONE, Guard};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdout, Command};
use tokio::signal::unix::{Signal as Signals, SignalKind};
use tokio::time::timeout;

use super::capture::Capture;
use super::remains::sweep;

/// The time that a program gets to clean up after SIGTERM.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long to wait for output after the program has ended while other processes keep the pipe
/// open.
const PIPE_GRACE: Duration = Duration::from_millis(250);
/// The time that a supervisor gets to end all processes that it started. It exits when no process
/// of the command is left; the workspace is swept only after that. This takes a few milliseconds on
/// an idle machine; only a stopped supervisor uses up the whole time.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(5);
/// The most bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The program exited by itself or by a signal.
    Exited {
        status: ExitStatus,
        /// Whether other processes kept the output open and were stopped.
        held_open: bool,
    },
    /// The time limit of the program expired.
    TimedOut,
}

/// How a program ended, and whether the command was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) ending: Ending,
    /// Whether the supervisor started no command because its control group was removed before it
    /// could join. The command must then be started again, with a new group.
    pub(super) missed_its_group: bool,
}

/// A running program. Dropping it ends all of its processes: at once, or as soon as its supervisor
/// has found those that left the group.
#[derive(Debug)]
pub(super) struct Process {
    group: Group,
    effect: EffectId,
    /// Taken only when this is dropped.
    child: Option<Child>,
    lifeline: Option<Lifeline>,
    /// Whether the leader is a supervisor, which exits after all processes of the command.
    supervised: bool,
    /// Whether only the supervisor can find the processes that have left the group.
    needs_supervisor: bool,
    /// Sweeps the workspace when it is dropped, which must not happen while the command runs.
    guard: Guard,
    output: Option<ChildStdout>,
    buffer: Vec<u8>,
    exits: Signals,
}

impl Process {
    /// Starts the program as the leader of its own group, with both outputs in one pipe. The
    /// started process owns the guard of the command; [`Process::into_guard`] returns it.
    pub(super) fn start(confined: &mut Confined, effect: &EffectId) -> io::Result<Self> {
        // Subscribed before the start, so that no exit is missed.
        let exits = tokio::signal::unix::signal(SignalKind::child())?;
        let (reader, writer) = io::pipe()?;
        let reader = std::process::ChildStdout::from(OwnedFd::from(reader));
        let output = ChildStdout::from_std(reader)?;
        let [program, arguments @ ..] = confined.argv.as_slice() else {
            return Err(io::Error::other("the program to start is missing"));
        };
        let (lifeline, input) = if confined.supervised {
            let (kept_end, child_end) = Lifeline::new()?;
            (Some(kept_end), Stdio::from(child_end))
        } else {
            (None, Stdio::null())
        };
        let child = Command::new(program)
            .args(arguments)
            .current_dir(&confined.cwd)
            .env_clear()
            .envs(confined.env.iter().map(|(name, value)| (name, value)))
            .stdin(input)
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
            effect: effect.clone(),
            child: Some(child),
            lifeline,
            supervised: confined.supervised,
            needs_supervisor: match confined.applied.backend {
                Backend::Bubblewrap | Backend::Namespaces => false,
                Backend::Landlock | Backend::None => confined.supervised,
            },
            guard: std::mem::take(&mut confined.guard),
            output: Some(output),
            buffer: vec![0; READ_BYTES],
            exits,
        })
    }

    /// Reads output until the program has ended or its time limit expires. No process of it is left
    /// afterwards.
    pub(super) async fn finish(
        &mut self,
        limit: Duration,
        capture: &mut Capture,
    ) -> io::Result<Ended> {
        let in_time = timeout(limit, self.read_until_exit(capture)).await;
        if in_time.is_err() {
            self.request_end();
            // Whether or not the program exited in time, the whole group is killed next.
            timeout(TERM_GRACE, self.read_until_exit(capture))
                .await
                .ok();
        }
        let drained = timeout(PIPE_GRACE, self.drain(capture)).await;
        if self.supervised && !self.group.leader_has_exited() {
            self.hang_up();
            // A supervisor that does not end in time is killed with its group.
            timeout(SUPERVISOR_GRACE, self.read_until_exit(capture))
                .await
                .ok();
        }
        self.group.signal(Signal::KILL);
        let status = match &mut self.child {
            Some(child) => child.wait().await?,
            None => return Err(io::Error::other("the program was waited for already")),
        };
        let ending = match in_time {
            Err(_) => Ending::TimedOut,
            Ok(()) => Ending::Exited {
                status,
                held_open: drained.is_err(),
            },
        };
        let lost = self.needs_supervisor && status.signal().is_some();
        if lost || in_time.is_err() || drained.is_err() {
            // There is no sweep if the command ended by itself, so that the usual call costs
            // nothing.
            sweep(&self.effect);
        }
        let report = self.lifeline.as_ref().and_then(Lifeline::report);
        Ok(Ended {
            ending,
            missed_its_group: report == Some(GROUP_IS_GONE),
        })
    }

    /// Requests the program to terminate. Without namespaces the supervisor forwards the request: a
    /// signal to the group could reach the supervisor before it ignores that signal.
    ///
    /// With namespaces the command has its own session, which no signal to the group reaches. The
    /// signal would end the supervisor before the namespace, so the supervisor ends both.
    fn request_end(&mut self) {
        if self.supervised && !self.needs_supervisor {
            self.hang_up();
            return;
        }
        let lifeline = self.lifeline.as_ref().filter(|_| self.needs_supervisor);
        if !lifeline.is_some_and(Lifeline::request_end) {
            self.group.signal(Signal::TERM);
        }
    }

    /// Returns the guard of a command that has ended.
    pub(super) fn into_guard(mut self) -> Guard {
        std::mem::take(&mut self.guard)
    }

    /// Signals the supervisor to end every process of the command.
    fn hang_up(&mut self) {
        self.lifeline = None;
    }

    async fn read_until_exit(&mut self, capture: &mut Capture) {
        while !self.group.leader_has_exited() {
            tokio::select! {
                count = read(&mut self.output, &mut self.buffer) => capture.push(&self.buffer[..count]),
                // The stream ends only with the runtime.
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

/// Reads once. At end of file it closes the output; after that it never returns.
async fn read(output: &mut Option<ChildStdout>, buffer: &mut [u8]) -> usize {
    let Some(open) = output else {
        return std::future::pending().await;
    };
    // A read error counts as end of file.
    let count = open.read(buffer).await.unwrap_or(0);
    if count == 0 {
        *output = None;
    }
    count
}

/// A process group, identified by its leader. Until the leader is reaped its pid cannot be reused,
/// so signals are sent only before that.
#[derive(Clone, Copy, Debug)]
struct Group {
    leader: Pid,
}

impl Group {
    fn signal(&self, signal: Signal) {
        // The receiver may already be gone.
        rustix::process::kill_process_group(self.leader, signal).ok();
    }

    /// Blocks until the leader has ended or `patience` has passed.
    fn await_leader(&self, patience: Duration) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::process::{PidfdFlags, pidfd_open};
        let Ok(patience) = Timespec::try_from(patience) else {
            return;
        };
        // Without a pidfd the group is killed at once.
        if let Ok(leader) = pidfd_open(self.leader, PidfdFlags::empty()) {
            let mut ended = [PollFd::new(&leader, PollFlags::IN)];
            poll(&mut ended, Some(&patience)).ok();
        }
    }

    /// Returns whether the leader has ended, without reaping it, so that its pid is not reused.
    fn leader_has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match rustix::process::waitid(WaitId::Pid(self.leader), options) {
            Ok(status) => status.is_some(),
            // Only this process may wait for the leader; if it is gone, it has ended.
            Err(_) => true,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A reaped leader has no id, and its group was killed before.
        let Some(child) = self.child.take().filter(|child| child.id().is_some()) else {
            return;
        };
        self.hang_up();
        let remains = Remains {
            group: self.group,
            effect: self.effect.clone(),
            patience: self.supervised.then_some(SUPERVISOR_GRACE),
            child: Some(child),
            guard: std::mem::take(&mut self.guard),
        };
        if self.supervised && !self.group.leader_has_exited() {
            // Not on this thread: it takes a while on a loaded machine. If no thread can be
            // started, the closure and with it the remains are dropped here, which has the same
            // effect.
            let name = "exec cancel".to_owned();
            let end = move || drop(remains);
            std::thread::Builder::new().name(name).spawn(end).ok();
        }
    }
}

/// A command whose call was dropped. Dropping this ends all of its processes and only then drops
/// its guard, which sweeps the workspace.
#[derive(Debug)]
struct Remains {
    group: Group,
    effect: EffectId,
    /// The time that the leader gets to end all processes; `None` if it is not a supervisor.
    patience: Option<Duration>,
    child: Option<Child>,
    guard: Guard,
}

impl Drop for Remains {
    fn drop(&mut self) {
        if let Some(patience) = self.patience {
            self.group.await_leader(patience);
        }
        self.group.signal(Signal::KILL);
        sweep(&self.effect);
        // Not reaped earlier, so that the id of the group is not reused.
        drop(self.child.take());
        drop(std::mem::take(&mut self.guard));
    }
}
