//! Parts that the benchmark and the load generator share.

pub mod http;
pub mod process;
pub mod server;
