//! Sanitizes text: removes characters that are hidden, reorder text or move the cursor.

use sortie_base::hidden::remove_from_prose;
use sortie_base::truncate::truncate;

/// Normalizes line ends to line feeds, merges empty lines, and removes
/// hidden characters.
pub(crate) fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut lines = Vec::new();
    let mut empty = true;
    for line in text.split(['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}']) {
        let line = remove_from_prose(line);
        let line = line.trim_end();
        if !(empty && line.is_empty()) {
            lines.push(line.to_owned());
        }
        empty = line.is_empty();
    }
    lines.join("\n").trim_end().to_owned()
}

/// Returns the text on one line, truncated to `max_chars`.
pub(crate) fn one_line(text: &str, max_chars: usize) -> String {
    let words: Vec<String> = text
        .split_whitespace()
        .map(remove_from_prose)
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    truncate(&line, max_chars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_removed() {
        let check = |text: &str, expected: &str| assert_eq!(clean(text), expected, "{text:?}");
        check("a\r\nb\rc\u{2028}d", "a\nb\nc\nd");
        check("\n\n a \n\n\n\n b \n\n", " a\n\n b");
        check("a\u{1b}[31mb\u{0}\u{7}", "a[31mb");
        check("evil\u{202e}txt.exe\u{202c}", "eviltxt.exe");
        check("a\u{200b}\u{feff}\u{ad}b", "ab");
        check("hi\u{e0049}\u{e0067}\u{e0101}!", "hi!");
        check(
            "👨\u{200d}👩\u{200d}👧 نام\u{200c}ها",
            "👨\u{200d}👩\u{200d}👧 نام\u{200c}ها",
        );
        check("tab\tstays", "tab\tstays");
    }

    #[test]
    fn every_hidden_character_is_gone() {
        for hidden in sortie_base::hidden::all().filter(|c| !c.is_whitespace()) {
            let text = format!("a{hidden}b");
            let expected = remove_from_prose(&text);
            assert_eq!(clean(&text), expected);
            assert_eq!(one_line(&text, 9), expected);
        }
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line(" a\n b\u{0}\tc ", 9), "a b c");
        assert_eq!(one_line("分析项目", 2), "分析…");
    }
}
