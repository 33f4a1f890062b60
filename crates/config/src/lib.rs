//! Sortie's configuration: five layers, and for each key the layer that set it.
//!
//! The layers are defaults, the user file, the project file, the environment and flags; each takes
//! precedence over the one before. The types in [`Config`] are the only definition of keys, types,
//! ranges and secrets; the JSON schema generated from them drives every check.
//!
//! Three invariants:
//! 1. The project file of an untrusted folder can only restrict ([`TrustStore`], `restrict.rs`).
//! 2. No printed output contains a secret: [`Secret`] prints `[redacted]`, and errors and warnings
//!    never quote text that could not be parsed.
//! 3. This crate does not read the environment, the clock or the network: [`Sources`] are values.

mod authority;
mod case;
mod check;
mod config;
mod edit;
mod environment;
mod file;
mod flag;
mod key;
mod load;
mod origin;
#[cfg(test)]
mod page;
mod problem;
mod restrict;
mod schema;
mod serving;
mod shape;
mod show;
mod trust;

pub use authority::*;
pub use config::*;
pub use edit::{EditError, set, unset};
pub use file::{MAX_FILE_BYTES, PROJECT_FILE, find_project_file, project_folder};
pub use flag::Flag;
pub use key::KeyPath;
pub use load::{Loaded, Sources, load};
pub use origin::Origin;
pub use problem::{
    ConfigError, Expected, Fault, Found, MAX_PROBLEMS, MAX_WARNINGS, Problem, Restriction,
    UrlFault, Warning,
};
pub use schema::schema;
pub use serving::*;
pub use show::{ShownKey, show};
pub use sortie_base::secret::Secret;
pub use sortie_core::config::*;
pub use trust::{Revoked, TrustError, TrustStore};
