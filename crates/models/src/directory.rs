//! Finds a model by its name.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sortie_base::redact::Redactor;
use sortie_base::secret::Secret;
use sortie_base::truncate::truncate;
use sortie_base::wildcard;
use sortie_core::config::{ModelConfig, ProviderConfig};
use sortie_core::ports::model::{
    Fault, Model, ModelDirectory, ModelError, ModelState, Terms, ToolSetting, Wire,
};
use sortie_core::time::Timestamp;

use crate::http::{self, HttpModel};
use crate::price::{self, Price};
use crate::record::{RecordModel, Recorder, ReplayModel};
use crate::tool_mode::Learned;
use crate::vendor::{self, Environment, ModelFacts};
use crate::warm::Warm;
use crate::{GateState, Governor, OFFLINE_MODEL, OfflineModel, Script, ScriptModel};

/// The prefix of a model name that is followed by the path of a script.
const SCRIPT_PREFIX: &str = "script:";
/// The prefix of a model name that is followed by the folder of a recording.
const REPLAY_PREFIX: &str = "replay:";
/// The maximum number of cached scripts, recordings and provider models: more than any tree uses.
const MAX_KEPT: usize = 256;
/// The maximum length of an unknown name in an error.
const SHOWN_NAME_CHARS: usize = 80;

/// The settings of a [`Directory`].
#[derive(Clone, Debug, Default)]
pub struct DirectorySettings {
    /// The delay of the offline model before each reply, so that a person can follow it.
    pub pace: Duration,
    /// The folder against which relative paths of scripts and recordings are resolved.
    pub base: PathBuf,
    /// Configuration of providers, by name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Configuration of models, by `vendor/model`, which may contain `*`.
    pub models: BTreeMap<String, ModelConfig>,
    /// The environment variables of the process: keys, addresses, proxies.
    pub environment: Environment,
    /// The folder in which exchanges are recorded.
    pub record: Option<PathBuf>,
    /// The file that stores the learned tool modes.
    pub learned: Option<PathBuf>,
}

/// A provider as it is listed to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorListing {
    pub name: String,
    /// Other names of the provider.
    pub aliases: Vec<String>,
    pub wire: String,
    /// The address of its servers; some providers have none until it is configured.
    pub base_url: Option<String>,
    /// Whether a key is set.
    pub key_present: bool,
    /// Whether the provider requires a key.
    pub key_needed: bool,
    /// The environment variables that may contain the key.
    pub key_variables: Vec<String>,
    /// Whether it runs on this machine.
    pub local: bool,
    /// Its default model, as `vendor/model`.
    pub default_model: Option<String>,
    /// A smaller model, as `vendor/model`.
    pub small_model: Option<String>,
}

/// The known properties of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownModel {
    /// The context window in tokens.
    pub context_window: Option<u64>,
    /// Whether images are sent to the model.
    pub images: bool,
    /// How tools are offered to the model.
    pub tools: ToolSetting,
    pub price: Option<Price>,
    /// The maximum number of output tokens if the request has no lower limit.
    pub max_output: Option<u64>,
}

/// All models of this build, by name: `vendor/model`, `offline`, `script:FILE`, `replay:FOLDER`.
#[derive(Debug)]
pub struct Directory {
    settings: DirectorySettings,
    offline: Arc<OfflineModel>,
    kept: Mutex<SharedModels>,
    client: OnceLock<Result<reqwest::Client, ModelError>>,
    recorder: OnceLock<Result<Arc<Recorder>, ModelError>>,
    governor: Arc<Governor>,
    warm: Arc<Warm>,
    learned: Arc<Learned>,
}

/// Models that all runs must share, because they count or keep state.
#[derive(Debug, Default)]
struct SharedModels {
    scripts: HashMap<PathBuf, Arc<ScriptModel>>,
    replays: HashMap<PathBuf, Arc<ReplayModel>>,
    models: HashMap<String, Arc<HttpModel>>,
}

impl Directory {
    /// Creates a directory with these settings.
    pub fn new(settings: DirectorySettings) -> Self {
        Self {
            offline: Arc::new(OfflineModel::with_pace(settings.pace)),
            learned: Arc::new(Learned::open(settings.learned.clone())),
            settings,
            kept: Mutex::default(),
            client: OnceLock::new(),
            recorder: OnceLock::new(),
            governor: Arc::new(Governor::new()),
            warm: Arc::default(),
        }
    }

    /// Returns the governor of all requests to providers.
    pub fn governor(&self) -> &Arc<Governor> {
        &self.governor
    }

    /// Returns all providers: those of this build and those of configuration.
    pub fn vendors(&self) -> Vec<VendorListing> {
        let providers = &self.settings.providers;
        let names = vendor::names(providers);
        names.into_iter().map(|name| self.listing(name)).collect()
    }

    /// Returns the known properties of a provider's model, without any network request.
    pub fn known(&self, name: &str) -> Option<KnownModel> {
        let (provider, model) = name.split_once('/')?;
        let provider = vendor::vendor(provider).map_or(provider, |vendor| &vendor.name);
        let facts = self.facts(provider, model).ok()?;
        Some(KnownModel {
            context_window: facts.context_window,
            images: facts.dialect.shows_images(),
            max_output: facts.dialect.default_max_tokens,
            tools: facts.tools,
            price: self.price((provider, model), facts.free),
        })
    }

