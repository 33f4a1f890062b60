//! Builtins that make bash evaluate text of another command as arithmetic.

use super::EVALUATORS;
use crate::script::{Simple, Word};

/// Builtins that set attributes of variables.
const DECLARERS: [&str; 5] = ["declare", "export", "local", "readonly", "typeset"];

/// Returns whether the command sets the attribute `-i` or `-n` of a variable, or uses a subscript,
/// whose value bash evaluates: in `y='a[$(rm x)]'; test -v 'z[y]'` it runs `rm`.
pub(crate) fn may_compute(command: &Simple) -> bool {
    let name = command.program().unwrap_or_default();
    let arguments = command.arguments();
    match name {
        _ if DECLARERS.contains(&name) => arguments
            .iter()
            .any(|word| is_attribute(word) || has_subscript(word)),
        "[" | "test" => names_variable(arguments, "-v"),
        "printf" => {
            let first = arguments.first().map(Word::shape).unwrap_or_default();
            let sets = first.starts_with("-v") || first.starts_with('$');
            sets && arguments.iter().take(2).any(has_subscript)
        }
        "wait" => names_variable(arguments, "-p") || arguments.iter().any(has_subscript),
        _ => EVALUATORS.contains(&name) && arguments.iter().any(has_subscript),
    }
}

fn is_attribute(word: &Word) -> bool {
    let text = word.shape();
    text.starts_with(['-', '+']) && text.contains(['i', 'n'])
}

/// Returns whether the option is followed by a variable with a subscript or by an unknown word.
fn names_variable(arguments: &[Word], option: &str) -> bool {
    let mut pairs = arguments.iter().zip(arguments.iter().skip(1));
    pairs.any(|(before, variable)| {
        let is_option = before.known().is_none_or(|text| text == option);
        is_option && (variable.known().is_none() || has_subscript(variable))
    })
}

/// Returns whether the word is `NAME[…`, or assigns `NAME=([…`.
fn has_subscript(word: &Word) -> bool {
    let text = word.shape();
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    let is_named = |at: usize| {
        let before = name.get(..at).unwrap_or_default();
        before.ends_with(|c: char| c == '_' || c.is_ascii_alphanumeric())
    };
    let mut found = name.match_indices('[');
    found.any(|(at, _)| is_named(at)) || (text.contains("=(") && text.contains('['))
}
