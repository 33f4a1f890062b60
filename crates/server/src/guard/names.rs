//! The names of this server. A request under another name, or from a page of another origin, is
//! refused before any other check: this stops DNS rebinding and cross-site requests.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::header::{self, HeaderMap};

use crate::problem::{Kind, Problem};

/// The names of the machine itself.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The port that a URL may leave out.
const HTTP_PORT: u16 = 80;

/// The names in lower case, each as `name:port`, or without a port if any port matches.
#[derive(Debug)]
pub(crate) struct Names {
    exact: BTreeSet<String>,
}

impl Names {
    /// Collects the names of a server at an address, and the configured ones. A configured name
    /// counts with our port and without one: behind a proxy the port is that of the proxy.
    pub(crate) fn new(address: SocketAddr, given: &[String]) -> Self {
        let port = address.port();
        let mut exact: BTreeSet<String> = LOOPBACK
            .iter()
            .map(|name| format!("{name}:{port}"))
            .collect();
        if !address.ip().is_unspecified() {
            exact.insert(address.to_string());
        }
        for name in given {
            let name = name.trim().to_ascii_lowercase();
            exact.insert(format!("{name}:{port}"));
            exact.insert(name);
        }
        if port == HTTP_PORT {
            // Browsers leave the default port out.
            let without: Vec<String> = exact
                .iter()
                .filter_map(|name| name.strip_suffix(":80").map(str::to_owned))
                .collect();
            exact.extend(without);
        }
        Self { exact }
    }

    /// Checks that the request names this server. An absolute target counts like the header.
    pub(crate) fn check_host(&self, request: &Request) -> Result<(), Problem> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let is_ours = host.is_some_and(|host| self.knows(host))
            && hosts.next().is_none()
            && request
                .uri()
                .authority()
                .is_none_or(|authority| self.knows(authority.as_str()));
        if is_ours {
            return Ok(());
        }
        Err(Problem::new(
            Kind::Misdirected,
            "the Host header names another server; if it is correct, add it to [server] hosts",
        ))
    }

    /// Checks that a request with an Origin comes from our own page. Returns whether it has one.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<bool, Problem> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else {
            return Ok(false);
        };
        let is_ours = origins.next().is_none()
            && origin
                .to_str()
                .ok()
                .and_then(|text| {
                    text.strip_prefix("http://")
                        .or_else(|| text.strip_prefix("https://"))
                })
                .is_some_and(|host| self.knows(host));
        if is_ours {
            return Ok(true);
        }
        Err(Problem::forbidden(
            "pages of other origins may not use this server",
        ))
    }

    fn knows(&self, host: &str) -> bool {
        self.exact.contains(&host.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new(
            "192.0.2.7:7878".parse().unwrap(),
            &["Sortie.example".to_owned()],
        )
    }

    #[test]
    fn names_match_whole_and_with_their_port() {
        let names = names();
        for host in [
            "127.0.0.1:7878",
            "localhost:7878",
            "LOCALHOST:7878",
            "[::1]:7878",
            "192.0.2.7:7878",
            "sortie.example",
            "sortie.example:7878",
        ] {
            assert!(names.knows(host), "{host}");
        }
        for host in [
            "",
            "localhost",
            "localhost:7879",
            "127.0.0.1",
            "127.0.0.1:78780",
            "127.0.0.1.evil.example:7878",
            "evil-sortie.example",
            "sortie.example.evil.example",
            "sortie.example:80",
            "localhost:7878@evil.example",
            "0.0.0.0:7878",
        ] {
            assert!(!names.knows(host), "{host}");
        }
    }

    #[test]
    fn foreign_origins_are_refused() {
        let names = names();
        let check = |origin: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, origin.parse().unwrap());
            names.check_origin(&headers).is_ok()
        };
        assert!(check("http://localhost:7878"));
        assert!(check("https://sortie.example"));
        for origin in [
            "null",
            "http://evil.example",
            "http://localhost:7878.evil.example",
            "http://localhost",
            "file://localhost:7878",
            "localhost:7878",
            "chrome-extension://localhost:7878",
        ] {
            assert!(!check(origin), "{origin}");
        }
    }

    #[test]
    fn unspecified_address_is_not_a_name() {
        let names = Names::new("0.0.0.0:7878".parse().unwrap(), &[]);
        assert!(!names.knows("0.0.0.0:7878"));
        assert!(names.knows("127.0.0.1:7878"));
        let names = Names::new("0.0.0.0:80".parse().unwrap(), &[]);
        assert!(!names.knows("0.0.0.0") && !names.knows("0.0.0.0:80"));
        assert!(names.knows("127.0.0.1") && names.knows("localhost:80"));
    }

    #[test]
    fn default_port_may_be_left_out() {
        let names = Names::new("[2001:db8::7]:80".parse().unwrap(), &[]);
        for host in ["[2001:db8::7]", "[2001:db8::7]:80", "[::1]", "localhost"] {
            assert!(names.knows(host), "{host}");
        }
        assert!(!names.knows("2001:db8::7"), "that is no host");
        let names = Names::new("[2001:db8::7]:7878".parse().unwrap(), &[]);
        assert!(names.knows("[2001:db8::7]:7878") && !names.knows("[2001:db8::7]"));
    }
}
