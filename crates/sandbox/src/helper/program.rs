//! The program itself: started, waited for, and never left behind.
//!
//! The helper that starts the program supervises it. From before its start until its end the helper
//! watches [`Life`]: the death of the runtime ends the program at whatever moment it comes. Death
//! signals alone do not suffice. One that is armed after the parent has died never comes, and
//! inside a PID namespace the first process cannot see whether its parent is still there.

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

/// What a shell answers for a program that is not there, and for one that does not start.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;
/// What a shell adds to the number of a signal.
const SIGNALLED: i32 = 128;
/// How often the orphans of a command are looked for at most.
const MAX_ROUNDS: usize = 1000;
/// The stack of the thread that watches; it polls and sends one signal.
const STACK_BYTES: usize = 64 * 1024;
const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Returns whether the process that requested the program is still alive.
#[derive(Debug)]
pub(super) struct Life {
    /// A pidfd, which becomes readable, or a socket, which hangs up.
    held: OwnedFd,
    input: Input,
}

/// The standard input of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// That of the helper.
    Inherited,
    /// None: that of the helper is its lifeline.
    Empty,
}

/// What happens to orphans that were left to this helper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adopts {
    /// Whether they end when the program has ended by itself.
    pub(super) at_end: bool,
}

/// How the program ended.
struct Ended {
    status: ExitStatus,
    /// Whether it was killed because the process that wanted it is gone.
    abandoned: bool,
}

impl Life {
    /// Watches the parent, which must be this process. Its id alone could be reused.
    pub(super) fn of_parent(process: u64) -> io::Result<Self> {
        let number = i32::try_from(process).map_err(io::Error::other)?;
        let parent =
            Pid::from_raw(number).ok_or_else(|| io::Error::other("no process has id 0"))?;
        let held = pidfd_open(parent, PidfdFlags::empty())?;
        // It was opened while it was still the parent, so that the id was its own.
        if getppid() != Some(parent) {
            return Err(io::Error::other("the parent process is gone"));
        }
        Ok(Self {
            held,
            input: Input::Inherited,
        })
    }

    /// Watches the socket that is the standard input.
    pub(super) fn of_input(pass_on: bool) -> io::Result<Self> {
        let held = io::stdin().as_fd().try_clone_to_owned()?;
        if FileType::from_raw_mode(fstat(&held)?.st_mode) != FileType::Socket {
            return Err(io::Error::other("the standard input is not a lifeline"));
        }
        let input = if pass_on {
            Input::Inherited
        } else {
            Input::Empty
        };
        Ok(Self { held, input })
    }

    /// Reports a byte to the holder of the other end.
    pub(super) fn report(&self, byte: u8) {
        // If the other end is gone, no process reads the report.
        rustix::io::write(&self.held, &[byte]).ok();
    }

    /// Whether the process that wants the program is gone, or wants it to end before it has begun.
    fn is_over(&self) -> bool {
        let mut life = [PollFd::new(&self.held, PollFlags::IN)];
        loop {
            match poll(&mut life, Some(&NOW)) {
                Ok(count) => return count > 0,
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }
}

impl Gathered {
    /// Whether this helper starts the command itself and finds its orphans.
    fn stays_when_asked_to_end(&self) -> bool {
        let last = self
            .life
            .as_ref()
            .is_some_and(|life| life.input == Input::Empty);
        last && self.adopts.is_some()
    }
}

/// Runs the program; its answer is ours.
pub(super) fn run(program: &[OsString], gathered: &Gathered) -> Result<ExitCode, Problem> {
    let [name, arguments @ ..] = program else {
        return Err(Problem::NoProgram);
    };
    let mut command = Command::new(name);
    command.args(arguments);
    if let Some(life) = &gathered.life {
        if life.input == Input::Empty {
            command.stdin(Stdio::null());
        }
        if life.is_over() {
            return Err(Problem::Abandoned);
        }
    }
    // Before the program: one that fills the table of processes leaves no room for a thread.
    let watch = Watch::begin(gathered).map_err(waiting)?;
    let spawned = if gathered.becomes {
        // Returns only if it fails.
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
        // What cannot be supervised must not run. It may have ended by itself.
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
        Watch::Nobody => Ok(Ended {
            status: reap(child)?,
            abandoned: false,
        }),
        Watch::Here(life) => wait_for_either(child, life),
        Watch::Beside(target) => {
            if gathered.stays_when_asked_to_end() {
                // The program was started before: it does not inherit this.
                ignore_requests_to_end()?;
            }
            target.set(hold(child)?);
            Ok(Ended {
                status: reap(child)?,
                abandoned: target.is_abandoned(),
            })
        }
    }
}

/// Who watches life.
enum Watch<'a> {
    /// No process is to be watched.
    Nobody,
    /// This thread, while it waits for the program. The kernel lets a process that has left its PID
    /// namespace start no thread; it has no orphans to reap before the program has ended.
    Here(&'a Life),
    /// A thread, while this one waits for the program and reaps orphans.
    Beside(Arc<Target>),
}

/// What is killed when life is over.
#[derive(Debug, Default)]
struct Target {
    state: Mutex<TargetState>,
}

#[derive(Debug, Default)]
enum TargetState {
    /// The program is not yet started.
    #[default]
    Unknown,
    /// It is not yet started, and is to end when it is.
    Asked,
    Runs(OwnedFd),
    Abandoned,
}

impl Watch<'_> {
    fn begin(gathered: &Gathered) -> io::Result<Watch<'_>> {
        let Some(life) = &gathered.life else {
            return Ok(Watch::Nobody);
        };
        if gathered.becomes {
            return Ok(Watch::Nobody);
        }
        if gathered.left_namespace {
            return Ok(Watch::Here(life));
        }
        let stays = gathered.stays_when_asked_to_end();
        let target = Arc::new(Target::default());
        let (ends, life) = (Arc::clone(&target), life.held.try_clone()?);
        let look = move || {
            // Signals are for the first thread, which may have blocked some. The child is started
            // by that one and does not inherit this. Should blocking fail, a request to end the
            // group ends the supervisor, too.
            SigSet::all().thread_block().ok();
            while stays && was_asked_to_end(&life) {
                ends.ask();
            }
            let mut life = [PollFd::new(&life, PollFlags::IN)];
            while poll(&mut life, None) == Err(Errno::INTR) {}
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
            TargetState::Asked => {
                *state = TargetState::Runs(program);
                ask_group();
            }
            TargetState::Abandoned => kill(&program),
        }
    }

