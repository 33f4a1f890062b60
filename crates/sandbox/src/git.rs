//! Git folders outside the workspace that belong to it.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sortie_base::regular_file;

/// The longest `.git` pointer file that is read.
const MAX_POINTER_BYTES: u64 = 16 * 1024;
/// The most lines of the user's git configuration that are passed on.
const MAX_LINES: usize = 64;

/// The git folders that git must write to for a linked worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedWorktree {
    /// The worktree's own small folder, `.git/worktrees/NAME` of the repository.
    pub git_folder: PathBuf,
    /// The common folder of the repository, with objects, branches, configuration and hooks.
    pub common_folder: PathBuf,
}

/// Returns the git folders if the workspace, named without links, is a linked worktree.
///
/// A pointer in the workspace is a claim that any process can write. It is trusted only if the
/// folder that it names points back to this workspace, which only a process with write access to
/// that folder can arrange.
pub fn linked_worktree(workspace: &Path) -> Option<LinkedWorktree> {
    // Links are not resolved: no git folder points back to a planted link.
    let pointer = workspace.join(".git");
    let claim = read_pointer(&pointer)?;
    let claimed = workspace.join(pointed_to(&claim)?);
    let git_folder = fs::canonicalize(claimed).ok()?;
    let back = read_pointer(&git_folder.join("gitdir"))?;
    let back = git_folder.join(OsStr::from_bytes(without_line_end(&back)));
    if fs::canonicalize(back).ok()? != pointer {
        return None;
    }
    let common = read_pointer(&git_folder.join("commondir"))?;
    let common = OsStr::from_bytes(without_line_end(&common));
    let common_folder = fs::canonicalize(git_folder.join(common)).ok()?;
    git_folder
        .starts_with(common_folder.join("worktrees"))
        .then_some(LinkedWorktree {
            git_folder,
            common_folder,
        })
}

/// Returns the git folder of a working tree, if it has one: its `.git`, or the target of that
/// pointer.
pub(crate) fn folder_of(worktree: &Path) -> Option<PathBuf> {
    let git = worktree.join(".git");
    if fs::metadata(&git).ok()?.is_dir() {
        return fs::canonicalize(git).ok();
    }
    let pointer = read_pointer(&git)?;
    fs::canonicalize(worktree.join(pointed_to(&pointer)?)).ok()
}

/// Returns the path in a `.git` file, parsed exactly as git does: `gitdir: `, the path, any number
/// of line ends. Spaces are part of the path, because a folder with such a name is another folder.
/// `None` for content that git refuses, and for a path with a NUL, which git treats as its end.
pub(crate) fn pointed_to(content: &[u8]) -> Option<&OsStr> {
    let path = without_line_end(content.strip_prefix(b"gitdir: ")?);
    let whole = !path.is_empty() && !path.contains(&0);
    whole.then(|| OsStr::from_bytes(path))
}

/// Strips the line ends that git ignores at the end of a file with one path.
pub(crate) fn without_line_end(content: &[u8]) -> &[u8] {
    let end = content
        .iter()
        .rposition(|byte| !matches!(byte, b'\n' | b'\r'));
    &content[..end.map_or(0, |last| last + 1)]
}

/// Returns whether this is a git folder.
pub(crate) fn is_git_folder(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && (folder.join("objects").is_dir() || is_linked_folder(folder))
}

/// Returns whether this is the small folder of a linked worktree. A `commondir` that names its own
/// folder is a stand-in while commands run: the folder is then a whole repository.
pub(crate) fn is_linked_folder(folder: &Path) -> bool {
    let common = read_pointer(&folder.join("commondir"));
    common.is_some_and(|common| without_line_end(&common) != b".")
}

/// Returns the author identity that a commit needs, and no other user setting: those can contain
/// tokens.
pub(crate) fn identity(home: &Path) -> Option<String> {
    let mut lines = Vec::new();
    for place in [".config/git/config", ".gitconfig"] {
        if let Ok(settings) = read_bounded(&home.join(place)) {
            lines.extend(harmless(&settings));
        }
    }
    lines.truncate(MAX_LINES);
    (!lines.is_empty()).then(|| lines.concat())
}

/// The settings that are passed on.
const HARMLESS: &[(&str, &[&str])] = &[
    ("user", &["name", "email"]),
    ("init", &["defaultbranch"]),
    ("safe", &["directory"]),
    ("core", &["autocrlf", "quotepath"]),
];

fn harmless(settings: &str) -> Vec<String> {
    let mut keys: &[&str] = &[];
    let mut section = "";
    let mut found = Vec::new();
    for line in settings.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let name = header.trim_end_matches(']').trim().to_ascii_lowercase();
            let known = HARMLESS.iter().find(|(other, _)| *other == name);
            (section, keys) = known.map_or(("", &[][..]), |(name, keys)| (*name, *keys));
        } else if let Some((key, value)) = line.split_once('=')
            && keys.contains(&key.trim().to_ascii_lowercase().as_str())
            // A continued line would need the next line too.
            && !value.ends_with('\\')
        {
            found.push(format!("[{section}]\n\t{} ={value}\n", key.trim()));
        }
    }
    found
}

fn read_pointer(path: &Path) -> Option<Vec<u8>> {
    // A link or a pipe is not a valid pointer.
    regular_file::read(path, MAX_POINTER_BYTES).ok()
}

fn read_bounded(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    regular_file::open_followed(path)?
        .take(MAX_POINTER_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_read_as_git_reads_them() {
        let check = |content: &[u8], path: Option<&str>| {
            assert_eq!(pointed_to(content), path.map(OsStr::new), "{content:?}");
        };
        check(b"gitdir: ../x\n", Some("../x"));
        check(b"gitdir: ../x\r\n\n", Some("../x"));
        check(b"gitdir: x/good ", Some("x/good "));
        check(b"gitdir:  x\t\n", Some(" x\t"));
        check(b"gitdir: a\nb\n", Some("a\nb"));
        for wrong in [
            &b"gitdir:x"[..],
            b" gitdir: x",
            b"gitdir: \n",
            b"gitdir: a\0b",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn only_harmless_settings_are_handed_on() {
        let settings = "[User]\n  name = A B\n\temail=a@b.c\n signingkey = X\n\
            [url \"https://token@host/\"]\n insteadOf = https://host/\n\
            [core]\n fsmonitor = evil\n autocrlf = input\n[http]\nextraheader = secret\n\
            [user]\nname = continued \\\n";
        assert_eq!(
            harmless(settings).concat(),
            "[user]\n\tname = A B\n[user]\n\temail =a@b.c\n[core]\n\tautocrlf = input\n"
        );
    }
}
