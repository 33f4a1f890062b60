//! Finds the files of a working tree that the user's git settings name.
//!
//! A hook folder, an included configuration file or a program that `core.hooksPath`,
//! `include.path`, `filter.*.clean` and the like load from the working tree is as powerful as the
//! settings themselves: git acts on its content.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use sortie_base::regular_file;

use crate::git::{folder_of, linked_worktree};
use crate::git_config::{self, Entry};
use crate::layout::is_plain;
use crate::protected::{Protected, WhileAbsent};

/// The most configuration files that are read, including all that they include.
const MAX_FILES: usize = 64;
/// The largest configuration file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The most places that are protected because settings name them.
const MAX_PLACES: usize = 64;

/// Returns the places in a working tree that the settings of the repository or of the user name.
/// Paths are relative to the working tree.
pub fn named_by_settings(worktree: &Path, home: Option<&Path>) -> Vec<Protected> {
    let mut reader = Reader {
        worktree,
        home,
        seen: BTreeSet::new(),
        found: Vec::new(),
    };
    let folder = match linked_worktree(worktree) {
        Some(linked) => Some(linked.common_folder),
        None => folder_of(worktree),
    };
    if let Some(folder) = folder {
        reader.read(&folder.join("config"));
    }
    for name in [".gitconfig", ".config/git/config"] {
        if let Some(home) = home {
            reader.read(&home.join(name));
        }
    }
    reader.found
}

struct Reader<'a> {
    worktree: &'a Path,
    home: Option<&'a Path>,
    seen: BTreeSet<PathBuf>,
    found: Vec<Protected>,
}

impl Reader<'_> {
    fn read(&mut self, file: &Path) {
        if self.seen.len() >= MAX_FILES || !self.seen.insert(file.to_owned()) {
            return;
        }
        // Users may keep their configuration elsewhere and link to it.
        let Ok(real) = fs::canonicalize(file) else {
            return;
        };
        let Ok(text) = regular_file::read(&real, MAX_FILE_BYTES) else {
            return;
        };
        let settings = git_config::parse(&String::from_utf8_lossy(&text));
        for entry in &settings.entries {
            self.record(entry, file);
        }
    }

    fn record(&mut self, entry: &Entry, file: &Path) {
        let Some(value) = entry.value.as_deref().filter(|value| !value.is_empty()) else {
            return;
        };
        let section = entry.section.as_str();
        let key = entry.key.to_ascii_lowercase();
        match (section, key.as_str()) {
            ("include" | "includeif", "path") => {
                let folder = file.parent().unwrap_or(Path::new("/"));
                let included = self.path(folder, value);
                // An empty configuration file sets nothing.
                self.protect(&included, WhileAbsent::File(""));
                self.read(&included);
            }
            ("core", "hookspath") => {
                let hooks = self.path(self.worktree, value);
                self.protect(&hooks, WhileAbsent::StandIn);
            }
            _ if git_config::is_data(entry) => {}
            _ => {
                for word in words(value) {
                    let named = self.path(self.worktree, word);
                    if fs::metadata(&named).is_ok_and(|facts| facts.is_file()) {
                        self.protect(&named, WhileAbsent::Watch);
                    }
                }
            }
        }
    }

    /// Resolves a path as git does, without `.` and `..`.
    fn path(&self, base: &Path, value: &str) -> PathBuf {
        let path = match (value.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => base.join(value),
        };
        let mut tidy = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(tidy.pop()),
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => tidy.push(part),
            }
        }
        tidy
    }

    fn protect(&mut self, path: &Path, absent: WhileAbsent) {
        let Ok(inside) = path.strip_prefix(self.worktree) else {
            return;
        };
        // The working tree as a whole cannot be protected; the git folder is protected already.
        if self.found.len() < MAX_PLACES && is_plain(inside) && !inside.starts_with(".git") {
            self.found.push(Protected {
                path: inside.to_owned(),
                absent,
            });
        }
    }
}

/// Splits a command line roughly into words that a shell may treat as file names.
fn words(value: &str) -> impl Iterator<Item = &str> {
    value
        .split(|one: char| one.is_whitespace() || "'\"`$(){}|&;<>=!".contains(one))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_settings_name_in_the_working_tree_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let (home, tree) = (root.join("home"), root.join("home/tree"));
        fs::create_dir_all(tree.join(".git")).unwrap();
        fs::create_dir_all(tree.join("tools")).unwrap();
        fs::write(tree.join(".git/HEAD"), "ref: refs/heads/main").unwrap();
        fs::write(tree.join("tools/clean.py"), "").unwrap();
        fs::write(tree.join("main"), "").unwrap();
        fs::write(tree.join("more"), "[diff]\nexternal = ./tools/clean.py\n").unwrap();
        fs::write(
            tree.join(".git/config"),
            "[core]\nhooksPath = .githooks\n[include]\npath = ../more\n[branch \"x\"]\nmerge = main\n\
             [filter \"a\"]\nclean = python3 \"tools/clean.py\" %f\n",
        )
        .unwrap();
        fs::write(
            home.join(".gitconfig"),
            "[includeIf \"gitdir:~/\"]\npath = ~/tree/absent\n[include]\npath = /etc/x\n",
        )
        .unwrap();
        let found = named_by_settings(&tree, Some(&home));
        let mut found: Vec<_> = found
            .iter()
            .map(|one| (one.path.to_str().unwrap(), one.absent))
            .collect();
        found.sort_by_key(|(path, _)| *path);
        found.dedup();
        assert_eq!(
            found,
            [
                (".githooks", WhileAbsent::StandIn),
                ("absent", WhileAbsent::File("")),
                ("more", WhileAbsent::File("")),
                ("tools/clean.py", WhileAbsent::Watch),
            ]
        );
    }
}
