//! Starts the program, waits for it, and leaves none of its processes behind.
//!
//! The helper that starts the program supervises it. From before its start until its end the helper
//! watches [`Lifeline`]: the death of the runtime ends the program at whatever moment it happens. Death
//! signals alone do not suffice. One that is armed after the parent has died is never sent, and
//! inside a PID namespace the first process cannot see whether its parent is still alive.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getppid, kill_process, pidfd_open, pidfd_send_signal,
    wait,
};

use super::{Gathered, Problem};

/// The exit code of a shell for a program that is missing; the one for a program that cannot start
/// follows.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;
/// The offset that a shell adds to the number of a signal.
const SIGNALLED: i32 = 128;
/// The most rounds in which orphans of a command are searched for.
const MAX_ROUNDS: usize = 1000;
/// The stack size of the watcher thread; it polls and sends one signal.
const STACK_BYTES: usize = 64 * 1024;
const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Watches whether the process that requested the program is still alive.
#[derive(Debug)]
pub(super) struct Lifeline {
    /// A pidfd, which becomes readable, or a socket, which hangs up.
    descriptor: OwnedFd,
    input: Input,
}

/// The standard input of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// Inherited from the helper.
    Inherited,
    /// Empty: the helper's standard input is its lifeline.
    Empty,
}

/// What happens to orphans that the kernel reparented to this helper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adopts {
    /// Whether they are killed also when the program has ended by itself.
    pub(super) at_end: bool,
}

struct Ended {
    status: ExitStatus,
    /// Whether it was killed because the process that requested it is gone.
    abandoned: bool,
}

impl Lifeline {
    /// Watches the parent, which must have this process id. The id alone could be reused.
    pub(super) fn of_parent(process: u64) -> io::Result<Self> {
        let number = i32::try_from(process).map_err(io::Error::other)?;
        let parent =
            Pid::from_raw(number).ok_or_else(|| io::Error::other("no process has id 0"))?;
        let descriptor = pidfd_open(parent, PidfdFlags::empty())?;
        // The pidfd was opened while the process was still the parent, so the id was not reused.
        if getppid() != Some(parent) {
            return Err(io::Error::other("the parent process has ended"));
        }
        Ok(Self {
            descriptor,
            input: Input::Inherited,
        })
    }

    /// Watches the socket that is the standard input.
    pub(super) fn of_input(pass_on: bool) -> io::Result<Self> {
        let descriptor = io::stdin().as_fd().try_clone_to_owned()?;
        if FileType::from_raw_mode(fstat(&descriptor)?.st_mode) != FileType::Socket {
            return Err(io::Error::other("the standard input is not a lifeline"));
        }
        let input = if pass_on {
            Input::Inherited
        } else {
            Input::Empty
        };
        Ok(Self { descriptor, input })
    }

    /// Sends a byte to the other end of the lifeline.
    pub(super) fn report(&self, byte: u8) {
        // If the other end is closed, no process reads the report.
        rustix::io::write(&self.descriptor, &[byte]).ok();
    }

    /// Returns whether the requesting process is gone, or has requested the end before the program
    /// started.
    fn is_over(&self) -> bool {
        let mut lifeline = [PollFd::new(&self.descriptor, PollFlags::IN)];
        loop {
            match poll(&mut lifeline, Some(&NOW)) {
                Ok(count) => return count > 0,
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }
}

impl Gathered {
    /// Returns whether this helper starts the command itself and adopts its orphans, so that it
    /// ignores requests to end.
    fn ignores_end_requests(&self) -> bool {
        let last = self
            .lifeline
            .as_ref()
            .is_some_and(|lifeline| lifeline.input == Input::Empty);
        last && self.adopts.is_some()
    }
}

/// Runs the program and returns its exit code.
pub(super) fn run(program: &[OsString], gathered: &Gathered) -> Result<ExitCode, Problem> {
    let [name, arguments @ ..] = program else {
        return Err(Problem::NoProgram);
    };
    let mut command = Command::new(name);
    command.args(arguments);
    if let Some(lifeline) = &gathered.lifeline {
        if lifeline.input == Input::Empty {
            command.stdin(Stdio::null());
        }
        if lifeline.is_over() {
            return Err(Problem::Abandoned);
        }
    }
    // Before the program: one that fills the process table leaves no slot for a thread.
    let watch = Watch::begin(gathered).map_err(waiting)?;
    let spawned = if gathered.becomes {
        // `exec` returns only if it fails.
        Err(command.exec())
    } else {
        command.spawn()
    };
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            eprintln!("sortie sandbox: {} did not start: {error}", name.display());
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(ExitCode::from(if missing {
                NOT_FOUND
            } else {
                NOT_STARTED
            }));
        }
    };
    let waited = supervise(&mut child, gathered, &watch);
    if waited.is_err() {
        // A program that cannot be supervised must not run. It may have ended by itself.
        child.kill().ok();
    }
    let abandoned = waited.as_ref().map_or(true, |ended| ended.abandoned);
    let adopts = gathered.adopts;
    if adopts.is_some_and(|adopts| adopts.at_end || abandoned) {
        end_orphans();
    }
    let ended = waited.map_err(waiting)?;
    if !ended.abandoned && !gathered.limits.is_empty() {
        explain(ended.status, &gathered.limits);
    }
    Ok(answer(ended.status))
}

