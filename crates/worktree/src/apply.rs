//! Applies the changes of a branch to the current files of the main checkout.
//!
//! The merge works on objects: the current files become a tree, git merges trees, and the
//! differences in the result are installed. The user's index is not touched: applied changes are
//! uncommitted work.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sortie_core::id::BlobId;

use crate::error::At as _;
use crate::install::{self, Installation, Kind, Object, Plan, Step};
use crate::open_exact::{open_folder, path_of};
use crate::own_git::OwnGit;
use crate::paths::{below, is_among, is_safe, join, quoted};
use crate::repository::Repository;
use crate::sealed::Sealed;
use crate::snapshot::{Looker, Snapshot, Stamp, View, copy_index, entries};
use crate::{Result, WorktreeError, Worktrees, refs};

/// The folder with a lock file for each main checkout that is being changed.
pub(crate) const APPLYING_FOLDER: &str = ".applying";
/// The folder with staged files for main checkouts, and the plans to undo their installation.
const STAGING_FOLDER: &str = ".staging";
/// The most protected files that a refusal names.
const MAX_PROTECTED_NAMED: usize = 10;
/// The most conflicting files that are named.
const MAX_NAMED_FILES: usize = 100;
/// Git's notation for a missing file.
const NO_MODE: &[u8] = b"000000";
/// Git's mode of a submodule.
const SUBMODULE_MODE: &[u8] = b"160000";
/// Git's mode of an ordinary file.
const PLAIN_MODE: &str = "100644";
/// The files that control how other files are converted.
const ATTRIBUTES_FILE: &[u8] = b".gitattributes";
/// The exit code of a merge with conflicts.
const CONFLICTED: i32 = 1;

/// Whether `apply` changes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Reports what would happen, and changes nothing.
    Check,
    Write,
}

/// The outcome of an attempt to apply a branch. Unless it is `Applied`, no file was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The changes are in the files, or would be.
    Applied {
        /// The first of the changed files.
        files: Vec<String>,
        /// The number of all changed files.
        file_count: usize,
    },
    /// The main checkout has different changes at the same places.
    Conflict {
        /// The first of the conflicting files.
        files: Vec<String>,
    },
    /// The branch cannot be applied now, for this reason.
    Refused(String),
}

/// A main checkout that is being changed; stored for recovery after a crash.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Applying {
    /// The top of the checkout.
    pub(crate) root: PathBuf,
}

/// Where new files are staged, and their source.
#[derive(Debug)]
struct Stage<'a> {
    /// The git folder that borrows the objects of the repository.
    own: &'a OwnGit,
    sealed: &'a Sealed,
    /// The tree of the current files.
    ours: &'a str,
    staging: &'a Path,
}

/// The steps that change the files.
#[derive(Debug, Default)]
struct Steps {
    possible: Vec<Step>,
    /// Paths that tools obey, or that lead out of the checkout.
    protected: Vec<Vec<u8>>,
    submodules: Vec<Vec<u8>>,
}

impl Steps {
    /// Returns the steps, if all of them are permitted.
    fn permitted(self, commit: &str) -> std::result::Result<Vec<Step>, Applied> {
        if !self.protected.is_empty() {
            return Err(would_change_tools(&self.protected, commit));
        }
        if !self.submodules.is_empty() {
            let files = names(self.submodules.iter().map(Vec::as_slice));
            return Err(Applied::Conflict { files });
        }
        Ok(self.possible)
    }
}

enum Merged {
    Clean { tree: String },
    Conflict(Vec<String>),
}

impl Worktrees {
    /// Applies the changes of a commit since its base to the main checkout: all of them or none.
    ///
    /// The commit is the one that was reviewed: if its branch points elsewhere by now, nothing is
    /// applied. Files with protected names are not changed.
    pub async fn apply(
        &self,
        repository: &Path,
        branch: &str,
        base: &str,
        commit: &str,
        how: How,
    ) -> Result<Applied> {
        refs::check_commit(base)?;
        let repository = self.main_checkout(repository).await?;
        refs::check_at(&self.git, &repository, branch, commit).await?;
        let applying = Applying {
            root: repository.root.clone(),
        };
        let Some(lock) = self.lock(&applying)? else {
            let reason =
                "Another apply to this folder is in progress. Try again when it has ended.";
            return Ok(Applied::Refused(reason.to_owned()));
        };
        install::recover(&self.place(&applying.root))?;
        let merging = self.merge_and_install(&repository, base, commit, how);
        // After a failure the marker file stays, so that the next sweep recovers the checkout.
        let applied = merging.await?;
        unlock(&lock, &self.applying_file(&applying.root))?;
        Ok(applied)
    }

