//! Tests with real servers, as programs and on the network, with correct and faulty behaviour.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod http;
mod pins;
mod server;
mod stdio;
mod support;
