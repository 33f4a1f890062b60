//! `sortie models`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Subcommand;
use serde_json::json;
use sortie_core::message::{Message, Usage};
use sortie_core::ports::model::{
    AnswerPart, ModelDirectory, ModelRequest, NoDeltas, PromptOrigin, TurnOptions,
};
use sortie_core::time::Clock;
use sortie_models::{
    Directory, DiscoveredServer, USUAL_TIMEOUT, VendorListing, discover, prices_as_of,
    usual_endpoints,
};
use sortie_runtime::ProcessClock;
use sortie_text::{one_line, t, truncate_columns};

use crate::choice::default_model;
use crate::commands::tasks::output_columns;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// The timeout of a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);
/// Columns of the answer that a check prints.
const SHOWN_COLUMNS: usize = 80;

/// Lists models and checks that they respond.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Lists vendors, which keys are set, and local model servers that respond
    List {
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Sends one short prompt to a model; exits with 1 if it does not respond
    Check {
        /// Model to check, `vendor/model` [default: the default model of runs]
        model: Option<String>,
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
}

impl ModelsCommand {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        settings.check_configuration()?;
        let directory = settings.options.model_directory(Duration::ZERO, None);
        match self {
            Self::List { json } => list(settings, &directory, json).await,
            Self::Check { model, json } => {
                let name = match model {
                    Some(name) => settings.options.absolute_model(&name),
                    None => default_model(settings).await?,
                };
                check(settings, &directory, name, json).await
            }
        }
    }
}

async fn list(settings: &Settings, directory: &Directory, as_json: bool) -> Result<Exit, Problem> {
    let lang = settings.lang;
    let found = discover(
        &usual_endpoints(&settings.options.environment.variables()),
        USUAL_TIMEOUT,
    )
    .await;
    let vendors = directory.vendors();
    if as_json {
        output::json(&json!({
            "vendors": vendors.iter().map(vendor_json).collect::<Vec<_>>(),
            "servers": found.iter().map(server_json).collect::<Vec<_>>(),
            "configured": settings.options.configured_model(),
            "prices_as_of": prices_as_of(),
        }))?;
        return Ok(Exit::Ok);
    }
    let head = [
        t!(lang, "column-vendor"),
        t!(lang, "column-wire"),
        t!(lang, "column-key-state"),
        t!(lang, "column-default-model"),
        t!(lang, "column-address"),
    ];
    let rows = vendors
        .iter()
        .map(|vendor| {
            vec![
                vendor.name.clone(),
                vendor.wire.clone(),
                key_words(settings, vendor),
                vendor.default_model.clone().unwrap_or_default(),
                vendor.base_url.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let terminal = output_columns(settings);
    output::text(&table::rows(head.to_vec(), rows, terminal))?;
    for server in &found {
        let names: Vec<&str> = server
            .models
            .iter()
            .map(|model| model.name.as_str())
            .collect();
        output::text(&t!(
            lang,
            "models-server",
            address = server.base_url.as_str(),
            models = names.join(", ")
        ))?;
    }
    Ok(Exit::Ok)
}

fn key_words(settings: &Settings, vendor: &VendorListing) -> String {
    let lang = settings.lang;
    if vendor.key_present {
        t!(lang, "key-set")
    } else if !vendor.key_needed {
        t!(lang, "key-not-needed")
    } else {
        t!(
            lang,
            "key-missing",
            variable = vendor.key_variables.first().cloned().unwrap_or_default()
        )
    }
}

fn vendor_json(vendor: &VendorListing) -> serde_json::Value {
    json!({
        "name": vendor.name,
        "aliases": vendor.aliases,
        "wire": vendor.wire,
        "base_url": vendor.base_url,
        "key_present": vendor.key_present,
        "key_needed": vendor.key_needed,
        "key_variables": vendor.key_variables,
        "local": vendor.local,
        "default_model": vendor.default_model,
        "small_model": vendor.small_model,
    })
}

fn server_json(server: &DiscoveredServer) -> serde_json::Value {
    json!({
        "vendor": server.vendor,
        "base_url": server.base_url,
        "models": server
            .models
            .iter()
            .map(|model| json!({"name": model.name, "tools": model.tools}))
            .collect::<Vec<_>>(),
    })
}

async fn check(
    settings: &Settings,
    directory: &Directory,
    name: String,
    as_json: bool,
) -> Result<Exit, Problem> {
    let model = directory.find(&name)?;
    let run = ProcessClock::start().new_run_id();
    let question = "Answer with the one word: ready";
    let request = ModelRequest {
        origin: PromptOrigin {
            run,
            root: run,
            cache_key: run.to_string(),
            agent: "check".to_owned(),
            label: "check".to_owned(),
            task: question.to_owned(),
            depth: 0,
            turn: 1,
        },
        model: name.clone(),
        system: "You are being tested for reachability.".into(),
        tools: Arc::default(),
        messages: vec![Arc::new(Message::User {
            text: question.to_owned(),
        })],
        images: Arc::default(),
        options: TurnOptions::default(),
    };
    let started = Instant::now();
    let answer = tokio::time::timeout(CHECK_TIMEOUT, model.turn(request, &NoDeltas))
        .await
        .map_err(|_| Problem::NoAnswer {
            model: name.clone(),
            seconds: CHECK_TIMEOUT.as_secs(),
        })?
        .map_err(Problem::Unanswered)?;
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let words: String = answer.parts.iter().filter_map(spoken).collect();
    if as_json {
        let known = directory.known(&name);
        output::json(&json!({
            "context_window": known.as_ref().and_then(|known| known.context_window),
            "images": known.as_ref().map(|known| known.images),
            "priced": known.is_some_and(|known| known.price.is_some()),
            "model": name,
            "answered": answer.model,
            "text": words,
            "elapsed_ms": elapsed_ms,
            "usage": answer.usage,
        }))?;
        return Ok(Exit::Ok);
    }
    output::text(&t!(
        settings.lang,
        "model-answered",
        model = answer.model,
        words = truncate_columns(&one_line(&words), SHOWN_COLUMNS),
        ms = elapsed_ms,
        tokens = tokens(answer.usage)
    ))?;
    Ok(Exit::Ok)
}

fn spoken(part: &AnswerPart) -> Option<&str> {
    match part {
        AnswerPart::Text(text) => Some(text),
        AnswerPart::Reasoning { .. } | AnswerPart::Call { .. } => None,
    }
}

fn tokens(usage: Usage) -> String {
    usage
        .total_tokens()
        .map_or_else(|| "?".to_owned(), |tokens| tokens.to_string())
}