    /// Finds the repository whose top is this folder. Its configuration, which a child may have
    /// written, cannot redirect to another repository, and our own folder is outside it.
    async fn main_checkout(&self, given: &Path) -> Result<Repository> {
        let repository = Repository::find(&self.git, given).await?;
        if given != repository.root {
            return Err(WorktreeError::RootElsewhere {
                given: given.to_owned(),
                root: repository.root,
            });
        }
        self.check_outside(&repository)?;
        Ok(repository)
    }

    async fn merge_and_install(
        &self,
        repository: &Repository,
        base: &str,
        commit: &str,
        how: How,
    ) -> Result<Applied> {
        let place = self.place(&repository.root);
        let scratch = self.scratch(repository)?;
        let own = &scratch.own;
        let index = own.dir.join("snapshot-index");
        copy_index(repository, own, &index).await?;
        let folder = open_folder(&repository.root)?;
        let view = View {
            git: &self.git,
            own,
            index: &index,
            files: &path_of(&folder),
            no_object: &repository.no_commit(),
        };
        let ours = view.snapshot(self.bounds).await?;
        // From here on only objects that were verified by their content are read.
        let sealed = self.seal(own, repository, (base, commit), Some(&ours.tree));
        let sealed = sealed.await?;
        let tree = match self.merge(&sealed, &ours.tree).await? {
            Merged::Conflict(files) => return Ok(Applied::Conflict { files }),
            Merged::Clean { tree } => tree,
        };
        let steps = self.steps(sealed.own(), &ours.tree, &tree).await?;
        let mut steps = match steps.permitted(commit) {
            Ok(steps) => steps,
            Err(applied) => return Ok(applied),
        };
        drop_missing_removals(repository, &mut steps);
        if steps.is_empty() {
            // The changes are already in the files.
            return self.install(&place, steps, How::Check);
        }
        if how == How::Write {
            let staging = install::stage_folder(&place)?;
            let stage = Stage {
                own,
                sealed: &sealed,
                ours: &ours.tree,
                staging: &staging,
            };
            self.stage(&stage, &steps).await?;
        }
        let conflicts = in_the_way(repository, &ours, &mut steps);
        if !conflicts.is_empty() {
            install::abandon(&place)?;
            return Ok(Applied::Conflict { files: conflicts });
        }
        // The stamps were taken after the snapshot: they belong to the merged content only if no
        // file differs from the snapshot now.
        let moved = view.modified().await?;
        if let Some(step) = steps
            .iter()
            .find(|step| moved.contains(&step.path) && !ours.absent.contains(&step.path))
        {
            install::abandon(&place)?;
            return Ok(changed_meanwhile(&step.path));
        }
        self.install(&place, steps, how)
    }

    /// Installs without an await point: a caller that is cancelled must not release the lock in
    /// between.
    fn install(&self, place: &Installation, steps: Vec<Step>, how: How) -> Result<Applied> {
        let file_count = steps.len();
        let files = names(steps.iter().map(|step| step.path.as_slice()));
        match how {
            How::Check => Ok(Applied::Applied { files, file_count }),
            How::Write => {
                let plan = Plan { steps };
                match install::install(place, &plan)? {
                    install::Installed::All => Ok(Applied::Applied { files, file_count }),
                    install::Installed::Nothing { path } => Ok(changed_meanwhile(&path)),
                }
            }
        }
    }

    /// Merges three trees. Temporary commits define the base for git.
    async fn merge(&self, sealed: &Sealed, ours: &str) -> Result<Merged> {
        let own = sealed.own();
        // The ancestors of the base are missing, and are not needed.
        let base = self.commit(own, &sealed.base_tree, &[], "base\n").await?;
        let ours = self.commit(own, ours, &[&base], "ours\n").await?;
        let theirs = self.commit(own, &sealed.tree, &[&base], "theirs\n").await?;
        let call = self.git.on(&own.dir);
        let call = call.args(["merge-tree", "--write-tree", "-z", "--name-only"]);
        let answer = call.args([&ours, &theirs]).answer().await?;
        if answer.code != 0 && answer.code != CONFLICTED {
            return Err(answer.into_error("merge-tree".to_owned()));
        }
        let mut parts = answer.output.split(|byte| *byte == 0);
        let tree = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        if answer.code == CONFLICTED {
            // An empty name ends the list; messages follow.
            let found = parts.take_while(|part| !part.is_empty());
            return Ok(Merged::Conflict(names(found)));
        }
        Ok(Merged::Clean { tree })
    }

