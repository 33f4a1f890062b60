//! What goes wrong between a client and its server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::Problem;

/// Why the server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server refused or failed, and said why.
    #[error("{}", problem.detail)]
    Refused {
        /// What it said.
        problem: Box<Problem>,
        /// When it wants to be asked again, if it said so.
        retry_after: Option<Duration>,
    },
    /// Nobody answers there, or the connection broke.
    #[error("the server at {address} does not answer")]
    Unreachable {
        /// Where it should be.
        address: SocketAddr,
        /// What happened.
        source: reqwest::Error,
    },
    /// The server took too long.
    #[error("the server at {address} did not answer within {} s", limit.as_secs())]
    Slow {
        /// Where it is.
        address: SocketAddr,
        /// How long it was waited for.
        limit: Duration,
    },
    /// What answers there does not speak the API.
    #[error("what answers at {address} is no Sortie server: {what}")]
    Strange {
        /// Where it is.
        address: SocketAddr,
        /// What was wrong with the answer.
        what: String,
    },
    /// Somebody else listens there. Nothing was told to them.
    #[error("what listens at {address} is not this server")]
    Stranger {
        /// Where the server should be.
        address: SocketAddr,
    },
    /// The token cannot be sent.
    #[error("the token has characters that no token has")]
    BadToken,
    /// The client could not be made.
    #[error("the system gives no means to ask a server")]
    NoMeans(#[source] reqwest::Error),
    /// Nobody can be recognised without.
    #[error("the operating system gave no random bytes")]
    NoRandomness,
}

impl ClientError {
    /// Whether asking again may help: the server may be starting, stopping or busy, or still at what
    /// it was asked for before.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Slow { .. } => true,
            Self::Refused { problem, .. } => matches!(
                problem.slug(),
                "unavailable" | "too-many-requests" | "timeout" | "under-way"
            ),
            Self::Strange { .. }
            | Self::Stranger { .. }
            | Self::BadToken
            | Self::NoMeans(_)
            | Self::NoRandomness => false,
        }
    }

    /// The kind of a refusal, such as `not-found`.
    pub fn slug(&self) -> Option<&str> {
        match self {
            Self::Refused { problem, .. } => Some(problem.slug()),
            Self::Unreachable { .. }
            | Self::Slow { .. }
            | Self::Strange { .. }
            | Self::Stranger { .. }
            | Self::BadToken
            | Self::NoMeans(_)
            | Self::NoRandomness => None,
        }
    }

    /// When the server wants to be asked again, if it said so.
    pub(super) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable { .. }
            | Self::Slow { .. }
            | Self::Strange { .. }
            | Self::Stranger { .. }
            | Self::BadToken
            | Self::NoMeans(_)
            | Self::NoRandomness => None,
        }
    }
}
