//! Sanitizes text of a server.

use sortie_base::hidden::remove;
use sortie_base::truncate::truncate;

/// Removes hidden characters and truncates to `max` characters.
pub(crate) fn clean_first(text: &str, max: usize) -> String {
    truncate(&remove(text), max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_text_is_kept() {
        for (text, max, expected) in [
            ("plain\n\ttext", 20, "plain\n\ttext"),
            ("a\u{1b}[31mb\u{0}\r\n", 20, "a[31mb\n"),
            ("user\u{202e}txt", 20, "usertxt"),
            ("x\u{e0041}\u{e0042}y", 20, "xy"),
            ("日本語テキスト", 3, "日本語…"),
            ("abcd", 4, "abcd"),
            ("a\u{0}\u{0}bcd", 4, "abcd"),
        ] {
            assert_eq!(clean_first(text, max), expected, "{text:?}");
        }
        for hidden in sortie_base::hidden::all().filter(|c| !matches!(c, '\n' | '\t')) {
            assert_eq!(clean_first(&format!("a{hidden}b"), 9), "ab");
        }
    }
}
