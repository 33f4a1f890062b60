//! Walks the workspace through open descriptors, sorted by name, and skips what git ignores.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use sortie_base::glob_nesting::is_too_deep;
use sortie_core::ports::tool::ToolFailure;

use crate::blocking::Stop;
use crate::confine::{Kind, Listing, Workspace};

/// The most entries that one walk visits.
const MAX_ENTRIES: usize = 200_000;
/// The most levels that one walk descends.
const MAX_DEPTH: usize = 64;
/// The most bytes of one ignore file that are read.
const MAX_RULES_BYTES: u64 = 256 * 1024;
/// The most bytes of a rule; longer rules are skipped.
const MAX_RULE_BYTES: usize = 1024;
/// The most rules of one file that are used: all of them are compiled into one automaton.
const MAX_RULES: usize = 2_000;
/// Files with ignore rules; later ones take precedence.
const RULE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// An entry that a walk visits.
#[derive(Debug)]
pub(crate) struct WalkEntry {
    /// The open directory of the entry.
    pub(crate) directory: Rc<OwnedFd>,
    /// The path relative to the workspace.
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    /// The depth below the start; 1 for the entries of the start itself.
    pub(crate) depth: usize,
    /// Whether git ignores the entry or it is a git folder. The walk does not descend into it.
    pub(crate) ignored: bool,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The walk visited everything.
    Whole,
    /// The visitor stopped the walk.
    Enough,
    /// The walk reached a limit.
    Bounded,
}

/// The outcome of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walked {
    pub(crate) ended: Ended,
    /// The number of files and folders that policy denies.
    pub(crate) withheld: usize,
}

impl Walked {
    /// The outcome of a search in a single file.
    pub(crate) const ONE_FILE: Self = Self {
        ended: Ended::Whole,
        withheld: 0,
    };

    /// Returns notes about the outcome for the model, one per line.
    pub(crate) fn notes(self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.withheld > 0 {
            notes.push(format!(
                "({} left out: policy does not permit them)",
                self.withheld
            ));
        }
        match self.ended {
            Ended::Whole | Ended::Enough => {}
            Ended::Bounded => {
                notes.push("(stopped early: too many files; give a narrower path)".to_owned());
            }
        }
        notes
    }
}

/// Walks below `start`, at most `max_depth` deep, and passes each entry to the visitor.
pub(crate) fn walk(
    workspace: &Workspace,
    start: &Path,
    max_depth: usize,
    stop: &Stop,
    visit: &mut dyn FnMut(&WalkEntry) -> ControlFlow<()>,
) -> Result<Walked, ToolFailure> {
    let mut walker = Walker {
        workspace,
        stop,
        visit,
        max_depth: max_depth.min(MAX_DEPTH),
        rules: rules_above(workspace, start),
        seen: 0,
        withheld: 0,
    };
    // The start itself must be a readable directory; folders below it may be unreadable.
    let listing = workspace.list(start)?;
    let ended = match walker.listed(listing, start, 1) {
        ControlFlow::Continue(()) => Ended::Whole,
        ControlFlow::Break(ended) => ended,
    };
    Ok(Walked {
        ended,
        withheld: walker.withheld,
    })
}

/// Returns the path of a directory entry.
pub(crate) fn join(directory: &Path, name: &std::ffi::OsStr) -> PathBuf {
    if directory == Path::new(".") {
        PathBuf::from(name)
    } else {
        directory.join(name)
    }
}

struct Walker<'a> {
    workspace: &'a Workspace,
    stop: &'a Stop,
    visit: &'a mut dyn FnMut(&WalkEntry) -> ControlFlow<()>,
    max_depth: usize,
    /// The rules of each directory on the path, the outermost first.
    rules: Vec<Gitignore>,
    seen: usize,
    withheld: usize,
}

impl Walker<'_> {
    fn directory(&mut self, directory: &Path, depth: usize) -> ControlFlow<Ended> {
        match self.workspace.list(directory) {
            Ok(listing) => self.listed(listing, directory, depth),
            // The folder vanished or became unreadable: there is nothing to show.
            Err(_) => ControlFlow::Continue(()),
        }
    }

    fn listed(&mut self, listing: Listing, directory: &Path, depth: usize) -> ControlFlow<Ended> {
        self.withheld += listing.withheld;
        self.rules.push(rules_in(self.workspace, directory));
        let handle = Rc::new(listing.directory);
        for entry in listing.entries {
            let path = join(directory, &entry.name);
            let ignored = self.is_ignored(&path, entry.kind);
            let found = WalkEntry {
                directory: Rc::clone(&handle),
                path,
                kind: entry.kind,
                depth,
                ignored,
            };
            self.entry(&found)?;
        }
        self.rules.pop();
        if listing.cut {
            ControlFlow::Break(Ended::Bounded)
        } else {
            ControlFlow::Continue(())
        }
    }

    fn entry(&mut self, found: &WalkEntry) -> ControlFlow<Ended> {
        self.seen += 1;
        if self.seen > MAX_ENTRIES || self.stop.is_due() {
            return ControlFlow::Break(Ended::Bounded);
        }
        if (self.visit)(found).is_break() {
            return ControlFlow::Break(Ended::Enough);
        }
        if found.kind == Kind::Directory && !found.ignored && found.depth < self.max_depth {
            return self.directory(&found.path, found.depth + 1);
        }
        ControlFlow::Continue(())
    }

    fn is_ignored(&self, path: &Path, kind: Kind) -> bool {
        if path.file_name().is_some_and(|name| name == ".git") {
            return true;
        }
        let is_directory = kind == Kind::Directory;
        self.rules
            .iter()
            .rev()
            .map(|rules| rules.matched(path, is_directory))
            .find(|verdict| !verdict.is_none())
            .is_some_and(|verdict| verdict.is_ignore())
    }
}

