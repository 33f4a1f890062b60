//! Merges five layers into one configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use toml::{Table, Value};

use crate::check::AGENTS;
use crate::flag::FlagValue;
use crate::restrict::Bounds;
use crate::{
    Config, ConfigError, Fault, Flag, KeyPath, MAX_PROBLEMS, MAX_WARNINGS, Origin, Problem,
    Warning, check, environment, file, restrict,
};

/// The sources of the configuration. A file that does not exist sets nothing.
#[derive(Clone, Default)]
pub struct Sources {
    /// The path of the user file.
    pub user_file: Option<PathBuf>,
    /// The path of the project file.
    pub project_file: Option<PathBuf>,
    /// The environment variables: all of them, or those that begin with `SORTIE`.
    pub environment: Vec<(String, String)>,
    /// The keys that flags set; a later flag wins.
    pub flags: Vec<Flag>,
    pub trusted: bool,
    /// The names of built-in providers, so that variables can refer to them: `OPENAI_CHAT` is
    /// `openai-chat`.
    pub provider_names: Vec<String>,
}

/// Prints no value of a variable: the environment contains secrets.
impl fmt::Debug for Sources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sources")
            .field("user_file", &self.user_file)
            .field("project_file", &self.project_file)
            .field("variables", &self.environment.len())
            .field("flags", &self.flags)
            .field("trusted", &self.trusted)
            .finish()
    }
}

/// The configuration, the origin of each value, and the warnings.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    /// The layer that set each value.
    pub origins: BTreeMap<KeyPath, Origin>,
    /// The values that were ignored, and why.
    pub warnings: Vec<Warning>,
}

impl Loaded {
    /// Returns the layer that set a key, if the key is set.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.get(&KeyPath::parse(key)?)
    }
}

/// Reads all layers and merges them: defaults, user, project, environment, flags.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let mut reader = Reader::default();
    let user = reader.file(sources.user_file.as_deref(), Origin::User)?;
    let project = reader.file(sources.project_file.as_deref(), Origin::Project)?;
    // Names from an untrusted file must not capture a variable that was meant for another name.
    let mut named = vec![user.clone()];
    if sources.trusted {
        named.push(project.clone());
    }
    named.push(Layer::of_providers(&sources.provider_names));
    let variables = reader.variables(&sources.environment, &named);
    let flags = reader.flags(&sources.flags);

    let defaults = defaults()?;
    let own = [
        &[defaults.clone(), user.clone()],
        &variables[..],
        &flags[..],
    ]
    .concat();
    let project = match sources.trusted {
        true => project,
        false => reader.narrowed(project, &own),
    };
    let mut layers = vec![defaults, user, project];
    layers.extend(variables);
    layers.extend(flags);
    reader.judge(&layers)?;

    let (table, origins) = merged(&layers);
    let config = Config::deserialize(Value::Table(table)).map_err(|error| unfit(&error))?;
    Ok(Loaded {
        config,
        origins,
        warnings: reader.warnings,
    })
}

/// The keys that one source sets.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) origin: Origin,
    pub(crate) table: Table,
}

impl Layer {
    /// Returns a layer with the names of providers and no values.
    fn of_providers(names: &[String]) -> Self {
        let providers: Table = names
            .iter()
            .map(|name| (name.clone(), Value::Table(Table::new())))
            .collect();
        Self {
            table: Table::from_iter([("providers".to_owned(), Value::Table(providers))]),
            ..Self::empty()
        }
    }

    fn empty() -> Self {
        Self {
            origin: Origin::Default,
            table: Table::new(),
        }
    }
}

/// The state of reading the layers.
#[derive(Default)]
struct Reader {
    warnings: Vec<Warning>,
    /// The text of each file, in which line numbers of problems are looked up.
    texts: Vec<(PathBuf, String)>,
    /// The first spelling of each agent's name, by its lower-case form.
    agents: BTreeMap<String, String>,
}

impl Reader {
    fn file(
        &mut self,
        path: Option<&Path>,
        origin: fn(PathBuf) -> Origin,
    ) -> Result<Layer, ConfigError> {
        let Some(path) = path else {
            return Ok(Layer::empty());
        };
        let Some(text) = file::read(path)? else {
            return Ok(Layer::empty());
        };
        let table = file::parse(path, &text)?;
        self.texts.push((path.to_owned(), text));
        let origin = origin(path.to_owned());
        Ok(self.tidied(Layer { origin, table }))
    }

    fn variables(&mut self, environment: &[(String, String)], named: &[Layer]) -> Vec<Layer> {
        let (known, _) = merged(named);
        let layers = environment::layers(environment, &known).into_iter();
        layers.map(|layer| self.tidied(layer)).collect()
    }

    fn flags(&mut self, flags: &[Flag]) -> Vec<Layer> {
        let layer = |flag: &Flag| {
            let value = match &flag.value {
                FlagValue::Typed(value) => value.clone(),
                FlagValue::Typing(text) => {
                    // The key decides how the text is parsed, in any spelling of the key.
                    let place = check::locate(&flag.key).map(|(key, _)| key);
                    let leaf = place.ok().and_then(|key| environment::leaf_at(&key));
                    environment::typed(text, leaf)
                }
            };
            Layer {
                origin: Origin::Flag(flag.flag.clone()),
                table: environment::table_of(&flag.key, value),
            }
        };
        let layers = flags.iter().map(layer);
        layers.map(|layer| self.tidied(layer)).collect()
    }

