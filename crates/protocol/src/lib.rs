//! The JSON shapes of the API, their conversion from `core`, and the HTTP client of a server.
//!
//! A type that is serialisable here is a promise to clients: the page, the command line and other
//! programs. Conversions are written by hand, so that a change of an internal type does not change
//! the API. Live events and requests are the exception: `core` defines them once for every channel.
//! Times are RFC 3339 in UTC; an unknown value is null, never zero.

mod audit;
mod bodies;
mod catalogue;
#[cfg(feature = "client")]
pub mod client;
mod hooks;
mod live;
mod problem;
mod proof;
mod request;
mod server;
mod session;
mod task;
mod timeline;
mod transcript;
mod usage;

pub use audit::{AuditLine, AuditVerdict, Ruling};
pub use bodies::*;
pub use catalogue::*;
pub use hooks::*;
pub use live::*;
pub use problem::Problem;
pub use proof::{MAX_NONCE_CHARS, Proof};
pub use request::ReplyNoted;
pub use server::*;
pub use session::*;
pub use task::*;
pub use timeline::*;
pub use transcript::{CallsOfChildren, TranscriptCall, TranscriptItem, TranscriptResult};
pub use usage::*;

pub use sortie_core::budget::Balance;
pub use sortie_core::notification::{Notification, NotificationKind};
pub use sortie_core::policy::Mode;
pub use sortie_core::report::DelegationReport;
pub use sortie_core::request_view::{ReplyKind, ReplyView, RequestView as Request};

/// Formats a time as every interface shows it.
fn time(at: sortie_core::time::Timestamp) -> String {
    at.to_rfc3339()
}

/// Formats an optional time.
fn time_of(at: Option<sortie_core::time::Timestamp>) -> Option<String> {
    at.map(sortie_core::time::Timestamp::to_rfc3339)
}

#[cfg(test)]
mod tests;
