//! A child's own working tree of a git repository, and the way its changes come back.
//!
//! A worktree here is a folder of its own with a git folder of its own that borrows the objects of
//! the repository (git's *alternates*), not one that `git worktree add` links into it. A linked
//! worktree shares refs, objects and configuration with the main checkout, so a child that may
//! commit could also damage them. With a git folder of its own, a child may do anything to it: the
//! repository is never writable for the child.
//!
//! # Which git folder is trusted
//! Three git folders take part, and each command of ours names the one it uses:
//! - the repository's: asked for refs, its place and a few harmless settings, and given one branch
//!   and one pack at the end. No command of ours looks at files through it, so nothing that its
//!   configuration names (filters, hooks, fsmonitor, drivers, includes) has an occasion to run.
//! - the child's (`tree/.git`): written once, for the child. Never read again.
//! - our own (`git/`, beside the tree and out of the child's reach): everything that looks at files
//!   or compares commits. Its configuration is ours alone; what a `.gitattributes` asks for finds no
//!   program. Line endings are converted as the repository says; filters are not run, so files kept
//!   by git-lfs that the run has not changed appear as their pointers.
//!
//! # Objects are checked, files are regular
//! A process that can write to the repository can also replace its objects, and git does not
//! compare the content of a tree or a file with its name when it reads it. So what is shown and
//! what is applied is read from a *sealed* git folder: the objects in question are copied there by
//! `index-pack`, which computes every name anew, and nothing is borrowed. A file of the repository
//! that is a pipe would block git: the usual ones are looked at before git is started, and a git
//! that makes no progress is stopped after seconds.
//!
//! # Uncommitted changes
//! The child sees what the person sees: changed and new files that are not ignored are made part of
//! a commit that the worktree starts from. It is made with an index of our own; the person's index,
//! HEAD, stash and files are not touched. Files past the bounds of [`SnapshotBounds`], nested
//! repositories and submodules stay out, and [`Worktree::uncommitted`] says which.
//!
//! # What comes back
//! One commit on the branch, whatever the child committed in its own git folder, and never more
//! than files that are not ignored. [`Worktrees::apply`] merges it into the present files of the
//! main checkout: all of it or nothing, also when the process dies in between.
//!
//! A child that works in the main checkout may write to its git folder. So nothing there is
//! believed: what is applied is the commit that was reviewed, not what a branch points to by now;
//! what has to be undone after a crash is known from our own folder alone; and files that tools
//! obey ([`PROTECTED_NAMES`]) are not changed at all.

mod apply;
mod collect;
mod create;
mod error;
mod git;
mod git_files;
mod held;
mod install;
mod off_thread;
mod own_git;
mod paths;
mod record;
mod refs;
mod relocate;
mod repository;
mod sealed;
mod snapshot;
mod stall;
mod summary;
mod sweep;
mod worktrees;

pub use apply::{Applied, How};
pub use error::WorktreeError;
pub use git::Git;
pub use paths::PROTECTED_NAMES;
pub use record::{Changes, Collected, GitDirs, Worktree};
pub use snapshot::{LeftOut, SnapshotBounds, Uncommitted, WhyLeftOut};
pub use summary::{ChangedFile, MAX_DIFF_BYTES, MAX_LISTED_FILES};
pub use sweep::Swept;
pub use worktrees::Worktrees;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, WorktreeError>;