fn waiting(cause: io::Error) -> Problem {
    Problem::Order {
        order: "waiting for the program".to_owned(),
        cause,
    }
}

fn supervise(child: &mut Child, gathered: &Gathered, watch: &Watch<'_>) -> io::Result<Ended> {
    match watch {
        Watch::None => Ok(Ended {
            status: reap(child)?,
            abandoned: false,
        }),
        Watch::Here(lifeline) => wait_for_either(child, lifeline),
        Watch::Beside(target) => {
            if gathered.ignores_end_requests() {
                // The program is already started, so it does not inherit this.
                ignore_requests_to_end()?;
            }
            target.set(open_pidfd(child)?);
            Ok(Ended {
                status: reap(child)?,
                abandoned: target.is_abandoned(),
            })
        }
    }
}

/// The thread that watches [`Lifeline`].
enum Watch<'a> {
    /// No process has to be watched.
    None,
    /// This thread, while it waits for the program. The kernel does not let a process that has left
    /// its PID namespace start a thread; such a process has no orphans to reap before the program
    /// has ended.
    Here(&'a Lifeline),
    /// A separate thread, while this one waits for the program and reaps orphans.
    Beside(Arc<Target>),
}

/// The process to kill when the requesting process is gone.
#[derive(Debug, Default)]
struct Target {
    state: Mutex<TargetState>,
}

#[derive(Debug, Default)]
enum TargetState {
    /// The program has not started yet.
    #[default]
    Unknown,
    /// The program has not started yet, and must end as soon as it has.
    EndRequested,
    Runs(OwnedFd),
    Abandoned,
}

impl Watch<'_> {
    fn begin(gathered: &Gathered) -> io::Result<Watch<'_>> {
        let Some(lifeline) = &gathered.lifeline else {
            return Ok(Watch::None);
        };
        if gathered.becomes {
            return Ok(Watch::None);
        }
        if gathered.left_namespace {
            return Ok(Watch::Here(lifeline));
        }
        let stays = gathered.ignores_end_requests();
        let target = Arc::new(Target::default());
        let (ends, lifeline) = (Arc::clone(&target), lifeline.descriptor.try_clone()?);
        let look = move || {
            // Signals are for the main thread, which may have blocked some. The main thread starts
            // the child, so the child does not inherit this mask. If blocking fails, a request to
            // end the group ends the supervisor, too.
            SigSet::all().thread_block().ok();
            while stays && end_requested(&lifeline) {
                ends.request_end();
            }
            let mut lifeline = [PollFd::new(&lifeline, PollFlags::IN)];
            while poll(&mut lifeline, None) == Err(Errno::INTR) {}
            ends.abandon();
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn(look)?;
        Ok(Watch::Beside(target))
    }
}

impl Target {
    fn set(&self, program: OwnedFd) {
        let mut state = self.lock();
        match *state {
            TargetState::Unknown | TargetState::Runs(_) => *state = TargetState::Runs(program),
            TargetState::EndRequested => {
                *state = TargetState::Runs(program);
                terminate_group();
            }
            TargetState::Abandoned => kill(&program),
        }
    }

    /// Requests that the program ends, now or as soon as it has started.
    fn request_end(&self) {
        let mut state = self.lock();
        match *state {
            TargetState::Unknown | TargetState::EndRequested => *state = TargetState::EndRequested,
            TargetState::Runs(_) => terminate_group(),
            TargetState::Abandoned => {}
        }
    }

    fn abandon(&self) {
        let before = std::mem::replace(&mut *self.lock(), TargetState::Abandoned);
        match before {
            TargetState::Runs(program) => kill(&program),
            TargetState::Unknown | TargetState::EndRequested | TargetState::Abandoned => {}
        }
    }

