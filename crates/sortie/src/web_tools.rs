//! The tools `web_fetch` and `web_search`, as configured.

use std::sync::Arc;

use sortie_config::Secret;
use sortie_core::ports::tool::Tool;
use sortie_fetch::{Allow, Guard, HostRule};
use sortie_fetch::{SearchSettings, WebFetch, WebSearch};

use crate::Options;
use crate::error::Error;

/// Returns the web tools that the configuration enables.
pub(crate) fn web_tools(options: &Options) -> Result<Vec<Arc<dyn Tool>>, Error> {
    let config = &options.config.web;
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if config.fetch {
        tools.push(Arc::new(WebFetch::new(guard(&config.allow_hosts)?)));
    }
    let search = &config.search;
    let key = search.api_key.as_ref().map(Secret::expose);
    let key = key.or_else(|| options.environment.text(search.api_key_env.as_ref()?));
    let search = WebSearch::new(&SearchSettings {
        provider: search.provider.clone().unwrap_or_default(),
        key: key.map(Secret::trimmed),
        base_url: search.base_url.clone(),
        count: search.count.map(|count| count as usize),
    });
    if let Some(search) = search.map_err(|error| Error::Web(error.to_string()))? {
        tools.push(Arc::new(search));
    }
    Ok(tools)
}

/// Returns the network guard that also lets requests through to these private hosts.
fn guard(allow_hosts: &[String]) -> Result<Guard, Error> {
    let hosts: Result<Vec<HostRule>, _> = allow_hosts.iter().map(|host| host.parse()).collect();
    let allow = Allow {
        hosts: hosts.map_err(|error| Error::Web(error.to_string()))?,
        ..Allow::default()
    };
    Guard::new(allow)
        .map_err(|error| Error::Web(format!("the network guard cannot be created: {error}")))
}
