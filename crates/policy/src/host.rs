//! Hosts, and the domain patterns of rules.

use url::{Host, Url};

/// The prefix of the argument of a rule about hosts.
const DOMAIN: &str = "domain:";

/// Returns the host of a URL, normalized for comparison.
pub(crate) fn host_of_url(url: &str) -> Option<Host> {
    let url = Url::parse(url).ok()?;
    normal(url.host()?.to_owned())
}

/// Parses a bare host, normalized for comparison.
pub(crate) fn host_of(text: &str) -> Option<Host> {
    normal(Host::parse(text).ok()?)
}

/// Normalizes a host: `example.com.` is `example.com`.
fn normal(host: Host) -> Option<Host> {
    match host {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            let proper = !name.is_empty() && name.split('.').all(|label| !label.is_empty());
            proper.then(|| Host::Domain(name.to_owned()))
        }
        Host::Ipv4(address) => Some(Host::Ipv4(address)),
        Host::Ipv6(address) => Some(Host::Ipv6(address)),
    }
}

/// The hosts that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostPattern {
    /// Matches any host: `domain:*`.
    Any,
    /// `domain:example.com`: only this host.
    Exact(Host),
    /// `domain:*.example.com`: all hosts below it.
    Below(String),
}

impl HostPattern {
    /// Parses the argument of a rule; the error is a sentence.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let unclear =
            || format!("`{DOMAIN}` must be followed by a host, `*.` and a domain, or `*`");
        let name = text.strip_prefix(DOMAIN).ok_or_else(unclear)?.trim();
        if name == "*" {
            return Ok(Self::Any);
        }
        let (below, name) = match name.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, name),
        };
        if name.contains('*') {
            return Err(unclear());
        }
        match (below, host_of(name).ok_or_else(unclear)?) {
            (false, host) => Ok(Self::Exact(host)),
            (true, Host::Domain(name)) => Ok(Self::Below(name)),
            (true, Host::Ipv4(_) | Host::Ipv6(_)) => Err("an address has no subdomains".to_owned()),
        }
    }

    /// Returns whether the pattern matches this host.
    pub(crate) fn fits(&self, host: &Host) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => exact == host,
            Self::Below(domain) => match host {
                Host::Domain(name) => is_below(name, domain),
                Host::Ipv4(_) | Host::Ipv6(_) => false,
            },
        }
    }
}

/// Compares whole labels from the right: `notexample.com` is not below `example.com`.
fn is_below(name: &str, domain: &str) -> bool {
    let mut labels = name.rsplit('.');
    let within = domain.rsplit('.').all(|label| labels.next() == Some(label));
    within && labels.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, url: &str, expected: bool) {
        let host = host_of_url(url);
        let fits = host.is_some_and(|host| HostPattern::read(pattern).unwrap().fits(&host));
        assert_eq!(fits, expected, "{pattern} {url}");
    }

    #[test]
    fn whole_hosts_are_compared() {
        check("domain:example.com", "https://example.com/a?b", true);
        check("domain:example.com", "https://EXAMPLE.com.:8443/", true);
        check("domain:Example.COM", "http://example.com", true);
        check("domain:example.com", "https://www.example.com", false);
        check("domain:example.com", "https://example.com.evil.org", false);
        check("domain:example.com", "https://evil.org/example.com", false);
        check("domain:example.com", "https://example.com@evil.org/", false);
        check("domain:example.com", "https://evil.org#@example.com", false);
        check(
            "domain:example.com",
            "https://evil.org\\@example.com",
            false,
        );
        check("domain:*.example.com", "https://a.b.example.com", true);
        check("domain:*.example.com", "https://example.com", false);
        check("domain:*.example.com", "https://notexample.com", false);
        check("domain:münchen.de", "https://xn--mnchen-3ya.de", true);
        check("domain:127.0.0.1", "http://0x7f.1/", true);
        check("domain:127.0.0.1", "http://2130706433/", true);
        check("domain:[::1]", "http://[0:0:0::1]/", true);
        check("domain:*", "https://anything.example", true);
        check("domain:*", "not a url", false);
        check("domain:*", "mailto:a@example.com", false);
    }

    #[test]
    fn unclear_domains_are_rejected() {
        for pattern in [
            "example.com",
            "domain:",
            "domain:*.*",
            "domain:a*.com",
            "domain:*.127.0.0.1",
            "domain:a/b",
            "domain:a b",
            "domain:.",
            "domain:a..b",
            "domain:https://a.com",
        ] {
            assert!(HostPattern::read(pattern).is_err(), "{pattern}");
        }
    }
}
