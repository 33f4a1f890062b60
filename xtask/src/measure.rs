//! `cargo xtask measure`: counts what the architecture wants to be small.
//!
//! Every number comes from text alone, so that an exported commit can be measured without being
//! built: `cargo xtask measure --root FOLDER`. docs/measurements.md explains the methods.

mod rules;
mod walks;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

use crate::place;
use crate::rust_text::{self, code, comments, defines, without_tests};
use crate::tree::Tree;
use crate::wording::{EXPLAINS_MARKERS, marker};

pub(crate) use walks::check as check_walks;

/// A doc comment of this many words or fewer repeats the name of its item.
const FEW_WORDS: usize = 3;
/// A sample column of runs: the files that name it are those that a new column has to change, and
/// the tests of what it is for. Its type has another name and does not count.
const SAMPLE_COLUMN: &str = "changes_fate";
/// The announce modes in code.
const ANNOUNCE_MODE: &str = "Announce::";
/// The announce mode `silent` as a literal in schemas and SQL.
const SILENT: [&str; 2] = ["\"silent\"", "'silent'"];
/// What such a literal must stand beside to be an announce mode.
const ANNOUNCE_CONTEXT: [&str; 2] = ["announce", "edges"];

/// One row of the table.
#[derive(Debug)]
struct Measure {
    name: String,
    count: Option<usize>,
    /// The files or names behind the number.
    places: Vec<String>,
}

impl Measure {
    fn number(name: &str, count: usize) -> Self {
        Self {
            name: name.to_owned(),
            count: Some(count),
            places: Vec::new(),
        }
    }

    fn list(name: &str, places: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            count: Some(places.len()),
            places,
        }
    }
}

/// Prints a table with a column for each checkout, or the same with places as JSON.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let mut columns = Vec::new();
    for root in &options.roots {
        let measures = measure(&Tree::read(root)?)?;
        columns.push((root.display().to_string(), measures));
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&as_json(&columns))?);
    } else {
        print!("{}", as_table(&columns));
    }
    Ok(())
}

/// Columns of the output: the name of a checkout and its measures, in the same order everywhere.
type Columns = [(String, Vec<Measure>)];

fn as_json(columns: &Columns) -> Value {
    let checkouts = columns.iter().map(|(root, measures)| {
        let fields: Map<String, Value> = measures
            .iter()
            .map(|row| {
                let value = json!({"count": row.count, "places": row.places});
                (row.name.clone(), value)
            })
            .collect();
        (root.clone(), Value::Object(fields))
    });
    Value::Object(checkouts.collect())
}

fn as_table(columns: &Columns) -> String {
    let names: Vec<&str> = columns.iter().map(|(root, _)| root.as_str()).collect();
    let mut table = format!("| measure | {} |\n", names.join(" | "));
    table.push_str(&format!("| --- |{}\n", " ---: |".repeat(columns.len())));
    let rows = columns.first().map_or(0, |(_, measures)| measures.len());
    for row in 0..rows {
        let counts: Vec<String> = columns
            .iter()
            .map(|(_, measures)| {
                let count = measures[row].count;
                count.map_or_else(|| "–".to_owned(), |count| count.to_string())
            })
            .collect();
        let name = &columns[0].1[row].name;
        table.push_str(&format!("| {name} | {} |\n", counts.join(" | ")));
    }
    table
}

#[derive(Debug, Default)]
struct Options {
    /// Returns the checkouts to measure; this one if none is named.
    roots: Vec<PathBuf>,
    json: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => options.json = true,
                "--root" => {
                    let folder = arguments.next().context("--root needs a folder")?;
                    options.roots.push(PathBuf::from(folder));
                }
                other => bail!("unknown argument {other:?}; run `cargo xtask help`"),
            }
        }
        if options.roots.is_empty() {
            options.roots.push(place::root().to_owned());
        }
        Ok(options)
    }
}

fn measure(tree: &Tree) -> Result<Vec<Measure>> {
    let mut measures = vec![
        Measure::number("product lines, Rust", product_lines(tree)),
        Measure::number("product lines, page", page_lines(tree)),
        Measure::list("crates", crates(tree)),
    ];
    for copies in rules::copies(tree) {
        measures.push(Measure::list(
            &format!("copies: {}", copies.rule),
            copies.places,
        ));
    }
    let (names, types) = shared_type_names(tree);
    measures.push(Measure::list(
        "type names that stand for several types",
        names,
    ));
    measures.push(Measure::number("types behind those names", types));
    for walk in walks::WALKS {
        let files = walks::files(tree, walk)?;
        measures.push(Measure {
            name: format!("files on the walk: {}", walk.name),
            count: files.as_ref().map(Vec::len),
            places: files.unwrap_or_default(),
        });
    }
    measures.push(Measure::list(
        "files that name one column of runs",
        column_files(tree),
    ));
    measures.push(Measure::list(
        "files that name an announce mode",
        announce_files(tree),
    ));
    measures.extend(prose(tree));
    Ok(measures)
}

fn product_lines(tree: &Tree) -> usize {
    tree.texts()
        .filter(|(path, _)| rust_text::is_product(tree, path))
        .map(|(_, text)| code(without_tests(text)).count())
        .sum()
}

