//! A child's own working tree of a git repository, and how its changes are applied.
//!
//! A worktree here is a separate folder with its own git folder that borrows the objects of
//! the repository (git's *alternates*), not one that `git worktree add` links into it. A linked
//! worktree shares refs, objects and configuration with the main checkout, so a child that may
//! commit could also damage them. With its own git folder, a child may do anything to it: the
//! repository is never writable for the child.
//!
//! # Which git folder is trusted
//! Three git folders take part, and each of our commands names the one it uses:
//! - the repository's: we read refs, its path and a few harmless settings from it, and add one branch
//!   and one pack at the end. None of our commands reads files through it, so nothing that its
//!   configuration names (filters, hooks, fsmonitor, drivers, includes) is ever run.
//! - the child's (`tree/.git`): written once, for the child. Never read again.
//! - our own (`git/`, beside the tree and out of the child's reach): used by every command that reads
//!   files or compares commits. Only we write its configuration; a program that a `.gitattributes`
//!   requests is not defined there. Line endings are converted as the repository configures; filters
//!   are not run, so git-lfs files that the run has not changed appear as their pointers.
//!
//! # Objects are verified, files are regular
//! A process that can write to the repository can also replace its objects, and git does not
//! compare the content of a tree or a file with its name when it reads it. So every diff and every
//! apply reads from a *sealed* git folder: `index-pack` copies the relevant objects there and
//! computes every name anew, and nothing is borrowed. A file of the repository that is a pipe would
//! block git: the usual files are checked before git is started, and a git process that makes no
//! progress is stopped after seconds.
//!
//! # Uncommitted changes
//! The child sees the same files as the user: changed and new files that are not ignored become
//! part of a commit that the worktree starts from. It is created with our own index; the user's
//! index, HEAD, stash and files are not touched. Files beyond the limits of [`SnapshotBounds`],
//! nested repositories and submodules are left out, and [`Worktree::uncommitted`] lists them.
//!
//! # What is collected
//! One commit on the branch, whatever the child committed in its own git folder, and never more
//! than files that are not ignored. [`Worktrees::apply`] merges it into the current files of the
//! main checkout: all of it or nothing, also when the process dies in between.
//!
//! A child that works in the main checkout may write to its git folder. So nothing there is
//! trusted: the reviewed commit is applied, not the current target of a branch; recovery after a
//! crash reads only our own folder; and files that tools obey ([`PROTECTED_NAMES`]) are not changed
//! at all.

mod apply;
mod collect;
mod create;
mod error;
mod git;
mod git_files;
mod install;
mod off_thread;
mod open_exact;
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
