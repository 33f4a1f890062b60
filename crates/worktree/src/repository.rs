//! Finds the repository that a folder belongs to, and asks it the little we need to know.

use std::path::{Path, PathBuf};

use crate::error::At as _;
use crate::git::Git;
use crate::{Result, WorktreeError};

/// Settings that decide how files look, and run nothing. All others of a repository are ignored.
const SETTINGS: &str = "^core\\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode\
                        |sparsecheckout|sparsecheckoutcone)$";
/// The longest value of such a setting that makes sense.
const MAX_SETTING_CHARS: usize = 16;

/// Somebody's repository.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    /// The top of its working tree.
    pub(crate) root: PathBuf,
    /// Its git folder: HEAD and the index.
    pub(crate) git_dir: PathBuf,
    /// What its linked worktrees share: objects, refs and configuration.
    pub(crate) common_dir: PathBuf,
    /// `sha1` or `sha256`.
    pub(crate) object_format: String,
    /// The commit that is checked out, if there is one.
    pub(crate) head: Option<String>,
    /// The harmless settings, as names and values.
    pub(crate) settings: Vec<(String, String)>,
}

impl Repository {
    /// Finds the repository whose working tree a folder belongs to.
    pub(crate) async fn find(git: &Git, workspace: &Path) -> Result<Self> {
        if !workspace.is_dir() {
            return Err(WorktreeError::NotARepository {
                workspace: workspace.to_owned(),
                said: "there is no such folder".to_owned(),
            });
        }
        let asked = git.discovering(workspace).args([
            "rev-parse",
            "--path-format=absolute",
            "--show-toplevel",
            "--absolute-git-dir",
            "--git-common-dir",
            "--show-object-format",
        ]);
        let answer = asked.answer().await?;
        if answer.code != 0 {
            return Err(WorktreeError::NotARepository {
                workspace: workspace.to_owned(),
                said: answer.complaint().to_owned(),
            });
        }
        let unclear = || WorktreeError::NotText(workspace.to_owned());
        let text = String::from_utf8(answer.output).map_err(|_| unclear())?;
        let lines: Vec<&str> = text.lines().collect();
        // A line break in a path would make more lines.
        let [root, git_dir, common_dir, object_format] = lines[..] else {
            return Err(unclear());
        };
        let git_dir = PathBuf::from(git_dir);
        Ok(Self {
            root: root.into(),
            common_dir: common_dir.into(),
            object_format: object_format.to_owned(),
            head: head(git, &git_dir).await?,
            settings: settings(git, &git_dir).await?,
            git_dir,
        })
    }

    /// Where its objects are.
    pub(crate) fn objects(&self) -> PathBuf {
        self.common_dir.join("objects")
    }

    /// Where its objects are, with the places that it borrows some from.
    pub(crate) fn all_objects(&self) -> Vec<PathBuf> {
        let own = self.objects();
        // Without such a file nothing is borrowed.
        let listed = std::fs::read_to_string(own.join("info/alternates")).unwrap_or_default();
        let borrowed = listed.lines().filter(|line| !line.starts_with('#'));
        let borrowed: Vec<PathBuf> = borrowed.map(|line| own.join(line)).collect();
        std::iter::once(own).chain(borrowed).collect()
    }

    /// The name that stands for no commit.
    pub(crate) fn no_commit(&self) -> String {
        let digits = if self.object_format == "sha256" {
            64
        } else {
            40
        };
        "0".repeat(digits)
    }

    /// Whether only a part of the files is checked out.
    pub(crate) fn is_sparse(&self) -> bool {
        self.settings
            .iter()
            .any(|(name, value)| name == "core.sparsecheckout" && value == "true")
    }

    /// The place of a folder below the root.
    pub(crate) fn prefix_of(&self, workspace: &Path) -> Result<PathBuf> {
        let real = std::fs::canonicalize(workspace).at("find", workspace)?;
        let prefix = real.strip_prefix(&self.root).map(Path::to_owned);
        prefix.map_err(|_| WorktreeError::NotARepository {
            workspace: workspace.to_owned(),
            said: format!("its working tree is {}", self.root.display()),
        })
    }
}

async fn head(git: &Git, git_dir: &Path) -> Result<Option<String>> {
    let call = git.on(git_dir);
    let answer = call
        .args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
        .answer()
        .await?;
    let text = String::from_utf8_lossy(&answer.output).trim().to_owned();
    Ok((answer.code == 0).then_some(text))
}

async fn settings(git: &Git, git_dir: &Path) -> Result<Vec<(String, String)>> {
    let call = git.on(git_dir);
    let answer = call
        .args(["config", "-z", "--get-regexp", SETTINGS])
        .answer()
        .await?;
    let text = String::from_utf8_lossy(&answer.output).into_owned();
    let pairs = text.split('\0').filter_map(|pair| {
        // A setting without a value means yes.
        let (name, value) = pair.split_once('\n').unwrap_or((pair, "true"));
        let is_plain = !name.is_empty()
            && value.len() <= MAX_SETTING_CHARS
            && value.chars().all(|c| c.is_ascii_alphanumeric());
        is_plain.then(|| (name.to_owned(), value.to_owned()))
    });
    Ok(pairs.collect())
}