fn page_lines(tree: &Tree) -> usize {
    tree.texts()
        .filter(|(path, _)| rules::is_page_source(path))
        .map(|(_, text)| code(text).count())
        .sum()
}

fn crates(tree: &Tree) -> Vec<String> {
    tree.paths()
        .filter(|path| path.starts_with("crates/") && path.ends_with("/Cargo.toml"))
        .map(str::to_owned)
        .collect()
}

/// Names that several types of the product have, as `Name ×count`, and the number of those types.
fn shared_type_names(tree: &Tree) -> (Vec<String>, usize) {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, text) in tree.texts() {
        if !rust_text::is_product(tree, path) {
            continue;
        }
        for line in code(without_tests(text)) {
            for keyword in ["struct", "enum", "union", "trait", "type"] {
                // An associated type of a trait is not a type of its own.
                let top = keyword != "type" || !line.starts_with(' ');
                if let Some(name) = defines(line, keyword).filter(|_| top) {
                    *names.entry(name).or_default() += 1;
                }
            }
        }
    }
    names.retain(|_, count| *count > 1);
    let types = names.values().sum();
    let shown = names
        .iter()
        .map(|(name, count)| format!("{name} ×{count}"))
        .collect();
    (shown, types)
}

/// Files that name the sample column: sources, migrations, schemas, tests and the page. Documents do
/// not count, as a sentence about a column is free.
fn column_files(tree: &Tree) -> Vec<String> {
    tree.texts()
        .filter(|(path, text)| is_part(path) && text.contains(SAMPLE_COLUMN))
        .map(|(path, _)| path.to_owned())
        .collect()
}

/// Files that name an announce mode outside tests: where a new one has to be considered.
fn announce_files(tree: &Tree) -> Vec<String> {
    tree.texts()
        .filter(|(path, text)| {
            let text = without_tests(text);
            let literal = SILENT.iter().any(|word| text.contains(word))
                && ANNOUNCE_CONTEXT.iter().any(|word| text.contains(word));
            is_part(path)
                && !rust_text::is_test(tree, path)
                && (text.contains(ANNOUNCE_MODE) || literal)
        })
        .map(|(path, _)| path.to_owned())
        .collect()
}

fn is_part(path: &str) -> bool {
    path.starts_with("crates/") || path.starts_with("web/")
}

/// Comments with marker words, documents with them, and doc comments of few words.
fn prose(tree: &Tree) -> Vec<Measure> {
    let (mut marked, mut documenting, mut short) = (0, 0, 0);
    for (path, text) in tree.texts() {
        if !path.ends_with(".rs") {
            continue;
        }
        for comment in comments(text) {
            marked += usize::from(marker(&comment.text).is_some());
            documenting += usize::from(comment.documents);
            let words = comment.text.split_whitespace().count();
            short += usize::from(comment.documents && words <= FEW_WORDS);
        }
    }
    let lines = tree
        .texts()
        .filter(|(path, _)| path.ends_with(".md") && !path.starts_with("web/"))
        .filter(|(path, _)| !EXPLAINS_MARKERS.contains(path))
        .flat_map(|(_, text)| text.lines())
        .filter(|line| marker(line).is_some())
        .count();
    vec![
        Measure::number("comments with marker words", marked),
        Measure::number("lines of documents with marker words", lines),
        Measure::number("doc comments", documenting),
        Measure::number("doc comments of three words or fewer", short),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_checkout_is_a_column() {
        let one = measure(&Tree::default().with("crates/a/src/lib.rs", "fn f() {}\n")).unwrap();
        let two = measure(&Tree::default()).unwrap();
        let table = as_table(&[("one".to_owned(), one), ("two".to_owned(), two)]);
        let lines: Vec<&str> = table.lines().take(3).collect();
        assert_eq!(
            lines,
            [
                "| measure | one | two |",
                "| --- | ---: | ---: |",
                "| product lines, Rust | 1 | 0 |"
            ]
        );
    }

    #[test]
    fn types_of_one_name_are_counted_across_crates_and_not_in_tests() {
        let tree = Tree::default()
            .with("crates/a/src/lib.rs", "pub struct Rule;\nenum Only {}\n")
            .with(
                "crates/b/src/lib.rs",
                "pub(crate) enum Rule {}\ntype Rule2 = u8;\n",
            )
            .with("crates/b/src/tests.rs", "struct Only;\n");
        assert_eq!(shared_type_names(&tree), (vec!["Rule ×2".to_owned()], 2));
    }

    #[test]
    fn a_column_and_an_announce_mode_are_found_where_they_are_named() {
        let tree = Tree::default()
            .with("crates/a/src/lib.rs", "changes_fate: u8, Announce::Steer")
            .with("crates/a/src/x.sql", "edges ('open', 'silent')")
            .with("crates/a/src/status.rs", "\"silent\"")
            .with("crates/a/src/tests.rs", "changes_fate Announce::Silent")
            .with("docs/a.md", "changes_fate Announce::Silent");
        assert_eq!(
            column_files(&tree),
            ["crates/a/src/lib.rs", "crates/a/src/tests.rs"]
        );
        assert_eq!(
            announce_files(&tree),
            ["crates/a/src/lib.rs", "crates/a/src/x.sql"]
        );
    }
}
