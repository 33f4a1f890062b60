//! The branches that Sortie creates in the user's repository.

use crate::git::Git;
use crate::repository::Repository;
use crate::{Result, WorktreeError};

/// The prefix of our branch names.
const BRANCH_PREFIX: &str = "sortie/";
/// The longest run id.
const MAX_RUN_ID_CHARS: usize = 64;
/// The number of characters at the beginning and at the end of a long run id that a branch name
/// keeps: people type the beginning, and the end differs between runs of one moment.
const KEPT_CHARS: usize = 8;

/// Checks that a run id can name a folder and a branch.
pub(crate) fn check_run_id(run: &str) -> Result<()> {
    let is_plain = !run.is_empty() && run.len() <= MAX_RUN_ID_CHARS && is_plain(run);
    is_plain
        .then_some(())
        .ok_or_else(|| WorktreeError::BadRunId(run.to_owned()))
}

/// Returns the branch of a run.
pub(crate) fn branch_of(run: &str) -> String {
    if run.len() <= 2 * KEPT_CHARS + 1 {
        return format!("{BRANCH_PREFIX}{run}");
    }
    let (first, last) = (&run[..KEPT_CHARS], &run[run.len() - KEPT_CHARS..]);
    format!("{BRANCH_PREFIX}{first}-{last}")
}

/// Returns the full ref name of a branch, if it is one of ours.
fn full_name(branch: &str) -> Result<String> {
    branch
        .strip_prefix(BRANCH_PREFIX)
        .filter(|rest| !rest.is_empty() && rest.len() <= MAX_RUN_ID_CHARS && is_plain(rest))
        .map(|_| format!("refs/heads/{branch}"))
        .ok_or_else(|| WorktreeError::BadBranch(branch.to_owned()))
}

/// Checks that a text is the full name of a commit, so that git parses it neither as an option nor
/// as an expression.
pub(crate) fn check_commit(text: &str) -> Result<()> {
    let is_name = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_name
        .then_some(())
        .ok_or_else(|| WorktreeError::BadCommit(text.to_owned()))
}

fn is_plain(text: &str) -> bool {
    !text.starts_with('-') && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// Returns the commit of a branch, if the branch exists.
pub(crate) async fn commit_of(
    git: &Git,
    repository: &Repository,
    branch: &str,
) -> Result<Option<String>> {
    let name = format!("{}^{{commit}}", full_name(branch)?);
    let call = git.on(&repository.git_dir);
    let answer = call
        .args(["rev-parse", "--verify", "--quiet", &name])
        .answer()
        .await?;
    let text = String::from_utf8_lossy(&answer.output).trim().to_owned();
    Ok((answer.code == 0).then_some(text))
}

/// Checks that a branch is still at the commit that was reviewed.
pub(crate) async fn check_at(
    git: &Git,
    repository: &Repository,
    branch: &str,
    expected: &str,
) -> Result<()> {
    check_commit(expected)?;
    let now = commit_of(git, repository, branch).await?;
    let now = now.ok_or_else(|| WorktreeError::NoBranch(branch.to_owned()))?;
    if now == expected {
        return Ok(());
    }
    Err(WorktreeError::BranchElsewhere {
        branch: branch.to_owned(),
        expected: expected.to_owned(),
        now,
    })
}

/// Moves or creates a branch. With `expected`, only if it is at that commit.
pub(crate) async fn set(
    git: &Git,
    repository: &Repository,
    branch: &str,
    commit: &str,
    expected: Option<&str>,
) -> Result<()> {
    let name = full_name(branch)?;
    let call = git.on(&repository.git_dir);
    let call = call.args(["update-ref", "-m", "sortie", &name, commit]);
    call.args(expected).output().await.map(drop)
}

/// Removes a branch that is at this commit and is not checked out anywhere.
pub(crate) async fn remove(
    git: &Git,
    repository: &Repository,
    branch: &str,
    commit: &str,
) -> Result<()> {
    let name = full_name(branch)?;
    if is_checked_out(git, repository, &name).await? {
        return Err(WorktreeError::CheckedOut(branch.to_owned()));
    }
    let call = git.on(&repository.git_dir);
    call.args(["update-ref", "-d", &name, commit])
        .output()
        .await
        .map(drop)
}

async fn is_checked_out(git: &Git, repository: &Repository, name: &str) -> Result<bool> {
    let call = git.on(&repository.git_dir);
    let listing = call
        .args(["worktree", "list", "--porcelain", "-z"])
        .output()
        .await?;
    let wanted = format!("branch {name}");
    Ok(listing
        .split(|byte| *byte == 0)
        .any(|line| line == wanted.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_of_runs_started_together_differ() {
        let check = |run: &str, expected: &str| assert_eq!(branch_of(run), expected);
        check("0199a1b2", "sortie/0199a1b2");
        check(
            "0199a1b2-3c4d-7e5f-8a9b-0c1d2e3f4a5b",
            "sortie/0199a1b2-2e3f4a5b",
        );
    }

    #[test]
    fn only_plain_names_pass() {
        for good in ["a", "0199a1b2-3c4d"] {
            assert!(check_run_id(good).is_ok(), "{good}");
            assert!(full_name(&format!("sortie/{good}")).is_ok(), "{good}");
        }
        for bad in ["", "..", "a/b", "-x", "--output=x", "a b", "a\n", "a^{}"] {
            assert!(check_run_id(bad).is_err(), "{bad}");
            assert!(full_name(&format!("sortie/{bad}")).is_err(), "{bad}");
        }
        for bad in ["main", "refs/heads/main", "sortie"] {
            assert!(full_name(bad).is_err(), "{bad}");
        }
        for bad in ["HEAD", "--all", "abc", &"g".repeat(40)] {
            assert!(check_commit(bad).is_err(), "{bad}");
        }
    }
}
