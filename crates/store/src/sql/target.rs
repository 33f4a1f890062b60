//! The address of a PostgreSQL database, and how to reach its primary.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postgres::config::{Host, SslMode, TargetSessionAttrs};
use postgres::{Client, Config};
use sortie_base::tls::{Roots, Verification};

use crate::fault::{Done, Fault};
use crate::sql::postgres::is_outage;
use crate::sql::tls::Tls;

/// How long opening a connection to one host may take, and then a TLS handshake, unless the address
/// says `connect_timeout`.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The same with several hosts: the next one may be the primary.
const CONNECT_TIMEOUT_OF_SEVERAL: Duration = Duration::from_secs(4);
/// How long a connection may be silent while an answer is due before it counts as lost.
const SILENCE_LIMIT: Duration = Duration::from_secs(15);
/// The beginnings of an address.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// A database that a session connects to. Its `Debug` and `Display` never contain the password.
#[derive(Clone)]
pub struct Target {
    /// One for each host, in the order of the address.
    hosts: Vec<Config>,
    /// What TLS checks; `None` without TLS.
    tls: Option<Verification>,
    /// The host that accepted a session last, shared by all copies: the next session tries it
    /// first, so that a dead host delays only one of them.
    last: Arc<AtomicUsize>,
}

/// Why an address is not usable.
#[derive(Debug, thiserror::Error)]
#[error("not a PostgreSQL address: {0}")]
pub struct InvalidTarget(String);

/// No host accepted a session that may write.
#[derive(Debug)]
pub(crate) struct NoPrimary {
    attempts: Vec<(String, postgres::Error)>,
}

impl NoPrimary {
    /// Whether a host may accept a session later.
    pub(crate) fn is_outage(&self) -> bool {
        self.attempts.iter().any(|(_, error)| is_outage(error))
    }
}

impl fmt::Display for NoPrimary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no connection to a writable database: ")?;
        for (position, (host, error)) in self.attempts.iter().enumerate() {
            if position > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{host}: {}", sortie_core::error::with_causes(error))?;
        }
        Ok(())
    }
}

impl Error for NoPrimary {}

impl Target {
    /// Returns the password, decoded, if the address contains one.
    pub fn password(&self) -> Option<String> {
        let bytes = self.hosts.first()?.get_password()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Sets the password, in place of one in the address.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        for host in &mut self.hosts {
            host.password(password);
        }
        self
    }

    /// Connects to the first host that accepts writes.
    pub(crate) fn connect(&self) -> Done<Client> {
        let tls = Tls::new(self.tls.as_ref()).map_err(|error| Fault::Broken(error.into()))?;
        let first = self.last.load(Ordering::Relaxed);
        let mut attempts = Vec::new();
        for position in (0..self.hosts.len()).map(|step| (first + step) % self.hosts.len()) {
            let Some(host) = self.hosts.get(position) else {
                continue;
            };
            match host.connect(tls.clone()) {
                Ok(client) => {
                    self.last.store(position, Ordering::Relaxed);
                    return Ok(client);
                }
                Err(error) => attempts.push((names(host), error)),
            }
        }
        Err(Fault::Broken(Box::new(NoPrimary { attempts })))
    }
}

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(address: &str) -> Result<Self, InvalidTarget> {
        let parts = Parts::of(address)?;
        let (options, tls_options) = TlsOptions::split(parts.options)?;
        let parse = |host: &str| config(&parts, host, &options);
        let mut hosts: Vec<Config> = if parts.lists_addresses() {
            vec![parse(parts.hosts)?]
        } else {
            parts
                .hosts
                .split(',')
                .map(parse)
                .collect::<Result<_, _>>()?
        };
        let several = hosts.len() > 1;
        let tls = tls_options.verification()?;
        for host in &mut hosts {
            prepare(host, tls_options.mode, several);
        }
        Ok(Self {
            hosts,
            tls,
            last: Arc::default(),
        })
    }
}

/// Returns the settings of one host.
fn config(parts: &Parts<'_>, host: &str, options: &str) -> Result<Config, InvalidTarget> {
    let Parts {
        credentials, path, ..
    } = parts;
    let address = format!("postgres://{credentials}{host}{path}?{options}");
    let config: Config = address.parse().map_err(|error: postgres::Error| {
        // The cause names the part that is wrong, never the password.
        let cause = error.source().map(ToString::to_string);
        InvalidTarget(cause.unwrap_or_else(|| error.to_string()))
    })?;
    if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
        return Err(InvalidTarget(
            "tasks are written, so target_session_attrs must be read-write".to_owned(),
        ));
    }
    Ok(config)
}

