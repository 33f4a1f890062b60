//! Errors of the guard: the object, the failure, and what to do next.

use std::net::IpAddr;

use crate::address::Reach;

/// The guard could not be created.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot start")]
pub struct GuardError(#[from] reqwest::Error);

/// A request that is refused. The message contains only the host of a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The scheme is not of the web.
    #[error("{0}: addresses are not fetched. Use a URL that begins with https:// or http://")]
    Scheme(String),
    /// A user name or password before the host, which is also used to disguise the host.
    #[error("The URL for {0} contains a user name. Remove everything up to the @")]
    UserInfo(String),
    /// The URL is too long.
    #[error("The URL is longer than {0} bytes. Use a shorter one")]
    TooLong(usize),
    /// The host is missing or invalid.
    #[error("{0:?} is not a host name. Check the URL for mistakes")]
    Host(String),
    /// A port that is not open.
    #[error(
        "Port {port} of {host} is not allowed for this tool. Use the standard port, or ask the operator to allow {host}:{port}"
    )]
    Port { host: String, port: u16 },
    /// An address that is not public.
    #[error(
        "{host} resolves to {address}, which is {reach}; only the public internet is reachable. Use another source, or ask the operator to allow {host}"
    )]
    Address {
        host: String,
        /// The first address that is refused.
        address: IpAddr,
        /// The kind of network.
        reach: Reach,
    },
    /// A redirect from an encrypted connection to a plain one.
    #[error(
        "{from} redirects to {to} without encryption, which is not followed. Fetch that URL itself if it is the right one"
    )]
    Downgrade {
        /// The host that redirects.
        from: String,
        to: String,
    },
    /// A redirect that would hand the body of a request to another host.
    #[error(
        "{from} redirects the request and its body to {to}, which is not followed. Send it to {to} if that is the right host"
    )]
    BodyAcross {
        /// The host that redirects.
        from: String,
        to: String,
    },
    /// The rules of the caller refuse the host.
    #[error("{0}")]
    NotPermitted(String),
}

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The request, or a redirect, is refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The name has no address.
    #[error("{host} has no address. Check the spelling of the host")]
    Unresolved { host: String },
    /// The redirects form a loop or are too many.
    #[error("{host} redirects more than {limit} times. Fetch the final URL itself")]
    TooManyRedirects {
        /// Last host of the redirect chain.
        host: String,
        /// The limit of redirects.
        limit: usize,
    },
    /// The target of a redirect is not a URL.
    #[error("{host} redirects to something that is not a URL. Fetch the final URL itself")]
    BadRedirect {
        /// The host that redirects.
        host: String,
    },
    /// A redirect needs the body again, which was a stream.
    #[error("{host} redirects a request whose body cannot be sent twice")]
    BodyGone {
        /// The host that redirects.
        host: String,
    },
    #[error("{host} did not respond in time. Try again later, or use another source")]
    TimedOut { host: String },
    /// The body is larger than the caller's limit.
    #[error("The response of {host} is larger than {max_bytes} bytes")]
    TooLarge {
        host: String,
        /// The limit of the caller.
        max_bytes: usize,
    },
    /// The connection failed or broke.
    #[error("{host} could not be reached, or the connection was lost")]
    Transport {
        host: String,
        /// The error of the HTTP client.
        #[source]
        source: reqwest::Error,
    },
}
