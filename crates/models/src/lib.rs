//! The models this build of Sortie can talk to.
//!
//! `script` answers from a file, so that tests can say exactly what a model does. `offline` is a
//! small set of rules that surveys a folder with real tools and no network. Neither pretends to be
//! more than it is. [`Directory`] finds both by name.

mod directory;
mod offline;
mod script;
mod text;

pub use directory::{Directory, DirectorySettings};
pub use offline::{OFFLINE_MODEL, OfflineModel, decide};
pub use script::{Script, ScriptError, ScriptModel};
