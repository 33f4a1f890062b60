//! `sortie init`: the first steps on a machine and in a project.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sortie_config::{TrustStore, project_folder, set};
use sortie_core::ports::model::ModelDirectory as _;
use sortie_models::{DiscoveredServer, USUAL_TIMEOUT, VendorListing, discover, usual_endpoints};
use sortie_text::t;

use super::doctor;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// The most local models of one server that are offered.
const OFFERED_MODELS: usize = 5;
/// The example agent, relative to the project.
const AGENT_FILE: &str = ".sortie/agents/reviewer.md";
const AGENT_TEXT: &str = include_str!("init/reviewer.md");

/// Sets up Sortie: chooses a model, checks the sandbox, offers an example agent and trust
///
/// Finds API keys in the environment and model servers on this machine, and writes the chosen model
/// into your configuration file. At a terminal each step is a question; `--yes` accepts the first
/// model and the example agent. A folder is trusted only on your word: answer the question, or give
/// `--trust`.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Model to use, `vendor/model` [default: the configured one, else the first that is found]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Asks nothing: takes the first model and creates the example agent
    #[arg(short, long)]
    yes: bool,
    /// Trusts this folder, so that its configuration and agents get what they ask for
    #[arg(long)]
    trust: bool,
    /// Creates no example agent
    #[arg(long)]
    no_agent: bool,
    /// Prints the result as JSON and asks nothing
    #[arg(long)]
    json: bool,
}

/// A model that can be used here.
#[derive(Debug)]
struct Offer {
    model: String,
    small_model: Option<String>,
    /// The key or the server that makes it usable.
    origin: String,
}

/// What was found and done.
#[derive(Debug, Default)]
struct Report {
    keys: Vec<String>,
    servers: Vec<String>,
    model: Option<String>,
    config_file: Option<PathBuf>,
    sandbox: Option<doctor::Check>,
    agent_file: Option<PathBuf>,
    trusted: bool,
}

impl Init {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        settings.check_configuration()?;
        let steps = Steps {
            settings,
            asks: settings.terminal.has_person() && !self.yes && !self.json,
            silent: self.json,
        };
        let mut report = Report::default();
        let offers = steps.offers(&mut report).await;
        steps.choose_model(self.model.as_deref(), offers, &mut report)?;
        steps.check_sandbox(&mut report);
        if !self.no_agent {
            steps.agent_file(self.yes, &mut report)?;
        }
        steps.trust(self.trust, &mut report)?;
        if self.json {
            output::json(&report.to_json())?;
        } else {
            steps.what_next(&report);
        }
        Ok(match report.model {
            Some(_) => Exit::Ok,
            None => Exit::Usage,
        })
    }
}

struct Steps<'a> {
    settings: &'a Settings,
    /// Whether a person answers.
    asks: bool,
    silent: bool,
}

