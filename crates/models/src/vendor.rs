//! Vendors as data: the entries of `vendors.toml`, combined with configuration.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use serde::Deserialize;
use sortie_base::nearest::nearest;
use sortie_base::redact::Redactor;
use sortie_base::secret::Secret;
use sortie_base::truncate::truncate;
use sortie_base::wildcard;
use sortie_core::config::{ModelConfig, ProviderConfig};
use sortie_core::ports::model::{Fault, ModelError, ToolSetting, Wire};
use sortie_wire::Dialect;

use crate::governor::{Limits, MAX_CONCURRENT};

/// The initial limit of requests in flight for a model whose vendor has no entry.
const START_CONCURRENT: u32 = 16;
/// The timeout for the first byte of a response: `(others, local servers)`; a local server may have
/// to load the model first.
const FIRST_BYTE: (Duration, Duration) = (Duration::from_secs(120), Duration::from_secs(600));
/// The longest silence within a response.
const IDLE: (Duration, Duration) = (Duration::from_secs(90), Duration::from_secs(300));
/// The maximum length of a name in an error.
const SHOWN_NAME_CHARS: usize = 80;

/// The environment variables that the models may read.
pub type Environment = BTreeMap<String, String>;

/// A vendor as it is written in `vendors.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vendor {
    pub name: String,
    #[serde(default)]
    pub aliases: Vec<String>,
    pub base_url: Option<String>,
    #[serde(default)]
    pub base_url_variables: Vec<String>,
    /// Variables that contain a host rather than a URL, such as `OLLAMA_HOST`.
    #[serde(default)]
    pub host_variables: Vec<String>,
    pub host_port: Option<u16>,
    #[serde(default)]
    pub host_path: String,
    #[serde(default)]
    pub key_variables: Vec<String>,
    #[serde(default = "authorization")]
    pub key_header: String,
    #[serde(default = "bearer")]
    pub key_prefix: String,
    /// Whether the vendor requires a key; local servers do not.
    pub key_needed: Option<bool>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    pub local: bool,
    pub max_concurrent: Option<u32>,
    #[serde(default)]
    pub charges_for_cache_writes: bool,
    pub default_model: Option<String>,
    pub small_model: Option<String>,
    pub dialect: toml::Table,
    #[serde(default)]
    pub models: Vec<ModelRule>,
}

/// Overrides for some models of a vendor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelRule {
    #[serde(rename = "match")]
    pub pattern: String,
    pub context_window: Option<u64>,
    pub tools: Option<ToolSetting>,
    #[serde(default)]
    pub dialect: toml::Table,
}

/// A provider with resolved settings, ready for requests.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub name: String,
    pub base_url: String,
    pub key: Option<Secret>,
    pub key_header: String,
    pub key_prefix: String,
    /// The headers of the vendor's entry; not secret.
    pub fixed_headers: BTreeMap<String, String>,
    /// The headers of configuration.
    pub headers: BTreeMap<String, Secret>,
    pub query: BTreeMap<String, Secret>,
    pub limits: Limits,
    pub warm_cache: bool,
    pub streaming: bool,
    pub first_byte_timeout: Duration,
    pub idle_timeout: Duration,
}

impl Provider {
    /// Returns a redactor for everything secret that requests to the provider contain.
    pub(crate) fn redactor(&self) -> Redactor {
        let secrets = self.key.iter().chain(self.headers.values());
        Redactor::new(secrets.map(Secret::expose))
    }
}

/// The known properties of a provider's model.
#[derive(Clone, Debug)]
pub(crate) struct ModelFacts {
    pub dialect: Dialect,
    pub tools: ToolSetting,
    pub context_window: Option<u64>,
    pub free: bool,
    /// Whether a server on the user's own machine or network runs it.
    pub local: bool,
}

/// Returns the names of all vendors of this build.
pub fn vendor_names() -> Vec<String> {
    vendors().iter().map(|vendor| vendor.name.clone()).collect()
}