fn prepare(host: &mut Config, mode: SslMode, several: bool) {
    if host.get_connect_timeout().is_none() {
        host.connect_timeout(if several {
            CONNECT_TIMEOUT_OF_SEVERAL
        } else {
            CONNECT_TIMEOUT
        });
    }
    // Without these a network that drops packets blocks the writer until TCP gives up.
    host.tcp_user_timeout(SILENCE_LIMIT);
    host.keepalives_idle(SILENCE_LIMIT / 2);
    host.keepalives_interval(SILENCE_LIMIT / 6);
    host.keepalives_retries(3);
    host.application_name("sortie");
    // A standby is not used even for reading: it may lack what was just acknowledged.
    host.target_session_attrs(TargetSessionAttrs::ReadWrite);
    // The server offers no TLS on a Unix socket, which no other machine can listen to.
    let is_local = |host: &Host| matches!(host, Host::Unix(_));
    let (hosts, addresses) = (host.get_hosts(), host.get_hostaddrs());
    let only_local = !hosts.is_empty() && addresses.is_empty() && hosts.iter().all(is_local);
    let mode = if only_local { SslMode::Disable } else { mode };
    host.ssl_mode(mode);
}

/// The parts of an address.
struct Parts<'a> {
    /// The user and the password, with the `@` behind them.
    credentials: &'a str,
    hosts: &'a str,
    /// The name of the database, with the `/` before it.
    path: &'a str,
    /// What follows the question mark.
    options: &'a str,
}

impl<'a> Parts<'a> {
    fn of(address: &'a str) -> Result<Self, InvalidTarget> {
        let rest = SCHEMES
            .iter()
            .find_map(|scheme| address.strip_prefix(scheme))
            .ok_or_else(|| InvalidTarget(format!("it does not begin with {}", SCHEMES[0])))?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (credentials, hosts) = authority.split_at(authority.find('@').map_or(0, |at| at + 1));
        // What follows would be shown as the name of a host, or be a part of the password.
        if hosts.contains('@')
            || rest
                .split('?')
                .next()
                .is_some_and(|path| path.contains('@'))
        {
            return Err(InvalidTarget(
                "it contains a second @, or one behind the hosts: write @ as %40 and / as %2F in \
                 the user and the password"
                    .to_owned(),
            ));
        }
        let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
        Ok(Self {
            credentials,
            hosts,
            path,
            options,
        })
    }

    /// Whether the options list hosts or their addresses, which belong to the hosts by position.
    fn lists_addresses(&self) -> bool {
        let mut options = self.options.split('&');
        options.any(|option| option.starts_with("hostaddr=") || option.starts_with("host="))
    }
}

/// The options about TLS, most of which the client does not know.
struct TlsOptions {
    mode: SslMode,
    /// Whether the certificate is checked, and what of it.
    check: Check,
    roots: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    Nothing,
    Authority,
    Name,
}

impl TlsOptions {
    /// Takes the options about TLS out of the options of an address; returns the others.
    fn split(options: &str) -> Result<(String, Self), InvalidTarget> {
        let mut found = Self {
            mode: SslMode::Prefer,
            check: Check::Nothing,
            roots: None,
        };
        let mut others = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("sslmode", mode)) => (found.mode, found.check) = mode_of(mode)?,
                Some(("sslrootcert", path)) => found.roots = Some(decoded(path)?),
                Some(_) | None => others.push(option),
            }
        }
        Ok((others.join("&"), found))
    }

    /// Returns what TLS checks; `None` without TLS.
    fn verification(&self) -> Result<Option<Verification>, InvalidTarget> {
        let roots = match self.roots.as_deref() {
            None | Some("system") => Roots::Machine,
            Some(path) if path.starts_with('/') => Roots::File(PathBuf::from(path)),
            Some(_) => {
                return Err(InvalidTarget(
                    "sslrootcert must be an absolute path, or the word system".to_owned(),
                ));
            }
        };
        // As other clients do: a certificate that is named is used.
        let check = match (self.mode, self.check, &self.roots) {
            (SslMode::Require, Check::Nothing, Some(_)) => Check::Authority,
            (SslMode::Require, check, _) | (_, check, None) => check,
            (_, _, Some(_)) => {
                return Err(InvalidTarget(
                    "sslrootcert needs sslmode=verify-full, verify-ca or require".to_owned(),
                ));
            }
        };
        Ok(match (self.mode, check) {
            (SslMode::Disable, _) => None,
            (_, Check::Nothing) => Some(Verification::Nothing),
            (_, Check::Authority) => Some(Verification::Authority(roots)),
            (_, Check::Name) => Some(Verification::Name(roots)),
        })
    }
}

fn mode_of(word: &str) -> Result<(SslMode, Check), InvalidTarget> {
    match word {
        "disable" => Ok((SslMode::Disable, Check::Nothing)),
        "prefer" => Ok((SslMode::Prefer, Check::Nothing)),
        "require" => Ok((SslMode::Require, Check::Nothing)),
        "verify-ca" => Ok((SslMode::Require, Check::Authority)),
        "verify-full" => Ok((SslMode::Require, Check::Name)),
        _ => Err(InvalidTarget(
            "sslmode must be disable, prefer, require, verify-ca or verify-full".to_owned(),
        )),
    }
}

