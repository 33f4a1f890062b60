//! Turns the present files of a folder into a tree object, without touching the folder.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sortie_base::regular_file;

use crate::error::At as _;
use crate::git::{Call, Git};
use crate::held::open_folder;
use crate::off_thread::off_thread;
use crate::own_git::OwnGit;
use crate::repository::Repository;
use crate::{Result, WorktreeError};

/// How many files that stayed out are named; the rest is counted.
const MAX_NAMED: usize = 50;
/// The largest index with its other half: that of a million files.
const MAX_INDEX_BYTES: u64 = 128 << 20;
/// How git writes the mode of a submodule.
const SUBMODULE_MODE: &[u8] = b"160000";

/// How much of what is not committed becomes part of a commit of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotBounds {
    /// The largest file.
    pub max_file_bytes: u64,
    /// All files together.
    pub max_total_bytes: u64,
    /// How many files.
    pub max_files: usize,
}

impl Default for SnapshotBounds {
    /// Sources fit many times over; disk images and model weights do not.
    fn default() -> Self {
        Self {
            max_file_bytes: 64 << 20,
            max_total_bytes: 512 << 20,
            max_files: 200_000,
        }
    }
}

/// What was done about changes that were not committed in the main checkout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncommitted {
    /// Whether there were any, and so the worktree starts from a commit of Sortie's.
    pub included: bool,
    /// What the worktree does not have.
    pub left_out: LeftOut,
}

/// Files that are not part of a commit of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The first of them, each with the reason.
    pub named: Vec<(String, WhyLeftOut)>,
    /// All of them.
    pub count: usize,
}

/// Why a file is not part of a commit of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyLeftOut {
    /// It is larger than a file may be.
    TooLarge,
    /// There is too much before it.
    TooMuch,
    /// It is a repository of its own, or a submodule.
    Repository,
    /// It is neither a file, nor a folder, nor a symbolic link.
    Special,
}

impl LeftOut {
    /// Whether everything is there.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, path: &[u8], why: WhyLeftOut) {
        self.count += 1;
        if self.named.len() < MAX_NAMED {
            self.named
                .push((String::from_utf8_lossy(path).into_owned(), why));
        }
    }
}

/// A folder, and the git folder and index that we look at it with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) git: &'a Git,
    pub(crate) own: &'a OwnGit,
    pub(crate) index: &'a Path,
    pub(crate) files: &'a Path,
    /// The name that stands for no object.
    pub(crate) no_object: &'a str,
}

/// A tree object of the present files.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The tree.
    pub(crate) tree: String,
    /// What it lacks.
    pub(crate) left_out: LeftOut,
    /// The paths of what it lacks.
    pub(crate) absent: HashSet<Vec<u8>>,
}

/// Copies the index of the main checkout, so that files that it knows need not be read again.
///
/// An agent in the main checkout may have replaced the index by a pipe, a device, a link or a
/// sparse file of a terabyte: only a regular file within a bound is copied, and opening it never
/// blocks.
pub(crate) async fn copy_index(repository: &Repository, own: &OwnGit, index: &Path) -> Result<()> {
    let (git_dir, own, index) = (
        repository.git_dir.clone(),
        own.dir.clone(),
        index.to_owned(),
    );
    off_thread(move || copy_index_files(&git_dir, &own, &index)).await
}

fn copy_index_files(git_dir: &Path, own: &Path, index: &Path) -> Result<()> {
    let folder = open_folder(git_dir)?;
    let Some(found) = IndexFile::read(&folder, git_dir, "index", MAX_INDEX_BYTES)? else {
        return Ok(());
    };
    found.write(index)?;
    // An index may be split; git looks for its other half in the git folder.
    let left = MAX_INDEX_BYTES - found.bytes.len() as u64;
    for name in other_halves(&found.bytes) {
        if let Some(half) = IndexFile::read(&folder, git_dir, &name, left)? {
            return half.write(&own.join(name));
        }
    }
    Ok(())
}

/// How many places of an index are tried as the name of its other half.
const MAX_HALVES: usize = 64;

/// The names that the other half of a split index may have: an extension `link`, its length in four
/// bytes, then the name of the half. Entries stand before the extensions, so the last ones come
/// first. Other extensions hold names of folders, such as `links`: the length has to fit.
fn other_halves(index: &[u8]) -> Vec<String> {
    let heads = index.windows(8).enumerate().rev();
    let heads = heads.filter(|(_, head)| head.starts_with(b"link"));
    let contents = heads.filter_map(|(at, head)| {
        let rest = index.get(at + 8..)?;
        let length = head.iter().skip(4);
        let length = length.fold(0_u64, |sum, byte| sum * 256 + u64::from(*byte));
        (20..=rest.len() as u64).contains(&length).then_some(rest)
    });
    let mut names = Vec::new();
    for content in contents.take(MAX_HALVES) {
        for length in [20, 32] {
            if let Some(name) = content.get(..length) {
                let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
                names.push(format!("sharedindex.{name}"));
            }
        }
    }
    names
}

