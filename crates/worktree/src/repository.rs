//! Finds the repository that a folder belongs to, and reads the few properties that we need.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::git::Git;
use crate::git_files;
use crate::off_thread::off_thread;
use crate::open_exact::{open_folder, path_of, read_file};
use crate::{Result, WorktreeError};

/// Settings that affect the content of files, and run nothing. All other settings of a repository
/// are ignored.
const SETTINGS: &str = "^core\\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode\
                        |sparsecheckout|sparsecheckoutcone)$";
/// The longest valid value of such a setting.
const MAX_SETTING_CHARS: usize = 16;
/// Enough for the names of some hundred folders.
const MAX_LIST_BYTES: u64 = 64 << 10;

/// A repository of the user.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    /// The top of its working tree.
    pub(crate) root: PathBuf,
    /// Its git folder, with HEAD and the index.
    pub(crate) git_dir: PathBuf,
    /// The folder that its linked worktrees share, with objects, refs and configuration.
    pub(crate) common_dir: PathBuf,
    /// The hash algorithm: `sha1` or `sha256`.
    pub(crate) object_format: String,
    /// The commit that is checked out, if there is one.
    pub(crate) head: Option<String>,
    /// The harmless settings, as names and values.
    pub(crate) settings: Vec<(String, String)>,
}

impl Repository {
    /// Finds the repository whose working tree contains a folder, which is named without links.
    pub(crate) async fn find(git: &Git, workspace: &Path) -> Result<Self> {
        let folder = match open_folder(workspace) {
            Err(WorktreeError::File { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                return Err(WorktreeError::NotARepository {
                    workspace: workspace.to_owned(),
                    message: "the folder does not exist".to_owned(),
                });
            }
            other => other?,
        };
        let above = workspace.to_owned();
        off_thread(move || git_files::check_above(&above)).await?;
        // Git starts in the open folder, and reports its path itself.
        let query = git.discovering(&path_of(&folder)).args([
            "rev-parse",
            "--path-format=absolute",
            "--show-toplevel",
            "--absolute-git-dir",
            "--git-common-dir",
            "--show-object-format",
        ]);
        let answer = query.answer().await?;
        if answer.code != 0 {
            return Err(WorktreeError::NotARepository {
                workspace: workspace.to_owned(),
                message: answer.complaint().to_owned(),
            });
        }
        let unclear = || WorktreeError::NotText(workspace.to_owned());
        let text = String::from_utf8(answer.output).map_err(|_| unclear())?;
        let lines: Vec<&str> = text.lines().collect();
        // A line break in a path would produce more lines.
        let [root, git_dir, common_dir, object_format] = lines[..] else {
            return Err(unclear());
        };
        let (root, git_dir) = (PathBuf::from(root), PathBuf::from(git_dir));
        let common_dir = PathBuf::from(common_dir);
        let found = [git_dir.clone(), common_dir.clone()];
        off_thread(move || found.iter().try_for_each(|folder| git_files::check(folder))).await?;
        if !is_of(&root, &git_dir, &common_dir) && !names(git, &git_dir, &root).await? {
            return Err(WorktreeError::NotItsOwn { root, git_dir });
        }
        Ok(Self {
            root,
            common_dir,
            object_format: object_format.to_owned(),
            head: head(git, &git_dir).await?,
            settings: settings(git, &git_dir).await?,
            git_dir,
        })
    }

    /// Returns its object folder.
    pub(crate) fn objects(&self) -> PathBuf {
        self.common_dir.join("objects")
    }

    /// Returns its object folder, and those that it borrows objects from.
    pub(crate) fn all_objects(&self) -> Result<Vec<PathBuf>> {
        let own = self.objects();
        // The child sees the objects by this name.
        open_folder(&own)?;
        // Without this file no objects are borrowed.
        let listed = read_file(&own.join("info/alternates"), MAX_LIST_BYTES)?;
        let listed = listed.unwrap_or_default();
        let listed = String::from_utf8_lossy(&listed);
        let borrowed = listed.lines().filter(|line| !line.starts_with('#'));
        let borrowed = borrowed.filter_map(|line| std::fs::canonicalize(own.join(line)).ok());
        let borrowed: Vec<PathBuf> = borrowed.filter(|folder| is_object_store(folder)).collect();
        Ok(std::iter::once(own).chain(borrowed).collect())
    }

    /// Returns the object name that stands for no commit.
    pub(crate) fn no_commit(&self) -> String {
        let digits = if self.object_format == "sha256" {
            64
        } else {
            40
        };
        "0".repeat(digits)
    }

    /// Returns whether only a part of the files is checked out.
    pub(crate) fn is_sparse(&self) -> bool {
        self.settings
            .iter()
            .any(|(name, value)| name == "core.sparsecheckout" && value == "true")
    }

    /// Returns the path of a folder relative to the root.
    pub(crate) fn prefix_of(&self, workspace: &Path) -> Result<PathBuf> {
        let prefix = workspace.strip_prefix(&self.root).map(Path::to_owned);
        prefix.map_err(|_| WorktreeError::NotARepository {
            workspace: workspace.to_owned(),
            message: format!("its working tree is {}", self.root.display()),
        })
    }
}

/// Returns whether a git folder lies at the place for this checkout, or names the checkout as its
/// worktree. A file or a link that leads to the git folder is only a claim of a process that may
/// write in the checkout.
fn is_of(root: &Path, git_dir: &Path, common_dir: &Path) -> bool {
    let pointer = root.join(".git");
    if git_dir == common_dir {
        return git_dir == pointer;
    }
    let back = read_file(&git_dir.join("gitdir"), MAX_LIST_BYTES);
    let back = back.ok().flatten().unwrap_or_default();
    let back = git_dir.join(String::from_utf8_lossy(&back).trim_end());
    git_dir.starts_with(common_dir.join("worktrees"))
        && std::fs::canonicalize(back).is_ok_and(|real| real == pointer)
}

/// Returns whether a git folder itself names this checkout as its working tree, as that of a
/// submodule does.
async fn names(git: &Git, git_dir: &Path, root: &Path) -> Result<bool> {
    let call = git.on(git_dir).args(["config", "--get", "core.worktree"]);
    let answer = call.answer().await?;
    let path = String::from_utf8_lossy(&answer.output).into_owned();
    let path = git_dir.join(path.trim_end_matches('\n'));
    Ok(answer.code == 0 && std::fs::canonicalize(path).is_ok_and(|real| real == root))
}

/// Returns whether a folder contains the objects of a repository. A folder that only has such a
/// name is never exposed.
fn is_object_store(folder: &Path) -> bool {
    let repository = folder.parent();
    folder.file_name() == Some(OsStr::new("objects"))
        && ["info", "pack"]
            .iter()
            .all(|name| folder.join(name).is_dir())
        && repository.is_some_and(|repository| repository.join("HEAD").is_file())
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
        // A setting without a value means true.
        let (name, value) = pair.split_once('\n').unwrap_or((pair, "true"));
        let is_plain = !name.is_empty()
            && value.len() <= MAX_SETTING_CHARS
            && value.chars().all(|c| c.is_ascii_alphanumeric());
        is_plain.then(|| (name.to_owned(), value.to_owned()))
    });
    Ok(pairs.collect())
}
