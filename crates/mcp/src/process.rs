//! A server that is a program: its whole process group, its error output, and its end.

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

/// How much of the error output is kept: its end says why a program stopped.
const MAX_TAIL_BYTES: usize = 4 * 1024;
/// How much is read at once.
const READ_BYTES: usize = 16 * 1024;
/// The longest message of a server: some pictures of 5 MB each fit.
pub(crate) const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;
/// How long a program may clean up after its input was closed.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// How often the program is looked at meanwhile.
const EXIT_POLL: Duration = Duration::from_millis(20);
/// How long the last error output is awaited after the end.
const TAIL_GRACE: Duration = Duration::from_millis(250);

/// What is started.
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
    /// Never waited for: as long as it is not reaped, its number is nobody else's, so that signals to
    /// the group reach the right one.
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

    /// Kills the group.
    pub(crate) fn kill(&self) {
        // There may be nobody left to hear it.
        rustix::process::kill_process_group(self.leader, Signal::KILL).ok();
    }

    /// Gives the program a moment to end by itself, then kills whatever is left of its group.
    pub(crate) async fn end(&self) {
        let gone = async {
            while self.ending().is_none() {
                tokio::time::sleep(EXIT_POLL).await;
            }
        };
        // Whether it went in peace or not, the group is killed next.
        timeout(EXIT_GRACE, gone).await.ok();
        self.kill();
    }

    /// How the program ended, if it has.
    pub(crate) fn ending(&self) -> Option<String> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = rustix::process::waitid(WaitId::Pid(self.leader), options).ok()??;
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown end".to_owned(),
        })
    }

    /// The end of the error output of a program that was killed or has ended.
    pub(crate) async fn last_words(&self) -> String {
        let drain = self
            .drain
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut drain) = drain {
            // What arrived by then is shown; a program that left others behind may hold it open.
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

/// Reads the error output for as long as there is any, so that the program never waits for a reader,
/// and keeps its end.
async fn drain(mut errors: ChildStderr, tail: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; READ_BYTES];
    // An output that cannot be read has ended as well.
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&buffer[..count]);
        let surplus = tail.len().saturating_sub(MAX_TAIL_BYTES);
        tail.drain(..surplus);
    }
}

/// Output that ends where a message becomes too long, instead of filling the memory.
#[derive(Debug)]
pub(crate) struct Bounded<R> {
    inner: R,
    line_bytes: usize,
    exceeded: Arc<AtomicBool>,
}

impl<R> Bounded<R> {
    /// Bounds the lines of an output; `exceeded` says afterwards whether one was too long.
    pub(crate) fn new(inner: R, exceeded: Arc<AtomicBool>) -> Self {
        Self {
            inner,
            line_bytes: 0,
            exceeded,
        }
    }

    /// Counts the bytes since the last line break, and says whether they are still few enough.
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