    fn listing(&self, name: &str) -> VendorListing {
        let DirectorySettings {
            providers,
            environment,
            ..
        } = &self.settings;
        let Some(vendor) = vendor::vendor(name) else {
            let settings = providers.get(name).cloned().unwrap_or_default();
            return VendorListing {
                name: name.to_owned(),
                aliases: Vec::new(),
                wire: settings.wire.map_or("", Wire::as_str).to_owned(),
                local: settings
                    .base_url
                    .as_deref()
                    .is_some_and(vendor::is_loopback),
                base_url: settings.base_url,
                key_present: settings.api_key.is_some(),
                key_needed: false,
                key_variables: Vec::new(),
                default_model: None,
                small_model: None,
            };
        };
        let settings = vendor.settings(providers);
        let wire = vendor.dialect.get("format").and_then(toml::Value::as_str);
        let whole = |model: &String| format!("{}/{model}", vendor.name);
        VendorListing {
            name: vendor.name.clone(),
            aliases: vendor.aliases.clone(),
            wire: settings
                .wire
                .map(Wire::as_str)
                .or(wire)
                .unwrap_or_default()
                .to_owned(),
            base_url: vendor.base_url(&settings, environment).ok(),
            key_present: vendor.key(&settings, environment).is_some(),
            key_needed: vendor.needs_key(),
            key_variables: vendor.key_variables.clone(),
            local: vendor.local,
            default_model: vendor.default_model.as_ref().map(whole),
            small_model: vendor.small_model.as_ref().map(whole),
        }
    }

    fn script(&self, path: &str) -> Result<Arc<ScriptModel>, ModelError> {
        if path.is_empty() {
            return Err(ModelError::fatal(
                "`script:` needs a file: `script:scenario.yaml`",
            ));
        }
        let path = self.settings.base.join(path);
        let mut kept = self.kept();
        if let Some(model) = kept.scripts.get(&path) {
            return Ok(Arc::clone(model));
        }
        room(kept.scripts.len(), "scripts")?;
        let script = Script::from_path(&path).map_err(|error| ModelError::fatal(error.whole()))?;
        let model = Arc::new(ScriptModel::new(script));
        kept.scripts.insert(path, Arc::clone(&model));
        Ok(model)
    }

    fn replay(&self, folder: &str) -> Result<Arc<ReplayModel>, ModelError> {
        if folder.is_empty() {
            return Err(ModelError::fatal(
                "`replay:` needs the folder of a recording: `replay:recordings/one`",
            ));
        }
        let folder = self.settings.base.join(folder);
        let mut kept = self.kept();
        if let Some(model) = kept.replays.get(&folder) {
            return Ok(Arc::clone(model));
        }
        room(kept.replays.len(), "recordings")?;
        let model = Arc::new(ReplayModel::open(&folder)?);
        kept.replays.insert(folder, Arc::clone(&model));
        Ok(model)
    }

    fn vendor_model(&self, vendor: &str, model: &str) -> Result<Arc<HttpModel>, ModelError> {
        let whole = format!("{vendor}/{model}");
        if let Some(kept) = self.kept().models.get(&whole) {
            return Ok(Arc::clone(kept));
        }
        let found = Arc::new(self.make(vendor, model)?);
        let mut kept = self.kept();
        room(kept.models.len(), "models")?;
        let found = kept.models.entry(whole).or_insert(found);
        Ok(Arc::clone(found))
    }

    fn make(&self, vendor: &str, model: &str) -> Result<HttpModel, ModelError> {
        let DirectorySettings {
            providers,
            environment,
            ..
        } = &self.settings;
        let provider = vendor::provider(vendor, providers, environment)?;
        let client = self.client.get_or_init(|| http::client(environment));
        let facts = self.facts(&provider.name, model)?;
        Ok(HttpModel {
            name: format!("{}/{model}", provider.name),
            model: model.to_owned(),
            own_price: self.own_price((&provider.name, model), facts.free),
            client: client.clone()?,
            gate: self.governor.gate(&provider.name, model, provider.limits),
            warm: provider.warm_cache.then(|| Arc::clone(&self.warm)),
            learned: Arc::clone(&self.learned),
            parameter_count: tokio::sync::OnceCell::new(),
            facts,
            provider: Arc::new(provider),
        })
    }

    fn facts(&self, provider: &str, model: &str) -> Result<ModelFacts, ModelError> {
        let settings = self.model_settings(provider, model);
        vendor::facts((provider, model), &self.settings.providers, &settings)
    }

    /// Returns the configuration of a model: its own entry, or else the longest matching pattern.
    fn model_settings(&self, provider: &str, model: &str) -> ModelConfig {
        let whole = format!("{provider}/{model}");
        let entries = self.settings.models.iter();
        let fits = entries.filter(|(pattern, _)| wildcard::matches(pattern, &whole));
        let best = fits.max_by_key(|(pattern, _)| (**pattern == whole, pattern.len()));
        best.map(|(_, settings)| settings.clone())
            .unwrap_or_default()
    }

