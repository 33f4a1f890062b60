//! A client of a Sortie server: typed, small, and bounded in everything it waits for.
//!
//! It knows the API and nothing of who uses it. A refusal carries the problem as the server said it
//! ([`ClientError::Refused`]); whatever else goes wrong says whether asking again may help
//! ([`ClientError::may_pass`]). What makes something is sent with a key, so that asking again after a
//! broken connection makes nothing twice.

mod error;
mod events;
mod http;
mod sse;
mod token;

pub use error::ClientError;
pub use events::{EventStream, Heard};
pub use http::Client;
pub use token::Token;
