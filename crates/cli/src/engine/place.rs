//! Where a command executes: in this process, or in a server that holds the store.

use std::time::Duration;

use sortie_base::secret::Secret;
use sortie_protocol::client::{Client, ClientError};
use sortie_text::t;
use tokio::time::Instant;

use crate::private;
use crate::problem::Problem;
use crate::serving::{self, ServerPresence};
use crate::settings::Settings;

/// How long a command waits for a server that starts, stops or is busy.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pause between two checks of the server.
const PAUSE: Duration = Duration::from_millis(50);

/// Where a command executes.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In this process, which locks the store.
    Here,
    /// In a server that has the store.
    There(Box<Client>),
}

impl Place {
    /// Determines the place; waits for a server that starts or stops.
    pub(crate) async fn find(settings: &Settings) -> Result<Self, Problem> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let waits_for = match serving::look(&settings.options.home).map_err(Problem::Process)? {
                ServerPresence::Absent => return Ok(Self::Here),
                ServerPresence::Starting(file) => Problem::Refused(t!(
                    settings.lang,
                    "server-still-starting",
                    pid = file.pid.to_string()
                )),
                ServerPresence::Listening { file, address } => {
                    let client = Client::new(address, &token(settings)?, file.proof)?;
                    match client.me().await {
                        Ok(_) => return Ok(Self::There(Box::new(client))),
                        Err(error) if error.is_transient() => error.into(),
                        // The server may have restarted in between, with another secret.
                        Err(error @ ClientError::Unverified { .. })
                            if !file
                                .owns_store(&settings.options.home)
                                .map_err(Problem::Process)? =>
                        {
                            error.into()
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            };
            if Instant::now() >= deadline {
                return Err(waits_for);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether a server executes the command.
    pub(crate) const fn is_there(&self) -> bool {
        match self {
            Self::Here => false,
            Self::There(_) => true,
        }
    }

    /// Refuses a flag that only a runtime of this process can honour.
    pub(crate) fn refuse(&self, settings: &Settings, flag: Option<&str>) -> Result<(), Problem> {
        match (self, flag) {
            (Self::There(client), Some(flag)) => Err(refusal(settings, client, flag)),
            (Self::There(_), None) | (Self::Here, _) => Ok(()),
        }
    }
}

/// Returns the error for a flag that a server cannot honour.
fn refusal(settings: &Settings, client: &Client, flag: &str) -> Problem {
    Problem::Refused(t!(
        settings.lang,
        "server-refuses-flag",
        flag = flag,
        address = client.address().to_string()
    ))
}

/// Returns the token of this machine's administrator.
pub(crate) fn token(settings: &Settings) -> Result<Secret, Problem> {
    let home = &settings.options.home;
    // With the secret of `server.json`, another program could pass for the server and be sent the token.
    private::refuse_leaked(settings, &[serving::token_path(home), serving::path(home)])?;
    serving::read_token(&settings.options.home)
        .map(Secret::new)
        .map_err(|source| Problem::Token {
            path: serving::token_path(&settings.options.home),
            source,
        })
}