pub(crate) fn vendors() -> &'static [Vendor] {
    #[derive(Deserialize)]
    struct File {
        vendor: Vec<Vendor>,
    }
    static VENDORS: OnceLock<Vec<Vendor>> = OnceLock::new();
    VENDORS.get_or_init(|| {
        let file: Result<File, _> = toml::from_str(include_str!("vendors.toml"));
        // A test parses the same bytes, so this cannot happen in a tested build.
        file.map(|file| file.vendor).unwrap_or_default()
    })
}

/// Returns the vendor with this name or alias.
pub(crate) fn vendor(name: &str) -> Option<&'static Vendor> {
    vendors().iter().find(|vendor| vendor.is_called(name))
}

/// Builds a provider from a vendor's entry and configuration.
pub(crate) fn provider(
    name: &str,
    providers: &BTreeMap<String, ProviderConfig>,
    environment: &Environment,
) -> Result<Provider, ModelError> {
    let vendor = known(name, providers)?;
    let settings = vendor.settings(providers);
    let base_url = vendor.base_url(&settings, environment)?;
    let key = vendor.key(&settings, environment);
    if key.is_none() && vendor.needs_key() && settings.headers.is_empty() {
        return Err(vendor.no_key());
    }
    let for_local = |(others, local)| if vendor.local { local } else { others };
    Ok(Provider {
        base_url,
        key,
        fixed_headers: vendor.headers.clone(),
        headers: settings
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), Secret::trimmed(value.expose())))
            .collect(),
        limits: vendor.limits(&settings),
        warm_cache: settings
            .warm_cache
            .unwrap_or(vendor.charges_for_cache_writes),
        streaming: settings.streaming.unwrap_or(true),
        first_byte_timeout: settings
            .first_byte_timeout_seconds
            .map_or_else(|| for_local(FIRST_BYTE), Duration::from_secs),
        idle_timeout: settings
            .idle_timeout_seconds
            .map_or_else(|| for_local(IDLE), Duration::from_secs),
        query: settings.query,
        name: vendor.name,
        key_header: vendor.key_header,
        key_prefix: vendor.key_prefix,
    })
}

/// Returns the known properties of a provider's model. Needs neither key nor address.
pub(crate) fn facts(
    (provider, model): (&str, &str),
    providers: &BTreeMap<String, ProviderConfig>,
    settings: &ModelConfig,
) -> Result<ModelFacts, ModelError> {
    let vendor = known(provider, providers)?;
    let mut dialect = vendor.dialect(&vendor.settings(providers));
    let mut tools = ToolSetting::Auto;
    let mut context_window = None;
    for rule in &vendor.models {
        if wildcard::matches(&rule.pattern, model) {
            dialect.extend(rule.dialect.clone());
            tools = rule.tools.unwrap_or(tools);
            context_window = rule.context_window.or(context_window);
        }
    }
    let dialect: Result<Dialect, _> = dialect.try_into();
    let mut dialect = dialect.map_err(|error| {
        ModelError::fatal(format!(
            "the entry of {provider} in the vendor table is invalid: {error}"
        ))
    })?;
    dialect.images = settings.images.or(dialect.images);
    dialect.signs_for = match dialect.format {
        Wire::Anthropic | Wire::Responses | Wire::Gemini => model.to_owned(),
        // Chat carries reasoning as plain text.
        Wire::Chat => String::new(),
    };
    dialect.default_max_tokens = settings.max_tokens.or(dialect.default_max_tokens);
    Ok(ModelFacts {
        dialect,
        tools: settings.tools.unwrap_or(tools),
        context_window: settings.context_window.or(context_window),
        // The server at a configured address may well cost money.
        free: vendor.local && vendor.base_url.is_some(),
        local: vendor.local,
    })
}

/// Returns the vendor with this name, of this build or of configuration.
fn known(name: &str, providers: &BTreeMap<String, ProviderConfig>) -> Result<Vendor, ModelError> {
    match vendor(name) {
        Some(vendor) => Ok(vendor.clone()),
        None => configured(name, providers),
    }
}

