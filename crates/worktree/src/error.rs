//! Errors of worktree operations.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a worktree operation failed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// The workspace is not in a git repository.
    #[error(
        "isolation: worktree needs a git repository, and {} is not in the working tree of one ({message})",
        workspace.display()
    )]
    NotARepository {
        /// The workspace that was passed.
        workspace: PathBuf,
        /// The error message of git.
        message: String,
    },
    /// A link replaced a folder, or one above it.
    #[error(
        "{} was replaced: a component of its path is a link or not a folder; links are not followed",
        .0.display()
    )]
    Swapped(PathBuf),
    /// The text cannot name a folder and a branch.
    #[error("{0:?} is not a valid worktree name; expected 1 to 64 letters, digits and hyphens")]
    BadRunId(String),
    /// The branch was not created by Sortie, so it is not changed.
    #[error("{0:?} is not a branch of Sortie; expected sortie/ and letters, digits and hyphens")]
    BadBranch(String),
    /// The text is not a full commit id.
    #[error("{0:?} is not a full commit id")]
    BadCommit(String),
    /// The branch does not exist.
    #[error("there is no branch {0}; it may have been applied and removed already")]
    NoBranch(String),
    /// Another process moved the branch, so it is not changed.
    #[error("another process changed the branch {branch}; the child's files are kept in {}", kept.display())]
    BranchMoved {
        /// The name of the branch.
        branch: String,
        /// The folder that keeps the child's files.
        kept: PathBuf,
    },
    /// The branch no longer points to the reviewed commit.
    #[error(
        "the branch {branch} was moved: it should be at {expected} and is at {now}. Nothing was changed; find out what moved it, and restore it with: git branch -f {branch} {expected}"
    )]
    BranchElsewhere {
        /// The name of the branch.
        branch: String,
        /// The commit that was reviewed.
        expected: String,
        /// The commit of the branch now.
        now: String,
    },
    /// The git folder of a checkout names another folder as its working tree.
    #[error("the git folder of {} names {} as its working tree; nothing was changed there", given.display(), root.display())]
    RootElsewhere {
        /// The top of the checkout.
        given: PathBuf,
        /// The working tree that the git folder names.
        root: PathBuf,
    },
    /// A checkout points to a git folder that does not point back.
    #[error(
        "{} leads to the git folder {}, which does not name it as its working tree; nothing was changed. If it is correct, set it there: git config core.worktree {}",
        root.display(), git_dir.display(), root.display()
    )]
    NotItsOwn {
        /// The top of the checkout.
        root: PathBuf,
        /// The git folder that it points to.
        git_dir: PathBuf,
    },
    /// A recovery plan would write to a forbidden path.
    #[error("{} names paths outside the checkout or in a git folder; it was not followed", .0.display())]
    UnsafePlan(PathBuf),
    /// A branch that is checked out is not removed.
    #[error("the branch {0} is checked out; switch to another branch first")]
    CheckedOut(String),
    #[error("there is no worktree of the run {0}")]
    Unknown(String),
    /// The folder for worktrees must not lie in the repository.
    #[error("the folder for worktrees, {}, lies inside the repository {}; choose one outside", folder.display(), root.display())]
    FolderInside {
        /// The folder for worktrees.
        folder: PathBuf,
        /// The top of the repository.
        root: PathBuf,
    },
    /// The path cannot be stored.
    #[error("{} is not a usable path: it is not UTF-8 or contains a line break", .0.display())]
    NotText(PathBuf),
    /// Git could not be started.
    #[error("git could not be started as {}; install git or correct its path", program.display())]
    NoGit {
        /// The program that could not be started.
        program: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A git command failed.
    #[error("git {what} failed: {message}")]
    Git {
        /// The git command that failed.
        what: String,
        /// The error message of git.
        message: String,
    },
    /// A git command exceeded its time limit.
    #[error("git {what} was stopped after {seconds} s")]
    Slow {
        /// The git command that was stopped.
        what: String,
        /// The time limit of the command.
        seconds: u64,
    },
    /// A git command made no progress.
    #[error(
        "git {what} made no progress for {seconds} s and was stopped. It waits for a file that is not a regular one, such as a pipe in place of .git/HEAD, of a file that .git/config includes, or of a .gitignore; find it with `find . -type p`. If there is none and the folder is on a network file system, try again."
    )]
    Stuck {
        /// The git command that was stopped.
        what: String,
        /// The time without progress.
        seconds: u64,
    },
    /// A file of a repository is not of the type or size that git expects.
    #[error("{} is {what}; git is not run on it. Remove it or put the right file there", path.display())]
    NotGits {
        /// The path of the file.
        path: PathBuf,
        /// A description of what it is instead.
        what: String,
    },
    /// Objects of a repository do not match their hashes.
    #[error(
        "the repository was tampered with or is damaged: the object {object} is missing or does not match its hash. Nothing was changed; check the repository with: git fsck"
    )]
    Tampered {
        /// The first of these objects.
        object: String,
    },
    /// The process is shutting down.
    #[error("the operation on the worktree was cancelled")]
    Stopped,
    /// A git command exceeded the output limit.
    #[error("git {what} was stopped: it wrote more than {bytes} bytes")]
    Loud {
        /// The git command that was stopped.
        what: String,
        /// The limit of the output.
        bytes: usize,
    },
    /// A file could not be read or written.
    #[error("could not {what} {}", path.display())]
    File {
        /// The action that was attempted.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file of Sortie's own could not be parsed.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The path of the damaged file.
        path: PathBuf,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// The output of git could not be parsed.
    #[error("the output of git {what} cannot be parsed")]
    Strange {
        /// The git command whose output is invalid.
        what: String,
    },
}

/// Adds the action and the path to I/O errors.
pub(crate) trait At<T> {
    /// Adds the attempted action and the path to an error.
    fn at(self, what: &'static str, path: &Path) -> Result<T, WorktreeError>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, what: &'static str, path: &Path) -> Result<T, WorktreeError> {
        self.map_err(|error| WorktreeError::File {
            what,
            path: path.to_owned(),
            source: error.into(),
        })
    }
}
