//! Surveys languages, biggest modules and entry points.

use std::collections::BTreeMap;

use sortie_base::truncate::truncate;
use sortie_text::{Lang, t};

use super::Step;
use super::look::Look;
use super::survey::{
    Report, at_least, biggest_first, depth, file_name, listed, listed_up_to, nearest_first,
};

/// The number of manifests and entry points that are read.
const READ_MANIFESTS: usize = 2;
const READ_ENTRY_POINTS: usize = 1;
/// The number of extensions that are counted one by one in a folder with too many files to list.
const COUNTED_ENDINGS: usize = 3;
/// The number of lines at the top of an entry point in which its description is searched.
const TOP_LINES: usize = 30;
/// The maximum length of a quoted line.
const QUOTED_CHARS: usize = 120;
/// The maximum number of directory entries in a report.
const LISTED_ENTRIES: usize = 24;

// File names, separated by commas as in a glob pattern.
const MANIFESTS: &str = "Cargo.toml,package.json,pyproject.toml,setup.py,go.mod,pom.xml,\
    build.gradle,build.gradle.kts,Gemfile,composer.json,mix.exs,CMakeLists.txt,Makefile,Dockerfile";
const ENTRY_POINTS: &str = "main.rs,lib.rs,main.py,__main__.py,app.py,manage.py,main.go,index.ts,\
    index.tsx,index.js,main.ts,main.js,main.c,main.cpp,Main.java,Program.cs,main.swift,main.kt";
const LOCK_FILES: &str = "Cargo.lock,package-lock.json,pnpm-lock.yaml,yarn.lock,poetry.lock,\
    uv.lock,go.sum,composer.lock";

/// Languages with the extensions of their files; other files are reported by extension.
const LANGUAGES: &str = "Rust:rs Python:py TypeScript:ts,tsx JavaScript:js,jsx,mjs Go:go Java:java \
    Kotlin:kt Swift:swift C:c,h C++:cpp,cc,hpp C#:cs Ruby:rb PHP:php Shell:sh SQL:sql HTML:html \
    CSS:css Vue:vue Markdown:md reStructuredText:rst TOML:toml YAML:yaml,yml JSON:json Lua:lua \
    Elixir:ex";

pub(super) fn make(look: &mut Look<'_>) -> Result<Report, Step> {
    let lang = look.lang;
    let files = look.paths("**/*");
    let entries = look.entries(".");
    look.turn("survey-layout-files")?;

    let lines = look.counts("^");
    let manifests = named(look, MANIFESTS);
    let entry_points = named(look, ENTRY_POINTS);
    let mut by_ending = biggest_first(files.lines.iter().map(|path| (ending(path), 1)));
    if files.is_partial() {
        let plain = by_ending
            .iter_mut()
            .filter_map(|(ending, number)| ending.filter(|e| is_plain(e)).zip(Some(number)));
        for (ending, number) in plain.take(COUNTED_ENDINGS) {
            *number = look
                .number_of_paths(&format!("*.{ending}"))
                .unwrap_or(*number);
        }
    }
    look.turn("survey-layout-lines")?;

    let mut descriptions: BTreeMap<&str, String> = BTreeMap::new();
    let read = manifests.iter().take(READ_MANIFESTS);
    for path in read.chain(entry_points.iter().take(READ_ENTRY_POINTS)) {
        let text = look.file(path);
        let found = text.and_then(|lines| description(file_name(path), &lines));
        descriptions.extend(found.map(|text| (*path, truncate(&text, QUOTED_CHARS))));
    }
    look.turn("survey-layout-read")?;

    let languages = biggest_first(
        by_ending
            .into_iter()
            .map(|(ending, number)| (language(ending, lang), number)),
    );
    let counts = lines.counts();
    let mut headline = vec![
        at_least(
            t!(lang, "survey-files", count = files.total()),
            files.is_open_ended,
            lang,
        ),
        at_least(
            t!(lang, "survey-folders", count = folders(&files.lines)),
            files.is_partial(),
            lang,
        ),
    ];
    if counts.is_empty() {
        headline.push(t!(lang, "survey-no-lines"));
    } else {
        let sum: u64 = counts.iter().map(|(_, number)| number).sum();
        let line_count = t!(lang, "survey-lines", count = sum);
        headline.push(at_least(line_count, lines.is_partial(), lang));
    }
    if let Some((language, number)) = languages.first() {
        let files = t!(lang, "survey-files", count = *number);
        headline.push(t!(
            lang,
            "survey-mostly",
            language = language,
            files = files
        ));
    }
    if files.lines.is_empty() {
        look.unknown.push(t!(lang, "survey-no-files"));
    } else if entry_points.is_empty() {
        look.unknown.push(t!(lang, "survey-no-entry-point"));
    }
    let ranked = counts
        .into_iter()
        .filter(|(path, _)| !is_one_of(path, LOCK_FILES));
    let ranked = biggest_first(ranked);
    let modules = biggest_first(ranked.iter().map(|(path, number)| (module(path), *number)));
    let of_lines = |(path, number): &(String, u64)| {
        format!("`{path}`: {}", t!(lang, "survey-lines", count = *number))
    };
    let of_files = |(language, number): &(String, u64)| {
        format!("{language}: {}", t!(lang, "survey-files", count = *number))
    };
    let described = |path: &&str| match descriptions.get(path) {
        Some(text) => format!("`{path}`: {text}"),
        None => format!("`{path}`"),
    };
    let top_level = listed_up_to(LISTED_ENTRIES, &entries, |name| format!("`{name}`"), lang);
    let top_level = (!top_level.is_empty()).then(|| top_level.join(", "));
    Ok(Report {
        headline,
        lists: vec![
            ("survey-top-level", top_level.into_iter().collect()),
            ("survey-languages", listed(&languages, of_files, lang)),
            ("survey-modules", listed(&modules, of_lines, lang)),
            ("survey-biggest", listed(&ranked, of_lines, lang)),
            (
                "survey-entry-points",
                listed(&entry_points, described, lang),
            ),
            ("survey-manifests", listed(&manifests, described, lang)),
        ],
    })
}

