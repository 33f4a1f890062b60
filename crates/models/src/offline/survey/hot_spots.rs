//! Surveys marks of unfinished work, and tests.

use sortie_base::truncate::truncate;
use sortie_core::words::Lang;

use super::{
    LISTED, Reader, Report, biggest_first, count, file_name, found_counts, glob, matches_in,
    more_than_listed,
};
use crate::offline::evidence::{Answer, Evidence};
use crate::offline::reading::{Match, matches};
use crate::offline::{Call, words};

/// The number of files with most marks that are examined.
const LOOKED_INTO: usize = 3;
/// The number of marked lines of one file that are quoted.
const QUOTED_LINES: usize = 3;
/// The maximum length of a quoted line.
const QUOTED_CHARS: usize = 120;

const MARKS: [&str; 4] = ["TODO", "FIXME", "HACK", "XXX"];
const MARKED: &str = r"\b(TODO|FIXME|HACK|XXX)\b";
const TEST_FILES: &str = "**/*{test,spec,Test,Spec}*";
const TEST_FOLDERS: &str = "**/{test,tests,__tests__}/**/*";
/// Matches the first line of a test in Rust, Python, Go, JavaScript, Java or C#.
const TESTS: &str = r"^\s*(#\[(tokio::)?test|def test_|async def test_|func Test|(it|test)\(|@Test|\[(Fact|Test)\])";

pub(super) fn stage(number: usize, evidence: &Evidence<'_>) -> Vec<Call> {
    match number {
        0 => vec![
            count(MARKED),
            glob(TEST_FILES),
            glob(TEST_FOLDERS),
            count(TESTS),
        ],
        1 => top(evidence)
            .iter()
            .map(|path| matches_in(path, MARKED))
            .collect(),
        _ => Vec::new(),
    }
}

pub(super) fn report(evidence: &Evidence<'_>, lang: Lang) -> Report {
    let mut reader = Reader::new(evidence, lang);
    let marked = reader.counts(&count(MARKED));
    let tests = reader.counts(&count(TESTS));
    let by_name = reader.paths(&glob(TEST_FILES));
    let by_folder = reader.paths(&glob(TEST_FOLDERS));
    let is_part = by_name.is_partial() || by_folder.is_partial();
    let test_files = test_files(by_name.items, by_folder.items);
    let mut quoted = Vec::new();
    for path in top(evidence) {
        let call = matches_in(&path, MARKED);
        quoted.extend(
            reader
                .text(&call)
                .map(matches)
                .unwrap_or_default()
                .into_iter()
                .take(QUOTED_LINES),
        );
    }
    let answered = |call: &Call| matches!(evidence.answer(call), Answer::Text { .. });
    let counted = |call: &Call, number: u64, is_lower_bound: bool| {
        answered(call).then_some(words::Counted {
            number,
            is_lower_bound,
        })
    };
    let marks = words::Marks {
        marked: counted(&count(MARKED), sum(&marked.items), marked.partial),
        marked_files: marked.items.len(),
        tests: counted(&count(TESTS), sum(&tests.items), tests.partial),
        test_files: counted(&glob(TEST_FILES), test_files.len() as u64, is_part),
    };
    let (marked, tests) = (biggest_first(marked.items), biggest_first(tests.items));
    let headline = words::hot_spots_headline(marks, lang);
    let sections = vec![
        (
            words::marked_title(lang),
            listed(&marked, lang, words::lines),
        ),
        (
            words::quoted_title(lang),
            quoted.iter().map(shown).collect(),
        ),
        (words::tests_title(lang), listed(&tests, lang, words::tests)),
        (words::test_files_title(lang), some_paths(&test_files, lang)),
    ];
    Report {
        headline,
        sections,
        unknown: reader.into_unknown(),
    }
}

fn top(evidence: &Evidence<'_>) -> Vec<String> {
    let marked = biggest_first(found_counts(evidence, &count(MARKED)));
    marked
        .into_iter()
        .take(LOOKED_INTO)
        .map(|(path, _)| path)
        .collect()
}

fn sum(items: &[(String, u64)]) -> u64 {
    items.iter().map(|(_, number)| number).sum()
}

/// Returns files with a test's name and files in a test folder, without duplicates.
fn test_files(by_name: Vec<String>, by_folder: Vec<String>) -> Vec<String> {
    let by_name = by_name.into_iter().filter(|path| is_test_file(path));
    let mut all: Vec<String> = by_name.chain(by_folder).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns whether `test` is a word of its own in the name: the glob pattern also matches
/// `latest.txt`.
fn is_test_file(path: &str) -> bool {
    let words = |text: &str| {
        let text = text.to_lowercase();
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        words.any(|word| matches!(word, "test" | "tests" | "spec" | "specs"))
    };
    let name = file_name(path);
    let stem = name.split('.').next().unwrap_or(name);
    !path.ends_with('/') && (words(name) || stem.ends_with("Test") || stem.ends_with("Spec"))
}

fn listed(items: &[(String, u64)], lang: Lang, unit: fn(u64, Lang) -> String) -> Vec<String> {
    let shown = items.iter().take(LISTED);
    let mut lines: Vec<String> = shown
        .map(|(path, number)| format!("`{path}`: {}", unit(*number, lang)))
        .collect();
    lines.extend(words::and_more(more_than_listed(items.len()), lang));
    lines
}

fn some_paths(paths: &[String], lang: Lang) -> Vec<String> {
    let shown = paths.iter().take(LISTED);
    let mut lines: Vec<String> = shown.map(|path| format!("`{path}`")).collect();
    lines.extend(words::and_more(more_than_listed(paths.len()), lang));
    lines
}

fn shown(found: &Match) -> String {
    let text = truncate(&found.text, QUOTED_CHARS);
    let mark = MARKS
        .iter()
        .find(|mark| found.text.contains(**mark))
        .unwrap_or(&"?");
    format!("{mark} `{}:{}` {text}", found.path, found.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_file_has_test_as_a_separate_word() {
        for (path, expected) in [
            ("src/login_test.go", true),
            ("web/app.spec.ts", true),
            ("tests.rs", true),
            ("LoginTest.java", true),
            ("latest.txt", false),
            ("inspector.py", false),
            ("test/", false),
        ] {
            assert_eq!(is_test_file(path), expected, "{path}");
        }
    }
}
