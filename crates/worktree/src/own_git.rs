//! Our own git folders: written file by file, so that they contain only what we put there.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::error::At as _;
use crate::git::{AUTHOR_EMAIL, AUTHOR_NAME};
use crate::open_exact::read_file;
use crate::repository::Repository;
use crate::snapshot::copy_with_time;

/// Attributes that override those of any `.gitattributes`.
const ATTRIBUTES: &str = "* !filter\n";
/// The longest list of a repository that is copied: half a million commits of a shallow one.
const MAX_COPIED_BYTES: u64 = 20 << 20;

/// A git folder of our own that borrows the objects of a repository.
#[derive(Clone, Debug)]
pub(crate) struct OwnGit {
    pub(crate) dir: PathBuf,
}

impl OwnGit {
    /// Returns the existing git folder at this path.
    pub(crate) const fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Writes a git folder that borrows the repository's objects.
    pub(crate) fn write(dir: &Path, repository: &Repository) -> Result<Self> {
        write(dir, repository, &[repository.objects()])?;
        Ok(Self::at(dir.to_owned()))
    }

    /// Writes a git folder that borrows no objects.
    pub(crate) fn write_alone(dir: &Path, repository: &Repository) -> Result<Self> {
        write(dir, repository, &[])?;
        // The commits that the `shallow` file lists are missing.
        match fs::remove_file(dir.join("shallow")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).at("remove", &dir.join("shallow"));
            }
            Ok(()) | Err(_) => {}
        }
        Ok(Self::at(dir.to_owned()))
    }

    /// Returns the folder of its own objects.
    pub(crate) fn objects(&self) -> PathBuf {
        self.dir.join("objects")
    }

    /// Returns the index of its working tree.
    pub(crate) fn index(&self) -> PathBuf {
        self.dir.join("index")
    }
}

/// The content of a child's git folder beside the borrowed objects.
#[derive(Debug)]
pub(crate) struct ForChild<'a> {
    pub(crate) branch: &'a str,
    /// The commit that the branch starts at.
    pub(crate) base: &'a str,
    /// The branches and tags of the repository, as git packs them.
    pub(crate) packed_refs: &'a [u8],
}

/// Writes the git folder that the child uses and that we never read.
pub(crate) fn write_for_child(
    dir: &Path,
    repository: &Repository,
    ours: &OwnGit,
    child: &ForChild<'_>,
) -> Result<()> {
    write(dir, repository, &[repository.objects(), ours.objects()])?;
    put(
        &dir.join("HEAD"),
        format!("ref: refs/heads/{}\n", child.branch),
    )?;
    let branch = dir.join("refs/heads").join(child.branch);
    if let Some(parent) = branch.parent() {
        fs::create_dir_all(parent).at("make", parent)?;
    }
    put(&branch, format!("{}\n", child.base))?;
    put(&dir.join("packed-refs"), child.packed_refs)?;
    let hooks = dir.join("hooks");
    fs::create_dir_all(&hooks).at("make", &hooks)?;
    copy_with_time(&ours.index(), &dir.join("index"))
}

fn write(dir: &Path, repository: &Repository, borrowed: &[PathBuf]) -> Result<()> {
    for folder in ["objects/info", "refs/heads", "info"] {
        let folder = dir.join(folder);
        fs::create_dir_all(&folder).at("make", &folder)?;
    }
    let mut alternates = String::new();
    for folder in borrowed {
        // Writing to a String cannot fail.
        writeln!(alternates, "{}", folder.display()).ok();
    }
    put(&dir.join("objects/info/alternates"), alternates)?;
    put(&dir.join("HEAD"), "ref: refs/heads/none\n")?;
    put(&dir.join("config"), config(repository))?;
    put(&dir.join("info/attributes"), ATTRIBUTES)?;
    copy_if_there(&repository.common_dir, dir, "info/exclude")?;
    copy_if_there(&repository.common_dir, dir, "shallow")?;
    if repository.is_sparse() {
        copy_if_there(&repository.git_dir, dir, "info/sparse-checkout")?;
    }
    Ok(())
}

fn config(repository: &Repository) -> String {
    let mut text = format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\
         [extensions]\n\tobjectformat = {}\n\
         [user]\n\tname = {AUTHOR_NAME}\n\temail = {AUTHOR_EMAIL}\n",
        repository.object_format
    );
    for (name, value) in &repository.settings {
        if let Some((section, key)) = name.split_once('.') {
            // Writing to a String cannot fail.
            write!(text, "[{section}]\n\t{key} = {value}\n").ok();
        }
    }
    text
}

fn copy_if_there(from: &Path, to: &Path, name: &str) -> Result<()> {
    // Read without following links: otherwise an agent that can write there could have any file
    // copied into the child's reach.
    match read_file(&from.join(name), MAX_COPIED_BYTES)? {
        Some(bytes) => put(&to.join(name), bytes),
        None => Ok(()),
    }
}

fn put(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, content).at("write", path)
}
