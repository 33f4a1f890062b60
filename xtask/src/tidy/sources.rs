//! Checks the content and the length of source files.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{copies, wording};
use crate::place;
use crate::shell::output;

/// The most lines of code in a file; a longer one usually covers a second subject.
const MAX_LINES: usize = 800;
/// Markers of unfinished work. Written in two parts, because this file is checked too.
const UNFINISHED: [&str; 3] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
];
/// Folders that exist only on a developer's machine.
const MACHINE: [&str; 3] = [
    concat!("/", "work/"),
    concat!("/", "farm/"),
    concat!("/", "root/"),
];
/// Code that reads the environment.
const ENVIRONMENT: &str = concat!("env::", "var");

/// The one table of hidden characters, and its copy for the page, which a test compares with it.
const HIDDEN: [&str; 2] = ["crates/base/src/hidden.rs", "web/src/markdown/hidden.ts"];
/// Characters that every table of hidden characters has and no other code needs, as hex digits.
const TELLING: [&str; 5] = ["202e", "200b", "2066", "3164", "e0000"];

/// Returns every violation of a rule, as `path:line: what`.
pub(super) fn problems() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in listed()? {
        let bytes = match fs::read(place::root().join(&path)) {
            Ok(bytes) => bytes,
            // The file was deleted, and the deletion is not committed yet.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("reading {path}")),
        };
        // Binary files are not checked.
        if let Ok(text) = String::from_utf8(bytes) {
            problems.extend(judge(&path, &text));
            problems.extend(copies::judge(&path, &text));
            problems.extend(wording::judge(&path, &text));
        }
    }
    Ok(problems)
}

/// Returns the files of the project: tracked, or new and not ignored.
fn listed() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(place::root()).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let listing = output(&mut git)?;
    let mut paths: Vec<String> = listing
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    paths.sort_unstable();
    paths.dedup();
    Ok(paths)
}

fn judge(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let rust = path.ends_with(".rs");
    let source = rust && path.starts_with("crates/") && path.contains("/src/");
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        if rust && let Some(mark) = UNFINISHED.iter().find(|mark| line.contains(**mark)) {
            problems.push(format!("{path}:{at}: unfinished work: {mark}…)"));
        }
        if source && !path.starts_with("crates/cli/") && line.contains(ENVIRONMENT) {
            problems.push(format!(
                "{path}:{at}: only crates/cli reads the environment"
            ));
        }
        if let Some(folder) = MACHINE.iter().find(|folder| names(line, folder)) {
            problems.push(format!("{path}:{at}: a path of one machine: {folder}"));
        }
    }
    let lines = lines_of_code(text);
    if is_shipped(path) && !is_test(path) && !HIDDEN.contains(&path) {
        for (index, line) in text.lines().take(lines).enumerate() {
            if let Some(code) = TELLING.iter().find(|code| spells(line, code)) {
                problems.push(format!(
                    "{path}:{}: U+{code}: the one table of hidden characters is {}",
                    index + 1,
                    HIDDEN[0]
                ));
            }
        }
    }
    if source && !is_test(path) && lines > MAX_LINES {
        problems.push(format!(
            "{path}: {lines} lines before its tests; {MAX_LINES} is the most: split it"
        ));
    }
    problems
}

/// Returns whether the line names the folder itself, and not one whose name only ends the same.
fn names(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '_' | '.' | '-' | '}' | '*'))
    })
}

/// Returns whether a file is shipped code: of a crate, or of the page.
pub(super) fn is_shipped(path: &str) -> bool {
    let code = [".rs", ".ts", ".tsx"].iter().any(|end| path.ends_with(end));
    code && ((path.starts_with("crates/") && path.contains("/src/"))
        || path.starts_with("web/src/"))
}

/// Returns whether the line contains the character as a Rust or JavaScript escape, or as a number.
fn spells(line: &str, code: &str) -> bool {
    let line = line.to_ascii_lowercase();
    [concat!("\\", "u{"), concat!("\\", "u"), "0x"]
        .iter()
        .any(|start| line.contains(&format!("{start}{code}")))
}

pub(super) fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Returns the number of lines before the tests inside the file.
pub(super) fn lines_of_code(text: &str) -> usize {
    let tests = text
        .find("\n#[cfg(test)]\nmod tests {")
        .or_else(|| text.find("\n#[cfg(all(test, "));
    text[..tests.unwrap_or(text.len())].lines().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(judge(path, text), expected, "{path}: {text:.60}");
    }

    #[test]
    fn there_is_one_table_of_hidden_characters() {
        let found = |path: &str, text: &str| judge(path, text).len();
        for text in [
            concat!("'\\", "u{202a}'..='\\", "u{202E}' => true"),
            concat!("/[\\", "u200b]/"),
            concat!("code === ", "0x3164"),
        ] {
            assert_eq!(found("crates/cli/src/a.rs", text), 1, "{text}");
            assert_eq!(found("web/src/a.ts", text), 1, "{text}");
            assert_eq!(found("crates/base/src/hidden.rs", text), 0, "{text}");
            assert_eq!(found("crates/cli/tests/it/a.rs", text), 0, "{text}");
            let tests = format!("\n#[cfg(test)]\nmod tests {{\n{text}");
            assert_eq!(found("crates/cli/src/a.rs", &tests), 0, "{text}");
        }
    }

    #[test]
    fn breaks_are_found_where_they_matter() {
        let unfinished = format!("fn f() {{\n    {})\n}}", UNFINISHED[0]);
        let found = format!(
            "crates/a/src/lib.rs:2: unfinished work: {}…)",
            UNFINISHED[0]
        );
        check("crates/a/src/lib.rs", &unfinished, &[&found]);
        check("docs/a.md", &unfinished, &[]);

        let reads = format!("let x = std::{ENVIRONMENT}(\"X\");");
        let found = "crates/a/src/lib.rs:1: only crates/cli reads the environment";
        check("crates/a/src/lib.rs", &reads, &[found]);
        check("crates/cli/src/settings.rs", &reads, &[]);
        check("crates/a/tests/it/main.rs", &reads, &[]);

        let folder = MACHINE[2];
        let found = format!("docs/a.md:1: a path of one machine: {folder}");
        check("docs/a.md", &format!("see {folder}x"), &[&found]);
        check("docs/a.md", &format!("see homes{folder}x"), &[]);
    }

    #[test]
    fn long_files_are_split_and_tests_do_not_count() {
        let long = "x\n".repeat(MAX_LINES + 1);
        let found = "crates/a/src/lib.rs: 801 lines before its tests; 800 is the most: split it";
        check("crates/a/src/lib.rs", &long, &[found]);
        check("crates/a/src/x/tests.rs", &long, &[]);
        check("crates/a/tests/it/main.rs", &long, &[]);
        let tested = format!("x\n\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        check("crates/a/src/lib.rs", &tested, &[]);
    }
}
