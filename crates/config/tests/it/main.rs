//! Tests of the configuration at its boundary: files, variables and flags in, values and their
//! origins out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod edit;
mod errors;
mod files;
mod layers;
mod properties;
mod schema;
mod secrets;
mod support;
mod trust;
mod untrusted;