/// Returns the names of all vendors, including those that configuration adds.
pub(crate) fn names(providers: &BTreeMap<String, ProviderConfig>) -> Vec<&str> {
    let built_in = vendors().iter().map(|vendor| vendor.name.as_str());
    let own = providers.keys().map(String::as_str);
    let own = own.filter(|name| vendor(name).is_none());
    built_in.chain(own).collect()
}

impl Vendor {
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
            || self
                .aliases
                .iter()
                .any(|alias| alias.eq_ignore_ascii_case(name))
    }

    /// Returns the configuration of a vendor, under its name or an alias.
    pub(crate) fn settings(&self, providers: &BTreeMap<String, ProviderConfig>) -> ProviderConfig {
        let own = providers.get(&self.name);
        let own = own.or_else(|| {
            let mut entries = providers.iter();
            entries
                .find(|(name, _)| self.is_called(name))
                .map(|(_, settings)| settings)
        });
        own.cloned().unwrap_or_default()
    }

    /// Returns the key: of configuration, of the variable that configuration names, or of the first
    /// of the vendor's variables that is set.
    pub(crate) fn key(
        &self,
        settings: &ProviderConfig,
        environment: &Environment,
    ) -> Option<Secret> {
        let configured = settings.api_key.as_ref().map(Secret::expose);
        let variables = settings.api_key_env.iter().chain(&self.key_variables);
        let from_environment = variables.filter_map(|name| environment.get(name));
        let keys = configured
            .into_iter()
            .chain(from_environment.map(String::as_str));
        keys.map(Secret::trimmed).find(|key| !key.is_empty())
    }

    pub(crate) fn needs_key(&self) -> bool {
        self.key_needed.unwrap_or(!self.local)
    }

    /// Returns the address of its servers: configuration, then variables, then the vendor's own
    /// address.
    pub(crate) fn base_url(
        &self,
        settings: &ProviderConfig,
        environment: &Environment,
    ) -> Result<String, ModelError> {
        let set = |variable: &String| environment.get(variable).filter(|url| !url.is_empty());
        let url = settings
            .base_url
            .clone()
            .or_else(|| self.base_url_variables.iter().find_map(set).cloned())
            .or_else(|| {
                let host = self.host_variables.iter().find_map(set)?;
                Some(self.url_of_host(host))
            })
            .or_else(|| self.base_url.clone())
            .ok_or_else(|| self.no_base_url())?;
        checked_url(&self.name, &url)
    }

    fn url_of_host(&self, host: &str) -> String {
        let (scheme, host) = host.split_once("://").unwrap_or(("http", host));
        let host = host.trim_end_matches('/');
        // A server that listens on all interfaces is reached through loopback.
        let host = host.replacen("0.0.0.0", "127.0.0.1", 1);
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        match self.host_port {
            Some(port) if !has_port => format!("{scheme}://{host}:{port}{}", self.host_path),
            Some(_) | None => format!("{scheme}://{host}{}", self.host_path),
        }
    }

    fn limits(&self, settings: &ProviderConfig) -> Limits {
        let start = self.max_concurrent.unwrap_or(START_CONCURRENT);
        // A local server has a fixed number of slots; other providers may accept more than the
        // start value.
        let most = match self.max_concurrent {
            Some(slots) if self.local => slots,
            Some(_) | None => MAX_CONCURRENT,
        };
        Limits {
            start_concurrent: settings.max_concurrent.unwrap_or(start),
            max_concurrent: settings.max_concurrent.unwrap_or(most),
            requests_per_minute: settings.requests_per_minute,
            tokens_per_minute: settings.tokens_per_minute,
        }
    }

    fn dialect(&self, settings: &ProviderConfig) -> toml::Table {
        let mut dialect = self.dialect.clone();
        dialect.insert("vendor".to_owned(), self.name.clone().into());
        if let Some(wire) = settings.wire {
            dialect.insert("format".to_owned(), wire.as_str().into());
        }
        if let Some(marks) = settings.cache_marks {
            dialect.insert("cache_marks".to_owned(), marks.into());
        }
        dialect
    }

    fn no_key(&self) -> ModelError {
        let variables = self.key_variables.join(" or ");
        let name = &self.name;
        ModelError::new(
            Fault::Auth,
            format!(
                "there is no key for {name}: set {variables}, or `api_key` under \
                 [providers.{name}] in the configuration"
            ),
        )
    }

    fn no_base_url(&self) -> ModelError {
        let variables = self.base_url_variables.join(" or ");
        let name = &self.name;
        ModelError::fatal(format!(
            "{name} needs an address: set {variables}, or `base_url` under [providers.{name}] in \
             the configuration"
        ))
    }
}

