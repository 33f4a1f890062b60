//! Rules for hosts beyond the public web, set by the operator.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use url::Host;

/// The ports of the web: they apply to a rule without a port.
const WEB_PORTS: [u16; 2] = [80, 443];

/// One rule: `example.org`, `*.example.org`, `10.1.2.3`, `10.0.0.0/8`, `[::1]` or `*`, each with an
/// optional `:port`. Without a port it applies to 80 and 443.
///
/// An exact name vouches for one host: it may be on this machine or on a private
/// network, and only the ports of its own rules are open there. A suffix and `*` open ports on the
/// public internet. An address or a network opens exactly those addresses, where a URL spells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule {
    pattern: Pattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Any,
    Name(String),
    Suffix(String),
    Network(IpNet),
}

/// A rule that names no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a host; write example.org, *.example.org, 10.1.2.3, 10.0.0.0/8, [::1] or *, with :port if it is not 80 or 443"
)]
pub struct BadRule(String);

impl HostRule {
    /// Returns the rule for one host and port of a checked URL.
    pub fn exact(host: &str, port: u16) -> Result<Self, BadRule> {
        let bad = || BadRule(host.to_owned());
        let host = match host.parse::<IpAddr>() {
            Ok(address) => Pattern::Network(address.to_canonical().into()),
            Err(_) => named(host).ok_or_else(bad)?,
        };
        match host {
            Pattern::Name(_) | Pattern::Network(_) => Ok(Self {
                pattern: host,
                port: Some(port),
            }),
            Pattern::Any | Pattern::Suffix(_) => Err(bad()),
        }
    }

    pub(crate) fn opens(&self, port: u16) -> bool {
        match self.port {
            Some(own) => own == port,
            None => WEB_PORTS.contains(&port),
        }
    }

    /// Returns whether the rule names exactly this host.
    pub(crate) fn is_name(&self, host: &str) -> bool {
        match &self.pattern {
            Pattern::Name(name) => name == host,
            Pattern::Any | Pattern::Suffix(_) | Pattern::Network(_) => false,
        }
    }

    /// Returns whether a suffix or `*` of the rule covers this host.
    pub(crate) fn covers_name(&self, host: &str) -> bool {
        match &self.pattern {
            Pattern::Any => true,
            Pattern::Suffix(suffix) => host
                .strip_suffix(suffix.as_str())
                .is_some_and(|before| before.ends_with('.')),
            Pattern::Name(_) | Pattern::Network(_) => false,
        }
    }

    /// Returns whether the rule names this address or its network.
    pub(crate) fn covers_address(&self, address: IpAddr) -> bool {
        match &self.pattern {
            Pattern::Network(network) => network.contains(&address.to_canonical()),
            Pattern::Any | Pattern::Name(_) | Pattern::Suffix(_) => false,
        }
    }

    /// Returns whether the rule opens a port for every host.
    pub(crate) fn is_any(&self) -> bool {
        self.pattern == Pattern::Any
    }
}

/// Returns whether a port is one of the web's.
pub(crate) fn is_web_port(port: u16) -> bool {
    WEB_PORTS.contains(&port)
}

impl FromStr for HostRule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let bad = || BadRule(text.to_owned());
        let (host, port) = split_port(text).ok_or_else(bad)?;
        let pattern = pattern(host).ok_or_else(bad)?;
        Ok(Self { pattern, port })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Any => f.write_str("*")?,
            Pattern::Name(name) => f.write_str(name)?,
            Pattern::Suffix(suffix) => write!(f, "*.{suffix}")?,
            Pattern::Network(network) => write_network(f, *network)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

fn write_network(f: &mut fmt::Formatter<'_>, network: IpNet) -> fmt::Result {
    let (open, close) = match network {
        IpNet::V4(_) => ("", ""),
        IpNet::V6(_) => ("[", "]"),
    };
    if network.prefix_len() == network.max_prefix_len() {
        write!(f, "{open}{}{close}", network.addr())
    } else {
        write!(f, "{open}{network}{close}")
    }
}

/// Splits host and port. Brackets are needed only if a port follows an IPv6 address.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(inner) = text.strip_prefix('[') {
        let (host, rest) = inner.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(number(port)?))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    if text.matches(':').count() > 1 {
        return Some((text, None));
    }
    match text.split_once(':') {
        Some((host, port)) => Some((host, Some(number(port)?))),
        None => Some((text, None)),
    }
}

fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

fn pattern(host: &str) -> Option<Pattern> {
    if host == "*" {
        return Some(Pattern::Any);
    }
    if let Ok(network) = host.parse::<IpNet>() {
        return Some(Pattern::Network(network.trunc()));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(Pattern::Network(address.to_canonical().into()));
    }
    match host.strip_prefix("*.") {
        Some(suffix) => match named(suffix)? {
            Pattern::Name(suffix) => Some(Pattern::Suffix(suffix)),
            Pattern::Any | Pattern::Suffix(_) | Pattern::Network(_) => None,
        },
        None => named(host),
    }
}

/// Normalizes a name as a URL parser does. A number in another notation becomes its address.
fn named(host: &str) -> Option<Pattern> {
    match Host::parse(host).ok()? {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            crate::guard::is_name(name).then(|| Pattern::Name(name.to_owned()))
        }
        Host::Ipv4(address) => Some(Pattern::Network(IpAddr::from(address).into())),
        Host::Ipv6(address) => Some(Pattern::Network(IpAddr::from(address).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_urls_are() {
        let check = |text: &str, expected: &str| {
            let shown = match text.parse::<HostRule>() {
                Ok(rule) => rule.to_string(),
                Err(error) => {
                    let error = error.to_string();
                    let (first, _) = error.split_once(';').unwrap();
                    format!("! {first}")
                }
            };
            assert_eq!(shown, expected, "{text}");
        };
        check("Example.ORG", "example.org");
        check(" example.org.:8443 ", "example.org:8443");
        check("*.example.org:8080", "*.example.org:8080");
        check("*:8443", "*:8443");
        check("bücher.example", "xn--bcher-kva.example");
        check("10.0.0.1/8", "10.0.0.0/8");
        check("10.1.2.3:99", "10.1.2.3:99");
        check("0x7f.1", "127.0.0.1");
        check("[::1]:8080", "[::1]:8080");
        check("::1", "[::1]");
        check("fd00::/8", "[fd00::/8]");
        check("[fd00::/8]:80", "[fd00::/8]:80");
        check("::ffff:127.0.0.1", "127.0.0.1");
        check("localhost", "localhost");
        check("", "! \"\" is not a host");
        check("*.", "! \"*.\" is not a host");
        check("a..b", "! \"a..b\" is not a host");
        check("a*.b", "! \"a*.b\" is not a host");
        check("*.10.0.0.1", "! \"*.10.0.0.1\" is not a host");
        check("host:0", "! \"host:0\" is not a host");
        check("host:99999", "! \"host:99999\" is not a host");
        check("http://host", "! \"http://host\" is not a host");
        check("[::1]x", "! \"[::1]x\" is not a host");
        check("user@host", "! \"user@host\" is not a host");
    }

    #[test]
    fn a_suffix_is_whole_labels() {
        let rule: HostRule = "*.example.org".parse().unwrap();
        for (host, covered) in [
            ("a.example.org", true),
            ("a.b.example.org", true),
            ("example.org", false),
            ("evilexample.org", false),
            ("example.org.evil.com", false),
        ] {
            assert_eq!(rule.covers_name(host), covered, "{host}");
        }
    }
}
