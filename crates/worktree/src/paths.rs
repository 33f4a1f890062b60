//! Paths as git spells them: whether they are safe, and which of them tools obey.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sortie_base::hidden::is_hidden;

/// Names that tell programs on the user's machine what to run or what to trust. A change of such a
/// file is not applied, wherever the name stands in a path. This is the minimum: the program passes
/// the longer list of the sandbox to [`Worktrees::with_protected`](crate::Worktrees).
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

/// Returns whether a path stays in the checkout and out of git folders. Git checks that too; this
/// check is at the point of use.
pub(crate) fn is_safe(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/');
    !path.contains(&0)
        && parts
            .all(|part| !matches!(part, b"" | b"." | b"..") && !part.eq_ignore_ascii_case(b".git"))
}

/// Returns whether a component of a path has one of these names, ignoring case.
pub(crate) fn is_among(path: &[u8], names: &[String]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/');
    parts.any(|part| {
        names
            .iter()
            .any(|name| part.eq_ignore_ascii_case(name.as_bytes()))
    })
}

/// Quotes a path for a command that a person may copy: a shell treats it as nothing but a name.
pub(crate) fn quoted(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path).replace(is_hidden, "\u{fffd}");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-');
    if text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns the ancestors of a path, the deepest first.
pub(crate) fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().rev();
    ends.filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| &path[..at])
}

/// Returns a git path below a folder.
pub(crate) fn below(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(path))
}

/// Appends a name to a git path.
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
