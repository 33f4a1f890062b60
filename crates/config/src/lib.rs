//! Sortie's configuration: five layers, each key with the layer that set it.
//!
//! Defaults, the user's file, the project's file, the environment and flags, each stronger than the
//! one before. What is known, which type and range it has and what is secret is said once, by the
//! types in [`Config`]; the JSON schema made from them drives every check.
//!
//! Three rules hold:
//! 1. A project file of a folder that is not trusted can only narrow ([`TrustStore`], `restrict.rs`).
//! 2. No secret is in anything that can be printed: [`Secret`] prints `[redacted]`, and errors and
//!    warnings never quote text that they did not understand.
//! 3. Nothing here reads the environment, the clock or the network: [`Sources`] are values.

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
pub use trust::{Revoked, TrustError, TrustStore};
