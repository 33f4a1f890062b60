//! Finds a model without any configuration: local servers that respond, or a vendor whose key is
//! set.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use sortie_base::http;
use sortie_core::config::ProviderConfig;
use tokio::task::JoinSet;

use crate::text::plain_name;
use crate::vendor::{Environment, vendor, vendors};

/// The timeout for a local server: it runs on this machine.
pub const USUAL_TIMEOUT: Duration = Duration::from_millis(300);
/// The most bytes that are read of one response.
const MAX_BODY_BYTES: usize = 1 << 20;
/// The maximum number of models that are listed for a server.
const MAX_MODELS: usize = 200;
/// The maximum number of models for which the server is queried about tool support.
const MAX_CAPABILITY_QUERIES: usize = 16;
/// The timeout for a local server to describe a model: it may be busy computing.
const DESCRIPTION_TIMEOUT: Duration = Duration::from_secs(2);

/// The address of a possible server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The vendor whose server is expected there.
    pub vendor: String,
    /// The base URL, in the form of a provider's.
    pub base_url: String,
}

/// A server that responded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredServer {
    pub vendor: String,
    pub base_url: String,
    /// Its models; those that support tools come first.
    pub models: Vec<FoundModel>,
}

/// A model of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundModel {
    /// The name in the directory, `vendor/model`.
    pub name: String,
    /// Whether the model supports tools, if the server reports it.
    pub tools: Option<bool>,
}

/// A vendor whose key is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    pub vendor: String,
    /// Its default model, as `vendor/model`.
    pub model: String,
    /// A smaller model for small tasks.
    pub small_model: String,
}

/// Returns the first vendor whose key is set, and its models.
pub fn suggest_default(environment: &Environment) -> Option<Suggestion> {
    let no_settings = ProviderConfig::default();
    vendors().iter().find_map(|vendor| {
        vendor.key(&no_settings, environment)?;
        let model = vendor.default_model.as_ref()?;
        let small = vendor.small_model.as_ref().unwrap_or(model);
        Some(Suggestion {
            vendor: vendor.name.clone(),
            model: format!("{}/{model}", vendor.name),
            small_model: format!("{}/{small}", vendor.name),
        })
    })
}

/// Returns the usual addresses of local servers.
pub fn usual_endpoints(environment: &Environment) -> Vec<Endpoint> {
    let no_settings = ProviderConfig::default();
    let names = ["ollama", "llamacpp", "lmstudio", "vllm"];
    names
        .into_iter()
        .filter_map(|name| {
            let base_url = vendor(name)?.base_url(&no_settings, environment).ok()?;
            Some(Endpoint {
                vendor: name.to_owned(),
                base_url,
            })
        })
        .collect()
}

/// Queries all endpoints concurrently for their models; endpoints that do not respond in time are
/// omitted.
pub async fn discover(endpoints: &[Endpoint], timeout: Duration) -> Vec<DiscoveredServer> {
    let Ok(client) = http::client().build() else {
        return Vec::new();
    };
    let mut queries = JoinSet::new();
    for (place, endpoint) in endpoints.iter().cloned().enumerate() {
        let client = client.clone();
        queries.spawn(async move { (place, query(&client, endpoint, timeout).await) });
    }
    let mut found: Vec<(usize, DiscoveredServer)> = Vec::new();
    while let Some(answer) = queries.join_next().await {
        if let Ok((place, Some(server))) = answer {
            found.push((place, server));
        }
    }
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, server)| server).collect()
}

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

#[derive(Deserialize)]
struct Listing {
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    /// Metadata that only llama.cpp reports.
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    n_params: Option<u64>,
}

#[derive(Deserialize)]
struct Shown {
    #[serde(default)]
    capabilities: Vec<String>,
    #[serde(default)]
    model_info: ModelInfo,
}

#[derive(Default, Deserialize)]
struct ModelInfo {
    #[serde(rename = "general.parameter_count")]
    parameter_count: Option<u64>,
}

