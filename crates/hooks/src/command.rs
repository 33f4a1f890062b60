//! Runs a command of a hook: its input, its bounded output, and its end.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use sortie_core::hook::HookOutput;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::HookHost;

/// The most bytes of each output that are kept; the rest is read and dropped.
pub const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// How much is read at once.
const READ_BYTES: usize = 8 * 1024;
/// How often the end of a command is looked for.
const EXIT_POLL: Duration = Duration::from_millis(5);
/// How long to wait for output after the command has ended while other processes keep the pipe open.
const PIPE_GRACE: Duration = Duration::from_millis(250);

/// Runs a command in a folder. Dropping the future kills its whole process group.
pub(crate) async fn run(
    host: &HookHost,
    command: &str,
    input: &str,
    folder: &Path,
) -> Result<HookOutput, String> {
    let fails = |error: io::Error| format!("the command cannot be started: {error}");
    let mut group = Group::start(host, command, folder).map_err(fails)?;
    let missing = || fails(io::Error::other("it has no pipes"));
    let mut stdin = group.child.stdin.take().ok_or_else(missing)?;
    let stdout = group.child.stdout.take().ok_or_else(missing)?;
    let stderr = group.child.stderr.take().ok_or_else(missing)?;
    let write = async {
        // A command may end without reading its input.
        stdin.write_all(input.as_bytes()).await.ok();
        drop(stdin);
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit_code = {
        let talk = async {
            tokio::join!(write, keep(stdout, &mut out), keep(stderr, &mut err));
        };
        let mut talk = std::pin::pin!(talk);
        tokio::select! {
            code = group.ended() => {
                // What it left running may keep the pipes open.
                timeout(PIPE_GRACE, &mut talk).await.ok();
                code
            }
            () = &mut talk => group.ended().await,
        }
    };
    Ok(HookOutput {
        exit_code,
        stdout: String::from_utf8_lossy(&out).into_owned(),
        stderr: String::from_utf8_lossy(&err).into_owned(),
    })
}

/// Reads an output to its end and keeps its beginning, so that the command never blocks on a full pipe.
async fn keep(mut output: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(count @ 1..) = output.read(&mut buffer).await {
        let room = MAX_OUTPUT_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
}

/// A command as the leader of its own process group. Dropping it kills the group.
struct Group {
    leader: Pid,
    /// Never reaped before the group is killed: until then the kernel does not reuse its process id.
    child: Child,
}

impl Group {
    fn start(host: &HookHost, command: &str, folder: &Path) -> io::Result<Self> {
        let mut words = host.supervisor.iter();
        let mut start = match words.next() {
            Some(first) => {
                let mut start = Command::new(first);
                start.args(words).arg("/bin/sh");
                start
            }
            None => Command::new("/bin/sh"),
        };
        let child = start
            .arg("-c")
            .arg(command)
            .current_dir(folder)
            .env_clear()
            .envs(host.environment.iter().map(|(name, value)| (name, value)))
            .env("CLAUDE_PROJECT_DIR", folder)
            .env("SORTIE_PROJECT_DIR", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = leader.and_then(Pid::from_raw);
        let leader = leader.ok_or_else(|| io::Error::other("it has no process id"))?;
        Ok(Self { leader, child })
    }

    /// Waits for the end of the command; `None` if a signal ended it.
    async fn ended(&self) -> Option<i32> {
        loop {
            match self.ending() {
                Ok(Some(status)) => return status.exit_status(),
                Ok(None) => tokio::time::sleep(EXIT_POLL).await,
                Err(_) => return None,
            }
        }
    }

    fn ending(&self) -> rustix::io::Result<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(self.leader), options)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The group may have ended already.
        rustix::process::kill_process_group(self.leader, Signal::KILL).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    async fn output(command: &str, input: &str) -> HookOutput {
        let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
        let host = HookHost::new(vec![path], Vec::new());
        let folder = tempfile::tempdir().unwrap();
        run(&host, command, input, folder.path()).await.unwrap()
    }

    #[tokio::test]
    async fn command_reads_its_input_and_answers() {
        let answer = output("cat; echo no >&2; exit 2", "{\"a\":1}").await;
        assert_eq!(answer.stdout, "{\"a\":1}");
        assert_eq!(answer.stderr, "no\n");
        assert_eq!(answer.exit_code, Some(2));
    }

    #[tokio::test]
    async fn output_is_bounded_and_a_command_that_reads_nothing_ends() {
        let input = "x".repeat(1 << 20);
        let answer = output("head -c 1000000 /dev/zero | tr '\\0' y", &input).await;
        assert_eq!(answer.stdout.len(), MAX_OUTPUT_BYTES);
        assert_eq!(answer.exit_code, Some(0));
    }

    #[tokio::test]
    async fn what_a_command_leaves_running_is_killed() {
        let begun = Instant::now();
        let answer = output("sleep 60 & echo $!", "").await;
        assert!(begun.elapsed() < Duration::from_secs(10));
        let pid: u32 = answer.stdout.trim().parse().unwrap();
        assert!(sortie_base::process::is_over(pid), "{pid} still runs");
    }

    #[tokio::test]
    async fn dropping_the_future_kills_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let host = HookHost::new(vec![("PATH".into(), "/usr/bin:/bin".into())], Vec::new());
        let command = "echo $$ > pid; sleep 60";
        let running = run(&host, command, "", folder.path());
        assert!(timeout(Duration::from_secs(2), running).await.is_err());
        let pid: u32 = std::fs::read_to_string(file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        assert!(sortie_base::process::is_over(pid), "{pid} still runs");
    }
}
