//! Surveys marks of unfinished work, and tests.

use sortie_base::truncate::truncate;
use sortie_text::{Lang, t};

use super::Step;
use super::look::{Look, Output};
use super::survey::{Report, at_least, biggest_first, file_name, listed};

/// The number of files with most marks that are examined.
const LOOKED_INTO: usize = 3;
/// The number of marked lines of one file that are quoted.
const QUOTED_LINES: usize = 3;
/// The maximum length of a quoted line.
const QUOTED_CHARS: usize = 120;

const MARKS: [&str; 4] = ["TODO", "FIXME", "HACK", "XXX"];
const MARKED: &str = r"\b(TODO|FIXME|HACK|XXX)\b";
/// Matches the first line of a test in Rust, Python, Go, JavaScript, Java or C#.
const TESTS: &str = r"^\s*(#\[(tokio::)?test|def test_|async def test_|func Test|(it|test)\(|@Test|\[(Fact|Test)\])";

pub(super) fn make(look: &mut Look<'_>) -> Result<Report, Step> {
    let lang = look.lang;
    let marked = look.counts(MARKED);
    let by_name = look.paths("**/*{test,spec,Test,Spec}*");
    let by_folder = look.paths("**/{test,tests,__tests__}/**/*");
    let tests = look.counts(TESTS);
    look.turn("survey-hot-spots-count")?;

    let marked_files = biggest_first(marked.counts());
    let mut quoted = Vec::new();
    for (path, _) in marked_files.iter().take(LOOKED_INTO) {
        let lines = look.matches(path, MARKED).into_iter();
        quoted.extend(lines.filter_map(quote).take(QUOTED_LINES));
    }
    look.turn("survey-hot-spots-read")?;

    let tested_files = biggest_first(tests.counts());
    let test_files = test_files(&by_name, &by_folder);
    let sum = |items: &[(String, u64)]| items.iter().map(|(_, number)| number).sum::<u64>();
    let marked_lines = t!(
        lang,
        "survey-marked",
        lines = t!(lang, "survey-lines", count = sum(&marked_files)),
        files = t!(lang, "survey-files", count = marked_files.len())
    );
    let number_of_tests = |count: u64| t!(lang, "survey-tests", count = count);
    let number_of_files = t!(lang, "survey-test-files", count = test_files.len());
    let files_at_least = by_name.is_partial() || by_folder.is_partial();
    let headline = vec![
        counted(&marked, marked_lines, lang)
            .unwrap_or_else(|| t!(lang, "survey-marked-not-counted")),
        counted(&tests, number_of_tests(sum(&tested_files)), lang)
            .unwrap_or_else(|| t!(lang, "survey-tests-not-counted")),
        if by_name.is_known {
            at_least(number_of_files, files_at_least, lang)
        } else {
            t!(lang, "survey-test-files-not-counted")
        },
    ];
    let of_lines = |(path, number): &(String, u64)| {
        format!("`{path}`: {}", t!(lang, "survey-lines", count = *number))
    };
    let of_tests =
        |(path, number): &(String, u64)| format!("`{path}`: {}", number_of_tests(*number));
    Ok(Report {
        headline,
        lists: vec![
            ("survey-marked-lines", listed(&marked_files, of_lines, lang)),
            ("survey-quoted", quoted),
            (
                "survey-tests-by-file",
                listed(&tested_files, of_tests, lang),
            ),
            (
                "survey-test-file-list",
                listed(&test_files, |path| format!("`{path}`"), lang),
            ),
        ],
    })
}

/// Returns a number, marked if it may be higher; `None` if it was not counted.
fn counted(output: &Output<'_>, number: String, lang: Lang) -> Option<String> {
    let is_partial = output.is_partial();
    output.is_known.then(|| at_least(number, is_partial, lang))
}

/// Returns files with a test's name and files in a test folder, without duplicates.
fn test_files<'a>(by_name: &Output<'a>, by_folder: &Output<'a>) -> Vec<&'a str> {
    let by_name = by_name.lines.iter().filter(|path| is_test_file(path));
    let mut all: Vec<&str> = by_name.chain(&by_folder.lines).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns whether `test` is a word of its own in the name: the glob pattern also matches
/// `latest.txt`.
fn is_test_file(path: &str) -> bool {
    let name = file_name(path);
    let stem = name.split('.').next().unwrap_or(name);
    let lower = name.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    let is_word = words.any(|word| matches!(word, "test" | "tests" | "spec" | "specs"));
    !path.ends_with('/') && (is_word || stem.ends_with("Test") || stem.ends_with("Spec"))
}

/// Quotes a matching line, `path:line:text`, with its mark.
fn quote(found: &str) -> Option<String> {
    let (path, rest) = found.split_once(':')?;
    let (line, text) = rest.split_once(':')?;
    let line: u64 = line.trim().parse().ok()?;
    let mark = MARKS.iter().find(|mark| text.contains(**mark));
    let (mark, text) = (mark.unwrap_or(&"?"), truncate(text.trim(), QUOTED_CHARS));
    Some(format!("{mark} `{path}:{line}` {text}"))
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

    #[test]
    fn only_lines_with_a_place_are_quoted() {
        for (line, expected) in [
            ("a.rs:3:  // TODO: b", Some("TODO `a.rs:3` // TODO: b")),
            ("not a match", None),
            ("a.rs:x:y", None),
        ] {
            assert_eq!(quote(line).as_deref(), expected, "{line}");
        }
    }
}