    fn is_abandoned(&self) -> bool {
        matches!(*self.lock(), TargetState::Abandoned)
    }

    fn lock(&self) -> MutexGuard<'_, TargetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kill(program: &OwnedFd) {
    // The program may have ended just now.
    pidfd_send_signal(program, Signal::KILL).ok();
}

/// Waits for a byte from the runtime; returns `false` if the lifeline hung up.
fn end_requested(lifeline: &OwnedFd) -> bool {
    let mut byte = [0];
    loop {
        match rustix::io::read(lifeline, &mut byte) {
            Ok(count) => return count > 0,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Sends SIGTERM to the program's group. The supervisor leads the group, and keeps running.
fn terminate_group() {
    use rustix::process::{getpgrp, getpid, kill_current_process_group};
    if getpgrp() == getpid() {
        // The program may have left the group, or have ended.
        kill_current_process_group(Signal::TERM).ok();
    }
}

/// Makes the supervisor ignore requests to end its group, so that the program has time to clean up
/// and its orphans are not lost.
fn ignore_requests_to_end() -> io::Result<()> {
    let mut blocked = SigSet::empty();
    for signal in [Blocked::SIGTERM, Blocked::SIGINT, Blocked::SIGHUP] {
        blocked.add(signal);
    }
    blocked.thread_block().map_err(io::Error::from)
}

/// Waits for the child, and kills it when the requesting process is gone.
fn wait_for_either(child: &mut Child, lifeline: &Lifeline) -> io::Result<Ended> {
    let descriptor = open_pidfd(child)?;
    let mut both = [
        PollFd::new(&descriptor, PollFlags::IN),
        PollFd::new(&lifeline.descriptor, PollFlags::IN),
    ];
    while let Err(error) = poll(&mut both, None) {
        if error != Errno::INTR {
            return Err(error.into());
        }
    }
    let abandoned = !both[1].revents().is_empty();
    if abandoned {
        child.kill()?;
    }
    Ok(Ended {
        status: child.wait()?,
        abandoned,
    })
}

fn open_pidfd(child: &Child) -> io::Result<OwnedFd> {
    let number = i32::try_from(child.id()).map_err(io::Error::other)?;
    let number = Pid::from_raw(number).ok_or_else(|| io::Error::other("no process has id 0"))?;
    Ok(pidfd_open(number, PidfdFlags::empty())?)
}

/// Waits for the child, and reaps orphans that end meanwhile. When this process ends as PID 1 of
/// its namespace, the kernel kills all others.
fn reap(child: &Child) -> io::Result<ExitStatus> {
    loop {
        let Some((process, status)) = wait(WaitOptions::empty())? else {
            continue;
        };
        if u32::try_from(process.as_raw_pid()).is_ok_and(|number| number == child.id()) {
            return Ok(ExitStatus::from_raw(status.as_raw()));
        }
    }
}

/// Kills the orphans that the kernel reparented to this helper, and those that it reparents when
/// these end. It reparents them to the main thread, which is this one.
fn end_orphans() {
    let children = "/proc/thread-self/children";
    for _ in 0..MAX_ROUNDS {
        let list = std::fs::read_to_string(children).unwrap_or_default();
        for number in list.split_ascii_whitespace() {
            if let Some(process) = number.parse().ok().and_then(Pid::from_raw) {
                // It is our child and not reaped, so its id was not reused.
                kill_process(process, Signal::KILL).ok();
            }
        }
        if wait(WaitOptions::empty()).is_err() {
            return;
        }
        // One round per ended process would take too many rounds if there are many.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
}

/// Prints to standard error why a command was killed, where its exit status does not show the
/// reason.
fn explain(status: ExitStatus, limits: &[(String, u64)]) {
    let limit = |name: &str| {
        let found = limits.iter().find(|(other, _)| other == name);
        found.map_or(0, |(_, value)| *value)
    };
    let Some(signal) = status.signal() else {
        return;
    };
    let signal = Signal::from_named_raw(signal);
    if signal == Some(Signal::XCPU) {
        let seconds = limit("cpu");
        eprintln!("sortie sandbox: ended after {seconds} s of processor time, its limit");
    } else if signal == Some(Signal::XFSZ) {
        let bytes = limit("file");
        eprintln!("sortie sandbox: ended at a file of more than {bytes} bytes, its limit");
    } else if signal == Some(Signal::KILL) {
        let bytes = limit("memory");
        eprintln!("sortie sandbox: killed; its memory is limited to {bytes} bytes");
    }
}

fn answer(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    let code = code.and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(u8::MAX))
}
