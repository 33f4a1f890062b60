//! Errors of the client.

use std::net::SocketAddr;
use std::time::Duration;

use crate::Problem;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server refused the request or failed, and sent a problem.
    #[error("{}", problem.detail)]
    Refused {
        problem: Box<Problem>,
        /// How long the server asked to wait before a retry.
        retry_after: Option<Duration>,
    },
    /// No process listens at the address, or the connection broke.
    #[error("the server at {address} does not answer")]
    Unreachable {
        /// The address of the server.
        address: SocketAddr,
        /// The error of the connection.
        source: reqwest::Error,
    },
    /// The server did not respond in time.
    #[error("the server at {address} did not answer within {} s", limit.as_secs())]
    Timeout {
        /// The address of the server.
        address: SocketAddr,
        /// Time limit of the request.
        limit: Duration,
    },
    /// The response is not one of the API.
    #[error("unexpected response from {address}, which may not be a Sortie server: {what}")]
    Unexpected {
        /// The address of the server.
        address: SocketAddr,
        /// What is wrong with the response.
        what: String,
    },
    /// Another process listens at the address: it could not prove that it is the server. The token
    /// was not sent.
    #[error("the process that listens at {address} is not this server")]
    Unverified {
        /// The address of the server.
        address: SocketAddr,
    },
    /// The token cannot be a header value.
    #[error("the token has invalid characters")]
    BadToken,
    /// The HTTP client could not be created.
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
    /// There are no random bytes for a nonce, so the server cannot be verified.
    #[error("cannot get random bytes from the operating system")]
    NoRandomness,
}

impl ClientError {
    /// Returns whether a retry may help: the server may be starting, stopping or busy, or still
    /// execute an earlier attempt.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => true,
            Self::Refused { problem, .. } => matches!(
                problem.slug(),
                "unavailable" | "too-many-requests" | "timeout" | "under-way"
            ),
            Self::Unexpected { .. }
            | Self::Unverified { .. }
            | Self::BadToken
            | Self::Setup(_)
            | Self::NoRandomness => false,
        }
    }

    /// Returns the kind of a refusal, such as `not-found`.
    pub fn slug(&self) -> Option<&str> {
        match self {
            Self::Refused { problem, .. } => Some(problem.slug()),
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Unexpected { .. }
            | Self::Unverified { .. }
            | Self::BadToken
            | Self::Setup(_)
            | Self::NoRandomness => None,
        }
    }

    /// Returns how long the server asked to wait before a retry.
    pub(super) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Unexpected { .. }
            | Self::Unverified { .. }
            | Self::BadToken
            | Self::Setup(_)
            | Self::NoRandomness => None,
        }
    }
}
