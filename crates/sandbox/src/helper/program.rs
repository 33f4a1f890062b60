//! The program itself: started, waited for, and never left behind.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getppid, kill_process, pidfd_open, wait,
};

use super::{Gathered, Problem};

/// What a shell answers for a program that is not there, and for one that does not start.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;
/// What a shell adds to the number of a signal.
const SIGNALLED: i32 = 128;
/// How often the orphans of a command are looked for at most.
const MAX_ROUNDS: usize = 1000;

/// Holds the parent, which must be this process. Its number alone could become somebody else's.
pub(super) fn hold_parent(process: u64) -> io::Result<OwnedFd> {
    let number = i32::try_from(process).map_err(io::Error::other)?;
    let parent = Pid::from_raw(number).ok_or_else(|| io::Error::other("nobody has this number"))?;
    let held = pidfd_open(parent, PidfdFlags::empty())?;
    // It was held while it was still the parent, so that the number was its own.
    if getppid() == Some(parent) {
        Ok(held)
    } else {
        Err(io::Error::other("the one who asked is gone"))
    }
}

/// Runs the program; its answer is ours.
pub(super) fn run(program: &[OsString], gathered: &Gathered) -> Result<ExitCode, Problem> {
    let [name, arguments @ ..] = program else {
        return Err(Problem::NoProgram);
    };
    let mut child = match Command::new(name).args(arguments).spawn() {
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
    let waited = match &gathered.parent {
        Some(parent) => watch(&mut child, parent),
        None => reap(&child),
    };
    if gathered.adopts {
        end_orphans();
    }
    let status = waited.map_err(|cause| Problem::Order {
        order: "waiting for the program".to_owned(),
        cause,
    })?;
    if gathered.parent.is_none() || gathered.adopts {
        explain(status, &gathered.limits);
    }
    Ok(answer(status))
}

/// Waits for the child or for the end of the parent, which ends the child too.
fn watch(child: &mut Child, parent: &OwnedFd) -> io::Result<ExitStatus> {
    let number = i32::try_from(child.id()).map_err(io::Error::other)?;
    let number = Pid::from_raw(number).ok_or_else(|| io::Error::other("a child without number"))?;
    let held = pidfd_open(number, PidfdFlags::empty())?;
    let mut both = [
        PollFd::new(&held, PollFlags::IN),
        PollFd::from_borrowed_fd(parent.as_fd(), PollFlags::IN),
    ];
    poll(&mut both, None)?;
    if !both[1].revents().is_empty() {
        child.kill()?;
    }
    child.wait()
}

/// Waits for the child, and buries whoever else ends meanwhile. When this process ends, as the first
/// of its namespace, the kernel ends all others.
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

/// Ends those who were left to us, and those who are left to us by their end.
fn end_orphans() {
    let children = "/proc/thread-self/children";
    for _ in 0..MAX_ROUNDS {
        let list = std::fs::read_to_string(children).unwrap_or_default();
        for number in list.split_ascii_whitespace() {
            if let Some(process) = number.parse().ok().and_then(Pid::from_raw) {
                // It is our child and not yet buried, so its number is its own.
                kill_process(process, Signal::KILL).ok();
            }
        }
        if wait(WaitOptions::empty()).is_err() {
            return;
        }
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