/// Returns the files with one of the names, nearest to the root first.
fn named<'a>(look: &mut Look<'a>, names: &str) -> Vec<&'a str> {
    let found = look.paths(&format!("**/{{{names}}}")).lines;
    nearest_first(found.into_iter().filter(|path| is_one_of(path, names)))
}

fn is_one_of(path: &str, names: &str) -> bool {
    names.split(',').any(|name| name == file_name(path))
}

/// Returns the number of folders that contain files.
fn folders(files: &[&str]) -> usize {
    let parents = files.iter().filter_map(|path| path.rsplit_once('/'));
    biggest_first(parents.map(|(folder, _)| (folder, 1))).len()
}

/// Returns the extension of a file.
fn ending(path: &str) -> Option<&str> {
    let (stem, ending) = file_name(path).rsplit_once('.')?;
    (!stem.is_empty()).then_some(ending)
}

fn is_plain(ending: &str) -> bool {
    ending.chars().all(char::is_alphanumeric)
}

fn language(ending: Option<&str>, lang: Lang) -> String {
    let Some(ending) = ending else {
        return t!(lang, "survey-no-ending");
    };
    let lower = ending.to_lowercase();
    let known = LANGUAGES.split_whitespace().find_map(|entry| {
        let (language, endings) = entry.split_once(':')?;
        endings.split(',').any(|e| e == lower).then_some(language)
    });
    known.map_or_else(|| format!(".{ending}"), str::to_owned)
}

/// Returns the folder of a file, at most two levels deep: what people call a module.
fn module(path: &str) -> String {
    let folders: Vec<&str> = path.split('/').take(depth(path).min(2)).collect();
    if folders.is_empty() {
        return ".".to_owned();
    }
    folders.join("/")
}

/// Returns the description in a manifest or an entry point.
fn description(name: &str, lines: &[&str]) -> Option<String> {
    if name == "go.mod" {
        let module = lines.iter().find(|line| line.starts_with("module "))?;
        return Some((*module).to_owned());
    }
    if is_one_of(name, MANIFESTS) {
        let value = |key: &str| lines.iter().find_map(|line| assigned(line, key));
        let found: Vec<&str> = ["name", "description"]
            .into_iter()
            .filter_map(value)
            .collect();
        return (!found.is_empty()).then(|| found.join(": "));
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
        .trim_end_matches("\"\"\"")
        .trim_end_matches("*/")
        .trim();
    (!text.is_empty()).then(|| format!("“{text}”"))
}

/// Returns the text that a line of TOML, JSON or Python assigns to a key.
fn assigned<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (name, value) = line.split_once(['=', ':'])?;
    let value = value.trim().trim_end_matches(',').trim();
    let text = value.strip_prefix(['"', '\''])?.strip_suffix(['"', '\''])?;
    let is_key = name.trim().trim_matches(['"', '\'']) == key;
    (is_key && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_and_entry_points_describe_themselves() {
        for (name, text, expected) in [
            (
                "Cargo.toml",
                "[package]\nname = \"kite\"\ndescription = \"Flies\"",
                Some("kite: Flies"),
            ),
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
            assert_eq!(
                description(name, &lines).as_deref(),
                expected,
                "{name}: {text}"
            );
        }
    }

    #[test]
    fn files_have_a_language_or_an_ending() {
        for (path, expected) in [
            ("src/main.rs", "Rust"),
            ("a/b.TSX", "TypeScript"),
            ("data.parquet", ".parquet"),
            ("Makefile", "without an ending"),
            (".gitignore", "without an ending"),
        ] {
            assert_eq!(language(ending(path), Lang::En), expected, "{path}");
        }
    }
}
