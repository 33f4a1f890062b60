//! The tools that look at the web.
//!
//! Every request passes the guard of `sortie-net` and the run's own permits, at the first URL and at
//! each redirect. What comes back is data: bounded while it streams, without what a reader could not
//! see, and framed by lines that it cannot forge.

mod aside;
mod cache;
mod charset;
mod clean;
mod failure;
mod fetch;
mod frame;
mod html;
mod input;
mod page;
mod provider;
mod results;
mod search;

pub use fetch::WebFetch;
pub use provider::{PROVIDERS, Provider};
pub use search::{BadSearch, SearchSettings, WebSearch};
