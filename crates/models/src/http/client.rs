//! The one HTTP client of the process.

use std::time::Duration;

use reqwest::{NoProxy, Proxy};
use sortie_base::http;
use sortie_core::ports::model::ModelError;

use crate::vendor::Environment;

/// The timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Hosts that bypass the proxy: a proxy cannot reach this machine's own servers.
const DIRECT: &str = "localhost,127.0.0.1,::1";

/// Creates a client that uses the proxies of the given variables, and no others.
pub(crate) fn client(environment: &Environment) -> Result<reqwest::Client, ModelError> {
    let mut builder = http::client().connect_timeout(CONNECT_TIMEOUT);
    let direct = match set(environment, "NO_PROXY") {
        Some(more) => format!("{DIRECT},{more}"),
        None => DIRECT.to_owned(),
    };
    type Make = fn(&str) -> reqwest::Result<Proxy>;
    let kinds: [(&str, Make); 3] = [
        ("HTTPS_PROXY", |url| Proxy::https(url)),
        ("HTTP_PROXY", |url| Proxy::http(url)),
        ("ALL_PROXY", |url| Proxy::all(url)),
    ];
    for (variable, make) in kinds {
        let Some(url) = set(environment, variable) else {
            continue;
        };
        let supported = url.starts_with("http://") || url.starts_with("https://");
        let proxy = supported.then(|| make(url).ok()).flatten();
        let proxy = proxy.ok_or_else(|| {
            ModelError::fatal(format!(
                "{variable} is not the URL of an http or https proxy; correct or unset it"
            ))
        })?;
        builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(&direct)));
    }
    builder
        .build()
        .map_err(|error| ModelError::fatal(format!("the HTTP client cannot start: {error}")))
}

/// Returns a variable in upper or lower case, unless it is empty.
fn set<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    let lower = name.to_ascii_lowercase();
    let value = environment.get(&lower).or_else(|| environment.get(name))?;
    (!value.trim().is_empty()).then(|| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_come_from_the_given_variables() {
        for (name, value, good) in [
            ("HTTPS_PROXY", "http://proxy:3128", true),
            ("https_proxy", "http://user:pass@proxy:3128", true),
            ("HTTP_PROXY", "", true),
            ("ALL_PROXY", "socks5://proxy:1080", false),
            ("HTTPS_PROXY", "not a url", false),
        ] {
            let environment = Environment::from([(name.to_owned(), value.to_owned())]);
            let built = client(&environment);
            assert_eq!(built.is_ok(), good, "{name}={value}");
            if let Err(error) = built {
                assert!(!error.message.contains(value), "{error}");
            }
        }
    }
}
