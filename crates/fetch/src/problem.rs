//! What the guard says when it says no: what it is about, and what to do.

use std::net::IpAddr;

use crate::address::Reach;

/// Why a guard could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot start")]
pub struct GuardError(#[from] reqwest::Error);

/// A request that must not be made. The sentence names no more of a URL than its host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not of the web.
    #[error("{0}: addresses are not fetched. Use a URL that begins with https:// or http://")]
    Scheme(String),
    /// A name or password before the host, which also serves to disguise the host.
    #[error("The URL for {0} has a user name in it. Leave out everything up to the @")]
    UserInfo(String),
    /// Longer than any URL has to be.
    #[error("The URL is longer than {0} bytes. Use a shorter one")]
    TooLong(usize),
    /// No host, or nothing that can be one.
    #[error("{0:?} is not a host name. Check the URL for mistakes")]
    Host(String),
    /// A port that is not open.
    #[error(
        "Port {port} of {host} is not open to this tool. Use the standard port, or ask the operator to allow {host}:{port}"
    )]
    Port {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// An address that is not public.
    #[error(
        "{host} leads to {address}, which is {reach}, and only the public internet is in reach. Use another source, or ask the operator to allow {host}"
    )]
    Address {
        /// The host.
        host: String,
        /// The first address that was not good.
        address: IpAddr,
        /// Where it leads.
        reach: Reach,
    },
    /// A redirect from an encrypted connection to a plain one.
    #[error(
        "{from} redirects to {to} without encryption, which is not followed. Fetch that URL itself if it is the right one"
    )]
    Downgrade {
        /// Who redirects.
        from: String,
        /// Where to.
        to: String,
    },
    /// A redirect that would hand the body of a request to another host.
    #[error(
        "{from} redirects the request and its body to {to}, which is not followed. Send it to {to} if that is the right host"
    )]
    BodyAcross {
        /// Who redirects.
        from: String,
        /// Where to.
        to: String,
    },
    /// The caller's own rules forbid the host.
    #[error("{0}")]
    NotPermitted(String),
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// It, or a redirect of it, must not be made.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The name leads nowhere.
    #[error("{host} has no address. Check the spelling of the host")]
    Unresolved {
        /// The name.
        host: String,
    },
    /// It went in circles, or further than anybody should.
    #[error("{host} redirects more than {limit} times. Fetch the final URL itself")]
    TooManyRedirects {
        /// Who was the last.
        host: String,
        /// How many are followed.
        limit: usize,
    },
    /// A redirect whose target is no URL.
    #[error("{host} redirects to something that is not a URL. Fetch the final URL itself")]
    BadRedirect {
        /// Who redirects.
        host: String,
    },
    /// A redirect wants the body again, and it is gone.
    #[error("{host} redirects a request whose body cannot be sent twice")]
    BodyGone {
        /// Who redirects.
        host: String,
    },
    /// Nothing came in time.
    #[error("{host} did not answer in time. Try again later, or use another source")]
    TimedOut {
        /// Who.
        host: String,
    },
    /// The answer is larger than the caller takes.
    #[error("The answer of {host} is larger than {max_bytes} bytes")]
    TooLarge {
        /// Who.
        host: String,
        /// The most that was wanted.
        max_bytes: usize,
    },
    /// The connection did not come about, or broke.
    #[error("{host} could not be reached, or the connection broke")]
    Transport {
        /// Who.
        host: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
}
