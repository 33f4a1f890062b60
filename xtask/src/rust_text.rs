//! Rust sources as text: which lines are code, comments and tests. No parser: `cargo xtask` is built
//! before everything else and has few dependencies.

use crate::tree::Tree;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Blank,
    Comment,
    Code,
}

/// Whether a Rust file belongs to the product: a crate's sources, without tests, test support and
/// benchmarks.
pub(crate) fn is_product(tree: &Tree, path: &str) -> bool {
    path.ends_with(".rs")
        && path.starts_with("crates/")
        && path.contains("/src/")
        && !path.starts_with("crates/test-support/")
        && !path.starts_with("crates/bench/")
        && !is_test(tree, path)
}

/// Whether a Rust file contains only tests: `tests.rs`, a file below `tests/`, or a module that its
/// parent declares with `#[cfg(test)]`.
pub(crate) fn is_test(tree: &Tree, path: &str) -> bool {
    if path.ends_with("/tests.rs") || path.contains("/tests/") {
        return true;
    }
    let Some((folder, file)) = path.rsplit_once('/') else {
        return false;
    };
    let name = file.trim_end_matches(".rs");
    let declaration = format!("#[cfg(test)]\nmod {name};");
    let parents = [
        format!("{folder}/lib.rs"),
        format!("{folder}/main.rs"),
        format!("{folder}/mod.rs"),
        format!("{folder}.rs"),
    ];
    parents
        .iter()
        .filter_map(|parent| tree.text(parent))
        .any(|text| text.contains(&declaration))
}

/// The text before the tests inside the file.
pub(crate) fn without_tests(text: &str) -> &str {
    let tests = ["\n#[cfg(test)]\nmod tests {", "\n#[cfg(test)]\nmod tests;"];
    let end = tests.iter().filter_map(|mark| text.find(mark)).min();
    &text[..end.unwrap_or(text.len())]
}

/// The lines of code: neither blank nor comment. Attributes count as code.
pub(crate) fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| kind(line) == Line::Code)
}

/// A comment: consecutive lines with the same marker (`///`, `//!` or `//`), without the marker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Comment {
    /// Whether it documents an item (`///`).
    pub(crate) documents: bool,
    /// Its words, on one line.
    pub(crate) text: String,
}

/// All comments of a source file, in order.
pub(crate) fn comments(text: &str) -> Vec<Comment> {
    let mut comments: Vec<Comment> = Vec::new();
    let mut marker_before = "";
    for line in text.lines() {
        let line = line.trim_start();
        let marker = ["///", "//!", "//"]
            .into_iter()
            .find(|marker| line.starts_with(marker))
            .unwrap_or_default();
        if !marker.is_empty() {
            let words = line[marker.len()..].trim();
            match comments.last_mut() {
                Some(comment) if marker == marker_before => {
                    comment.text.push(' ');
                    comment.text.push_str(words);
                }
                _ => comments.push(Comment {
                    documents: marker == "///",
                    text: words.to_owned(),
                }),
            }
        }
        marker_before = marker;
    }
    comments
}

/// The functions of a source file, each as its text up to the next one. A closure or an inner
/// function belongs to the function around it only up to the inner `fn`, which is enough to find
/// two calls that stand near each other.
pub(crate) fn functions(text: &str) -> Vec<String> {
    let mut functions = vec![String::new()];
    for line in code(text) {
        if defines(line, "fn").is_some() {
            functions.push(String::new());
        }
        if let Some(function) = functions.last_mut() {
            function.push_str(line);
            function.push('\n');
        }
    }
    functions
}

/// The name that a line defines with this keyword (`fn`, `struct`, `enum`, …).
pub(crate) fn defines<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let mut rest = line.trim_start();
    if rest.starts_with("pub(")
        && let Some(end) = rest.find(") ")
    {
        rest = &rest[end + 2..];
    }
    for modifier in ["pub ", "default ", "const ", "async ", "unsafe "] {
        // `const NAME` is a definition of its own, `const fn` is a modifier.
        if modifier != "const " || keyword != "const" {
            rest = rest.strip_prefix(modifier).unwrap_or(rest);
        }
    }
    let rest = rest.strip_prefix(keyword)?.strip_prefix(' ')?;
    let end = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

fn kind(line: &str) -> Line {
    let line = line.trim_start();
    if line.is_empty() {
        Line::Blank
    } else if line.starts_with("//") || line.starts_with("/*") {
        Line::Comment
    } else {
        Line::Code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_comments_and_tests_are_not_code() {
        let text = "//! About.\n\nfn f() {}\n/// Does g.\nfn g() {}\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        let lines: Vec<&str> = code(without_tests(text)).collect();
        assert_eq!(lines, ["fn f() {}", "fn g() {}"]);
    }

    #[test]
    fn adjacent_lines_with_one_marker_are_one_comment() {
        let found = comments("//! A\n//! b.\n/// When.\nfn f() {}\n    // Because\n    // c.\n");
        let texts: Vec<(bool, &str)> = found
            .iter()
            .map(|comment| (comment.documents, comment.text.as_str()))
            .collect();
        assert_eq!(
            texts,
            [(false, "A b."), (true, "When."), (false, "Because c.")]
        );
    }

    #[test]
    fn definitions_are_found_behind_visibility_and_modifiers() {
        for (line, keyword, expected) in [
            ("pub(crate) const fn len(&self) {", "fn", Some("len")),
            ("    pub async fn run<T>(", "fn", Some("run")),
            ("const MAX: usize = 1;", "const", Some("MAX")),
            ("pub struct Tree {", "struct", Some("Tree")),
            ("pub(in crate::a) struct Tree;", "struct", Some("Tree")),
            ("let fn_name = 1;", "fn", None),
            ("struct Tree {", "enum", None),
        ] {
            assert_eq!(defines(line, keyword), expected, "{line}");
        }
    }

    #[test]
    fn modules_that_a_parent_compiles_for_tests_only_are_tests() {
        let tree = Tree::default()
            .with("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod page;\n")
            .with("crates/a/src/b.rs", "")
            .with("crates/a/src/page.rs", "");
        assert!(is_product(&tree, "crates/a/src/b.rs"));
        assert!(!is_product(&tree, "crates/a/src/page.rs"));
        assert!(!is_product(&tree, "crates/a/src/b/tests.rs"));
        assert!(!is_product(&tree, "crates/bench/src/main.rs"));
    }
}
