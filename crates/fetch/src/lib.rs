//! The guard of outbound requests, and the web tools behind it.
//!
//! [`Guard`] connects to what it has checked. It checks a URL as text ([`Guard::check`]), resolves the name
//! once, judges every address, and connects to one of these addresses; it checks each redirect like a first
//! request. Without a rule only the public internet is reachable, on the ports of the web.
//!
//! The feature `tools` adds [`WebFetch`] and [`WebSearch`], which read HTML.

mod address;
mod body;
mod follow;
mod guard;
mod problem;
mod resolve;
mod rule;
#[cfg(feature = "tools")]
mod tools;

pub use address::{Reach, reach};
pub use body::{Body, BodyLimits};
pub use follow::{MAX_REDIRECTS, Permits, Response};
pub use guard::{Allow, Checked, Guard, MAX_URL_BYTES};
pub use problem::{GuardError, NetError, Refused};
pub use resolve::{Resolver, SystemResolver};
pub use rule::{BadRule, HostRule};
#[cfg(feature = "tools")]
pub use tools::{BadSearch, PROVIDERS, Provider, SearchSettings, WebFetch, WebSearch};
pub use url::Url;