/// Returns a vendor that only configuration defines.
fn configured(
    name: &str,
    providers: &BTreeMap<String, ProviderConfig>,
) -> Result<Vendor, ModelError> {
    let Some(settings) = providers.get(name) else {
        return Err(unknown(name, &names(providers)));
    };
    if settings.wire.is_none() || settings.base_url.is_none() {
        return Err(ModelError::fatal(format!(
            "[providers.{name}] in the configuration needs `wire` and `base_url`, because no vendor of \
             this build is called so"
        )));
    }
    let local = settings.base_url.as_deref().is_some_and(is_loopback);
    let anthropic = settings.wire == Some(Wire::Anthropic);
    let (key_header, key_prefix) = match settings.wire {
        Some(Wire::Anthropic) => ("x-api-key".to_owned(), String::new()),
        Some(Wire::Gemini) => ("x-goog-api-key".to_owned(), String::new()),
        Some(Wire::Chat | Wire::Responses) | None => (authorization(), bearer()),
    };
    let version = ("anthropic-version".to_owned(), "2023-06-01".to_owned());
    Ok(Vendor {
        name: name.to_owned(),
        aliases: Vec::new(),
        base_url: None,
        base_url_variables: Vec::new(),
        host_variables: Vec::new(),
        host_port: None,
        host_path: String::new(),
        key_variables: Vec::new(),
        key_header,
        key_prefix,
        key_needed: Some(false),
        headers: anthropic.then_some(version).into_iter().collect(),
        local,
        max_concurrent: None,
        charges_for_cache_writes: false,
        default_model: None,
        small_model: None,
        dialect: toml::Table::new(),
        models: Vec::new(),
    })
}

fn unknown(name: &str, known: &[&str]) -> ModelError {
    let hint = nearest(name, known.iter().copied())
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    ModelError::fatal(format!(
        "there is no provider {:?}: {hint}known are {}; another one needs `wire` and `base_url` \
         under [providers.{}] in the configuration",
        truncate(name, SHOWN_NAME_CHARS),
        known.join(", "),
        truncate(name, SHOWN_NAME_CHARS),
    ))
}

/// Returns the URL without a trailing slash, if requests may be sent there.
fn checked_url(provider: &str, url: &str) -> Result<String, ModelError> {
    let wrong = |why: &str| {
        ModelError::fatal(format!(
            "the base URL of {provider} {why}; write it as https://host/path"
        ))
    };
    let parsed = reqwest::Url::parse(url.trim()).map_err(|_| wrong("is not a URL"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(wrong("is neither http nor https"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(wrong("carries a password, which belongs into `api_key`"));
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(wrong("carries a query, which belongs into `query`"));
    }
    Ok(parsed.as_str().trim_end_matches('/').to_owned())
}

pub(crate) fn is_loopback(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else {
        return false;
    };
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn authorization() -> String {
    "authorization".to_owned()
}

fn bearer() -> String {
    "Bearer ".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_entries_is_known() {
        // The dialect has a default for every field, so a misspelled field would go unnoticed.
        let fields = format!("{:?}", Dialect::default());
        for vendor in vendors() {
            let rules = vendor.models.iter().map(|rule| &rule.dialect);
            for name in rules.chain([&vendor.dialect]).flat_map(toml::Table::keys) {
                assert!(
                    fields.contains(&format!(" {name}: ")),
                    "{}: {name}",
                    vendor.name
                );
            }
        }
    }

    #[test]
    fn no_name_is_used_twice() {
        let mut names = Vec::new();
        for vendor in vendors() {
            names.push(vendor.name.as_str());
            names.extend(vendor.aliases.iter().map(String::as_str));
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
