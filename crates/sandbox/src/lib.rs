//! What a shell command of a child may see, change and reach, held by the operating system.
//!
//! [`probe()`] asks the machine once what it can hold; [`Sandbox::confine`] turns a program to
//! start into the one that is really started, or refuses. Nothing here starts the command itself,
//! and nothing falls back to running it bare: [`Mode::Off`] is the operator's own word.
//!
//! Three ways, best first, one [`Policy`]:
//!
//! | | bubblewrap | namespaces | landlock |
//! | --- | --- | --- | --- |
//! | who builds the view of the files | `bwrap` | our helper | none: the real tree, with access rights |
//! | own processes, own network, own `/tmp`, own `/proc` | yes | yes | no |
//! | Landlock, system call filter, no capabilities, limits | yes | yes | yes |
//!
//! In each, the first process that the command shares its fate with is our own binary, started
//! again with [`HELPER_COMMAND`]: it takes rights away from itself, one order after the other, and
//! only then starts the command. It can only narrow: it has no rights that its caller lacks.

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
mod held;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(not(target_os = "linux"))]
#[path = "helper_elsewhere.rs"]
mod helper;
mod layout;
mod mounts;
mod notes;
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
pub use confine::{Command, Confined, Mode, Refusal, Sandbox, death_signal, supervisor};
pub use git::{LinkedWorktree, linked_worktree};
pub use git_settings::named_by_settings;
pub use guard::Guard;
pub use helper::{GROUP_IS_GONE, run_helper};
pub use places::Places;
pub use policy::{Access, Limits, Network, Policy};
pub use probe::{Bubblewrap, Cgroups, Offer, probe};
pub use protected::{Protected, WhileAbsent, acts_in_any_folder, usual};
pub use sweep::{Measure, Neutralised};

/// The hidden first argument with which our own binary becomes the helper.
pub const HELPER_COMMAND: &str = "__sandbox";
