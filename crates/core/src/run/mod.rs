//! A run: what it is admitted with, its states, its record, its outcome and its worktree.

mod context;
mod details;
mod isolation;
mod outcome;
mod record;
mod spec;
mod status;

pub use context::*;
pub use details::*;
pub use isolation::*;
pub use outcome::*;
pub use record::*;
pub use spec::*;
pub use status::*;