/// An index, with the time that git compares files with: git takes a file that changed at that time
/// for uncertain, and with a later time it would take the file's old content for the present one.
struct IndexFile {
    bytes: Vec<u8>,
    modified: SystemTime,
}

impl IndexFile {
    fn read(folder: &OwnedFd, path: &Path, name: &str, max_bytes: u64) -> Result<Option<Self>> {
        let path = path.join(name);
        let file = match regular_file::open_at(folder, Path::new(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.at("read", &path)?,
        };
        let modified = file.metadata().and_then(|seen| seen.modified());
        let modified = modified.at("read", &path)?;
        let bytes = regular_file::read_all(file, max_bytes).at("read", &path)?;
        Ok(Some(Self { bytes, modified }))
    }

    fn write(&self, to: &Path) -> Result<()> {
        fs::write(to, &self.bytes).at("write", to)?;
        set_time(to, self.modified)
    }
}

/// Copies an index of ours, which no agent can reach, with its time.
pub(crate) fn copy_with_time(from: &Path, to: &Path) -> Result<()> {
    let time = fs::metadata(from).and_then(|seen| seen.modified());
    let time = time.at("read", from)?;
    fs::copy(from, to).at("copy", from)?;
    set_time(to, time)
}

fn set_time(path: &Path, time: SystemTime) -> Result<()> {
    let file = fs::OpenOptions::new().append(true).open(path);
    file.at("open", path)?.set_modified(time).at("change", path)
}

impl View<'_> {
    fn call(&self) -> Call<'_> {
        let call = self.git.on(&self.own.dir);
        call.work_tree(self.files).index(self.index)
    }

    /// Writes the present files as a tree. The index is changed.
    pub(crate) async fn snapshot(&self, bounds: SnapshotBounds) -> Result<Snapshot> {
        let found = self.differences().await?;
        let files = self.files.to_owned();
        let choice = off_thread(move || Ok(Choice::of(&files, found, bounds))).await?;
        self.forget(&choice.gone).await?;
        self.take(&choice.taken).await?;
        let tree = self.call().args(["write-tree"]).line().await?;
        Ok(Snapshot {
            tree,
            left_out: choice.left_out,
            absent: choice.absent,
        })
    }

    /// The paths whose files differ from what the index knows.
    pub(crate) async fn modified(&self) -> Result<HashSet<Vec<u8>>> {
        Ok(self.differences().await?.into_keys().collect())
    }

    /// Adds the submodules that are at the commit the repository says: their folders stay empty.
    pub(crate) async fn add_submodules(&self, snapshot: &mut Snapshot) -> Result<()> {
        if !self.files.join(".gitmodules").exists() {
            return Ok(());
        }
        let call = self.call().args(["ls-files", "-z", "--stage"]);
        for entry in entries(&call.output().await?) {
            let (known, path) = listed(entry)?;
            if known == Known::Submodule && !snapshot.absent.contains(&path) {
                snapshot.left_out.add(&path, WhyLeftOut::Repository);
                snapshot.absent.insert(path);
            }
        }
        Ok(())
    }

    async fn differences(&self) -> Result<BTreeMap<Vec<u8>, Known>> {
        let mut found = BTreeMap::new();
        // `--unmerged` shows nothing else, `--stage` shows everything: each is asked for itself.
        let modified = ["--modified", "--format=%(objectmode)\t%(path)"];
        for options in [&modified[..], &["--unmerged"]] {
            let call = self.call().args(["ls-files", "-z"]).args(options);
            for entry in entries(&call.output().await?) {
                let (known, path) = listed(entry)?;
                found.insert(path, known);
            }
        }
        let call = self.call();
        let call = call.args(["ls-files", "-z", "--others", "--exclude-standard"]);
        for path in entries(&call.output().await?) {
            found.entry(path.to_vec()).or_insert(Known::No);
        }
        Ok(found)
    }

    async fn forget(&self, paths: &[Vec<u8>]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let mut input = Vec::new();
        for path in paths {
            // A mode of zero removes.
            input.extend_from_slice(b"0 ");
            input.extend_from_slice(self.no_object.as_bytes());
            input.push(b'\t');
            input.extend_from_slice(path);
            input.push(0);
        }
        let call = self.call().args(["update-index", "-z", "--index-info"]);
        call.input(input).output().await.map(drop)
    }

    async fn take(&self, paths: &[Vec<u8>]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let mut input = Vec::new();
        for path in paths {
            input.extend_from_slice(path);
            input.push(0);
        }
        let call = self.call();
        let call = call.args(["update-index", "--add", "--replace", "-z", "--stdin"]);
        call.input(input).output().await.map(drop)
    }
}

/// Whether the index knows a path, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    No,
    File,
    Submodule,
}

/// What is to become of each difference.
#[derive(Debug, Default)]
struct Choice {
    gone: Vec<Vec<u8>>,
    taken: Vec<Vec<u8>>,
    left_out: LeftOut,
    absent: HashSet<Vec<u8>>,
}

