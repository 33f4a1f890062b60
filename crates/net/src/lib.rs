//! The one guard that every outbound request passes.
//!
//! What is checked is what is used. A URL is checked as text ([`Guard::check`]); a name is resolved
//! once, all its addresses are judged, and the connection goes to one of those and to no other; each
//! redirect is checked like a first request. Without a rule only the public internet is in reach, on
//! the ports of the web.

mod address;
mod body;
mod follow;
mod guard;
mod problem;
mod resolve;
mod rule;

pub use address::{Reach, reach};
pub use body::{Body, BodyLimits};
pub use follow::{MAX_REDIRECTS, Permits, Response};
pub use guard::{Allow, Checked, Guard, MAX_URL_BYTES};
pub use problem::{GuardError, NetError, Refused};
pub use resolve::{Resolver, SystemResolver};
pub use rule::{BadRule, HostRule};
pub use url::Url;
