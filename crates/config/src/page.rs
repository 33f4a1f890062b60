//! Tests that the user documentation describes every key as the code defines it.

use serde_json::Value;

use crate::restrict::{self, Rule};
use crate::schema;
use crate::shape::{Leaf, SHAPE, Text};
use crate::{Config, Sources, load};

const PAGE: &str = include_str!("../../../docs/config.md");

/// Returns the row of the documentation table for a key.
fn row(key: &str, leaf: &Leaf) -> String {
    let default = default_of(key).map_or_else(|| "–".to_owned(), |value| format!("`{value}`"));
    let (values, trust) = (values_of(leaf), without_trust(key));
    let shown = key.replace('*', "NAME");
    let meaning = description_of(key);
    format!("| `{shown}` | {default} | {values} | {trust} | {meaning} |")
}

fn default_of(key: &str) -> Option<Value> {
    let defaults = serde_json::to_value(Config::default()).unwrap();
    defaults
        .pointer(&format!("/{}", key.replace('.', "/")))
        .cloned()
}

fn description_of(key: &str) -> String {
    let schema = schema::inlined();
    let mut at = &schema;
    let mut description = "";
    for name in key.split('.') {
        at = match name {
            "*" => &at["additionalProperties"],
            name => &at["properties"][name],
        };
        description = at["description"].as_str().unwrap_or(description);
    }
    // A table row cannot contain line breaks.
    description.replace('\n', " ")
}

fn values_of(leaf: &Leaf) -> String {
    match leaf {
        Leaf::Boolean => "`true`, `false`".to_owned(),
        Leaf::Integer(least, most) => format!("{least} to {most}"),
        Leaf::Number(least, most) => format!("number, {least} to {most}"),
        Leaf::Choice(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
            words.join(", ")
        }
        Leaf::Text(Text::Any) => "text".to_owned(),
        Leaf::Text(Text::Url) => "address".to_owned(),
        Leaf::Text(Text::VariableName) => "name".to_owned(),
        Leaf::TextList => "list of texts".to_owned(),
    }
}

fn without_trust(key: &str) -> &'static str {
    let pattern: Vec<&str> = key.split('.').collect();
    match restrict::rule(&pattern) {
        Rule::NeedsTrust => "no",
        Rule::Free => "yes",
        Rule::Model => "`vendor/model` only",
        Rule::Lower(_) | Rule::LowerTime(_) => "lower only",
        Rule::SwitchOff => "`false` only",
        Rule::Add => "adds",
    }
}

#[test]
fn the_page_has_a_row_for_every_key() {
    let leaves = SHAPE.leaves();
    let rows: Vec<String> = leaves.iter().map(|(key, leaf)| row(key, leaf)).collect();
    let missing: Vec<&String> = rows.iter().filter(|row| !PAGE.contains(*row)).collect();
    assert!(missing.is_empty(), "docs/config.md lacks:\n{missing:#?}");
    let extra = PAGE.lines().filter(|line| line.starts_with("| `"));
    for line in extra.filter(|line| line.matches(" | ").count() == 4) {
        assert!(rows.iter().any(|row| row == line), "docs/config.md: {line}");
    }
}

#[test]
fn the_examples_of_the_page_are_understood() {
    let blocks: Vec<&str> = PAGE
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() >= 2);
    for block in blocks {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), block).unwrap();
        let loaded = load(&Sources {
            user_file: Some(file.path().to_owned()),
            ..Sources::default()
        });
        let loaded = loaded.unwrap_or_else(|error| panic!("{error}\n{block}"));
        assert!(loaded.warnings.is_empty(), "{:?}\n{block}", loaded.warnings);
    }
}
