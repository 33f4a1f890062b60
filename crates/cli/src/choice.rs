//! Flags about models, and the model that a run gets.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use sortie_core::ports::model::ModelDirectory;
use sortie_core::run::Sampling;
use sortie_models::{OFFLINE_MODEL, USUAL_TIMEOUT, discover, suggest_default, usual_endpoints};
use sortie_runtime::NewRun;
use sortie_text::t;

use crate::engine::Place;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Larger schema files are refused.
const MAX_SCHEMA_BYTES: u64 = 1 << 20;

/// The flags about models, the same for every command that creates a run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model options")]
pub(crate) struct ModelArguments {
    /// Model: `vendor/model`, `offline`, `script:FILE` or `replay:FOLDER` [env: SORTIE_MODEL]
    /// [default: the configured model, else one whose key is set or that runs locally]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Model to use if the one before fails; can be repeated
    #[arg(long = "fallback", value_name = "MODEL")]
    fallbacks: Vec<String>,
    /// Reasoning effort: default, off, low, high, or the vendor's own word
    #[arg(long, value_name = "LEVEL")]
    thinking: Option<String>,
    /// Sampling temperature, from 0 to 2 [default: the vendor's]
    #[arg(long, value_name = "NUMBER", value_parser = temperature)]
    temperature: Option<f64>,
    /// Most tokens of one completion [default: the model's limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// File with a JSON schema that the result must match
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Folder that records all prompts and completions, with secrets redacted, for `--model
    /// replay:FOLDER`
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
}

fn temperature(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if (0.0..=2.0).contains(&number) {
        Ok(number)
    } else {
        Err("expected a number from 0 to 2".to_owned())
    }
}

/// The chosen model of a run, its parameters, and the folder of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) name: String,
    by_flag: bool,
    /// The small model of the same vendor, for agents that want one, if none is configured.
    pub(crate) small_model: Option<String>,
    fallbacks: Option<Vec<String>>,
    thinking: Option<String>,
    sampling: Sampling,
    schema: Option<Value>,
    /// The folder of the recording.
    pub(crate) record: Option<PathBuf>,
}

impl ModelArguments {
    /// Returns the model of the flag, else the configured one, else one that is available here. A
    /// server chooses among its own.
    pub(crate) async fn choose(
        self,
        settings: &Settings,
        place: &Place,
    ) -> Result<Chosen, Problem> {
        // Before anything is said about the model: a refused command uses none.
        place.refuse(settings, settings.own_configuration())?;
        place.refuse(settings, self.record.is_some().then_some("--record"))?;
        let by_flag = self.model.is_some();
        let (name, small_model) = match (self.model.as_deref(), place) {
            (Some(name), _) => (settings.options.absolute_model(name), None),
            (None, Place::Here) => default_models(settings).await?,
            (None, Place::There(_)) => (
                settings.options.configured_model().unwrap_or_default(),
                None,
            ),
        };
        if name == OFFLINE_MODEL {
            output::note(&t!(settings.lang, "offline-model"));
        }
        let fallbacks: Vec<String> = self
            .fallbacks
            .iter()
            .map(|name| settings.options.absolute_model(name))
            .collect();
        Ok(Chosen {
            name,
            by_flag,
            small_model,
            fallbacks: (!fallbacks.is_empty()).then_some(fallbacks),
            thinking: self.thinking,
            sampling: Sampling {
                temperature: self.temperature,
                max_tokens: self.max_tokens,
            },
            schema: self
                .schema
                .map(|path| read_schema(&settings.options.workspace.join(path)))
                .transpose()?,
            record: self
                .record
                .map(|folder| settings.options.workspace.join(folder)),
        })
    }
}

impl Chosen {
    /// Looks up all named models, so that a misspelled fallback fails now and not when it is needed. A
    /// server checks them itself: it has its own providers.
    pub(crate) fn check(&self, place: &Place, models: &dyn ModelDirectory) -> Result<(), Problem> {
        if place.is_there() {
            return Ok(());
        }
        let others = self.fallbacks.iter().flatten();
        for name in std::iter::once(&self.name).chain(others) {
            models.find(name)?;
        }
        Ok(())
    }

    /// Returns a request with this model. The flag overrides the agent's model, the default does not.
    pub(crate) fn run(self, task: String, workspace: PathBuf) -> NewRun {
        let new = NewRun::new(task, workspace, &self.name);
        NewRun {
            model: self.by_flag.then_some(self.name),
            fallbacks: self.fallbacks,
            thinking: self.thinking,
            sampling: self.sampling,
            result_schema: self.schema,
            ..new
        }
    }
}

/// Returns the model of requests that name none.
pub(crate) async fn default_model(settings: &Settings) -> Result<String, Problem> {
    Ok(default_models(settings).await?.0)
}

/// Returns the model of API requests that name none, and the small one of its vendor. If it is empty,
/// the server rejects such requests.
pub(crate) async fn servers_models(settings: &Settings) -> (String, Option<String>) {
    default_models(settings).await.unwrap_or_default()
}

/// Returns the configured model; else that of a vendor whose key is set, with its small one; else that
/// of a model server on this machine.
async fn default_models(settings: &Settings) -> Result<(String, Option<String>), Problem> {
    if let Some(name) = settings.options.configured_model() {
        return Ok((name, None));
    }
    let variables = &settings.options.environment.variables();
    let (name, small, why) = if let Some(found) = suggest_default(variables) {
        (found.model, Some(found.small_model), found.vendor)
    } else {
        let found = discover(&usual_endpoints(variables), USUAL_TIMEOUT).await;
        let server = found.into_iter().find(|server| !server.models.is_empty());
        let Some(server) = server else {
            return Err(Problem::NoModel);
        };
        let Some(model) = server.models.into_iter().next() else {
            return Err(Problem::NoModel);
        };
        (model.name, None, server.base_url)
    };
    output::note(&t!(
        settings.lang,
        "model-found",
        model = name.as_str(),
        origin = why
    ));
    Ok((name, small))
}

fn read_schema(path: &Path) -> Result<Value, Problem> {
    let bad = |problem: String| Problem::Schema {
        path: path.to_owned(),
        problem,
    };
    let text = sortie_base::regular_file::read_followed(path, MAX_SCHEMA_BYTES)
        .map_err(|error| bad(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))
}
