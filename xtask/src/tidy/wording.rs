//! Comments, documents and messages name the component that acts: the marker words are rejected.

use super::sources::{is_shipped, is_test, lines_of_code};
use crate::rust_text::comments;
use crate::wording::{EXPLAINS_MARKERS, marker};

/// Returns the marker words of one file.
pub(super) fn judge(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut check = |place: String, text: &str| {
        if let Some(word) = marker(text) {
            problems.push(format!(
                "{place}: \"{word}\": name the component; docs/glossary.md has the terms"
            ));
        }
    };
    if path.ends_with(".rs") {
        for comment in comments(text) {
            let beginning: String = comment.text.chars().take(40).collect();
            check(format!("{path}: comment {beginning:?}"), &comment.text);
        }
    }
    let by_line = path.ends_with(".ftl") || is_document(path);
    let code = is_shipped(path) && !is_test(path);
    let lines = if code {
        lines_of_code(text)
    } else {
        usize::MAX
    };
    for (index, line) in text.lines().take(lines).enumerate() {
        let place = || format!("{path}:{}", index + 1);
        if by_line {
            check(place(), line);
        } else if code && !line.trim_start().starts_with("//") {
            for literal in literals(line) {
                check(place(), literal);
            }
        }
    }
    problems
}

fn is_document(path: &str) -> bool {
    path.ends_with(".md") && !path.starts_with("web/") && !EXPLAINS_MARKERS.contains(&path)
}

/// Returns the string literals that begin and end on the line.
fn literals(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = None;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' if !escaped => match start.take() {
                Some(start) => found.push(&line[start..at]),
                None => start = Some(at + 1),
            },
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, places: &[&str]) {
        let found = judge(path, text);
        let starts: Vec<&str> = found
            .iter()
            .map(|problem| problem.split(": \"").next().unwrap())
            .collect();
        assert_eq!(starts, places, "{path}: {text}");
    }

    #[test]
    fn marker_words_are_found_in_comments_messages_and_documents() {
        let comment = "/// Waits for\n/// whoever asks.\nfn f() {}\n";
        let place = "crates/a/src/lib.rs: comment \"Waits for whoever asks.\"";
        check("crates/a/src/lib.rs", comment, &[place]);
        let message = "let x = (\"a\", \"say \\\"nobody\\\" and wish\");\n";
        check("crates/a/src/lib.rs", message, &["crates/a/src/lib.rs:1"]);
        check("crates/a/tests/it/main.rs", message, &[]);
        let tested = format!("\n#[cfg(test)]\nmod tests {{\n{message}}}\n");
        check("crates/a/src/lib.rs", &tested, &[]);
        check("docs/a.md", "a\nnobody\n", &["docs/a.md:2"]);
        check("docs/glossary.md", "nobody\n", &[]);
        check(
            "crates/text/messages/en.ftl",
            "a = it goes on\n",
            &["crates/text/messages/en.ftl:1"],
        );
        check("crates/text/messages/en.ftl", "a = it continues\n", &[]);
    }
}
