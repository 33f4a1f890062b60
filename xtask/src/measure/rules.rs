//! Copies of the rules that must exist once. A copy is recognised by what its code has to contain,
//! and is counted once for each crate (the page counts as one), because a crate may spread one
//! implementation over several files.

use std::collections::BTreeSet;

use crate::rust_text::{self, code, functions, without_tests};
use crate::tree::Tree;

/// Recognises a copy by the code of a file, without comments and tests.
type Recognise = fn(&str) -> bool;

/// The shared rules: name, and how a copy is recognised.
const RULES: [(&str, Recognise); 8] = [
    ("secret types", is_secret_type),
    ("redactors", is_redactor),
    ("hidden-character tables", is_hidden_table),
    ("wildcard matchers", is_wildcard_matcher),
    ("link-free folder openers", is_folder_opener),
    ("atomic writers", is_atomic_writer),
    ("truncators", is_truncator),
    ("SSE readers", is_sse_reader),
];

/// Characters that every table of hidden characters contains, in hexadecimal digits.
const TELLING: [&str; 4] = ["202e", "200b", "2066", "feff"];

/// A rule and the files that implement it, one for each crate.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) rule: &'static str,
    pub(crate) places: Vec<String>,
}

/// Finds the copies of every shared rule.
pub(crate) fn copies(tree: &Tree) -> Vec<Copies> {
    RULES
        .iter()
        .map(|(rule, recognise)| Copies {
            rule,
            places: places(tree, *recognise),
        })
        .collect()
}

fn places(tree: &Tree, recognise: Recognise) -> Vec<String> {
    let mut owners = BTreeSet::new();
    tree.texts()
        .filter(|(path, text)| {
            let shipped = rust_text::is_product(tree, path) || is_page_source(path);
            shipped && recognise(&code_of(text)) && owners.insert(owner(path))
        })
        .map(|(path, _)| path.to_owned())
        .collect()
}

/// Returns whether a file belongs to the page: written by hand and shipped.
pub(super) fn is_page_source(path: &str) -> bool {
    path.starts_with("web/src/")
        && [".ts", ".tsx"].iter().any(|end| path.ends_with(end))
        && !path.contains(".test.")
        && path != "web/src/api/schema.ts"
}

/// Returns the folder of the crate, or of the page.
fn owner(path: &str) -> &str {
    let end = path.find("/src/").unwrap_or(path.len());
    &path[..end]
}

/// Returns the code of a file, each line after a line break.
fn code_of(text: &str) -> String {
    code(without_tests(text))
        .flat_map(|line| ["\n", line])
        .collect()
}

fn has_any(text: &str, needles: &[&str]) -> bool {
    needles.iter().any(|needle| text.contains(needle))
}

/// Returns whether the text has a type whose `Debug` prints a mark instead of its value.
fn is_secret_type(text: &str) -> bool {
    text.split("\nimpl ").skip(1).any(|block| {
        let head = block.lines().next().unwrap_or_default();
        let body = block.split("\n}").next().unwrap_or(block);
        head.contains("Debug for ") && has_any(body, &["REDACTED", "[redacted]"])
    })
}

/// Returns whether the text has a function that replaces known values by the mark.
fn is_redactor(text: &str) -> bool {
    functions(text).iter().any(|function| {
        has_any(function, &[".replace(", ".replace_all("]) && function.contains("REDACTED")
    })
}

fn is_hidden_table(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let spelled = |digits: &&str| {
        ["\\u{", "\\u", "0x"]
            .iter()
            .any(|start| text.contains(&format!("{start}{digits}")))
    };
    TELLING.iter().filter(|digits| spelled(digits)).count() >= 2
}

fn is_wildcard_matcher(text: &str) -> bool {
    has_any(text, &["split('*')", "split_once('*')"])
}

/// Returns whether a function opens a path component by component.
fn is_folder_opener(text: &str) -> bool {
    functions(text).iter().any(|function| {
        has_any(function, &[".components()", "path.iter()"]) && function.contains("openat(")
    })
}

/// Returns whether the text has a function that writes a file and renames it over another.
fn is_atomic_writer(text: &str) -> bool {
    functions(text).iter().any(|function| {
        has_any(function, &["fs::rename(", "renameat(", ".persist("])
            && has_any(
                function,
                &[
                    "write_all(",
                    "fs::write(",
                    "sync_all(",
                    "write_to(",
                    "&draft",
                ],
            )
    })
}

/// Returns whether the text has a function that truncates text to a number of characters.
fn is_truncator(text: &str) -> bool {
    functions(text).iter().any(|function| {
        let name = function
            .lines()
            .next()
            .and_then(|line| rust_text::defines(line, "fn"))
            .unwrap_or_default();
        let head = function.split('{').next().unwrap_or_default();
        let named = ["cut", "shorten", "truncate", "clip", "clean_first"]
            .iter()
            .any(|start| name.starts_with(start));
        let of_text = has_any(head, &["&str", ": &mut String", ": String"]);
        of_text
            && (named
                && has_any(
                    function,
                    &["chars()", "char_indices()", "floor_char_boundary"],
                )
                || function.contains("char_indices().nth("))
    })
}

/// Returns whether the text reads server-sent events: it distinguishes their fields.
fn is_sse_reader(text: &str) -> bool {
    text.contains("\"data\" =>") && has_any(text, &["\"event\" =>", "\"id\" =>"])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a rule with its code in two crates and in a test.
    fn check(rule: &str, code: &str) {
        let tree = Tree::default()
            .with("crates/a/src/one.rs", code)
            .with("crates/a/src/two.rs", code)
            .with("crates/b/src/lib.rs", code)
            .with("crates/c/src/tests.rs", code);
        for copies in copies(&tree) {
            let expected: &[&str] = if copies.rule == rule {
                &["crates/a/src/one.rs", "crates/b/src/lib.rs"]
            } else {
                &[]
            };
            assert_eq!(copies.places, expected, "{} in {code}", copies.rule);
        }
    }

    #[test]
    fn every_rule_is_recognised_once_for_each_crate() {
        check(
            "secret types",
            "\nimpl fmt::Debug for Key {\n    f.write_str(\"[redacted]\")\n}",
        );
        check(
            "redactors",
            "fn clean(text: &str) {\n    text.replace(key, REDACTED)\n}",
        );
        check(
            "hidden-character tables",
            concat!("'\\", "u{200b}' | '\\", "u{202E}' => true"),
        );
        check("wildcard matchers", "let parts = pattern.split('*');");
        check(
            "link-free folder openers",
            "fn open(path: &Path) {\n    path.components().map(|c| openat(c))\n}",
        );
        check(
            "atomic writers",
            "fn save() {\n    file.write_all(b)?;\n    fs::rename(a, b)\n}",
        );
        check(
            "truncators",
            "fn cut(text: &str) {\n    text.chars().take(3)\n}",
        );
        check(
            "SSE readers",
            "match field {\n    \"data\" => a,\n    \"event\" => b,\n}",
        );
    }

    #[test]
    fn the_page_counts() {
        let tree = Tree::default().with("web/src/hidden.ts", "[0x202e, 0x200b]");
        let found: Vec<usize> = copies(&tree).iter().map(|c| c.places.len()).collect();
        assert_eq!(found, [0, 0, 1, 0, 0, 0, 0, 0]);
    }
}