    /// Computes the steps that change the files, and the paths that must not change.
    async fn steps(&self, own: &OwnGit, from: &str, to: &str) -> Result<Steps> {
        let call = self.git.on(&own.dir);
        let call = call.args(["diff-tree", "-r", "-z", "--no-abbrev", "--no-renames"]);
        let listing = call.args([from, to, "--"]).output().await?;
        let mut parts = entries(&listing);
        let mut steps = Steps::default();
        while let (Some(change), Some(path)) = (parts.next(), parts.next()) {
            if !is_safe(path) || is_among(path, &self.protected) {
                steps.protected.push(path.to_vec());
                continue;
            }
            match step(change, path) {
                Some(step) => steps.possible.push(step),
                None => steps.submodules.push(path.to_vec()),
            }
        }
        // Removals first, so that a folder can become a file and a file a folder.
        steps.possible.sort_by_key(|step| step.kind != Kind::Remove);
        Ok(steps)
    }

    /// Stages the new files, converted as the repository's settings and attributes require.
    async fn stage(&self, stage: &Stage<'_>, steps: &[Step]) -> Result<()> {
        let own = stage.sealed.own();
        let index = own.dir.join("stage-index");
        let mut listed = self.attributes(stage, steps).await?;
        let mut input = Vec::new();
        for step in steps {
            listed.remove(&step.path);
            if let Some(object) = &step.object {
                listed.insert(step.path.clone(), object.clone());
                input.extend_from_slice(&step.path);
                input.push(0);
            }
        }
        let info = listed.into_iter().flat_map(|(path, object)| {
            let entry = format!("{} {}\t", object.mode, object.name).into_bytes();
            [entry, path, vec![0]].concat()
        });
        let call = self.git.on(&own.dir).index(&index);
        call.args(["update-index", "-z", "--index-info"])
            .input(info.collect())
            .output()
            .await?;
        let call = self.git.on(&own.dir).work_tree(stage.staging).index(&index);
        call.args(["checkout-index", "-z", "--stdin"])
            .input(input)
            .output()
            .await
            .map(drop)
    }

    /// Returns the attributes of the current files that control how the new ones are converted.
    async fn attributes(
        &self,
        stage: &Stage<'_>,
        steps: &[Step],
    ) -> Result<BTreeMap<Vec<u8>, Object>> {
        let mut places = BTreeSet::new();
        for step in steps.iter().filter(|step| step.object.is_some()) {
            let ends = step.path.iter().enumerate();
            let ends = ends
                .filter(|(_, byte)| **byte == b'/')
                .map(|(at, _)| at + 1);
            for end in std::iter::once(0).chain(ends) {
                let place = [&step.path[..end], ATTRIBUTES_FILE].concat();
                // A line break would end the request early.
                if !place.contains(&b'\n') {
                    places.insert(place);
                }
            }
        }
        let places: Vec<Vec<u8>> = places.into_iter().collect();
        let query = places.iter().flat_map(|place| {
            let tree = format!("{}:", stage.ours).into_bytes();
            [tree, place.clone(), vec![b'\n']].concat()
        });
        let format = "--batch-check=%(objecttype) %(objectname)";
        let call = self.git.on(&stage.own.dir).args(["cat-file", format]);
        let output = call.input(query.collect()).output().await?;
        let output = String::from_utf8_lossy(&output).into_owned();
        let mut found = BTreeMap::new();
        for (place, line) in places.into_iter().zip(output.lines()) {
            if let Some(name) = line.strip_prefix("blob ") {
                let object = Object {
                    mode: PLAIN_MODE.to_owned(),
                    name: name.to_owned(),
                };
                found.insert(place, object);
            }
        }
        let wanted: BTreeSet<String> = found.values().map(|object| object.name.clone()).collect();
        if !wanted.is_empty() {
            self.take_over(stage.own, stage.sealed.own(), &wanted)
                .await?;
        }
        Ok(found)
    }

    pub(crate) fn applying_file(&self, root: &Path) -> PathBuf {
        self.folder.join(APPLYING_FOLDER).join(key_of(root))
    }

    /// Returns a main checkout together with our folder for it.
    pub(crate) fn place(&self, root: &Path) -> Installation {
        Installation {
            root: root.to_owned(),
            staging: self.folder.join(STAGING_FOLDER).join(key_of(root)),
        }
    }

    /// Locks this checkout against other writers; `None` if another process holds the lock.
    fn lock(&self, applying: &Applying) -> Result<Option<File>> {
        let path = self.applying_file(&applying.root);
        let folder = self.folder.join(APPLYING_FOLDER);
        fs::create_dir_all(&folder).at("make", &folder)?;
        let file = take(&path)?;
        if file.is_some() {
            let bytes = serde_json::to_vec(applying);
            let bytes = bytes.map_err(|source| WorktreeError::Damaged {
                path: path.clone(),
                source,
            })?;
            fs::write(&path, bytes).at("write", &path)?;
        }
        Ok(file)
    }
}