    /// Asks the program to end, now or as soon as it is started.
    fn ask(&self) {
        let mut state = self.lock();
        match *state {
            TargetState::Unknown | TargetState::Asked => *state = TargetState::Asked,
            TargetState::Runs(_) => ask_group(),
            TargetState::Abandoned => {}
        }
    }

    fn abandon(&self) {
        let before = std::mem::replace(&mut *self.lock(), TargetState::Abandoned);
        match before {
            TargetState::Runs(program) => kill(&program),
            TargetState::Unknown | TargetState::Asked | TargetState::Abandoned => {}
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
    // It may have ended just now.
    pidfd_send_signal(program, Signal::KILL).ok();
}

/// Waits for a byte of the runtime; `false` if none comes any more.
fn was_asked_to_end(life: &OwnedFd) -> bool {
    let mut byte = [0];
    loop {
        match rustix::io::read(life, &mut byte) {
            Ok(count) => return count > 0,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Asks the program's group to end. The supervisor leads it, and stays.
fn ask_group() {
    use rustix::process::{getpgrp, getpid, kill_current_process_group};
    if getpgrp() == getpid() {
        // The program may have left the group, or have ended.
        kill_current_process_group(Signal::TERM).ok();
    }
}

/// The supervisor stays when the group is asked to end, so that the program has time to clean up
/// and its orphans are not lost.
fn ignore_requests_to_end() -> io::Result<()> {
    let mut asked = SigSet::empty();
    for signal in [Blocked::SIGTERM, Blocked::SIGINT, Blocked::SIGHUP] {
        asked.add(signal);
    }
    asked.thread_block().map_err(io::Error::from)
}

/// Waits for the child, and kills it when life is over.
fn wait_for_either(child: &mut Child, life: &Life) -> io::Result<Ended> {
    let held = hold(child)?;
    let mut both = [
        PollFd::new(&held, PollFlags::IN),
        PollFd::new(&life.held, PollFlags::IN),
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

fn hold(child: &Child) -> io::Result<OwnedFd> {
    let number = i32::try_from(child.id()).map_err(io::Error::other)?;
    let number = Pid::from_raw(number).ok_or_else(|| io::Error::other("no process has id 0"))?;
    Ok(pidfd_open(number, PidfdFlags::empty())?)
}

/// Waits for the child, and reaps orphans that end meanwhile. When this process ends, as the first
/// of its namespace, the kernel kills all others.
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

/// Kills the processes that were left to this helper, and those that are left to it by their end.
/// The kernel leaves them to its first thread, which is this one.
fn end_orphans() {
    let children = "/proc/thread-self/children";
    for _ in 0..MAX_ROUNDS {
        let list = std::fs::read_to_string(children).unwrap_or_default();
        for number in list.split_ascii_whitespace() {
            if let Some(process) = number.parse().ok().and_then(Pid::from_raw) {
                // It is our child and not reaped, so its id is its own.
                kill_process(process, Signal::KILL).ok();
            }
        }
        if wait(WaitOptions::empty()).is_err() {
            return;
        }
        // One round for each that has ended would be too many for a crowd.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
}

/// Says on the error output why a command was ended, where its status alone would be a riddle.
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
