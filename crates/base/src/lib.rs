//! Primitives that all crates share.
//!
//! Each rule exists once; `cargo xtask tidy` rejects a second copy. This crate depends on no other crate of the
//! workspace, so any of them may use it.

pub mod atomic_file;
pub mod beneath;
pub mod diff;
pub mod exact_folder;
pub mod glob_nesting;
pub mod hidden;
#[cfg(feature = "http")]
pub mod http;
pub mod lifeline;
pub mod nearest;
pub mod private_files;
pub mod process;
pub mod redact;
pub mod regular_file;
pub mod retry_after;
pub mod secret;
pub mod sse;
#[cfg(feature = "tls")]
pub mod tls;
pub mod token_bucket;
pub mod truncate;
pub mod wildcard;