/// Returns the key that identifies a checkout.
fn key_of(root: &Path) -> String {
    let id = BlobId::of(root.as_os_str().as_encoded_bytes());
    id.as_str().to_owned()
}

/// Acquires the lock of a checkout unless another process holds it. The lock ends with the process.
pub(crate) fn take(path: &Path) -> Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .at("open", path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).at("lock", path),
    }
}

/// Marks a checkout as consistent again. The file stays, because other processes may be waiting for
/// its lock.
pub(crate) fn unlock(file: &File, path: &Path) -> Result<()> {
    file.set_len(0).at("write", path)
}

/// Parses `:mode mode object object status`; `None` for a submodule.
fn step(change: &[u8], path: &[u8]) -> Option<Step> {
    let mut fields = change.strip_prefix(b":")?.split(|byte| *byte == b' ');
    let (old, new) = (fields.next()?, fields.next()?);
    let name = fields.nth(1)?;
    if old == SUBMODULE_MODE || new == SUBMODULE_MODE {
        return None;
    }
    let kind = if new == NO_MODE {
        Kind::Remove
    } else if old == NO_MODE {
        Kind::Add
    } else if old == new {
        Kind::Replace
    } else {
        Kind::ReplaceWithMode
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(Step {
        path: path.to_vec(),
        kind,
        stamp: None,
        object: (kind != Kind::Remove).then(|| Object {
            mode: text(new),
            name: text(name),
        }),
    })
}

/// Drops removals of missing files: a sparse checkout does not have them.
fn drop_missing_removals(repository: &Repository, steps: &mut Vec<Step>) {
    let mut looker = Looker::new(&repository.root);
    steps.retain(|step| step.kind != Kind::Remove || looker.look(&step.path).is_some());
}

/// Records the stamp of each path that changes, and returns the paths that are obstructed, for
/// example by a file that the snapshot does not list because it is ignored or was left out.
fn in_the_way(repository: &Repository, ours: &Snapshot, steps: &mut [Step]) -> Vec<String> {
    let mut looker = Looker::new(&repository.root);
    let removed: HashSet<Vec<u8>> = steps
        .iter()
        .filter(|step| step.kind == Kind::Remove)
        .map(|step| step.path.clone())
        .collect();
    let mut conflicts = Vec::new();
    for step in steps {
        let seen = looker.look(&step.path);
        let is_folder = seen.as_ref().is_some_and(fs::Metadata::is_dir);
        let is_unknown = step.kind == Kind::Add && seen.is_some() && !is_folder;
        let is_blocked = is_folder && !becomes_empty(&repository.root, &step.path, &removed)
            || step.kind == Kind::Add && is_behind_file(&repository.root, &step.path, &removed);
        if is_unknown || is_blocked || ours.absent.contains(&step.path) {
            conflicts.push(step.path.clone());
        }
        step.stamp = seen.filter(|_| !is_folder).as_ref().map(Stamp::of);
    }
    names(conflicts.iter().map(Vec::as_slice))
}

/// Returns whether a folder contains only entries that are removed.
fn becomes_empty(root: &Path, path: &[u8], removed: &HashSet<Vec<u8>>) -> bool {
    let folder = below(root, path);
    let Ok(mut found) = fs::read_dir(folder) else {
        return false;
    };
    found.all(|entry| {
        let Ok(entry) = entry else {
            return false;
        };
        let inner = join(path, entry.file_name().as_encoded_bytes());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        removed.contains(&inner) || is_folder && becomes_empty(root, &inner, removed)
    })
}

/// Returns whether an ancestor of a path is not a folder, and stays.
fn is_behind_file(root: &Path, path: &[u8], removed: &HashSet<Vec<u8>>) -> bool {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    ends.map(|(at, _)| &path[..at]).any(|parent| {
        let seen = fs::symlink_metadata(below(root, parent));
        seen.is_ok_and(|seen| !seen.is_dir()) && !removed.contains(parent)
    })
}

/// Names the commit rather than its branch, because the branch may move before the person acts.
fn would_change_tools(paths: &[Vec<u8>], commit: &str) -> Applied {
    let named: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
    let more = named.len().saturating_sub(MAX_PROTECTED_NAMED);
    let named = &named[..named.len() - more];
    let rest = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Applied::Refused(format!(
        "Nothing was applied: {}{rest} would change the behaviour of tools. Review it and copy it by hand, then apply the rest: git checkout {commit} -- {}",
        named.join(", "),
        named.join(" ")
    ))
}

fn changed_meanwhile(path: &[u8]) -> Applied {
    let name = String::from_utf8_lossy(path);
    Applied::Refused(format!(
        "{name} changed while the changes were being merged. Nothing was applied; try again."
    ))
}

fn names<'a>(paths: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    paths
        .take(MAX_NAMED_FILES)
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect()
}
