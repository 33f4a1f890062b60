//! A program with all its descendants: started, read, and stopped as one group.
//!
//! The program is the supervisor of the command. The runtime holds its lifeline: the supervisor
//! ends everything when the lifeline is dropped, and also when the runtime dies.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use sortie_base::lifeline::Lifeline;
use sortie_core::EffectId;
use sortie_sandbox::{Backend, Confined, GROUP_IS_GONE, Guard};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdout, Command};
use tokio::signal::unix::{Signal as Signals, SignalKind};
use tokio::time::timeout;

use super::capture::Capture;
use super::remains::sweep;

/// How long a program may clean up after it was asked to end.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long output is awaited after the program ended and others still hold it open.
const PIPE_GRACE: Duration = Duration::from_millis(250);
/// How long a supervisor gets to end everything that it started. It exits when no process of the
/// command is left, so the workspace is swept only after that. It takes some milliseconds on an
/// idle machine; only one that was stopped is waited for until then.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(5);
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

/// How a program ended, and whether it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// How it ended.
    pub(super) ending: Ending,
    /// Whether the supervisor started nothing because its control group was removed before it could
    /// join. The command is then to be started again, with a new group.
    pub(super) missed_its_group: bool,
}

/// A running program. Dropping it ends everything that belongs to it: at once, or as soon as its
/// supervisor has found what left the group.
#[derive(Debug)]
pub(super) struct Process {
    group: Group,
    effect: EffectId,
    /// Taken away only when this is dropped.
    child: Option<Child>,
    lifeline: Option<Lifeline>,
    /// Whether the leader is a supervisor, which exits after all processes of the command.
    supervised: bool,
    /// Whether only the supervisor finds the processes that have left the group.
    needs_supervisor: bool,
    /// Sweeps the workspace when it is dropped, which must not happen while the command runs.
    guard: Guard,
    output: Option<ChildStdout>,
    buffer: Vec<u8>,
    exits: Signals,
}

impl Process {
    /// Starts the program as the leader of its own group, both outputs in one pipe. A process that
    /// was started owns the guard of the command; [`Process::into_guard`] gives it back.
    pub(super) fn start(confined: &mut Confined, effect: &EffectId) -> io::Result<Self> {
        // Listened to before the start, so that no exit is missed.
        let exits = tokio::signal::unix::signal(SignalKind::child())?;
        let (reader, writer) = io::pipe()?;
        let reader = std::process::ChildStdout::from(OwnedFd::from(reader));
        let output = ChildStdout::from_std(reader)?;
        let [program, arguments @ ..] = confined.argv.as_slice() else {
            return Err(io::Error::other("there is no program to start"));
        };
        let (lifeline, input) = if confined.supervised {
            let (held, given) = Lifeline::new()?;
            (Some(held), Stdio::from(given))
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

    /// Reads until the program has ended or its time is up; nothing of it is left afterwards.
    pub(super) async fn finish(
        &mut self,
        limit: Duration,
        capture: &mut Capture,
    ) -> io::Result<Ended> {
        let in_time = timeout(limit, self.read_until_exit(capture)).await;
        if in_time.is_err() {
            self.ask_to_end();
            // Whether it went in peace or not, the whole group is killed next.
            timeout(TERM_GRACE, self.read_until_exit(capture))
                .await
                .ok();
        }
        let drained = timeout(PIPE_GRACE, self.drain(capture)).await;
        if self.supervised && !self.group.leader_has_exited() {
            self.hang_up();
            // One that does not end by then is killed with its group.
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
            // What ended by itself is not swept, so that the usual call costs nothing.
            sweep(&self.effect);
        }
        let report = self.lifeline.as_ref().and_then(Lifeline::report);
        Ok(Ended {
            ending,
            missed_its_group: report == Some(GROUP_IS_GONE),
        })
    }

    /// Asks the program to end by itself. Without namespaces the supervisor passes the request on:
    /// a signal to the group could hit the supervisor before it has started to ignore it.
    ///
    /// With namespaces the command is in a session of its own, which no signal to the group
    /// reaches. The signal would end the supervisor before the namespace, so the supervisor ends
    /// both.
    fn ask_to_end(&mut self) {
        if self.supervised && !self.needs_supervisor {
            self.hang_up();
            return;
        }
        let lifeline = self.lifeline.as_ref().filter(|_| self.needs_supervisor);
        if !lifeline.is_some_and(Lifeline::ask_to_end) {
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
/// another process's, so signals are sent only before that.
#[derive(Clone, Copy, Debug)]
struct Group {
    leader: Pid,
}

impl Group {
    fn signal(&self, signal: Signal) {
        // The receiver may already be gone.
        rustix::process::kill_process_group(self.leader, signal).ok();
    }

    /// Blocks until the leader has ended, or for this long.
    #[cfg(target_os = "linux")]
    fn await_leader(&self, patience: Duration) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::process::{PidfdFlags, pidfd_open};
        let Ok(patience) = Timespec::try_from(patience) else {
            return;
        };
        // Without a handle the group is killed at once.
        if let Ok(leader) = pidfd_open(self.leader, PidfdFlags::empty()) {
            let mut ended = [PollFd::new(&leader, PollFlags::IN)];
            poll(&mut ended, Some(&patience)).ok();
        }
    }

    /// There are no supervisors here.
    #[cfg(not(target_os = "linux"))]
    fn await_leader(&self, _patience: Duration) {}

    /// Whether the leader has ended; it is looked at but not reaped, so that its number stays ours.
    fn leader_has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match rustix::process::waitid(WaitId::Pid(self.leader), options) {
            Ok(status) => status.is_some(),
            // Only this process may wait for it; if it is gone, it has ended.
            Err(_) => true,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Once the leader was reaped it has no id, and the group was killed before.
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
            // Not in this thread: on a loaded machine it takes a while. Where no thread can be
            // started, the closure and so the remains are dropped here, which does the same.
            let name = "exec cancel".to_owned();
            let end = move || drop(remains);
            std::thread::Builder::new().name(name).spawn(end).ok();
        }
    }
}

/// A command whose call was dropped. Dropping this ends all of its processes, and only then drops
/// its guard, which sweeps the workspace.
#[derive(Debug)]
struct Remains {
    group: Group,
    effect: EffectId,
    /// How long the leader may take to end everything; `None` if it is no supervisor.
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
        // Not reaped before, so that the id of the group stays its own.
        drop(self.child.take());
        drop(std::mem::take(&mut self.guard));
    }
}
