//! `sortie completions`.

use std::io::Write;
use std::time::Duration;

use clap::{Args, CommandFactory};
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

/// Complete handles, agents, models, sessions and requests: these scripts ask this program.
const LIVE_BASH: &str = include_str!("completions/live.bash");
const LIVE_ZSH: &str = include_str!("completions/live.zsh");
const LIVE_FISH: &str = include_str!("completions/live.fish");

/// Prints a completion script for a shell
///
/// In bash, zsh and fish, it also completes handles of tasks, agents, models, sessions and approval
/// requests.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to print the script for
    #[arg(required_unless_present = "values_for")]
    shell: Option<Shell>,
    /// Values for the last of these words, for the scripts
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    values_for: Vec<String>,
}

/// What a script asks for while the user types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Live {
    Tasks,
    Agents,
    Models,
    Sessions,
    Requests,
}

impl Completions {
    pub(crate) async fn run(&self, settings: &Settings) -> Result<Exit, Problem> {
        if !self.values_for.is_empty() {
            if let Some(kind) = kind_for(&self.values_for) {
                for value in live(settings, kind).await? {
                    output::text(&value)?;
                }
            }
            return Ok(Exit::Ok);
        }
        let Some(shell) = self.shell else {
            return Ok(Exit::Usage);
        };
        // Generated into memory first: a closed pipe is then an error here and not a panic in clap.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "sortie", &mut script);
        let live = match shell {
            Shell::Bash => LIVE_BASH,
            Shell::Zsh => LIVE_ZSH,
            Shell::Fish => LIVE_FISH,
            Shell::Elvish | Shell::PowerShell | _ => "",
        };
        script.extend_from_slice(live.as_bytes());
        std::io::stdout()
            .write_all(&script)
            .map_err(Problem::Output)?;
        Ok(Exit::Ok)
    }
}

/// Returns what the last of these words can be, if it is a value that the store or the configuration
/// has. The words are those after the name of the program.
fn kind_for(words: &[String]) -> Option<Live> {
    let (current, before) = words.split_last()?;
    match before.last().map_or("", String::as_str) {
        "--agent" => return Some(Live::Agents),
        "--model" | "--fallback" => return Some(Live::Models),
        "--session" | "--resume" => return Some(Live::Sessions),
        "--parent" | "--task" => return Some(Live::Tasks),
        _ => {}
    }
    if current.starts_with('-') {
        return None;
    }
    let mut names = before.iter().filter(|word| !word.starts_with('-'));
    let (name, sub) = (names.next()?.as_str(), names.next().map(String::as_str));
    match (name, sub) {
        ("resume" | "replay" | "audit", None) => Some(Live::Tasks),
        ("tasks" | "task", Some("list" | "watch" | "stats" | "clean") | None) => None,
        ("tasks" | "task", Some(_)) => Some(Live::Tasks),
        ("approvals" | "approval", Some("show" | "approve" | "deny" | "answer")) => {
            Some(Live::Requests)
        }
        ("agents" | "agent", Some("show")) => Some(Live::Agents),
        _ => None,
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
