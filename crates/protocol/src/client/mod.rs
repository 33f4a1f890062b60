//! The HTTP client of a Sortie server: typed, small, and bounded in everything that it waits for.
//!
//! A refusal carries the server's problem ([`ClientError::Refused`]); every other error tells whether
//! a retry may help ([`ClientError::is_transient`]). Requests that create something carry an
//! idempotency key, so a retry after a broken connection creates nothing twice.

mod error;
mod events;
mod http;

pub use error::ClientError;
pub use events::{EventStream, StreamItem};
pub use http::Client;
