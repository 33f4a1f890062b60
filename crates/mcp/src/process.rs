//! A server that runs as a child process: its process group, its standard error, and its shutdown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use sortie_base::hidden::remove_from_prose;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How much of standard error is kept: its end tells why a program stopped.
const MAX_TAIL_BYTES: usize = 4 * 1024;
/// How much is read at once.
const READ_BYTES: usize = 16 * 1024;
/// Limit of a message: several pictures of 5 MB each fit.
pub(crate) const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;
/// How long a program may clean up after its input was closed.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// Polling interval during shutdown.
const EXIT_POLL: Duration = Duration::from_millis(20);
/// Timeout for the last output after the end.
const TAIL_GRACE: Duration = Duration::from_millis(250);

/// The command to start.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub(crate) supervisor: &'a [OsString],
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) environment: &'a BTreeMap<String, String>,
    pub(crate) folder: &'a Path,
}

/// A running server. Dropping it kills the whole group at once.
#[derive(Debug)]
pub(crate) struct Process {
    leader: Pid,
    /// Never reaped early: until then the kernel does not reuse its process id, so that signals to
    /// the group reach the right processes.
    _child: Child,
    tail: Arc<Mutex<Vec<u8>>>,
    drain: Mutex<Option<JoinHandle<()>>>,
}

impl Process {
    /// Starts the program as the leader of its own group.
    pub(crate) fn start(launch: Launch<'_>) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut command = match launch.supervisor {
            [] => Command::new(launch.command),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(launch.command);
                command
            }
        };
        let mut child = command
            .args(launch.args)
            .current_dir(launch.folder)
            .env_clear()
            .envs(launch.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("the program has no process id or no pipes");
        let leader = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = leader.and_then(Pid::from_raw).ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let input = child.stdin.take().ok_or_else(missing)?;
        let errors = child.stderr.take().ok_or_else(missing)?;
        let tail = Arc::new(Mutex::new(Vec::new()));
        let drain = tokio::spawn(drain(errors, Arc::clone(&tail)));
        let process = Self {
            leader,
            _child: child,
            tail,
            drain: Mutex::new(Some(drain)),
        };
        Ok((process, output, input))
    }

    /// Kills the whole process group.
    pub(crate) fn kill(&self) {
        // The group may have ended already.
        rustix::process::kill_process_group(self.leader, Signal::KILL).ok();
    }

    /// Lets the program end by itself within a grace period, then kills the rest of its group.
    pub(crate) async fn end(&self) {
        let gone = async {
            while self.ending().is_none() {
                tokio::time::sleep(EXIT_POLL).await;
            }
        };
        // The group is killed next in either case.
        timeout(EXIT_GRACE, gone).await.ok();
        self.kill();
    }

    /// Returns how the program ended, if it has.
    pub(crate) fn ending(&self) -> Option<String> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = rustix::process::waitid(WaitId::Pid(self.leader), options).ok()??;
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown end".to_owned(),
        })
    }

    /// Returns the end of standard error of a program that has ended.
    pub(crate) async fn last_words(&self) -> String {
        let drain = self
            .drain
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut drain) = drain {
            // Returns what has arrived; processes that the program left behind may keep the pipe open.
            timeout(TAIL_GRACE, &mut drain).await.ok();
            drain.abort();
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        remove_from_prose(
            String::from_utf8_lossy(&tail)
                .trim_start_matches('\u{fffd}')
                .trim(),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let drain = self.drain.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(drain) = drain.take() {
            drain.abort();
        }
    }
}

/// Drains standard error, so that the program never blocks on a full pipe,
/// and keeps its end.
async fn drain(mut errors: ChildStderr, tail: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; READ_BYTES];
    // A read error ends the output too.
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&buffer[..count]);
        let surplus = tail.len().saturating_sub(MAX_TAIL_BYTES);
        tail.drain(..surplus);
    }
}

/// A reader that ends when a message is too long, instead of filling the memory.
#[derive(Debug)]
pub(crate) struct Bounded<R> {
    inner: R,
    line_bytes: usize,
    exceeded: Arc<AtomicBool>,
}

impl<R> Bounded<R> {
    /// Limits the lines of an output; sets `exceeded` if one is too long.
    pub(crate) fn new(inner: R, exceeded: Arc<AtomicBool>) -> Self {
        Self {
            inner,
            line_bytes: 0,
            exceeded,
        }
    }

    /// Counts the bytes since the last line break; returns whether they are within the limit.
    fn count(&mut self, bytes: &[u8]) -> bool {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line_bytes += line.len();
            if self.line_bytes > MAX_MESSAGE_BYTES {
                return false;
            }
            if line.ends_with(b"\n") {
                self.line_bytes = 0;
            }
        }
        true
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.exceeded.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        if !self.count(&buffer.filled()[before..]) {
            self.exceeded.store(true, Ordering::Release);
            buffer.set_filled(before);
        }
        Poll::Ready(Ok(()))
    }
}
