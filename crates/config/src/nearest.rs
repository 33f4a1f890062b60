//! What somebody probably meant.

/// Longer names are no slips of the pen, and comparing them would cost too much.
const MAX_COMPARED_CHARS: usize = 64;

/// The candidate that is closest to the name, if one is close: one edit for every three characters.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let chars = name.chars().count();
    if chars > MAX_COMPARED_CHARS {
        return None;
    }
    let name = name.to_lowercase();
    let most = (chars / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= most && *distance < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_seen_and_other_words_are_not() {
        let known = ["model", "small_model", "max_tokens", "temperature", "lang"];
        for (name, expected) in [
            ("modle", Some("model")),
            ("temprature", Some("temperature")),
            ("Temperature", Some("temperature")),
            ("max-tokens", Some("max_tokens")),
            ("max_token", Some("max_tokens")),
            ("language", None),
            ("database", None),
            ("", None),
            ("ö", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
        assert_eq!(nearest(&"m".repeat(100_000), known), None);
    }
}
