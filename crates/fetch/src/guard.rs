//! The guard: decides which URLs may be requested, and owns the only client.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sortie_base::http;
use url::{Host, Url};

use crate::address::{Reach, reach};
use crate::problem::{GuardError, Refused};
use crate::resolve::{JudgedResolver, Resolver, SystemResolver};
use crate::rule::{HostRule, is_web_port};

/// Limit of a URL; browsers and servers use similar limits.
pub const MAX_URL_BYTES: usize = 8 * 1024;
/// Timeout of connecting, including the resolution of the name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Lifetime of an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit of idle connections per host.
const MAX_IDLE_PER_HOST: usize = 4;
/// Limit of header lines.
const MAX_HEADERS: usize = 128;
/// Limit of header bytes over HTTP/2.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
/// Limits of DNS for a name and for a label.
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Which hosts are reachable. The default is the public internet on ports 80 and 443.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    /// Hosts and ports beyond that; see [`HostRule`].
    pub hosts: Vec<HostRule>,
    /// Whether any host may be on this machine.
    pub loopback: bool,
    /// Whether any host may be on a private network.
    pub private: bool,
}

/// A checked and normalized URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    url: Url,
    host: String,
}

impl Checked {
    /// The URL, without fragment and with a normalized host.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The host: a lower-case name in ASCII without a dot at its end, or an address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn into_url(self) -> Url {
        self.url
    }
}

/// The guard. Clones share one client.
#[derive(Clone, Debug)]
pub struct Guard {
    judge: Arc<Judge>,
    client: reqwest::Client,
}

impl Guard {
    /// Creates a guard with the resolver of the operating system.
    pub fn new(allow: Allow) -> Result<Self, GuardError> {
        Self::with_resolver(allow, Arc::new(SystemResolver))
    }

    /// Creates a guard with the given resolver.
    pub fn with_resolver(allow: Allow, resolver: Arc<dyn Resolver>) -> Result<Self, GuardError> {
        let judge = Arc::new(Judge { allow });
        // Without a proxy, which would resolve names after the check, and without redirects, which
        // are followed by hand because each has to be checked.
        let client = http::client()
            .dns_resolver(JudgedResolver {
                resolver,
                judge: Arc::clone(&judge),
            })
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .build()?;
        Ok(Self { judge, client })
    }

    /// Checks a URL as text. Names are judged again, by their
    /// addresses, when the client connects.
    pub fn check(&self, url: &Url) -> Result<Checked, Refused> {
        self.judge.url(url)
    }

    /// Returns the client. It judges every name that it resolves, but an address in a URL needs no
    /// resolving: each URL has to pass [`Guard::check`] first, and redirects are not followed.
    /// [`Guard::execute`] does both.
    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }
}

/// The pure part of the guard.
#[derive(Debug)]
pub(crate) struct Judge {
    allow: Allow,
}

impl Judge {
    fn url(&self, url: &Url) -> Result<Checked, Refused> {
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(Refused::TooLong(MAX_URL_BYTES));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme(url.scheme().to_owned()));
        }
        let mut plain = url.clone();
        plain.set_fragment(None);
        let host = plain_host(&mut plain)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::UserInfo(host));
        }
        let port = plain.port_or_known_default().unwrap_or_default();
        match host.parse::<IpAddr>() {
            Ok(address) => self.literal(&host, address, port)?,
            Err(_) => self.name(&host, port)?,
        }
        Ok(Checked { url: plain, host })
    }

    /// Judges an address in the URL itself, which no resolver sees.
    fn literal(&self, host: &str, address: IpAddr, port: u16) -> Result<(), Refused> {
        let mut hosts = self.allow.hosts.iter();
        if hosts.any(|rule| rule.covers_address(address) && rule.opens(port)) {
            return Ok(());
        }
        self.address(host, address, self.permits_reach(reach(address)))?;
        let mut hosts = self.allow.hosts.iter();
        let opened = hosts.any(|rule| rule.is_any() && rule.opens(port));
        self.port(host, port, opened || is_web_port(port))
    }

    /// Judges a name. If the operator named it exactly, only those rules apply: they may allow
    /// it on this machine, and must not open another port of this machine.
    fn name(&self, host: &str, port: u16) -> Result<(), Refused> {
        let mut exact = self.allow.hosts.iter().filter(|rule| rule.is_name(host));
        let open = if self.is_named(host) {
            exact.any(|rule| rule.opens(port))
        } else {
            let mut hosts = self.allow.hosts.iter();
            is_web_port(port) || hosts.any(|rule| rule.covers_name(host) && rule.opens(port))
        };
        self.port(host, port, open)
    }

    fn port(&self, host: &str, port: u16, open: bool) -> Result<(), Refused> {
        if open {
            return Ok(());
        }
        Err(Refused::Port {
            host: host.to_owned(),
            port,
        })
    }

    /// Judges all addresses of a name.
    pub(crate) fn addresses(&self, host: &str, addresses: &[IpAddr]) -> Result<(), Refused> {
        let named = self.is_named(host);
        addresses.iter().try_for_each(|address| {
            let reach = reach(*address);
            let at_home = matches!(reach, Reach::Loopback | Reach::Private);
            self.address(
                host,
                *address,
                self.permits_reach(reach) || (named && at_home),
            )
        })
    }

    fn address(&self, host: &str, address: IpAddr, permitted: bool) -> Result<(), Refused> {
        if permitted {
            return Ok(());
        }
        Err(Refused::Address {
            host: host.to_owned(),
            address,
            reach: reach(address),
        })
    }

    fn permits_reach(&self, reach: Reach) -> bool {
        match reach {
            Reach::Public => true,
            Reach::Loopback => self.allow.loopback,
            Reach::Private => self.allow.private,
            Reach::LinkLocal | Reach::Reserved => false,
        }
    }

    fn is_named(&self, host: &str) -> bool {
        self.allow.hosts.iter().any(|rule| rule.is_name(host))
    }
}

/// Normalizes the host, also inside the URL.
fn plain_host(url: &mut Url) -> Result<String, Refused> {
    let shown = url.host_str().unwrap_or_default().to_owned();
    let bad = || Refused::Host(shown.clone());
    match url.host().ok_or_else(bad)? {
        Host::Ipv4(address) => Ok(address.to_string()),
        Host::Ipv6(address) => Ok(address.to_string()),
        Host::Domain(name) => {
            // `example.org.` is the same host; one spelling makes rules and connection pools match.
            let plain = name.strip_suffix('.').unwrap_or(name).to_owned();
            if !is_name(&plain) {
                return Err(bad());
            }
            if plain != shown {
                url.set_host(Some(&plain)).map_err(|_| bad())?;
            }
            // A name that becomes an address without its dot would be judged as a name.
            match url.host() {
                Some(Host::Domain(now)) if now == plain => Ok(plain),
                Some(Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_)) | None => Err(bad()),
            }
        }
    }
}

/// Returns whether a text is a valid host name: non-empty labels of letters, digits, `-` and `_`.
pub(crate) fn is_name(text: &str) -> bool {
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !text.is_empty()
        && text.len() <= MAX_NAME_BYTES
        && text.split('.').all(|label| {
            !label.is_empty() && label.len() <= MAX_LABEL_BYTES && label.bytes().all(is_char)
        })
}
