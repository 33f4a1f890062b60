//! Real servers, as programs and on the network, behaving well and badly.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod http;
mod pins;
mod server;
mod stdio;
mod support;
