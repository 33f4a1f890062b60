//! Suggests the name that was probably meant.

use strsim::{damerau_levenshtein, normalized_damerau_levenshtein, sorensen_dice};

/// A longer name is no typing error, and comparing it would cost too much.
const MAX_COMPARED_CHARS: usize = 64;

/// Returns the known name that is closest to a misspelled one, ignoring case: at most one edit for
/// every three characters.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let chars = wrong.chars().count();
    if chars > MAX_COMPARED_CHARS {
        return None;
    }
    let wrong = wrong.to_lowercase();
    let max_edits = (chars / 3).max(1);
    known
        .into_iter()
        .map(|name| (damerau_levenshtein(&wrong, &name.to_lowercase()), name))
        .filter(|(edits, name)| *edits <= max_edits && *edits < name.chars().count())
        .min()
        .map(|(_, name)| name)
}

/// Returns how similar two names are, ignoring case: from 0 to 1, and 0 for names that are too long to
/// compare.
pub fn similarity(left: &str, right: &str) -> f64 {
    let is_long = |name: &str| name.chars().nth(MAX_COMPARED_CHARS).is_some();
    if is_long(left) || is_long(right) {
        return 0.0;
    }
    normalized_damerau_levenshtein(&left.to_lowercase(), &right.to_lowercase())
}

/// Returns how similar two lines of text are, from 0 to 1, by the pairs of letters that they share; the
/// cost grows with their length only.
pub fn line_similarity(left: &str, right: &str) -> f64 {
    sorensen_dice(left, right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_recognized_and_other_words_are_not() {
        let known = [
            "model",
            "small_model",
            "max_tokens",
            "temperature",
            "lang",
            "agent",
            "last_result_contains",
        ];
        for (wrong, expected) in [
            ("modle", Some("model")),
            ("agnet", Some("agent")),
            ("temprature", Some("temperature")),
            ("Temperature", Some("temperature")),
            ("max-tokens", Some("max_tokens")),
            ("max_token", Some("max_tokens")),
            ("last_result_contain", Some("last_result_contains")),
            ("language", None),
            ("zzzzzz", None),
            ("", None),
            ("ö", None),
        ] {
            assert_eq!(nearest(wrong, known), expected, "{wrong}");
        }
        assert_eq!(nearest(&"a".repeat(100_000), known), None);
    }

    #[test]
    fn similarity_ignores_case_and_long_names() {
        assert!(similarity("Main.rs", "mian.rs") > 0.8);
        assert!(similarity("main.rs", "Cargo.toml") < 0.4);
        assert_eq!(similarity(&"a".repeat(100_000), "a"), 0.0);
    }
}
