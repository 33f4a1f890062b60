//! Words that stand for a component without naming it, or for the exact verb. docs/glossary.md has
//! the terms to use instead.

/// The words. `wish` includes its forms.
const MARKERS: [&str; 10] = [
    "whoever",
    "whomever",
    "nobody",
    "somebody",
    "anybody",
    "so and so",
    "is told",
    "what became of",
    "goes on",
    "wish",
];
/// Documents that list the words in order to forbid them.
pub(crate) const EXPLAINS_MARKERS: [&str; 2] = ["docs/glossary.md", "docs/measurements.md"];

/// Returns the first marker that a text contains as whole words. Text in backquotes or quotation
/// marks is quoted, and does not count.
pub(crate) fn marker(text: &str) -> Option<&'static str> {
    let words: Vec<String> = unquoted(text)
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let text = format!(" {} ", words.join(" "));
    MARKERS.into_iter().find(|marker| {
        let forms: &[&str] = if *marker == "wish" {
            &["", "es", "ed", "ing"]
        } else {
            &[""]
        };
        forms
            .iter()
            .any(|form| text.contains(&format!(" {marker}{form} ")))
    })
}

/// Returns the text without its quoted parts. A quote that is not closed quotes nothing.
fn unquoted(text: &str) -> String {
    let mut rest = text;
    let mut outside = String::new();
    while let Some(start) = rest.find(['`', '"']) {
        let quote = &rest[start..=start];
        let Some(length) = rest[start + 1..].find(quote) else {
            break;
        };
        outside.push_str(&rest[..start]);
        outside.push(' ');
        rest = &rest[start + 1 + length + 1..];
    }
    outside.push_str(rest);
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_whole_words_in_any_case() {
        for (text, expected) in [
            ("Nobody waits.", Some("nobody")),
            ("for whoever asks", Some("whoever")),
            ("its wishes", Some("wish")),
            ("it is told, once", Some("is told")),
            ("the `x` is told", Some("is told")),
            ("5\" wide, and nobody measures", Some("nobody")),
            ("wishful", None),
            ("this told us", None),
            ("the caller goes through", None),
            ("not \"whoever\" or `nobody`", None),
            ("", None),
        ] {
            assert_eq!(marker(text), expected, "{text}");
        }
    }
}
