//! Surveys languages, biggest modules and entry points.

use std::collections::BTreeMap;

use sortie_base::truncate::truncate;
use sortie_core::words::Lang;

use super::{
    LISTED, Reader, Report, biggest_first, count, depth, file_name, found_paths, glob, list_dir,
    more_than_listed, nearest_first, read,
};
use crate::offline::evidence::{Answer, Evidence};
use crate::offline::reading::{file_lines, paths};
use crate::offline::{Call, words};

/// The number of manifests and entry points that are read.
const READ_MANIFESTS: usize = 2;
const READ_ENTRY_POINTS: usize = 1;
/// The number of extensions that are counted one by one in a folder with too many files to list.
const COUNTED_ENDINGS: usize = 3;
/// The number of lines at the top of an entry point in which its description is searched.
const TOP_LINES: usize = 30;
/// The maximum length of a quoted line.
const QUOTED_CHARS: usize = 120;

const MANIFESTS: [&str; 14] = [
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.py",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "Gemfile",
    "composer.json",
    "mix.exs",
    "CMakeLists.txt",
    "Makefile",
    "Dockerfile",
];

const ENTRY_POINTS: [&str; 18] = [
    "main.rs",
    "lib.rs",
    "main.py",
    "__main__.py",
    "app.py",
    "manage.py",
    "main.go",
    "index.ts",
    "index.tsx",
    "index.js",
    "main.ts",
    "main.js",
    "main.c",
    "main.cpp",
    "Main.java",
    "Program.cs",
    "main.swift",
    "main.kt",
];

const LOCK_FILES: [&str; 8] = [
    "Cargo.lock",
    "package-lock.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "poetry.lock",
    "uv.lock",
    "go.sum",
    "composer.lock",
];

/// File extensions and their languages; other files are reported by extension.
const LANGUAGES: [(&str, &str); 32] = [
    ("rs", "Rust"),
    ("py", "Python"),
    ("ts", "TypeScript"),
    ("tsx", "TypeScript"),
    ("js", "JavaScript"),
    ("jsx", "JavaScript"),
    ("mjs", "JavaScript"),
    ("go", "Go"),
    ("java", "Java"),
    ("kt", "Kotlin"),
    ("swift", "Swift"),
    ("c", "C"),
    ("h", "C"),
    ("cpp", "C++"),
    ("cc", "C++"),
    ("hpp", "C++"),
    ("cs", "C#"),
    ("rb", "Ruby"),
    ("php", "PHP"),
    ("sh", "Shell"),
    ("sql", "SQL"),
    ("html", "HTML"),
    ("css", "CSS"),
    ("vue", "Vue"),
    ("md", "Markdown"),
    ("rst", "reStructuredText"),
    ("toml", "TOML"),
    ("yaml", "YAML"),
    ("yml", "YAML"),
    ("json", "JSON"),
    ("lua", "Lua"),
    ("ex", "Elixir"),
];

pub(super) fn stage(number: usize, evidence: &Evidence<'_>) -> Vec<Call> {
    match number {
        0 => vec![all_files(), list_dir(".")],
        1 => [all_lines(), named(&MANIFESTS), named(&ENTRY_POINTS)]
            .into_iter()
            .chain(
                endings_to_count(evidence)
                    .iter()
                    .map(|ending| with_ending(ending)),
            )
            .collect(),
        _ => files_to_read(evidence)
            .iter()
            .map(|path| read(path))
            .collect(),
    }
}

pub(super) fn report(evidence: &Evidence<'_>, lang: Lang) -> Report {
    let mut reader = Reader::new(evidence, lang);
    let found = reader.paths(&all_files());
    let top_level = reader.entries(".");
    let lines = reader.counts(&all_lines());
    let manifests = with_names(reader.paths(&named(&MANIFESTS)).items, &MANIFESTS);
    let entry_points = with_names(reader.paths(&named(&ENTRY_POINTS)).items, &ENTRY_POINTS);
    let languages = languages(&found.items, evidence, lang);
    let total: u64 = lines.items.iter().map(|(_, lines)| lines).sum();
    let headline = words::layout_headline(
        words::Size {
            files: found.total(),
            folders: folders(&found.items),
            lines: (!lines.items.is_empty()).then_some(total),
            files_at_least: found.open_ended,
            folders_at_least: found.is_partial(),
            lines_at_least: lines.partial,
        },
        languages.first(),
        lang,
    );
    let ranked: Vec<(String, u64)> = lines
        .items
        .into_iter()
        .filter(|(path, _)| !LOCK_FILES.contains(&file_name(path)))
        .collect();
    let sections = vec![
        (words::top_level_title(lang), top_level),
        (words::languages_title(lang), listed_files(&languages, lang)),
        (
            words::modules_title(lang),
            listed_lines(biggest_first(modules(&ranked)), lang),
        ),
        (
            words::biggest_title(lang),
            listed_lines(biggest_first(ranked), lang),
        ),
        (
            words::entry_points_title(lang),
            described(&entry_points, evidence, lang),
        ),
        (
            words::manifests_title(lang),
            described(&manifests, evidence, lang),
        ),
    ];
    if found.items.is_empty() {
        reader.unknown.push(words::no_files(lang));
    } else if entry_points.is_empty() {
        reader.unknown.push(words::no_entry_point(lang));
    }
    Report {
        headline,
        sections,
        unknown: reader.into_unknown(),
    }
}