/// Returns how many parameters a model of a local server has, if the server says so: llama.cpp in
/// its list of models, Ollama in its description of one. Sends no key.
pub(crate) async fn parameter_count(
    client: &reqwest::Client,
    endpoint: &Endpoint,
    model: &str,
) -> Option<u64> {
    if endpoint.vendor == "ollama" {
        let shown: Shown = json(show(client, endpoint, model), DESCRIPTION_TIMEOUT).await?;
        return shown.model_info.parameter_count;
    }
    let url = format!("{}/models", endpoint.base_url);
    let listing: Listing = json(client.get(url), DESCRIPTION_TIMEOUT).await?;
    let listed = match listing.data.as_slice() {
        // llama.cpp serves one model, whichever name the request uses.
        [only] => Some(only),
        several => several.iter().find(|listed| listed.id == model),
    };
    listed?.meta.as_ref()?.n_params
}

/// Builds a request for Ollama's description of a model.
fn show(client: &reqwest::Client, endpoint: &Endpoint, model: &str) -> reqwest::RequestBuilder {
    let root = endpoint.base_url.trim_end_matches("/v1");
    client
        .post(format!("{root}/api/show"))
        .header("content-type", "application/json")
        .body(json!({ "model": model }).to_string())
}

async fn query(
    client: &reqwest::Client,
    endpoint: Endpoint,
    timeout: Duration,
) -> Option<DiscoveredServer> {
    let models: Vec<FoundModel> = if endpoint.vendor == "ollama" {
        ollama(client, &endpoint, timeout).await?
    } else {
        let url = format!("{}/models", endpoint.base_url);
        let listing: Listing = json(client.get(url), timeout).await?;
        let listed = listing.data.into_iter().take(MAX_MODELS);
        listed
            .map(|listed| FoundModel {
                name: format!("{}/{}", endpoint.vendor, listed.id),
                tools: None,
            })
            .collect()
    };
    // A name that cannot be displayed cannot be chosen either.
    let models = models
        .into_iter()
        .filter(|model: &FoundModel| plain_name(&model.name) == model.name)
        .collect();
    Some(DiscoveredServer {
        vendor: endpoint.vendor,
        base_url: endpoint.base_url,
        models,
    })
}

/// Fetches Ollama's own model list and the capabilities of the first models: its OpenAI-compatible
/// list does not contain them.
async fn ollama(
    client: &reqwest::Client,
    endpoint: &Endpoint,
    timeout: Duration,
) -> Option<Vec<FoundModel>> {
    let root = endpoint.base_url.trim_end_matches("/v1");
    let tags: Tags = json(client.get(format!("{root}/api/tags")), timeout).await?;
    let mut queries = JoinSet::new();
    for (place, tag) in tags.models.into_iter().take(MAX_MODELS).enumerate() {
        let question = show(client, endpoint, &tag.name);
        queries.spawn(async move {
            let shown: Option<Shown> = match place < MAX_CAPABILITY_QUERIES {
                true => json(question, timeout).await,
                false => None,
            };
            let tools = shown.map(|shown| shown.capabilities.iter().any(|can| can == "tools"));
            (tools != Some(true), place, tag.name, tools)
        });
    }
    let mut models = queries.join_all().await;
    models.sort();
    let models = models.into_iter().map(|(_, _, name, tools)| FoundModel {
        name: format!("{}/{name}", endpoint.vendor),
        tools,
    });
    Some(models.collect())
}

/// Fetches a small JSON response; returns `None` if it does not arrive in time.
async fn json<T: DeserializeOwned>(
    question: reqwest::RequestBuilder,
    timeout: Duration,
) -> Option<T> {
    let answer = async {
        let mut response = question.send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.ok()? {
            if body.len() + chunk.len() > MAX_BODY_BYTES {
                return None;
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).ok()
    };
    tokio::time::timeout(timeout, answer).await.ok()?
}