impl Choice {
    fn of(root: &Path, found: BTreeMap<Vec<u8>, Known>, bounds: SnapshotBounds) -> Self {
        let mut choice = Self::default();
        let mut looker = Looker::new(root);
        let mut total_bytes = 0;
        for (path, known) in found {
            let seen = looker.look(&path);
            match judge(known, &path, seen.as_ref(), bounds) {
                Verdict::Gone => choice.gone.push(path),
                Verdict::LeaveOut(why) => choice.leave_out(&path, why),
                Verdict::Take(bytes) => {
                    let is_full = choice.taken.len() >= bounds.max_files
                        || total_bytes + bytes > bounds.max_total_bytes;
                    if is_full {
                        choice.leave_out(&path, WhyLeftOut::TooMuch);
                    } else {
                        total_bytes += bytes;
                        choice.taken.push(path);
                    }
                }
                Verdict::Ignore => {}
            }
        }
        choice
    }

    fn leave_out(&mut self, path: &[u8], why: WhyLeftOut) {
        self.left_out.add(path, why);
        self.absent.insert(path.to_vec());
    }
}

enum Verdict {
    Take(u64),
    Gone,
    LeaveOut(WhyLeftOut),
    Ignore,
}

fn judge(known: Known, path: &[u8], seen: Option<&Metadata>, bounds: SnapshotBounds) -> Verdict {
    match (known, seen) {
        // A submodule stays at the commit that the repository says, whatever is in its folder.
        (Known::Submodule, Some(_)) => Verdict::LeaveOut(WhyLeftOut::Repository),
        (Known::File, None) => Verdict::Gone,
        (Known::No | Known::Submodule, None) => Verdict::Ignore,
        (Known::No, Some(_)) if path.ends_with(b"/") => Verdict::LeaveOut(WhyLeftOut::Repository),
        (Known::File, Some(seen)) if seen.is_dir() => Verdict::Gone,
        (Known::No | Known::File, Some(seen)) if seen.is_symlink() => Verdict::Take(seen.len()),
        (Known::No | Known::File, Some(seen)) if !seen.is_file() => {
            Verdict::LeaveOut(WhyLeftOut::Special)
        }
        (Known::No | Known::File, Some(seen)) if seen.len() > bounds.max_file_bytes => {
            Verdict::LeaveOut(WhyLeftOut::TooLarge)
        }
        (Known::No | Known::File, Some(seen)) => Verdict::Take(seen.len()),
    }
}

/// Looks at paths below a folder without following symbolic links on the way.
#[derive(Debug)]
pub(crate) struct Looker {
    root: PathBuf,
    folders: HashSet<PathBuf>,
}

impl Looker {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            folders: HashSet::new(),
        }
    }

    /// What is there, if anything.
    pub(crate) fn look(&mut self, path: &[u8]) -> Option<Metadata> {
        let relative = Path::new(OsStr::from_bytes(path));
        let parent = relative.parent().unwrap_or(Path::new(""));
        if !self.is_folder(parent) {
            return None;
        }
        fs::symlink_metadata(self.root.join(relative)).ok()
    }

    fn is_folder(&mut self, relative: &Path) -> bool {
        if relative.as_os_str().is_empty() || self.folders.contains(relative) {
            return true;
        }
        let parent = relative.parent().unwrap_or(Path::new(""));
        let real = self.is_folder(parent)
            && fs::symlink_metadata(self.root.join(relative)).is_ok_and(|seen| seen.is_dir());
        if real {
            self.folders.insert(relative.to_owned());
        }
        real
    }
}

/// The metadata that identifies one state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
}

impl Stamp {
    /// The state of what was looked at.
    pub(crate) fn of(seen: &Metadata) -> Self {
        Self {
            inode: seen.ino(),
            size: seen.len(),
            mode: seen.mode(),
            modified: (seen.mtime(), seen.mtime_nsec()),
        }
    }

    /// Whether another is of the same file, or of a faithful copy of it.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let Self { inode, .. } = *other;
        Self { inode, ..*self } == *other
    }

    /// The same, of what was looked at through a descriptor.
    pub(crate) fn of_stat(stat: &rustix::fs::Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: stat.st_size as u64,
            mode: stat.st_mode,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
        }
    }
}

/// The parts of a list that git ends with zeros.
pub(crate) fn entries(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| *byte == 0)
        .filter(|part| !part.is_empty())
}

/// Reads `mode<TAB>path`, with more words before the tab or without.
fn listed(entry: &[u8]) -> Result<(Known, Vec<u8>)> {
    let tab = entry.iter().position(|byte| *byte == b'\t');
    let tab = tab.ok_or_else(|| WorktreeError::Strange {
        what: "ls-files".to_owned(),
    })?;
    let known = if entry.starts_with(SUBMODULE_MODE) {
        Known::Submodule
    } else {
        Known::File
    };
    Ok((known, entry[tab + 1..].to_vec()))
}
