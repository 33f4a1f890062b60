//! The models that this build of Sortie supports.
//!
//! Vendors are data (`vendors.toml`): a wire format of `sortie_wire`, an address, a key. One HTTP
//! client sends all requests; one [`Governor`] decides when each request may be sent, so that a
//! provider's rate limit causes a wait and not a failure. `script` replies from a file, so that
//! tests can define exactly what a model does; `offline` is a small set of rules that surveys a
//! folder with real tools and no network; `replay` plays back a recording. [`Directory`] finds all
//! of them by name.

mod directory;
mod discover;
mod gate;
mod governor;
mod http;
mod offline;
mod price;
mod record;
mod script;
mod text;
mod tool_mode;
mod vendor;
mod warm;

pub use directory::{Directory, DirectorySettings, KnownModel, VendorListing};
pub use discover::{
    DiscoveredServer, Endpoint, FoundModel, Suggestion, USUAL_TIMEOUT, discover, suggest_default,
    usual_endpoints,
};
pub use gate::{GateState, Governor};
pub use governor::Limits;
pub use offline::{OFFLINE_MODEL, OfflineModel, decide};
pub use price::{Price, prices_as_of};
pub use record::{RecordModel, ReplayModel};
pub use script::{Script, ScriptError, ScriptModel};
pub use sortie_base::secret::Secret;
pub use sortie_core::ports::model::ToolSetting;
pub use vendor::{Environment, vendor_names};