/// Decodes a value of an option, in which `%2F` stands for a slash.
fn decoded(value: &str) -> Result<String, InvalidTarget> {
    let invalid = || InvalidTarget("sslrootcert is not spelled correctly".to_owned());
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next()), digit(rest.next()));
        let (high, low) = high.zip(low).ok_or_else(invalid)?;
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| invalid())?);
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

/// Returns the hosts of a configuration with their ports.
fn names(config: &Config) -> String {
    let ports = config.get_ports();
    let mut names = Vec::new();
    for (position, host) in config.get_hosts().iter().enumerate() {
        let port = ports.get(position).or(ports.first()).copied();
        names.push(match host {
            Host::Tcp(name) => format!("{name}:{}", port.unwrap_or(5432)),
            Host::Unix(path) => path.display().to_string(),
        });
    }
    names.join(",")
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(names).collect();
        let database = self.hosts.first().and_then(Config::get_dbname);
        write!(
            f,
            "postgres://{}/{}",
            hosts.join(","),
            database.unwrap_or_default()
        )
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(address: &str) -> Target {
        address.parse().unwrap()
    }

    fn refusal(address: &str) -> String {
        address.parse::<Target>().unwrap_err().to_string()
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        let target = target("postgres://ada:s3cret@db.example:5433/sortie");
        assert_eq!(target.to_string(), "postgres://db.example:5433/sortie");
        assert!(!format!("{target:?}").contains("s3cret"));
        assert_eq!(target.password().as_deref(), Some("s3cret"));
        for address in [
            "postgres://ada:s3cret@db.example:port/sortie",
            "postgres://ada:p@s3cret@db/sortie",
            "postgres://ada:p/s3cret@db/sortie",
        ] {
            assert!(!refusal(address).contains("s3cret"), "{address}");
        }
    }

    #[test]
    fn every_host_is_tried_and_must_accept_writes() {
        let target = target("postgres://ada:a%2Cb@one,two:5433,[::1]:7/sortie?options=-ca%3Db")
            .with_password("other");
        assert_eq!(
            target.to_string(),
            "postgres://one:5432,two:5433,::1:7/sortie"
        );
        for host in &target.hosts {
            assert_eq!(host.get_hosts().len(), 1);
            assert_eq!(
                host.get_target_session_attrs(),
                TargetSessionAttrs::ReadWrite
            );
            assert_eq!(
                host.get_connect_timeout(),
                Some(&CONNECT_TIMEOUT_OF_SEVERAL)
            );
            assert_eq!(host.get_password(), Some("other".as_bytes()));
            assert_eq!(host.get_options(), Some("-ca=b"));
        }
        assert!(refusal("postgres://one/a?target_session_attrs=read-only").contains("read-write"));
    }

    #[test]
    fn the_mode_decides_what_tls_checks() {
        let roots = || Roots::File(PathBuf::from("/etc/ca.pem"));
        let check = |options: &str, mode: SslMode, expected: Option<Verification>| {
            let target = target(&format!("postgres://db/sortie?{options}"));
            assert_eq!(target.tls, expected, "{options}");
            assert_eq!(target.hosts[0].get_ssl_mode(), mode, "{options}");
        };
        check("", SslMode::Prefer, Some(Verification::Nothing));
        // An address decides where the session goes, also beside a socket.
        for place in ["/sortie?", "%2Frun/sortie?"] {
            let address = format!("postgres://{place}hostaddr=10.0.0.5&sslmode=verify-full");
            assert_eq!(
                target(&address).hosts[0].get_ssl_mode(),
                SslMode::Require,
                "{address}"
            );
        }
        check("sslmode=disable", SslMode::Disable, None);
        check(
            "sslmode=require&user=ada",
            SslMode::Require,
            Some(Verification::Nothing),
        );
        check(
            "sslmode=require&sslrootcert=%2Fetc%2Fca.pem",
            SslMode::Require,
            Some(Verification::Authority(roots())),
        );
        check(
            "sslrootcert=/etc/ca.pem&sslmode=verify-full",
            SslMode::Require,
            Some(Verification::Name(roots())),
        );
        check(
            "sslmode=verify-full",
            SslMode::Require,
            Some(Verification::Name(Roots::Machine)),
        );
    }

    #[test]
    fn a_unix_socket_needs_no_tls() {
        let target = target("postgres://%2Frun%2Fpostgresql,db/sortie?sslmode=verify-full");
        let modes = target.hosts.iter().map(Config::get_ssl_mode);
        assert_eq!(
            modes.collect::<Vec<_>>(),
            [SslMode::Disable, SslMode::Require]
        );
    }

    #[test]
    fn contradicting_options_are_refused() {
        assert!(refusal("postgres://db/a?sslmode=always").contains("verify-full"));
        assert!(refusal("postgres://db/a?sslrootcert=/ca.pem").contains("sslmode"));
        assert!(refusal("postgres://db/a?sslmode=require&sslrootcert=ca.pem").contains("absolute"));
        assert!(refusal("host=db").contains("postgres://"));
    }
}