fn all_files() -> Call {
    glob("**/*")
}

fn all_lines() -> Call {
    count("^")
}

fn named(names: &[&str]) -> Call {
    glob(&format!("**/{{{}}}", names.join(",")))
}

fn with_names(paths: Vec<String>, names: &[&str]) -> Vec<String> {
    let wanted = paths
        .into_iter()
        .filter(|path| names.contains(&file_name(path)));
    nearest_first(wanted.collect())
}

fn files_to_read(evidence: &Evidence<'_>) -> Vec<String> {
    let manifests = with_names(found_paths(evidence, &named(&MANIFESTS)), &MANIFESTS);
    let entry_points = with_names(found_paths(evidence, &named(&ENTRY_POINTS)), &ENTRY_POINTS);
    let manifests = manifests.into_iter().take(READ_MANIFESTS);
    manifests
        .chain(entry_points.into_iter().take(READ_ENTRY_POINTS))
        .collect()
}

fn folders(files: &[String]) -> usize {
    let mut folders: Vec<&str> = files
        .iter()
        .filter_map(|path| path.rsplit_once('/').map(|(folder, _)| folder))
        .collect();
    folders.sort_unstable();
    folders.dedup();
    folders.len()
}

fn with_ending(ending: &str) -> Call {
    glob(&format!("*.{ending}"))
}

/// Returns the most frequent extensions, if the list of files is incomplete and they must be
/// counted one by one.
fn endings_to_count(evidence: &Evidence<'_>) -> Vec<String> {
    let Answer::Text { text, cut } = evidence.answer(&all_files()) else {
        return Vec::new();
    };
    let files = paths(text);
    if !cut && !files.is_partial() {
        return Vec::new();
    }
    let mut by_ending: BTreeMap<String, u64> = BTreeMap::new();
    for path in &files.items {
        if let Some(ending) = ending(path).filter(|ending| is_plain(ending)) {
            *by_ending.entry(ending.to_owned()).or_default() += 1;
        }
    }
    let most = biggest_first(by_ending.into_iter().collect());
    most.into_iter()
        .take(COUNTED_ENDINGS)
        .map(|(ending, _)| ending)
        .collect()
}

fn is_plain(ending: &str) -> bool {
    ending.chars().all(char::is_alphanumeric)
}

/// Returns the number of files by language: counted one by one if that was done, else from the
/// list.
fn languages(files: &[String], evidence: &Evidence<'_>, lang: Lang) -> Vec<(String, u64)> {
    let mut by_language: BTreeMap<String, u64> = BTreeMap::new();
    let counted = endings_to_count(evidence);
    for path in files {
        let is_counted = ending(path).is_some_and(|one| counted.iter().any(|c| c == one));
        if !is_counted {
            *by_language.entry(language(path, lang)).or_default() += 1;
        }
    }
    for ending in &counted {
        let listed = files
            .iter()
            .filter(|path| self::ending(path) == Some(ending))
            .count();
        let total = match evidence.answer(&with_ending(ending)) {
            Answer::Text { text, .. } => paths(text).total(),
            Answer::Failed(_) | Answer::Absent => listed as u64,
        };
        *by_language
            .entry(language(&format!("x.{ending}"), lang))
            .or_default() += total;
    }
    biggest_first(by_language.into_iter().collect())
}

/// Returns the extension of a file.
fn ending(path: &str) -> Option<&str> {
    let (stem, ending) = file_name(path).rsplit_once('.')?;
    (!stem.is_empty()).then_some(ending)
}

fn language(path: &str, lang: Lang) -> String {
    let Some(ending) = ending(path) else {
        return words::no_ending(lang);
    };
    let known = LANGUAGES
        .iter()
        .find(|(known, _)| *known == ending.to_lowercase());
    known.map_or_else(
        || format!(".{ending}"),
        |(_, language)| (*language).to_owned(),
    )
}

/// Returns the lines per folder, at most two levels deep: what people call a module.
fn modules(lines: &[(String, u64)]) -> Vec<(String, u64)> {
    let mut by_folder: BTreeMap<String, u64> = BTreeMap::new();
    for (path, lines) in lines {
        let folders: Vec<&str> = path.split('/').take(depth(path).min(2)).collect();
        let module = if folders.is_empty() {
            ".".to_owned()
        } else {
            folders.join("/")
        };
        *by_folder.entry(module).or_default() += lines;
    }
    by_folder.into_iter().collect()
}