impl Steps<'_> {
    fn say(&self, words: &str) {
        if !self.silent {
            output::note(words);
        }
    }

    /// Finds keys and model servers. Returns the models that they offer, keys first.
    async fn offers(&self, report: &mut Report) -> Vec<Offer> {
        let lang = self.settings.lang;
        let options = &self.settings.options;
        let vendors = options.model_directory(Duration::ZERO, None).vendors();
        let with_key = |vendor: &&VendorListing| vendor.key_present;
        let endpoints = usual_endpoints(&options.environment.variables());
        let servers = discover(&endpoints, USUAL_TIMEOUT).await;
        let mut offers = Vec::new();
        for vendor in vendors.iter().filter(with_key) {
            report.keys.push(vendor.name.clone());
            if let Some(model) = &vendor.default_model {
                offers.push(Offer {
                    model: model.clone(),
                    small_model: vendor.small_model.clone(),
                    origin: t!(lang, "init-origin-key", vendor = &vendor.name),
                });
            }
        }
        for server in &servers {
            report.servers.push(server.base_url.clone());
            offers.extend(local_offers(server));
        }
        let list = |names: &[String]| match names {
            [] => t!(lang, "init-none"),
            names => names.join(", "),
        };
        self.say(&t!(lang, "init-keys", names = list(&report.keys)));
        self.say(&t!(lang, "init-servers", names = list(&report.servers)));
        offers
    }

    fn choose_model(
        &self,
        wanted: Option<&str>,
        mut offers: Vec<Offer>,
        report: &mut Report,
    ) -> Result<(), Problem> {
        let lang = self.settings.lang;
        let configured = self.settings.options.configured_model();
        let chosen = match (wanted, configured) {
            (Some(name), _) => Some(Offer {
                model: self.settings.options.absolute_model(name),
                small_model: None,
                origin: "--model".to_owned(),
            }),
            (None, Some(name)) => {
                self.say(&t!(lang, "init-model-kept", model = &name));
                report.model = Some(name);
                return Ok(());
            }
            (None, None) if offers.is_empty() => None,
            (None, None) => {
                let number = self.ask_model(&offers)?;
                Some(offers.swap_remove(number))
            }
        };
        let Some(chosen) = chosen else {
            self.say(&t!(lang, "init-no-model"));
            self.say(&t!(lang, "hint-no-model"));
            return Ok(());
        };
        // A name that no provider knows is refused before it is written.
        let directory = self.settings.options.model_directory(Duration::ZERO, None);
        directory.find(&chosen.model)?;
        let file = &self.settings.configuration.places.user_file;
        set(file, "model", &chosen.model).map_err(Problem::ConfigEdit)?;
        if let Some(small) = &chosen.small_model {
            set(file, "small_model", small).map_err(Problem::ConfigEdit)?;
        }
        self.say(&t!(
            lang,
            "init-model-set",
            model = &chosen.model,
            origin = chosen.origin,
            path = file.display().to_string()
        ));
        report.model = Some(chosen.model);
        report.config_file = Some(file.clone());
        Ok(())
    }

    /// Returns the index of the chosen model; the first one without an answer.
    fn ask_model(&self, offers: &[Offer]) -> Result<usize, Problem> {
        let lang = self.settings.lang;
        if !self.asks || offers.len() == 1 {
            return Ok(0);
        }
        for (index, offer) in offers.iter().enumerate() {
            self.say(&format!(
                "  {}. {} ({})",
                index + 1,
                offer.model,
                offer.origin
            ));
        }
        loop {
            let answer = ask(&t!(lang, "init-which-model", count = offers.len()))?;
            match answer.as_str() {
                "" => return Ok(0),
                typed => match typed.parse::<usize>() {
                    Ok(number) if (1..=offers.len()).contains(&number) => return Ok(number - 1),
                    Ok(_) | Err(_) => {
                        self.say(&t!(lang, "init-which-number", count = offers.len()));
                    }
                },
            }
        }
    }

    fn check_sandbox(&self, report: &mut Report) {
        let check = doctor::sandbox_check(self.settings);
        self.say(&doctor::line(self.settings, &check));
        report.sandbox = Some(check);
    }

    /// Writes an example agent, unless the project has agents.
    fn agent_file(&self, accepted: bool, report: &mut Report) -> Result<(), Problem> {
        let lang = self.settings.lang;
        let file = self.settings.options.workspace.join(AGENT_FILE);
        let folder = file.parent().unwrap_or(&file);
        if folder.exists() {
            return Ok(());
        }
        let accepted = accepted || self.confirms(&t!(lang, "init-agent", path = AGENT_FILE))?;
        if !accepted {
            return Ok(());
        }
        write_new(folder, &file).map_err(|source| Problem::File {
            path: file.clone(),
            source,
        })?;
        self.say(&t!(lang, "init-agent-written", path = AGENT_FILE));
        report.agent_file = Some(file);
        Ok(())
    }

    /// Trusts the project, if it has anything that trust applies to.
    fn trust(&self, wanted: bool, report: &mut Report) -> Result<(), Problem> {
        let lang = self.settings.lang;
        let places = &self.settings.configuration.places;
        let workspace = &self.settings.options.workspace;
        let of_file = places.project_file.as_deref().and_then(project_folder);
        let folder = of_file.unwrap_or(workspace);
        let mut store = TrustStore::open(&places.trust_file).map_err(Problem::Trust)?;
        if store.is_trusted(folder) {
            report.trusted = true;
            return Ok(());
        }
        let path = folder.display().to_string();
        let has_files = of_file.is_some()
            || [".sortie", ".claude", ".agents", ".mcp.json"]
                .iter()
                .any(|name| workspace.join(name).exists());
        let accepted = wanted
            || (has_files && self.confirms(&t!(lang, "init-trust", path = path.as_str()))?);
        if accepted {
            store.trust(folder).map_err(Problem::Trust)?;
            self.say(&t!(lang, "trust-given", path = path));
            report.trusted = true;
        }
        Ok(())
    }

    fn what_next(&self, report: &Report) {
        let lang = self.settings.lang;
        let words = match (&report.model, &report.agent_file) {
            (None, _) => t!(lang, "init-next-demo"),
            (Some(_), None) => t!(lang, "init-next"),
            (Some(_), Some(_)) => t!(lang, "init-next-agent"),
        };
        self.say(&words);
    }

    /// Asks a question that has no as its default; without a person the answer is no.
    fn confirms(&self, question: &str) -> Result<bool, Problem> {
        if !self.asks {
            return Ok(false);
        }
        let answer = ask(&format!("{question} [y/N] "))?.to_lowercase();
        Ok(matches!(answer.as_str(), "y" | "yes" | "是"))
    }
}

impl Report {
    fn to_json(&self) -> Value {
        json!({
            "keys": self.keys,
            "servers": self.servers,
            "model": self.model,
            "config_file": self.config_file,
            "sandbox": self.sandbox,
            "agent_file": self.agent_file,
            "trusted": self.trusted,
        })
    }
}

fn local_offers(server: &DiscoveredServer) -> impl Iterator<Item = Offer> {
    let models = server.models.iter().take(OFFERED_MODELS);
    models.map(|model| Offer {
        model: model.name.clone(),
        small_model: None,
        origin: server.base_url.clone(),
    })
}

/// Creates the file; one that exists is never replaced.
fn write_new(folder: &Path, file: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file)?;
    file.write_all(AGENT_TEXT.as_bytes())
}

/// Reads one line from the terminal. The end of the input is an empty answer.
fn ask(question: &str) -> Result<String, Problem> {
    let mut screen = io::stderr().lock();
    // If stderr is closed, the question cannot be shown, and the answer is empty.
    write!(screen, "{question}").ok();
    screen.flush().ok();
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(Problem::Input)?;
    Ok(line.trim().to_owned())
}
