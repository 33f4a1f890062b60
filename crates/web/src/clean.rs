//! Text as a reader sees it: nothing that hides, reorders or moves the cursor.

/// The first `max_chars` characters, and how many there are altogether.
pub(crate) fn cut(text: &str, max_chars: usize) -> (&str, usize) {
    let total = text.chars().count();
    match text.char_indices().nth(max_chars) {
        None => (text, total),
        Some((end, _)) => (&text[..end], total),
    }
}

/// The text with line feeds for every line end, at most one empty line in a row, and without
/// characters that cannot be seen.
pub(crate) fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut lines = Vec::new();
    let mut empty = true;
    for line in text.split(['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}']) {
        let line: String = line.chars().filter(|c| is_seen(*c)).collect();
        let line = line.trim_end();
        if !(empty && line.is_empty()) {
            lines.push(line.to_owned());
        }
        empty = line.is_empty();
    }
    lines.join("\n").trim_end().to_owned()
}

/// The text in one line of at most so many characters.
pub(crate) fn one_line(text: &str, max_chars: usize) -> String {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.chars().filter(|c| is_seen(*c)).collect::<String>())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    match cut(&line, max_chars) {
        (short, total) if total > max_chars => format!("{short}…"),
        (whole, _) => whole.to_owned(),
    }
}

/// Whether a reader could see a character, or needs it to see others rightly.
fn is_seen(c: char) -> bool {
    match c {
        '\t' => true,
        c if c.is_control() => false,
        // Soft hyphen, zero width, marks and orders of direction, invisible operators. The joiners
        // U+200C and U+200D stay: scripts and emoji are spelled with them.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' => false,
        '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => false,
        // Fillers that look like nothing.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => false,
        // Interlinear notes; tags and the second set of variation selectors, which spell whole
        // hidden sentences.
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_gone() {
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
    fn one_line_is_one_line() {
        assert_eq!(one_line(" a\n b\u{0}\tc ", 9), "a b c");
        assert_eq!(one_line("分析项目", 2), "分析…");
    }
}
