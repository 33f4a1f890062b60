//! The tools `web_fetch` and `web_search`.
//!
//! Every request passes the [`Guard`](crate::Guard) and the permits of the run, for the first URL and for
//! each redirect. The content is data: limited while it streams, without hidden characters, and framed by
//! lines that it cannot forge.

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
