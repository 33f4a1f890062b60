//! Places in the workspace, and the globs of rules.

use std::path::{Component, Path};

use globset::{GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};
use sortie_base::glob_nesting;

/// The destination of a path, computed from its text alone; links are checked at use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Inside the workspace: relative, without `.`, `..`, doubled or trailing slashes. Empty is the
    /// root.
    Inside(String),
    /// Outside the workspace, or not a path at all.
    Outside,
}

impl Place {
    /// Returns the place of a path argument relative to a workspace.
    pub(crate) fn of(workspace: &Path, path: &Path) -> Self {
        let Some(parts) = normal(path) else {
            return Self::Outside;
        };
        if path.is_relative() {
            return Self::Inside(parts.join("/"));
        }
        let inside = normal(workspace)
            .filter(|_| workspace.is_absolute())
            .and_then(|root| {
                parts
                    .strip_prefix(root.as_slice())
                    .map(|rest| rest.join("/"))
            });
        inside.map_or(Self::Outside, Self::Inside)
    }
}

/// Returns the components of a path, or `None` if it climbs out of its start.
fn normal(path: &Path) -> Option<Vec<&str>> {
    if path.as_os_str().is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::Normal(part) => {
                parts.push(part.to_str().filter(|part| !part.contains('\0'))?);
            }
            Component::Prefix(_) => return None,
        }
    }
    Some(parts)
}

/// The glob of a rule. It is compiled in two ways, a strict one to permit and a wide one to
/// restrict.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    /// Matches the glob as it is written.
    strict: GlobMatcher,
    /// Matches the folder whose content the glob covers, for tools that search folders.
    folder: Option<GlobMatcher>,
    /// Matches in any letter case, and everything beneath.
    wide: GlobSet,
}

impl PathPattern {
    /// Parses a glob; the error is a sentence.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let glob = checked(text)?;
        let folder = glob.strip_suffix("/**");
        let beneath = format!("{glob}/**");
        let mut wide = GlobSetBuilder::new();
        for form in [Some(glob.as_str()), Some(&beneath), folder]
            .into_iter()
            .flatten()
        {
            wide.add(built(form, true)?);
        }
        Ok(Self {
            strict: built(&glob, false)?.compile_matcher(),
            folder: match folder {
                Some(folder) => Some(built(folder, false)?.compile_matcher()),
                None => None,
            },
            wide: wide.build().map_err(|error| error.to_string())?,
        })
    }

    /// Returns whether a permitting rule with this glob matches the place. If `looks_into`, the
    /// tool reads the content of the folder and not the folder itself.
    pub(crate) fn permits(&self, place: &Place, looks_into: bool) -> bool {
        match place {
            Place::Outside => false,
            Place::Inside(path) => {
                self.strict.is_match(path)
                    || (looks_into
                        && self
                            .folder
                            .as_ref()
                            .is_some_and(|folder| folder.is_match(path)))
            }
        }
    }

    /// Returns whether a restricting rule with this glob matches the place.
    pub(crate) fn restricts(&self, place: &Place) -> bool {
        match place {
            Place::Outside => true,
            Place::Inside(path) => self.wide.is_match(path),
        }
    }
}

/// Returns the glob in the normalized form of places, so that no rule silently matches nothing.
fn checked(text: &str) -> Result<String, String> {
    if text == "*" {
        return Ok("**".to_owned());
    }
    if text.starts_with(['/', '~']) {
        return Err("paths in rules are relative to the workspace".to_owned());
    }
    if text.contains('\0') {
        return Err("a path cannot contain a NUL character".to_owned());
    }
    let names: Vec<&str> = text
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".")
        .collect();
    if names.contains(&"..") {
        return Err("paths in rules must not contain `..`".to_owned());
    }
    if names.is_empty() {
        return Err("the path is empty; use `**` for every path".to_owned());
    }
    let contents = if text.ends_with('/') { "/**" } else { "" };
    Ok(format!("{}{contents}", names.join("/")))
}

fn built(glob: &str, any_case: bool) -> Result<globset::Glob, String> {
    // The glob compiler recurses into braces.
    if glob_nesting::is_too_deep(glob) {
        let most = glob_nesting::MAX_NESTING;
        return Err(format!("braces nest more than {most} deep"));
    }
    GlobBuilder::new(glob)
        .literal_separator(true)
        .backslash_escape(true)
        .case_insensitive(any_case)
        .build()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_normalized_and_inside_the_workspace() {
        for (path, expected) in [
            ("src/main.rs", Some("src/main.rs")),
            ("./src//main.rs", Some("src/main.rs")),
            ("src/./a/../main.rs", Some("src/main.rs")),
            ("src/", Some("src")),
            (".", Some("")),
            ("a/..", Some("")),
            ("..", None),
            ("../shop/src", None),
            ("a/../../shop", None),
            ("/home/ada/shop/src/x", Some("src/x")),
            ("/home/ada/shop", Some("")),
            ("/home/ada/./shop/../shop/x", Some("x")),
            ("/home/ada/shopping/x", None),
            ("/home/ada/shop/../x", None),
            ("/etc/passwd", None),
            ("src/a\0b", None),
            ("", None),
        ] {
            let expected = expected.map_or(Place::Outside, |path| Place::Inside(path.to_owned()));
            let found = Place::of(Path::new("/home/ada/shop"), Path::new(path));
            assert_eq!(found, expected, "{path:?}");
        }
    }

    /// Checks whether the pattern permits and restricts the path, as two letters.
    fn check(pattern: &str, path: &str, looks_into: bool, expected: &str) {
        let place = Place::of(Path::new("/w"), Path::new(path));
        let read = PathPattern::read(pattern).unwrap();
        let shown = [
            if read.permits(&place, looks_into) {
                "p"
            } else {
                "-"
            },
            if read.restricts(&place) { "r" } else { "-" },
        ];
        assert_eq!(shown.concat(), expected, "{pattern} {path} {looks_into}");
    }

    #[test]
    fn globs_are_strict_for_permission_and_wide_for_restriction() {
        check("src/**", "src/a/b.rs", false, "pr");
        check("src/**", "src", false, "-r");
        check("src/**", "src", true, "pr");
        check("src/**", "srcs/a", true, "--");
        check("src/**", "SRC/a", false, "-r");
        check("src/**", "../src/a", false, "-r");
        check("src/", "src/a", false, "pr");
        check("./src/*.rs", "src/a.rs", false, "pr");
        check("src/*.rs", "src/a/b.rs", false, "--");
        check(".git", ".git/config", false, "-r");
        check(".git", ".GIT", false, "-r");
        check("*", "a/b/c", false, "pr");
        check("*", ".", true, "pr");
        check("**", ".", true, "pr");
        check("**/*.env", "deep/down/x.env", false, "pr");
        check("**/*.env", "x.env", false, "pr");
        check("app/(group)/{a,b}.ts", "app/(group)/b.ts", false, "pr");
    }

    #[test]
    fn globs_that_could_match_nothing_are_rejected() {
        for pattern in [
            "", "/etc/**", "~/x", "../x", "a/../b", "./", "a[", "{a", "a\0",
        ] {
            assert!(PathPattern::read(pattern).is_err(), "{pattern:?}");
        }
    }

    /// When compiled, the first overflows the stack and the second panics.
    #[test]
    fn globs_that_nest_too_deep_are_refused() {
        for depth in [100_000, 300] {
            let glob = format!("{}x{}", "{".repeat(depth), "}".repeat(depth));
            assert!(built(&glob, true).is_err(), "{depth}");
        }
    }
}
