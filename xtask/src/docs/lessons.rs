//! The tests that docs/lessons.md names: each one is a test, in the file that the page names.

use super::document::Document;
use crate::tree::Tree;

/// The page.
const LESSONS: &str = "docs/lessons.md";
/// The heading of the column with tests.
const COLUMN: &str = "tests";

/// Returns the rows that name no test, and the tests that do not exist.
pub(super) fn problems(tree: &Tree, document: &Document) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    if document.path != LESSONS {
        return problems;
    }
    let mut names_tests = false;
    for (index, line) in tree.text(LESSONS).unwrap_or_default().lines().enumerate() {
        let Some(row) = line.strip_prefix("| ") else {
            names_tests = false;
            continue;
        };
        let last = row.trim_end_matches(" |").rsplit(" | ").next();
        let last = last.unwrap_or_default();
        if last == COLUMN {
            names_tests = true;
        } else if names_tests && !last.starts_with("---") {
            let found = row_problems(tree, last);
            problems.extend(found.into_iter().map(|problem| (index + 1, problem)));
        }
    }
    problems
}

/// Checks a cell such as "`store/tests/it/files.rs` `tampering_is_noticed`, …".
fn row_problems(tree: &Tree, cell: &str) -> Vec<String> {
    let spans: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    if spans.is_empty() {
        return vec!["the row names no test".to_owned()];
    }
    let pairs = spans.chunks(2).map(|pair| match pair {
        [path, name] if is_test(tree, path, name) => None,
        [path, name] => Some(format!("crates/{path} has no test {name}")),
        _ => Some(format!("no test follows the file in: {cell}")),
    });
    pairs.flatten().collect()
}

/// Whether a file has a function of this name with a test attribute above it.
fn is_test(tree: &Tree, path: &str, name: &str) -> bool {
    let Some(text) = tree.text(&format!("crates/{path}")) else {
        return false;
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let function = format!("fn {name}(");
    let defined = lines.iter().position(|line| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.starts_with(&function)
    });
    let Some(defined) = defined else {
        return false;
    };
    let attributes = lines[..defined]
        .iter()
        .rev()
        .take_while(|line| !line.is_empty() && **line != "}");
    attributes
        .into_iter()
        .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lesson_names_tests_that_exist() {
        let page = "\
| reported as | in Sortie | tests |
| --- | --- | --- |
| a#1 | good | `store/tests/it/files.rs` `it_is_kept`, `store/tests/it/files.rs` `it_waits` |
| a#2 | no test | none |
| a#3 | wrong file | `store/tests/it/other.rs` `it_is_kept` |
| a#4 | a helper | `store/tests/it/files.rs` `helper` |

| reported as | what is missing |
| --- | --- |
| a#5 | nothing is checked here |
";
        let source = "#[test]\nfn it_is_kept() {}\n\n#[tokio::test]\nasync fn it_waits() {}\n\nfn helper() {}\n";
        let tree = Tree::default()
            .with(LESSONS, page)
            .with("crates/store/tests/it/files.rs", source);
        let document = Document::parse(LESSONS, page);
        let found = problems(&tree, &document);
        let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [4, 5, 6], "{found:?}");
    }
}
