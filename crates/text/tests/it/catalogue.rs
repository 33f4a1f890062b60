//! The message files themselves, read with Fluent's own parser.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use fluent_syntax::ast::{
    CallArguments, Entry, Expression, InlineExpression, Pattern, PatternElement,
};
use sortie_text::{Arg, Lang, sources, text};

/// The ids of a language and the variables of each message.
pub(crate) type Catalogue = BTreeMap<String, BTreeSet<String>>;

/// Reads a language; fails on anything that Fluent does not understand and on doubled ids.
pub(crate) fn catalogue(lang: Lang) -> Catalogue {
    let mut catalogue = Catalogue::new();
    for source in sources(lang) {
        let resource = fluent_syntax::parser::parse(source.ftl)
            .unwrap_or_else(|(_, errors)| panic!("{} is broken: {errors:?}", source.name));
        for entry in resource.body {
            match entry {
                Entry::Message(message) => {
                    let pattern = message.value.unwrap_or_else(|| {
                        panic!("{}: {} has no value", source.name, message.id.name)
                    });
                    let mut variables = BTreeSet::new();
                    in_pattern(&pattern, &mut variables);
                    let before = catalogue.insert(message.id.name.to_owned(), variables);
                    assert!(before.is_none(), "{} is doubled in {lang}", message.id.name);
                }
                Entry::Comment(_) | Entry::GroupComment(_) | Entry::ResourceComment(_) => {}
                Entry::Term(_) | Entry::Junk { .. } => {
                    panic!("{}: only messages and comments are used", source.name)
                }
            }
        }
    }
    catalogue
}

fn in_pattern(pattern: &Pattern<&str>, variables: &mut BTreeSet<String>) {
    for element in &pattern.elements {
        match element {
            PatternElement::TextElement { .. } => {}
            PatternElement::Placeable { expression } => in_expression(expression, variables),
        }
    }
}

fn in_expression(expression: &Expression<&str>, variables: &mut BTreeSet<String>) {
    match expression {
        Expression::Inline(inline) => in_inline(inline, variables),
        Expression::Select { selector, variants } => {
            in_inline(selector, variables);
            for variant in variants {
                in_pattern(&variant.value, variables);
            }
        }
    }
}

fn in_inline(inline: &InlineExpression<&str>, variables: &mut BTreeSet<String>) {
    match inline {
        InlineExpression::VariableReference { id } => {
            variables.insert(id.name.to_owned());
        }
        InlineExpression::FunctionReference { arguments, .. } => in_call(arguments, variables),
        InlineExpression::Placeable { expression } => in_expression(expression, variables),
        InlineExpression::StringLiteral { .. } | InlineExpression::NumberLiteral { .. } => {}
        InlineExpression::MessageReference { id, .. }
        | InlineExpression::TermReference { id, .. } => {
            panic!("{}: messages do not refer to each other", id.name)
        }
    }
}

fn in_call(arguments: &CallArguments<&str>, variables: &mut BTreeSet<String>) {
    for argument in &arguments.positional {
        in_inline(argument, variables);
    }
}

#[test]
fn both_languages_have_the_same_messages_with_the_same_variables() {
    let english = catalogue(Lang::En);
    let chinese = catalogue(Lang::Zh);
    let ids: BTreeSet<_> = english.keys().chain(chinese.keys()).collect();
    let differences: Vec<_> = ids
        .into_iter()
        .filter(|id| english.get(*id) != chinese.get(*id))
        .map(|id| format!("{id}: en {:?}, zh {:?}", english.get(id), chinese.get(id)))
        .collect();
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn every_file_of_messages_is_embedded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("messages");
    let on_disk: BTreeSet<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".ftl"))
        .collect();
    let embedded: BTreeSet<_> = Lang::ALL
        .iter()
        .flat_map(|lang| sources(*lang))
        .map(|source| source.name.to_owned())
        .collect();
    assert_eq!(on_disk, embedded);
}

#[test]
fn every_message_renders_with_its_variables() {
    for lang in Lang::ALL {
        for (id, variables) in catalogue(*lang) {
            for number in [0_u64, 1, 2, 1_000_000] {
                let args: Vec<_> = variables
                    .iter()
                    .map(|name| (name.as_str(), Arg::from(number)))
                    .collect();
                let rendered = text(*lang, &id, &args);
                let unfilled = rendered.contains("{$") || rendered.contains("{NUMBER");
                assert!(
                    !unfilled && !rendered.trim().is_empty(),
                    "{lang} {id}: {rendered}"
                );
                assert!(rendered != format!("<{id}>"), "{lang} {id} is not found");
            }
        }
    }
}

/// Messages of values and signs only.
const WITHOUT_WORDS: &[&str] = &["manage-line"];

#[test]
fn chinese_messages_are_chinese() {
    let left_in_english: Vec<_> = catalogue(Lang::Zh)
        .into_keys()
        .filter(|id| !WITHOUT_WORDS.contains(&id.as_str()))
        .filter(|id| !text(Lang::Zh, id, &[]).chars().any(is_han))
        .collect();
    assert!(left_in_english.is_empty(), "{left_in_english:?}");
}

const fn is_han(character: char) -> bool {
    matches!(character, '\u{4e00}'..='\u{9fff}')
}
