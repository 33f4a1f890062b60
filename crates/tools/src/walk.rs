//! Walking the workspace: through held descriptors, in order of names, past what git ignores.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use sortie_base::glob_nesting::is_too_deep;
use sortie_core::ToolFailure;

use crate::blocking::Stop;
use crate::confine::{Kind, Listing, Workspace};

/// How many entries one walk looks at.
const MAX_ENTRIES: usize = 200_000;
/// How deep one walk goes.
const MAX_DEPTH: usize = 64;
/// How much of one ignore file is read.
const MAX_RULES_BYTES: u64 = 256 * 1024;
/// The longest rule that is used.
const MAX_RULE_BYTES: usize = 1024;
/// How many rules of one file are used: all of them become one automaton.
const MAX_RULES: usize = 2_000;
/// Files with rules about what to leave out; later ones win.
const RULE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// Something a walk came across.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its directory, held open.
    pub(crate) directory: Rc<OwnedFd>,
    /// Its path, relative to the workspace.
    pub(crate) path: PathBuf,
    /// What it is.
    pub(crate) kind: Kind,
    /// How far below the start; 1 for what the start holds.
    pub(crate) depth: usize,
    /// Whether git ignores it or owns it. Never walked into.
    pub(crate) ignored: bool,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It saw everything.
    Whole,
    /// The visitor had enough.
    Enough,
    /// It looked at as much as one walk may.
    Bounded,
}

/// What a walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Why it ended.
    pub(crate) ended: Ended,
    /// How many files and folders policy did not permit to be shown.
    pub(crate) withheld: usize,
}

impl Walked {
    /// A look at one file alone.
    pub(crate) const ONE_FILE: Self = Self {
        ended: Ended::Whole,
        withheld: 0,
    };

    /// What to tell a model about it, in lines.
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
                notes.push("(stopped early: too much to look at; give a narrower path)".to_owned());
            }
        }
        notes
    }
}

/// Walks below `start`, at most `max_depth` deep, and shows each entry to the visitor.
pub(crate) fn walk(
    workspace: &Workspace,
    start: &Path,
    max_depth: usize,
    stop: &Stop,
    visit: &mut dyn FnMut(&Found) -> ControlFlow<()>,
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
    // The start itself must be a readable directory; what lies below may be unreadable.
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

/// The path of an entry of a directory.
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
    visit: &'a mut dyn FnMut(&Found) -> ControlFlow<()>,
    max_depth: usize,
    /// The rules of each directory on the way, the outermost first.
    rules: Vec<Gitignore>,
    seen: usize,
    withheld: usize,
}

impl Walker<'_> {
    fn directory(&mut self, directory: &Path, depth: usize) -> ControlFlow<Ended> {
        match self.workspace.list(directory) {
            Ok(listing) => self.listed(listing, directory, depth),
            // Vanished or unreadable meanwhile: there is nothing to show.
            Err(_) => ControlFlow::Continue(()),
        }
    }

    fn listed(&mut self, listing: Listing, directory: &Path, depth: usize) -> ControlFlow<Ended> {
        self.withheld += listing.withheld;
        self.rules.push(rules_in(self.workspace, directory));
        let held = Rc::new(listing.directory);
        for entry in listing.entries {
            let path = join(directory, &entry.name);
            let ignored = self.is_ignored(&path, entry.kind);
            let found = Found {
                directory: Rc::clone(&held),
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

    fn entry(&mut self, found: &Found) -> ControlFlow<Ended> {
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

/// The rules of the directories above the start, within the workspace.
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
            // git passes over lines it cannot read, and so do we.
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
    fn goes_by_name_and_depth() {
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
        let asked_for = [(".gitignore", "target/\n"), ("target/y", "")];
        check(&asked_for, "target", 9, &["target/y"]);
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
    fn rules_that_nest_or_never_end_are_passed_over() {
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
