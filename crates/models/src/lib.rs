//! The models this build of Sortie can talk to.
//!
//! Vendors are data (`vendors.toml`): a wire format of `sortie_wire`, an address, a key. One client
//! asks them all; one [`Governor`] decides when each question may leave, so that a provider's limit
//! is a wait and not a failure. `script` answers from a file, so that tests can say exactly what a
//! model does; `offline` is a small set of rules that surveys a folder with real tools and no
//! network; `replay` plays back what was recorded. [`Directory`] finds all of them by name.

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
    Endpoint, Found, FoundModel, Suggestion, USUAL_TIMEOUT, discover, suggest_default,
    usual_endpoints,
};
pub use gate::{GateSnapshot, Governor};
pub use governor::Limits;
pub use offline::{OFFLINE_MODEL, OfflineModel, decide};
pub use price::{Price, prices_as_of};
pub use record::{RecordModel, ReplayModel};
pub use script::{Script, ScriptError, ScriptModel};
pub use sortie_base::secret::Secret;
pub use sortie_core::ports::model::ToolSetting;
pub use vendor::{Environment, ModelSettings, ProviderSettings, vendor_names};