fn listed_files(items: &[(String, u64)], lang: Lang) -> Vec<String> {
    let listed = items.iter().take(LISTED);
    let mut lines: Vec<String> = listed
        .map(|(name, files)| format!("{name}: {}", words::files(*files, lang)))
        .collect();
    lines.extend(words::and_more(more_than_listed(items.len()), lang));
    lines
}

fn listed_lines(items: Vec<(String, u64)>, lang: Lang) -> Vec<String> {
    let more = words::and_more(more_than_listed(items.len()), lang);
    let listed = items.into_iter().take(LISTED);
    let mut lines: Vec<String> = listed
        .map(|(path, lines)| format!("`{path}`: {}", words::lines(lines, lang)))
        .collect();
    lines.extend(more);
    lines
}

/// Lists paths, each with the description found in its file, if it was read.
fn described(paths: &[String], evidence: &Evidence<'_>, lang: Lang) -> Vec<String> {
    let listed = paths.iter().take(LISTED);
    let mut lines: Vec<String> = listed
        .map(|path| match evidence.answer(&read(path)) {
            Answer::Text { text, .. } => match says(file_name(path), &file_lines(text)) {
                Some(says) => format!("`{path}`: {}", truncate(&says, QUOTED_CHARS)),
                None => format!("`{path}`"),
            },
            Answer::Failed(_) | Answer::Absent => format!("`{path}`"),
        })
        .collect();
    lines.extend(words::and_more(more_than_listed(paths.len()), lang));
    lines
}

/// Returns the description in a manifest or an entry point.
fn says(name: &str, lines: &[&str]) -> Option<String> {
    let quoted = |keys: &[&str]| lines.iter().find_map(|line| assigned(line, keys));
    if name == "go.mod" {
        return lines
            .iter()
            .find(|line| line.starts_with("module "))
            .map(|line| (*line).to_owned());
    }
    if MANIFESTS.contains(&name) {
        let title = quoted(&["name"]);
        let about = quoted(&["description"]);
        return match (title, about) {
            (Some(title), Some(about)) => Some(format!("{title}: {about}")),
            (one, other) => one.or(other),
        };
    }
    let comment = |marks: &[&str]| {
        let mut near_the_top = lines.iter().take(TOP_LINES);
        near_the_top.find_map(|line| comment_text(line, marks))
    };
    comment(&["//!", "\"\"\"", "/**"]).or_else(|| comment(&["//", "/*", "# "]))
}

fn comment_text(line: &str, marks: &[&str]) -> Option<String> {
    let line = line.trim();
    let text = marks.iter().find_map(|mark| line.strip_prefix(mark))?;
    let text = text
        .trim()
        .trim_end_matches("\"\"\"")
        .trim_end_matches("*/")
        .trim();
    (!text.is_empty()).then(|| format!("“{text}”"))
}

/// Returns the text that a line of TOML, JSON or Python assigns to one of the keys.
fn assigned(line: &str, keys: &[&str]) -> Option<String> {
    let (key, value) = line.split_once(['=', ':'])?;
    let key = key.trim().trim_matches(['"', '\'']);
    let value = value.trim().trim_end_matches(',').trim();
    let text = value.strip_prefix(['"', '\''])?.strip_suffix(['"', '\''])?;
    (keys.contains(&key) && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_it_is() {
        for (name, text, expected) in [
            (
                "Cargo.toml",
                "[package]\nname = \"a\"\ndescription = \"b\"",
                Some("a: b"),
            ),
            ("Cargo.toml", "[workspace]\nmembers = []", None),
            (
                "package.json",
                "{\n  \"name\": \"web\",\n  \"version\": \"1\"\n}",
                Some("web"),
            ),
            (
                "go.mod",
                "module example.org/x\n\ngo 1.22",
                Some("module example.org/x"),
            ),
            (
                "main.rs",
                "#![x]\n//! Does things.\nfn main() {}",
                Some("“Does things.”"),
            ),
            (
                "main.py",
                "\"\"\"Runs it.\"\"\"\nimport os",
                Some("“Runs it.”"),
            ),
            ("main.go", "package main", None),
        ] {
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(says(name, &lines).as_deref(), expected, "{name}: {text}");
        }
    }

    #[test]
    fn files_have_a_language_or_an_ending() {
        for (path, expected) in [
            ("src/main.rs", "Rust"),
            ("a/b.tsx", "TypeScript"),
            ("data.parquet", ".parquet"),
            ("Makefile", "without an ending"),
            (".gitignore", "without an ending"),
        ] {
            assert_eq!(language(path, Lang::En), expected, "{path}");
        }
    }
}
