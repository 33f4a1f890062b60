//! The models, seen through the port that the runtime uses.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod directory;
mod offline;
mod player;
mod record;
mod script;
mod server;
mod support;
mod transport;
mod vendors;
