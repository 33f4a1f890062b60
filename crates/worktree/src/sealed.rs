//! Objects that are verified by their content, in a git folder that borrows none.
//!
//! Git does not compare the content of a tree or a file with its name when it reads it, and an
//! agent in the main checkout may write to the object store: it could change what a reviewed commit
//! contains. So the objects in which trees differ are copied by `pack-objects` and `index-pack`,
//! which computes every name from the content. A changed object arrives under another name; the
//! requested one is then missing. Replacements, grafts, commit graphs and borrowed objects have no
//! effect either.

use std::collections::BTreeSet;
use std::fs::{self, File};

use crate::error::At as _;
use crate::own_git::OwnGit;
use crate::repository::Repository;
use crate::snapshot::entries;
use crate::worktrees::Scratch;
use crate::{Result, WorktreeError, Worktrees};

/// Git's mode of a submodule, whose commit is in another repository.
const SUBMODULE_MODE: &[u8] = b"160000";

/// Parts of git's error messages, in lower case, that indicate a fault of the machine and not of
/// the repository.
const OWN_FAILURES: [&str; 7] = [
    "no space left on device",
    "disk quota exceeded",
    "file too large",
    "out of memory",
    "cannot allocate memory",
    "too many open files",
    "resource temporarily unavailable",
];

/// A sealed git folder with two commits and the differences between them.
#[derive(Debug)]
pub(crate) struct Sealed {
    scratch: Scratch,
    pub(crate) base_tree: String,
    pub(crate) tree: String,
}

impl Sealed {
    /// Returns the git folder.
    pub(crate) const fn own(&self) -> &OwnGit {
        &self.scratch.own
    }
}

impl Worktrees {
    /// Copies two commits and the objects in which their trees differ; with a third tree also those
    /// in which it differs from the base.
    pub(crate) async fn seal(
        &self,
        from: &OwnGit,
        repository: &Repository,
        (base, commit): (&str, &str),
        ours: Option<&str>,
    ) -> Result<Sealed> {
        let scratch = self.scratch_without_objects(repository)?;
        // The commits first: the names of their trees are read from verified objects.
        let commits = BTreeSet::from([base.to_owned(), commit.to_owned()]);
        self.take_over(from, &scratch.own, &commits).await?;
        let base_tree = self.tree_name(&scratch.own, base).await?;
        let tree = self.tree_name(&scratch.own, commit).await?;
        let mut wanted = BTreeSet::from([base_tree.clone(), tree.clone()]);
        for other in [Some(tree.as_str()), ours].into_iter().flatten() {
            wanted.insert(other.to_owned());
            self.add_differing(from, &base_tree, other, &mut wanted)
                .await?;
        }
        self.take_over(from, &scratch.own, &wanted).await?;
        Ok(Sealed {
            scratch,
            base_tree,
            tree,
        })
    }

    /// Copies objects; fails unless each arrives under its name.
    pub(crate) async fn take_over(
        &self,
        from: &OwnGit,
        to: &OwnGit,
        wanted: &BTreeSet<String>,
    ) -> Result<()> {
        let list: String = wanted.iter().map(|name| format!("{name}\n")).collect();
        let path = to.dir.join("take-over.pack");
        let file = File::create(&path).at("write", &path)?;
        let call = self.git.on(&from.dir);
        let packing = call
            .args(["pack-objects", "--stdout", "-q", "--window=0"])
            .input(list.clone().into_bytes())
            .output_to(file);
        let packed = match packing.await {
            // An object is missing or unreadable; the code below finds out which one.
            Err(WorktreeError::Git { message, .. }) if !is_own_failure(&message) => false,
            other => own_failure(other).map(|()| true)?,
        };
        if packed {
            let file = File::open(&path).at("read", &path)?;
            let call = self.git.on(&to.dir).args(["index-pack", "--stdin"]);
            call.input_file(file).output().await?;
        }
        fs::remove_file(&path).at("remove", &path)?;
        let call = self.git.on(&to.dir).args(["cat-file", "--batch-check"]);
        let found = call.input(list.into_bytes()).output().await?;
        let found = String::from_utf8_lossy(&found);
        let missing = found.lines().find_map(|line| line.strip_suffix(" missing"));
        match missing.or((!packed).then_some("of a tree")) {
            None => Ok(()),
            Some(object) => Err(WorktreeError::Tampered {
                object: object.to_owned(),
            }),
        }
    }

    /// Returns the tree that a commit names; the tree need not exist.
    async fn tree_name(&self, own: &OwnGit, commit: &str) -> Result<String> {
        let call = self.git.on(&own.dir).args(["cat-file", "commit", commit]);
        let text = call.output().await?;
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let name = line.strip_prefix(b"tree ").map(String::from_utf8_lossy);
        let name = name.ok_or_else(|| WorktreeError::Strange {
            what: "cat-file".to_owned(),
        })?;
        Ok(name.into_owned())
    }

    /// Adds the trees and files in which two trees differ: all objects that comparing them read.
    async fn add_differing(
        &self,
        from: &OwnGit,
        left: &str,
        right: &str,
        wanted: &mut BTreeSet<String>,
    ) -> Result<()> {
        let call = self.git.on(&from.dir);
        let call = call.args(["diff-tree", "-r", "-t", "-z", "--no-abbrev", "--no-renames"]);
        let listing = call.args([left, right, "--"]).output().await;
        let listing = match listing {
            Ok(listing) => listing,
            // A tree is missing or git cannot read it.
            Err(WorktreeError::Git { message, .. }) if !is_own_failure(&message) => {
                return Err(WorktreeError::Tampered { object: message });
            }
            Err(error) => return own_failure(Err(error)),
        };
        let mut parts = entries(&listing);
        while let (Some(change), Some(_)) = (parts.next(), parts.next()) {
            let fields: Vec<&[u8]> = change.split(|byte| *byte == b' ').collect();
            let [old_mode, new_mode, old, new, _] = fields[..] else {
                return Err(WorktreeError::Strange {
                    what: "diff-tree".to_owned(),
                });
            };
            let old_mode = old_mode.strip_prefix(b":").unwrap_or(old_mode);
            for (mode, name) in [(old_mode, old), (new_mode, new)] {
                let is_object = mode != SUBMODULE_MODE && name.iter().any(|byte| *byte != b'0');
                if is_object {
                    wanted.insert(String::from_utf8_lossy(name).into_owned());
                }
            }
        }
        Ok(())
    }
}

/// Returns whether git failed for lack of space or memory, or was killed, which leaves no message.
fn is_own_failure(message: &str) -> bool {
    let message = message.to_lowercase();
    message.is_empty() || OWN_FAILURES.iter().any(|reason| message.contains(reason))
}

/// Adds a message to the failure of a git process that was killed.
fn own_failure<T>(result: Result<T>) -> Result<T> {
    match result {
        Err(WorktreeError::Git { what, message }) if message.is_empty() => {
            Err(WorktreeError::Git {
                what,
                message: "it was killed or ended without a message".to_owned(),
            })
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::is_own_failure;

    #[test]
    fn a_full_disk_or_a_killed_git_is_not_taken_for_tampering() {
        for (message, expected) in [
            ("", true),
            ("fatal: write error: No space left on device", true),
            (
                "fatal: sha1 file '<stdout>' write error: Disk quota exceeded",
                true,
            ),
            ("fatal: Out of memory, malloc failed", true),
            ("fatal: loose object 1234 (stored in x) is corrupt", false),
            ("fatal: unable to read 1234", false),
        ] {
            assert_eq!(is_own_failure(message), expected, "{message}");
        }
    }
}