/// Returns the rules of the directories above the start, within the workspace.
fn rules_above(workspace: &Workspace, start: &Path) -> Vec<Gitignore> {
    let mut rules = vec![rules_from(
        workspace,
        Path::new("."),
        &[".git/info/exclude"],
    )];
    let plain = start
        .components()
        .all(|component| matches!(component, std::path::Component::Normal(_)));
    if !plain {
        return rules;
    }
    let mut above: Vec<&Path> = start.ancestors().skip(1).collect();
    above.reverse();
    for directory in above {
        let directory = if directory.as_os_str().is_empty() {
            Path::new(".")
        } else {
            directory
        };
        rules.push(rules_in(workspace, directory));
    }
    rules
}

fn rules_in(workspace: &Workspace, directory: &Path) -> Gitignore {
    rules_from(workspace, directory, &RULE_FILES)
}

fn rules_from(workspace: &Workspace, directory: &Path, names: &[&str]) -> Gitignore {
    let mut builder = GitignoreBuilder::new(directory);
    for name in names {
        let path = join(directory, name.as_ref());
        // Ignore rules only leave out more files; their text is never shown.
        let Ok(Some(mut open)) = workspace.find_unasked(&path) else {
            continue;
        };
        let Ok(bytes) = open.read(&path, MAX_RULES_BYTES) else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes);
        let usable = |line: &&str| line.len() <= MAX_RULE_BYTES && !is_too_deep(line);
        for line in text.lines().filter(usable).take(MAX_RULES) {
            // Like git, skip lines that cannot be parsed.
            builder.add_line(None, line).ok();
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::never;
    use crate::testing::Folder;

    fn check(files: &[(&str, &str)], start: &str, depth: usize, expected: &[&str]) {
        let folder = Folder::with(files);
        let workspace = folder.workspace();
        let mut seen = Vec::new();
        let ended = walk(
            &workspace,
            Path::new(start),
            depth,
            &never(),
            &mut |found| {
                if !found.ignored {
                    seen.push(found.path.display().to_string());
                }
                ControlFlow::Continue(())
            },
        );
        assert_eq!(ended.unwrap(), Walked::ONE_FILE);
        assert_eq!(seen, expected);
    }

    #[test]
    fn entries_are_sorted_by_name_and_limited_by_depth() {
        let files = [("b/c/d.txt", ""), ("a.txt", ""), (".hidden", "")];
        check(&files, ".", 1, &[".hidden", "a.txt", "b"]);
        check(
            &files,
            ".",
            9,
            &[".hidden", "a.txt", "b", "b/c", "b/c/d.txt"],
        );
        check(&files, "b", 9, &["b/c", "b/c/d.txt"]);
    }

    #[test]
    fn honours_ignore_rules() {
        let root = [
            (".gitignore", "*.log\ntarget/\n"),
            ("x.log", ""),
            ("target/y", ""),
            ("z", ""),
        ];
        check(&root, ".", 9, &[".gitignore", "z"]);
        let nested = [
            (".gitignore", "*.log\n"),
            ("a/.gitignore", "!keep.log\n"),
            ("a/keep.log", ""),
        ];
        check(
            &nested,
            ".",
            9,
            &[".gitignore", "a", "a/.gitignore", "a/keep.log"],
        );
        let above = [(".gitignore", "/a/out\n"), ("a/out/f", ""), ("a/in", "")];
        check(&above, "a", 9, &["a/in"]);
        let exclude = [
            (".git/info/exclude", "secret\n"),
            ("secret", ""),
            ("open", ""),
        ];
        check(&exclude, ".", 9, &["open"]);
        let named_file = [(".gitignore", "target/\n"), ("target/y", "")];
        check(&named_file, "target", 9, &["target/y"]);
    }

    #[test]
    fn does_not_follow_links() {
        let folder = Folder::with(&[("in/f", "")]);
        let outside = Folder::with(&[("secret", "")]);
        folder.link("out", outside.path());
        folder.link("loop", folder.path());
        let mut seen = Vec::new();
        walk(
            &folder.workspace(),
            Path::new("."),
            9,
            &never(),
            &mut |found| {
                seen.push((found.path.display().to_string(), found.kind));
                ControlFlow::Continue(())
            },
        )
        .unwrap();
        let expected = [
            ("in", Kind::Directory),
            ("in/f", Kind::File),
            ("loop", Kind::Symlink),
            ("out", Kind::Symlink),
        ];
        assert_eq!(seen, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }

    /// A rule with 100,000 nested braces overflowed the stack of the glob compiler.
    #[test]
    fn nested_or_endless_rules_are_skipped() {
        let nested = format!("{}x{}", "{".repeat(100_000), "}".repeat(100_000));
        let rules = format!("{nested}\n{}\nignored\n", "*".repeat(50_000));
        let files = [
            (".gitignore", rules.as_str()),
            ("ignored", ""),
            ("seen", ""),
        ];
        check(&files, ".", 1, &[".gitignore", "seen"]);
    }
}
