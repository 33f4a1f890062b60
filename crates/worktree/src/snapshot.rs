//! Turns the current files of a folder into a tree object, without changing the folder.

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
use crate::off_thread::off_thread;
use crate::open_exact::open_folder;
use crate::own_git::OwnGit;
use crate::repository::Repository;
use crate::{Result, WorktreeError};

/// The most left-out files that are named; the rest is counted.
const MAX_NAMED: usize = 50;
/// The largest index including its shared part: that of a million files.
const MAX_INDEX_BYTES: u64 = 128 << 20;
/// Git's mode of a submodule.
const SUBMODULE_MODE: &[u8] = b"160000";

/// The limits on uncommitted files that become part of a commit of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotBounds {
    /// The largest size of one file.
    pub max_file_bytes: u64,
    /// The largest size of all files together.
    pub max_total_bytes: u64,
    /// The largest number of files.
    pub max_files: usize,
}

impl Default for SnapshotBounds {
    /// Source code fits many times over; disk images and model weights do not.
    fn default() -> Self {
        Self {
            max_file_bytes: 64 << 20,
            max_total_bytes: 512 << 20,
            max_files: 200_000,
        }
    }
}

/// How uncommitted changes of the main checkout were treated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncommitted {
    /// Whether there were any, so that the worktree starts from a commit of Sortie.
    pub included: bool,
    /// Files that the worktree does not have.
    pub left_out: LeftOut,
}

/// Files that are not part of a commit of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The first of them, each with the reason.
    pub named: Vec<(String, WhyLeftOut)>,
    /// The number of all left-out files.
    pub count: usize,
}

/// The reason why a file is not part of a commit of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyLeftOut {
    /// It exceeds the size limit of a file.
    TooLarge,
    /// The files before it used up the total limit.
    TooMuch,
    /// It is a nested repository, or a submodule.
    Repository,
    /// It is neither a file, nor a folder, nor a symbolic link.
    Special,
}

impl LeftOut {
    /// Returns whether no file was left out.
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

/// A folder, with the git folder and index that we read it with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) git: &'a Git,
    pub(crate) own: &'a OwnGit,
    pub(crate) index: &'a Path,
    pub(crate) files: &'a Path,
    /// The object name that stands for no object.
    pub(crate) no_object: &'a str,
}

/// A tree object of the current files.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) tree: String,
    /// The files that it does not include.
    pub(crate) left_out: LeftOut,
    /// The paths of all files that it does not include.
    pub(crate) absent: HashSet<Vec<u8>>,
}

/// Copies the index of the main checkout, so that unchanged files need not be read again.
///
/// An agent in the main checkout may have replaced the index by a pipe, a device, a link or a
/// sparse file of a terabyte: only a regular file within a limit is copied, and opening it never
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
    // An index may be split; git looks for its shared part in the git folder.
    let left = MAX_INDEX_BYTES - found.bytes.len() as u64;
    for name in other_halves(&found.bytes) {
        if let Some(half) = IndexFile::read(&folder, git_dir, &name, left)? {
            return half.write(&own.join(name));
        }
    }
    Ok(())
}

/// The most positions of an index that are tried as the name of its shared part.
const MAX_HALVES: usize = 64;

/// Returns the possible names of the shared part of a split index: an extension `link`, its length
/// in four bytes, then the name. Entries precede the extensions, so the last candidates come first.
/// Other extensions contain names of folders, such as `links`: the length must match.
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

/// An index, with the time that git compares files with. Git treats a file that changed at that
/// time as uncertain; with a later time it would treat the file's old content as current.
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

/// Copies one of our own indexes, which no agent can reach, with its time.
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

    /// Writes the current files as a tree. Changes the index.
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

    /// Returns the paths whose files differ from the index.
    pub(crate) async fn modified(&self) -> Result<HashSet<Vec<u8>>> {
        Ok(self.differences().await?.into_keys().collect())
    }

    /// Adds the submodules that are at the commit that the repository records: their folders stay
    /// empty.
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
        // `--unmerged` shows nothing else, `--stage` shows everything: each needs its own call.
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
            // Mode zero removes the entry.
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

/// Whether the index has a path, and as what kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    No,
    File,
    Submodule,
}

/// The planned treatment of each difference.
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
        // A submodule stays at the commit that the repository records, whatever its folder
        // contains.
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

/// Reads the metadata of paths below a folder without following symbolic links on the way.
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

    /// Returns the metadata of the entry, if it exists.
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
    /// Returns the stamp for this metadata.
    pub(crate) fn of(seen: &Metadata) -> Self {
        Self {
            inode: seen.ino(),
            size: seen.len(),
            mode: seen.mode(),
            modified: (seen.mtime(), seen.mtime_nsec()),
        }
    }

    /// Returns whether another stamp is of the same file, or of a faithful copy of it.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let Self { inode, .. } = *other;
        Self { inode, ..*self } == *other
    }

    /// Returns the stamp for metadata that was read through a descriptor.
    pub(crate) fn of_stat(stat: &rustix::fs::Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: stat.st_size as u64,
            mode: stat.st_mode,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
        }
    }
}

/// Splits a NUL-terminated list of git.
pub(crate) fn entries(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| *byte == 0)
        .filter(|part| !part.is_empty())
}

/// Parses `mode<TAB>path`, with or without more words before the tab.
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
