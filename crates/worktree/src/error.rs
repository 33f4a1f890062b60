//! Why something about a worktree was not done.

use std::io;
use std::path::{Path, PathBuf};

/// Why something about a worktree was not done.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// There is nothing to make a worktree of.
    #[error(
        "isolation: worktree needs a git repository, and {} is not in the working tree of one ({said})",
        workspace.display()
    )]
    NotARepository {
        /// The folder that was given.
        workspace: PathBuf,
        /// What git said about it.
        said: String,
    },
    /// A link took the place of a folder, or of one above it.
    #[error(
        "{} is not the folder that it was: a component of its path is a link or not a folder; links are not followed here",
        .0.display()
    )]
    Swapped(PathBuf),
    /// The text cannot be the name of a folder and of a branch.
    #[error("{0:?} cannot name a worktree: 1 to 64 letters, digits and hyphens are expected")]
    BadRunId(String),
    /// Only branches that Sortie made are touched.
    #[error(
        "{0:?} is not a branch of Sortie's: sortie/ and letters, digits and hyphens are expected"
    )]
    BadBranch(String),
    /// The text does not name a commit.
    #[error("{0:?} is not the full name of a commit")]
    BadCommit(String),
    /// The branch is gone.
    #[error("there is no branch {0}; it may have been applied and removed already")]
    NoBranch(String),
    /// Another process moved the branch, so it is left as it is.
    #[error("another process changed the branch {branch}; the child's files are kept in {}", kept.display())]
    BranchMoved {
        /// The branch.
        branch: String,
        /// Where the child's files are.
        kept: PathBuf,
    },
    /// The branch no longer has what was reviewed.
    #[error(
        "the branch {branch} was moved: it should be at {expected} and is at {now}. Nothing was done; look at what moved it, and put it back with: git branch -f {branch} {expected}"
    )]
    BranchElsewhere {
        /// The branch.
        branch: String,
        /// The commit that was reviewed.
        expected: String,
        /// Where the branch is.
        now: String,
    },
    /// The git folder of a checkout claims files elsewhere.
    #[error("the git folder of {} says that its files are in {}; nothing is done there", given.display(), root.display())]
    RootElsewhere {
        /// The checkout.
        given: PathBuf,
        /// Where its git folder says that the files are.
        root: PathBuf,
    },
    /// A checkout leads to a git folder that knows nothing of it.
    #[error(
        "{} leads to the git folder {}, which is not its own and does not name it; nothing is done with it. If it is right, say so there: git config core.worktree {}",
        root.display(), git_dir.display(), root.display()
    )]
    NotItsOwn {
        /// The checkout.
        root: PathBuf,
        /// Where it leads.
        git_dir: PathBuf,
    },
    /// A plan of ours would write where no plan may.
    #[error("{} names paths outside the checkout or in a git folder; it was not followed", .0.display())]
    UnsafePlan(PathBuf),
    /// A branch that is checked out is not removed.
    #[error("the branch {0} is checked out; switch to another branch first")]
    CheckedOut(String),
    /// The run has no worktree.
    #[error("there is no worktree of the run {0}")]
    Unknown(String),
    /// The folder for worktrees must not be part of what they are made of.
    #[error("the folder for worktrees, {}, lies inside the repository {}; choose one outside", folder.display(), root.display())]
    FolderInside {
        /// The folder for worktrees.
        folder: PathBuf,
        /// The repository.
        root: PathBuf,
    },
    /// A path that cannot be written down.
    #[error("{} is not a path that can be written down: it is not UTF-8 or has a line break", .0.display())]
    NotText(PathBuf),
    /// git is missing.
    #[error("git could not be started as {}; install it or name its place", program.display())]
    NoGit {
        /// What was started.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// git said no.
    #[error("git {what} failed: {said}")]
    Git {
        /// The command.
        what: String,
        /// Its own words.
        said: String,
    },
    /// git took too long.
    #[error("git {what} was stopped after {seconds} s")]
    Slow {
        /// The command.
        what: String,
        /// The bound.
        seconds: u64,
    },
    /// git waits for something that never comes.
    #[error(
        "git {what} made no progress for {seconds} s and was stopped. It waits for a file that is not a regular one, such as a pipe in place of .git/HEAD, of a file that .git/config includes, or of a .gitignore; find it with `find . -type p`. If there is none and the folder is on a network file system, try again."
    )]
    Stuck {
        /// The command.
        what: String,
        /// How long nothing happened.
        seconds: u64,
    },
    /// A file of a repository is not what git expects.
    #[error("{} is {what}; git is not run on it. Remove it or put the right file there", path.display())]
    NotGits {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// Objects of a repository do not have the content that their names are the hashes of.
    #[error(
        "the repository was tampered with or is damaged: the object {object} is missing or does not have the content that its name stands for. Nothing was done; look for more with: git fsck"
    )]
    Tampered {
        /// The first of them.
        object: String,
    },
    /// The process ends.
    #[error("the work on the worktree was stopped")]
    Stopped,
    /// git said too much.
    #[error("git {what} was stopped: it wrote more than {bytes} bytes")]
    Loud {
        /// The command.
        what: String,
        /// The bound.
        bytes: usize,
    },
    /// A file could not be read or written.
    #[error("could not {what} {}", path.display())]
    File {
        /// What was attempted.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of ours does not say what it should.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// How.
        source: serde_json::Error,
    },
    /// git answered in a way that is not understood.
    #[error("git {what} gave an answer that is not understood")]
    Strange {
        /// The command.
        what: String,
    },
}

/// Gives failures of files their place.
pub(crate) trait At<T> {
    /// Says what was attempted, and where.
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
