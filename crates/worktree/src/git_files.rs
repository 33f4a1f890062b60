//! Checks the files that git opens in a repository before git is started on it.
//!
//! This check lets the refusal name the file immediately. It is no guarantee: an agent may replace
//! a file later, or make git open others ([`crate::stall`] ends such a git process).

use std::fs;
use std::path::Path;

use crate::{Result, WorktreeError};

/// The files that git opens in a git folder, with the size limit of each. Git reads the small ones
/// as a whole.
const FILES: &[(&str, u64)] = &[
    ("HEAD", SMALL_BYTES),
    ("commondir", SMALL_BYTES),
    ("gitdir", SMALL_BYTES),
    ("config", SETTINGS_BYTES),
    ("config.worktree", SETTINGS_BYTES),
    ("FETCH_HEAD", LIST_BYTES),
    ("ORIG_HEAD", SMALL_BYTES),
    ("MERGE_HEAD", SMALL_BYTES),
    ("index", LIST_BYTES),
    ("packed-refs", LIST_BYTES),
    ("shallow", LIST_BYTES),
    ("info/attributes", SETTINGS_BYTES),
    ("info/exclude", SETTINGS_BYTES),
    ("info/grafts", SETTINGS_BYTES),
    ("info/sparse-checkout", SETTINGS_BYTES),
    ("objects/info/alternates", SETTINGS_BYTES),
    ("objects/info/commit-graph", LIST_BYTES),
    ("objects/pack/multi-pack-index", LIST_BYTES),
];
/// Enough for one path or one name.
const SMALL_BYTES: u64 = 64 << 10;
/// Enough for settings that a person writes.
const SETTINGS_BYTES: u64 = 20 << 20;
/// Enough for lists of millions of names.
const LIST_BYTES: u64 = 1 << 30;

/// Checks the repository that a folder belongs to, as far as it can be found without git.
pub(crate) fn check_above(folder: &Path) -> Result<()> {
    let found = folder
        .ancestors()
        .map(|above| above.join(".git"))
        .find_map(|path| fs::symlink_metadata(&path).ok().map(|seen| (path, seen)));
    match found {
        Some((path, seen)) if seen.is_dir() => check(&path),
        Some((path, _)) => check_file(&path, SMALL_BYTES),
        None => Ok(()),
    }
}

/// Refuses a git folder with an entry that is not a regular file, or is too large for its purpose.
pub(crate) fn check(git_dir: &Path) -> Result<()> {
    let mut files = FILES.iter();
    files.try_for_each(|(name, max_bytes)| check_file(&git_dir.join(name), *max_bytes))
}

fn check_file(path: &Path, max_bytes: u64) -> Result<()> {
    // Nothing is opened, so nothing blocks. A link that the user made is as good as its target.
    let what = match fs::metadata(path) {
        // Git itself reports what is missing.
        Err(_) => return Ok(()),
        // A `.git` that is a link to a folder.
        Ok(seen) if seen.is_dir() && path.ends_with(".git") => return check(path),
        Ok(seen) if !seen.is_file() => "not a regular file".to_owned(),
        Ok(seen) if seen.len() > max_bytes => format!("larger than {max_bytes} bytes"),
        Ok(_) => return Ok(()),
    };
    Err(WorktreeError::NotGits {
        path: path.to_owned(),
        what,
    })
}
