//! Paths as git spells them: where they lead, and which of them tools obey.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sortie_base::hidden::is_hidden;

/// Names that tell programs on the person's machine what to run or whom to trust. A change of
/// theirs is not applied, wherever they stand in a path. This is the least that applies: the program
/// passes the longer list of the sandbox to [`Worktrees::with_protected`](crate::Worktrees).
pub const PROTECTED_NAMES: &[&str] = &[
    ".mcp.json",
    "sortie.toml",
    ".sortie",
    ".claude",
    ".agents",
    ".vscode",
    ".idea",
    ".cursor",
    ".envrc",
    ".husky",
];

/// Whether a path stays in the checkout and out of git folders. git checks that too; this is where
/// the path is used.
pub(crate) fn is_safe(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/');
    !path.contains(&0)
        && parts
            .all(|part| !matches!(part, b"" | b"." | b"..") && !part.eq_ignore_ascii_case(b".git"))
}

/// Whether a part of a path has one of these names, in whatever case.
pub(crate) fn is_among(path: &[u8], names: &[String]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/');
    parts.any(|part| {
        names
            .iter()
            .any(|name| part.eq_ignore_ascii_case(name.as_bytes()))
    })
}

/// A path for a command that a person may copy: a shell takes it for nothing but a name.
pub(crate) fn quoted(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path).replace(is_hidden, "\u{fffd}");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-');
    if text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The folders on the way to a path, the deepest first.
pub(crate) fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().rev();
    ends.filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| &path[..at])
}

/// A path of git's, below a folder.
pub(crate) fn below(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(path))
}

/// A path of git's, and a name in it.
pub(crate) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    [path, b"/", name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_are_safe() {
        let check = |path: &str, expected| {
            assert_eq!(is_safe(path.as_bytes()), expected, "{path:?}");
        };
        for good in ["a", "a/b", ".gitignore", "a/..b", "a.git/b"] {
            check(good, true);
        }
        for bad in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            "..",
            "../a",
            "a/../b",
            ".",
            "a/./b",
            ".git",
            ".GIT/x",
            "a/.Git/hooks",
            "a\0b",
        ] {
            check(bad, false);
        }
    }

    #[test]
    fn a_quoted_path_has_no_hidden_characters() {
        for hidden in sortie_base::hidden::all() {
            let quoted = quoted(format!("a{hidden}b").as_bytes());
            assert_eq!(quoted, "'a\u{fffd}b'");
        }
    }

    #[test]
    fn protected_names_are_found_at_any_depth() {
        let names: Vec<String> = PROTECTED_NAMES.iter().map(ToString::to_string).collect();
        let check = |path: &str, expected| {
            assert_eq!(is_among(path.as_bytes(), &names), expected, "{path:?}");
        };
        for protected in [
            ".mcp.json",
            "a/.MCP.json",
            ".claude/x",
            "a/b/.vscode/c",
            "Sortie.toml",
        ] {
            check(protected, true);
        }
        for free in [
            "mcp.json",
            "a.mcp.json",
            ".claude.md",
            "sortie.toml.md",
            "docs/claude",
        ] {
            check(free, false);
        }
    }

    #[test]
    fn a_shell_takes_a_quoted_path_for_a_name() {
        let check = |path: &str, expected: &str| assert_eq!(quoted(path.as_bytes()), expected);
        check(".claude/a-b_c.md", ".claude/a-b_c.md");
        check("a b", "'a b'");
        check("$(id);'x", r"'$(id);'\''x'");
        check("a\n\u{1b}b", "'a\u{fffd}\u{fffd}b'");
    }
}
