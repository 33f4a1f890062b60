//! `sortie open`.

use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};
use sortie_protocol::Role;
use sortie_protocol::client::Client;
use sortie_text::t;

use crate::engine::Place;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// The program that opens a URL in the user's browser.
const OPENER: &str = "xdg-open";

/// Prints a link that signs a browser in; valid once, for five minutes
#[derive(Debug, Args)]
pub(crate) struct Open {
    /// Opens the link in a browser as well
    #[arg(long)]
    browser: bool,
    /// Role of the browser session
    #[arg(long, value_enum, default_value_t = RoleArgument::Admin)]
    role: RoleArgument,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// The values of `--role`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum RoleArgument {
    /// Reads tasks, events and settings.
    Viewer,
    /// Also creates, steers, cancels and deletes tasks.
    Operator,
    /// Also manages keys, and approves without limits.
    Admin,
}

impl From<RoleArgument> for Role {
    fn from(argument: RoleArgument) -> Self {
        match argument {
            RoleArgument::Viewer => Self::Viewer,
            RoleArgument::Operator => Self::Operator,
            RoleArgument::Admin => Self::Admin,
        }
    }
}

impl Open {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let client = server(settings).await?;
        let link = client.login_link(Some(self.role.into())).await?;
        if self.json {
            output::json(&link)?;
        } else {
            output::text(&link.url)?;
        }
        if self.browser {
            start_browser(settings, &link.url);
        }
        Ok(Exit::Ok)
    }
}

/// Connects to the server that holds the store.
async fn server(settings: &Settings) -> Result<Client, Problem> {
    match Place::find(settings).await? {
        Place::There(client) => Ok(*client),
        Place::Here => Err(Problem::Nothing(t!(settings.lang, "no-server"))),
    }
}

/// Starts a browser; prints a note if there is none.
pub(super) fn start_browser(settings: &Settings, url: &str) {
    let folders = settings.options.safe_path();
    let opener = folders.iter().map(|folder| folder.join(OPENER));
    let opener = opener.into_iter().find(|program| program.is_file());
    let started = match opener {
        Some(program) => Command::new(program)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(drop)
            .map_err(|error| error.to_string()),
        None => Err(format!("{OPENER} is not installed")),
    };
    if let Err(problem) = started {
        output::note(&t!(settings.lang, "open-browser-failed", problem = problem));
    }
}