    fn price(&self, names: (&str, &str), free: bool) -> Option<Price> {
        let (provider, model) = names;
        self.own_price(names, free)
            .or_else(|| price::price(&format!("{provider}/{model}")))
    }

    /// Returns the price that applies whichever model replies: a configured one, or zero if the
    /// model is free.
    fn own_price(&self, (provider, model): (&str, &str), free: bool) -> Option<Price> {
        let own = self.model_settings(provider, model).price;
        own.as_ref()
            .and_then(Price::configured)
            .or(free.then_some(Price::FREE))
    }

    /// Wraps the model so that its exchanges are recorded, if recording is enabled.
    fn recorded(&self, model: Arc<dyn Model>) -> Result<Arc<dyn Model>, ModelError> {
        let Some(folder) = &self.settings.record else {
            return Ok(model);
        };
        let recorder = self.recorder.get_or_init(|| {
            let folder = self.settings.base.join(folder);
            let recorder = Recorder::open(
                &folder,
                Redactor::new(self.secrets().iter().map(Secret::expose)),
            );
            recorder.map(Arc::new).map_err(|error| {
                ModelError::fatal(format!("cannot record to {}: {error}", folder.display()))
            })
        });
        Ok(Arc::new(RecordModel::new(model, recorder.clone()?)))
    }

    /// Returns all known keys.
    fn secrets(&self) -> Vec<Secret> {
        let providers = self.settings.providers.values();
        let configured = providers.flat_map(|settings| {
            let headers = settings.headers.values().cloned();
            settings.api_key.clone().into_iter().chain(headers)
        });
        let variables = vendor::vendors()
            .iter()
            .flat_map(|vendor| &vendor.key_variables);
        let set = variables.filter_map(|variable| self.settings.environment.get(variable));
        let set = set.map(|key| Secret::trimmed(key));
        configured.chain(set).collect()
    }

    fn kept(&self) -> MutexGuard<'_, SharedModels> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelDirectory for Directory {
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        if let Some(folder) = name.strip_prefix(REPLAY_PREFIX) {
            return Ok(self.replay(folder)?);
        }
        let model: Arc<dyn Model> = if name == OFFLINE_MODEL {
            Arc::clone(&self.offline) as _
        } else if let Some(path) = name.strip_prefix(SCRIPT_PREFIX) {
            self.script(path)?
        } else {
            match name.split_once('/') {
                Some((vendor, model)) if !model.is_empty() => self.vendor_model(vendor, model)?,
                Some(_) | None => return Err(no_vendor(name)),
            }
        };
        self.recorded(model)
    }

    fn states(&self, now: Timestamp) -> Vec<ModelState> {
        let gates = self.governor.states();
        gates.iter().map(|gate| state_of(gate, now)).collect()
    }

    fn terms(&self, name: &str) -> Terms {
        let (price, max_output) = if name == OFFLINE_MODEL || name.starts_with(REPLAY_PREFIX) {
            (Some(Price::FREE), None)
        } else if let Some(path) = name.strip_prefix(SCRIPT_PREFIX) {
            let script = self.script(path).ok();
            (script.and_then(|script| script.price()), None)
        } else {
            let known = self.known(name);
            let price = known.as_ref().and_then(|known| known.price);
            (price, known.and_then(|known| known.max_output))
        };
        Terms {
            price: price.map(|price| price.dearest()),
            max_output,
        }
    }
}

fn state_of(gate: &GateState, now: Timestamp) -> ModelState {
    let state = match (gate.breaker, gate.paused_for) {
        ("open", _) => "resting",
        ("trying", _) => "trying",
        (_, Some(_)) => "paused",
        (_, None) => "ready",
    };
    let millis = |pause: Duration| i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
    ModelState {
        model: format!("{}/{}", gate.provider, gate.model),
        state: state.to_owned(),
        in_flight: gate.in_flight,
        limit: Some(gate.limit),
        queued: gate.queued,
        paused_until: gate.paused_for.map(|pause| now.plus_ms(millis(pause))),
    }
}

fn room(kept: usize, what: &str) -> Result<(), ModelError> {
    if kept < MAX_KEPT {
        return Ok(());
    }
    Err(ModelError::fatal(format!(
        "the limit of {MAX_KEPT} {what} is reached"
    )))
}

/// Returns the error for a name without a vendor; it suggests the vendor's default model if the
/// name is that of a vendor.
fn no_vendor(name: &str) -> ModelError {
    let shown = truncate(name, SHOWN_NAME_CHARS);
    let default_of = |name: &str| {
        let vendor = vendor::vendor(name)?;
        let model = vendor.default_model.as_ref()?;
        Some(format!("{}/{model}", vendor.name))
    };
    let example = default_of(name.trim_end_matches('/'));
    let example = example
        .or_else(|| default_of("anthropic"))
        .unwrap_or_default();
    ModelError::new(
        Fault::BadRequest,
        format!(
            "there is no model {shown:?}: write vendor/model, for example `{example}`; or \
             `offline`, `script:FILE`, `replay:FOLDER`"
        ),
    )
}
