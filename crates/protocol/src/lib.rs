//! What the server says and hears: every JSON shape of the API, and how it is made from `core`.
//!
//! To make a type serialisable here is to promise it to clients: the page, the command line, and
//! programs of others. Conversions are written by hand, so that a change inside is no change of the
//! promise. Times are RFC 3339 in UTC; what is unknown is null, never zero.

mod audit;
mod bodies;
mod catalogue;
#[cfg(feature = "client")]
pub mod client;
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

pub use sortie_core::{
    Balance, Mode, Notification, NotificationKind, ReplyKind, ReplyView, RequestView as Request,
};

/// A time as every interface shows it.
fn time(at: sortie_core::Timestamp) -> String {
    at.to_rfc3339()
}

/// The same for one that may be missing.
fn time_of(at: Option<sortie_core::Timestamp>) -> Option<String> {
    at.map(sortie_core::Timestamp::to_rfc3339)
}

#[cfg(test)]
mod tests;