    /// Returns the layer with known keys only, in their canonical spelling.
    fn tidied(&mut self, layer: Layer) -> Layer {
        let Layer { origin, table } = layer;
        let (mut table, mut warnings) = check::tidy(table, &origin);
        warnings.extend(self.one_name_for_each_agent(&mut table, &origin));
        self.warn(warnings, &origin);
        Layer { origin, table }
    }

    /// Renames agents to their first spelling: `[agents.Explore]` in one layer and
    /// `[agents.explore]` in another configure the same agent.
    fn one_name_for_each_agent(&mut self, table: &mut Table, origin: &Origin) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let Some(Value::Table(agents)) = table.get_mut(AGENTS) else {
            return warnings;
        };
        for (name, settings) in std::mem::take(agents) {
            let first = self.agents.entry(name.to_lowercase());
            let first = first.or_insert_with(|| name.clone()).clone();
            if agents.contains_key(&first) {
                warnings.push(Warning::SetTwice {
                    origin: origin.clone(),
                    key: KeyPath::from_iter([AGENTS, &first]),
                    ignored: KeyPath::from_iter([name]).to_string(),
                });
                continue;
            }
            agents.insert(first, settings);
        }
        warnings
    }

    /// Returns the part of an untrusted project's layer that only restricts.
    fn narrowed(&mut self, project: Layer, own: &[Layer]) -> Layer {
        let Some(path) = project.origin.file() else {
            return project;
        };
        let files = own
            .iter()
            .filter(|layer| matches!(layer.origin, Origin::Default | Origin::User(_)));
        let below: Vec<Layer> = files.cloned().collect();
        let bounds = Bounds {
            own: &merged(own).0,
            below: &merged(&below).0,
        };
        let (table, warnings) = restrict::narrow(project.table, bounds, path);
        self.warn(warnings, &project.origin);
        Layer {
            origin: project.origin,
            table,
        }
    }

    fn warn(&mut self, mut warnings: Vec<Warning>, origin: &Origin) {
        let count = warnings.len().saturating_sub(MAX_WARNINGS);
        warnings.truncate(MAX_WARNINGS);
        self.warnings.append(&mut warnings);
        if count > 0 {
            let origin = origin.clone();
            self.warnings.push(Warning::More { origin, count });
        }
    }

    /// Checks the values of all layers.
    fn judge(&self, layers: &[Layer]) -> Result<(), ConfigError> {
        let faults = layers.iter().flat_map(|layer| {
            let faults = check::faults(&layer.table).into_iter();
            faults.map(|(key, fault)| (&layer.origin, key, fault))
        });
        let faults: Vec<(&Origin, KeyPath, Fault)> = faults.collect();
        if faults.is_empty() {
            return Ok(());
        }
        let more = faults.len().saturating_sub(MAX_PROBLEMS);
        let reported = faults.into_iter().take(MAX_PROBLEMS);
        Err(ConfigError::Invalid {
            problems: reported
                .map(|(origin, key, fault)| self.problem(origin, key, fault))
                .collect(),
            more,
        })
    }

    fn problem(&self, origin: &Origin, key: KeyPath, fault: Fault) -> Problem {
        let mut texts = self.texts.iter();
        let text = texts.find(|(path, _)| Some(path.as_path()) == origin.file());
        Problem {
            line: text.and_then(|(_, text)| file::line_of(text, &key)),
            origin: origin.clone(),
            key,
            fault,
        }
    }
}

fn defaults() -> Result<Layer, ConfigError> {
    let table = Table::try_from(Config::default()).map_err(|error| ConfigError::Unfit {
        message: error.to_string(),
    })?;
    let origin = Origin::Default;
    Ok(Layer { origin, table })
}

fn unfit(error: &toml::de::Error) -> ConfigError {
    ConfigError::Unfit {
        message: error.message().to_owned(),
    }
}

/// Merges the layers: tables are merged, all other values are replaced.
fn merged(layers: &[Layer]) -> (Table, BTreeMap<KeyPath, Origin>) {
    let mut table = Table::new();
    let mut origins = BTreeMap::new();
    for layer in layers {
        let mut set = Vec::new();
        merge(&mut table, &layer.table, &KeyPath::root(), &mut set);
        origins.extend(set.into_iter().map(|key| (key, layer.origin.clone())));
    }
    (table, origins)
}

fn merge(onto: &mut Table, layer: &Table, path: &KeyPath, set: &mut Vec<KeyPath>) {
    for (name, value) in layer {
        let path = path.join(name);
        let Value::Table(inside) = value else {
            onto.insert(name.clone(), value.clone());
            set.push(path);
            continue;
        };
        let place = onto
            .entry(name.clone())
            .or_insert_with(|| Value::Table(Table::new()));
        if !place.is_table() {
            *place = Value::Table(Table::new());
        }
        if let Value::Table(onto) = place {
            merge(onto, inside, &path, set);
        }
    }
}
