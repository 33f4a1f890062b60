//! `sortie completions`.

use std::io::Write;
use std::time::Duration;

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;
use sortie_core::ports::store::ListFilter;
use sortie_core::request::RequestFilter;
use sortie_core::session::SessionFilter;

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// The most values of one kind that are offered.
const OFFERED: u32 = 100;

/// Completes handles, agents, models, sessions and requests in bash: it asks this program.
const LIVE_BASH: &str = include_str!("completions/live.bash");

/// Prints a completion script for a shell
///
/// In bash, it also completes handles of tasks, agents, models, sessions and approval requests.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to print the script for
    #[arg(required_unless_present = "values")]
    shell: Option<Shell>,
    /// Values of a kind, for the scripts
    #[arg(long, hide = true, value_enum)]
    values: Option<Live>,
}

/// What a script asks for while the user types.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Live {
    Tasks,
    Agents,
    Models,
    Sessions,
    Requests,
}

impl Completions {
    pub(crate) async fn run(&self, settings: &Settings) -> Result<Exit, Problem> {
        if let Some(kind) = self.values {
            for value in live(settings, kind).await? {
                output::text(&value)?;
            }
            return Ok(Exit::Ok);
        }
        let Some(shell) = self.shell else {
            return Ok(Exit::Usage);
        };
        // Generated into memory first: a closed pipe is then an error here and not a panic in clap.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "sortie", &mut script);
        if shell == Shell::Bash {
            script.extend_from_slice(LIVE_BASH.as_bytes());
        }
        std::io::stdout()
            .write_all(&script)
            .map_err(Problem::Output)?;
        Ok(Exit::Ok)
    }
}

/// Returns the values of a kind that exist now, newest first.
async fn live(settings: &Settings, kind: Live) -> Result<Vec<String>, Problem> {
    let store = || settings.options.read_store();
    Ok(match kind {
        Live::Tasks => {
            let newest = ListFilter {
                limit: OFFERED,
                ..ListFilter::default()
            };
            let records = store()?.list(newest).await?;
            records.into_iter().map(|record| record.handle).collect()
        }
        Live::Sessions => {
            let newest = SessionFilter {
                limit: OFFERED,
                ..SessionFilter::default()
            };
            let sessions = store()?.sessions(newest).await?;
            let keys = sessions.into_iter().map(|summary| summary.session);
            keys.map(|key| key.as_str().to_owned()).collect()
        }
        Live::Requests => {
            let open = store()?.requests(RequestFilter::default()).await?;
            open.into_iter()
                .map(|open| open.request.id.to_string())
                .collect()
        }
        Live::Agents => {
            let assembly = settings.builder().assemble()?;
            let agents = &assembly.agents;
            let children = agents.children().iter().map(|agent| agent.name.clone());
            std::iter::once("main".to_owned()).chain(children).collect()
        }
        Live::Models => {
            let directory = settings.options.model_directory(Duration::ZERO, None);
            let vendors = directory.vendors().into_iter();
            let usable = vendors.filter(|vendor| vendor.key_present);
            let models = usable.flat_map(|vendor| [vendor.default_model, vendor.small_model]);
            let configured = settings.options.configured_model();
            configured.into_iter().chain(models.flatten()).collect()
        }
    })
}
