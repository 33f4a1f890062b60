//! Errors for clients, in the shape of RFC 9457, each with what to do next.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use sortie_core::ports::store::StoreError;
use sortie_core::time::Timestamp;
use sortie_runtime::{RefusalReason, RuntimeError};

/// The kind of an error, with its slug, status and title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    AmbiguousId,
    Conflict,
    TooLarge,
    UnsupportedMediaType,
    TooManyRequests,
    Misdirected,
    Unavailable,
    /// The client took too long.
    Timeout,
    /// The handler took too long.
    Overdue,
    Internal,
    IdempotencyMismatch,
    OutcomeUnknown,
    /// The first attempt of a repeated request has not ended.
    UnderWay,
    MethodNotAllowed,
    /// A quota of the tenant.
    QuotaReached,
}

impl Kind {
    const fn words(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::BadRequest => (
                "bad-request",
                StatusCode::BAD_REQUEST,
                "The request is invalid",
            ),
            Self::Unauthorized => (
                "unauthorized",
                StatusCode::UNAUTHORIZED,
                "A valid token is needed",
            ),
            Self::Forbidden => ("forbidden", StatusCode::FORBIDDEN, "Not allowed"),
            Self::NotFound => ("not-found", StatusCode::NOT_FOUND, "Not found"),
            Self::AmbiguousId => ("ambiguous-id", StatusCode::CONFLICT, "The id is ambiguous"),
            Self::Conflict => (
                "conflict",
                StatusCode::CONFLICT,
                "The present state does not allow this",
            ),
            Self::TooLarge => (
                "too-large",
                StatusCode::PAYLOAD_TOO_LARGE,
                "The request is too large",
            ),
            Self::UnsupportedMediaType => (
                "unsupported-media-type",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "The body must be JSON",
            ),
            Self::TooManyRequests => (
                "too-many-requests",
                StatusCode::TOO_MANY_REQUESTS,
                "Too many requests",
            ),
            Self::QuotaReached => (
                "quota-reached",
                StatusCode::TOO_MANY_REQUESTS,
                "A quota of the tenant is reached",
            ),
            Self::Misdirected => (
                "misdirected",
                StatusCode::MISDIRECTED_REQUEST,
                "The server does not have this name",
            ),
            Self::Unavailable => (
                "unavailable",
                StatusCode::SERVICE_UNAVAILABLE,
                "Temporarily unavailable",
            ),
            Self::Timeout => (
                "timeout",
                StatusCode::REQUEST_TIMEOUT,
                "The request took too long",
            ),
            Self::Overdue => (
                "timeout",
                StatusCode::SERVICE_UNAVAILABLE,
                "The handler takes too long",
            ),
            Self::Internal => (
                "internal",
                StatusCode::INTERNAL_SERVER_ERROR,
                "Internal error",
            ),
            Self::IdempotencyMismatch => (
                "idempotency-mismatch",
                StatusCode::UNPROCESSABLE_ENTITY,
                "The idempotency key belongs to another request",
            ),
            Self::OutcomeUnknown => (
                "outcome-unknown",
                StatusCode::CONFLICT,
                "The outcome of the first attempt is unknown",
            ),
            Self::UnderWay => (
                "under-way",
                StatusCode::CONFLICT,
                "The first attempt is still under way",
            ),
            Self::MethodNotAllowed => (
                "method-not-allowed",
                StatusCode::METHOD_NOT_ALLOWED,
                "The method is not allowed",
            ),
        }
    }
}

/// An error for the client. Boxed, because it is in every `Result`.
#[derive(Debug)]
pub(crate) struct Problem(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    detail: String,
    retry_after_seconds: Option<u64>,
    extra: Map<String, Value>,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            detail: detail.into(),
            retry_after_seconds: None,
            extra: Map::new(),
        }))
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(Kind::BadRequest, detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(Kind::Forbidden, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, detail)
    }

    /// Adds when to retry.
    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_seconds = Some(seconds.max(1));
        self
    }

    /// Adds a field to the problem document.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.extra.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Returns the last part of `type`.
    pub(crate) fn slug(&self) -> &'static str {
        self.0.kind.words().0
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (slug, status, title) = self.0.kind.words();
        let problem = sortie_protocol::Problem {
            kind: format!("{}{slug}", sortie_protocol::Problem::PREFIX),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: self.0.detail,
            instance: None,
            extra: self.0.extra,
        };
        // Serialising strings and numbers cannot fail.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (
            status,
            [(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/problem+json"),
            )],
            body,
        )
            .into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.0.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"sortie\""),
            );
        }
        response
    }
}

impl From<RuntimeError> for Problem {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Refused(refusal) => {
                if let RefusalReason::QuotaReached { resets_at } = refusal.reason {
                    return quota_reached(refusal.message, resets_at);
                }
                Self::conflict(refusal.message)
            }
            RuntimeError::Store(error) => error.into(),
            RuntimeError::Toolbox(error) => internal(&error),
        }
    }
}

/// Returns the refusal of a quota, with when it resets.
pub(crate) fn quota_reached(message: String, resets_at: Option<Timestamp>) -> Problem {
    Problem::new(Kind::QuotaReached, message)
        .with("resets_at", resets_at.map(Timestamp::to_rfc3339))
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::NotFound(_) => {
                Self::not_found(format!("{error}; GET /api/tasks lists the tasks"))
            }
            StoreError::Ambiguous { count, .. } => {
                Self::new(Kind::AmbiguousId, error.to_string()).with("count", *count)
            }
            StoreError::WrongState { status, .. } => {
                Self::conflict(error.to_string()).with("task_status", status.as_str())
            }
            StoreError::Fenced { .. } | StoreError::NotNext { .. } => {
                Self::conflict(error.to_string())
            }
            StoreError::Locked { .. } => Self::new(Kind::Unavailable, error.to_string()),
            StoreError::Damaged { .. } | StoreError::Failed { .. } => internal(&error),
        }
    }
}

impl From<crate::host::HostError> for Problem {
    fn from(error: crate::host::HostError) -> Self {
        internal(&error)
    }
}

impl From<crate::keys::KeyError> for Problem {
    fn from(error: crate::keys::KeyError) -> Self {
        use crate::keys::KeyError;
        match &error {
            KeyError::NoSuchKey(_) => Self::not_found(error.to_string()),
            KeyError::BadName | KeyError::TooMany | KeyError::TooManyOfTenant => {
                Self::bad(error.to_string())
            }
            KeyError::NameTaken(_) => Self::conflict(error.to_string()),
            KeyError::Random(_)
            | KeyError::Unsafe(_)
            | KeyError::Leaked { .. }
            | KeyError::Unreadable { .. }
            | KeyError::File { .. } => internal(&error),
        }
    }
}

/// Creates an internal error: the cause is logged and not sent to the client.
pub(crate) fn internal(error: &dyn std::error::Error) -> Problem {
    tracing::error!(error = %sortie_core::error::with_causes(error), "a request failed");
    Problem::new(
        Kind::Internal,
        "internal error; the log of the server has the cause. A retry may help",
    )
}
