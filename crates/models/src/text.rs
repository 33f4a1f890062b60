//! Small things about text that both models need.

use sortie_base::hidden::is_hidden;

/// The first `max_chars` characters, with a mark if something is missing.
pub(crate) fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A name that somebody else gave, as it can be shown and kept: no hidden characters, and not long.
pub(crate) fn plain_name(name: &str) -> String {
    const MOST_CHARS: usize = 200;
    cut(&name.replace(is_hidden, ""), MOST_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        for (text, max, expected) in [("探索项目", 2, "探索…"), ("abc", 3, "abc"), ("", 0, "")]
        {
            assert_eq!(cut(text, max), expected);
        }
    }
}
