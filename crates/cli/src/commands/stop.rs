//! `sortie stop`.

use std::io;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use sortie_text::t;
use tokio::time::Instant;

use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::serving::{self, Found, ServerFile};
use crate::settings::Settings;

/// Between two looks whether the server has gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Asks the server to stop, and waits until it has: runs go back to the queue
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// How long to wait; 0 does not
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl Stop {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let lang = settings.lang;
        // The file names the process that holds the lock, or nobody is told anything.
        let file = match serving::look(&settings.home).map_err(Problem::Process)? {
            Found::Nobody => return Err(Problem::Nothing(t!(lang, "no-server"))),
            Found::Starting(file) | Found::Serves { file, .. } => file,
        };
        let pid = file.pid;
        terminate(pid).map_err(Problem::Process)?;
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
        let deadline = Instant::now() + Duration::from_secs(self.wait);
        while Instant::now() < deadline {
            let still = crate::lock::is_held_by(&settings.home, file.pid);
            if !still.map_err(Problem::Process)? {
                return Ok(true);
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(false)
    }
}

#[cfg(unix)]
fn terminate(pid: u32) -> io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidData)?;
    Ok(kill_process(pid, Signal::TERM)?)
}

#[cfg(not(unix))]
fn terminate(_pid: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
