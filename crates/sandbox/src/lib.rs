//! Confines what a shell command may see, change and reach, enforced by the operating system.
//!
//! [`probe()`] finds out what the machine supports, on request or before the first command;
//! [`Sandbox::confine`] turns a command into the program that is really started, or refuses it.
//! This crate does not start the command itself, and never falls back to running it unconfined:
//! only the operator sets [`Mode::Off`].
//!
//! Three backends, best first, enforce one [`Policy`]:
//!
//! | | bubblewrap | namespaces | landlock |
//! | --- | --- | --- | --- |
//! | what builds the file view | `bwrap` | our helper | none: the real tree, with access rights |
//! | own processes, own network, own `/tmp`, own `/proc` | yes | yes | no |
//! | Landlock, system call filter, no capabilities, limits | yes | yes | yes |
//!
//! In each, our own binary runs first, started again with [`HELPER_COMMAND`]: the helper drops its
//! own rights, order by order, and only then starts the command. It can only restrict: it has no
//! rights that its caller lacks.

mod applied;
mod bubblewrap;
mod cgroup;
mod confine;
mod environment;
mod git;
mod git_config;
mod git_places;
mod git_settings;
mod guard;
mod helper;
mod layout;
mod mounts;
mod notes;
mod open_exact;
mod orders;
mod owned;
mod places;
mod policy;
mod probe;
mod promises;
mod protected;
mod rights;
mod stand_in;
mod sweep;
mod tidier;
mod watched;

pub use applied::{Applied, Backend};
pub use confine::{Command, CommandRefusal, Confined, Mode, Sandbox, death_signal, supervisor};
pub use git::{LinkedWorktree, linked_worktree};
pub use git_settings::named_by_settings;
pub use guard::Guard;
pub use helper::{GROUP_IS_GONE, run_helper};
pub use places::Places;
pub use policy::{Access, Limits, Network, Policy};
pub use probe::{Bubblewrap, Cgroups, Offer, probe};
pub use protected::{Protected, WhileAbsent, acts_in_any_folder, usual};
pub use sweep::{Measure, Neutralised};

/// The hidden first argument that makes our own binary act as the helper.
pub const HELPER_COMMAND: &str = "__sandbox";
