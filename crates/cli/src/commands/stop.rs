//! `sortie stop`.

use std::time::Duration;

use clap::Args;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;
use sortie_text::t;
use tokio::time::Instant;

use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::process_identity::ProcessIdentity;
use crate::serving::{self, ServerFile, ServerPresence};
use crate::settings::Settings;

/// The interval between two checks whether the server has exited.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Stops the server and waits for its end; its runs return to the queue
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// Time to wait for the end of the server; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u32,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Stop {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let lang = settings.lang;
        // A signal is sent only if the file names the process that holds the lock.
        let file = match serving::look(&settings.options.home).map_err(Problem::Process)? {
            ServerPresence::Absent => return Err(Problem::Nothing(t!(lang, "no-server"))),
            ServerPresence::Starting(file) | ServerPresence::Listening { file, .. } => file,
        };
        let pid = file.pid;
        terminate(settings, &file)?;
        let gone = self.wait_for(settings, &file).await?;
        if self.json {
            output::json(&json!({"pid": pid, "stopped": gone}))?;
        } else {
            let pid = pid.to_string();
            output::text(&match (gone, self.wait) {
                (true, _) => t!(lang, "stop-done", pid = pid),
                (false, 0) => t!(lang, "stop-asked", pid = pid),
                (false, seconds) => t!(lang, "stop-slow", pid = pid, seconds = seconds),
            })?;
        }
        Ok(if gone || self.wait == 0 {
            Exit::Ok
        } else {
            Exit::Failed
        })
    }

    async fn wait_for(&self, settings: &Settings, file: &ServerFile) -> Result<bool, Problem> {
        let deadline = Instant::now() + Duration::from_secs(self.wait.into());
        while Instant::now() < deadline {
            if !file
                .owns_store(&settings.options.home)
                .map_err(Problem::Process)?
            {
                return Ok(true);
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(false)
    }
}

/// Sends SIGTERM to the server and to no other process: it opens a pidfd first, and then checks
/// that this process is the server. A pid could mean another process a moment later.
fn terminate(settings: &Settings, file: &ServerFile) -> Result<(), Problem> {
    let lang = settings.lang;
    let elsewhere = || Problem::Refused(t!(lang, "stop-elsewhere", pid = file.pid.to_string()));
    let pid = i32::try_from(file.pid).ok().and_then(Pid::from_raw);
    let process = match pidfd_open(pid.ok_or_else(elsewhere)?, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Err(elsewhere()),
        Err(error) => return Err(Problem::Process(error.into())),
    };
    let identity = ProcessIdentity::of(file.pid).ok();
    if identity.is_none() || identity != file.identity {
        return Err(elsewhere());
    }
    if !file
        .owns_store(&settings.options.home)
        .map_err(Problem::Process)?
    {
        return Err(Problem::Nothing(t!(lang, "no-server")));
    }
    match pidfd_send_signal(process, Signal::TERM) {
        // `SRCH`: the server has already exited.
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(Problem::Process(error.into())),
    }
}
