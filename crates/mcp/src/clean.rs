//! Text of a server as people and models may see it.

/// Leaves out what can be read otherwise than it looks: control characters, changes of the writing
/// direction, and the invisible letters of the tag block.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter(|c| !is_hidden(*c)).collect()
}

/// The first `max` characters of cleaned text, with `…` where something is missing.
pub(crate) fn clean_first(text: &str, max: usize) -> String {
    let cleaned = text.chars().filter(|c| !is_hidden(*c));
    let mut kept: String = cleaned.take(max + 1).collect();
    if let Some((end, _)) = kept.char_indices().nth(max) {
        kept.truncate(end);
        kept.pop();
        kept.push('…');
    }
    kept
}

fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_nothing_that_can_be_seen() {
        for (text, max, expected) in [
            ("plain\n\ttext", 20, "plain\n\ttext"),
            ("a\u{1b}[31mb\u{0}\r\n", 20, "a[31mb\n"),
            ("user\u{202e}txt", 20, "usertxt"),
            ("x\u{e0041}\u{e0042}y", 20, "xy"),
            ("日本語テキスト", 4, "日本語…"),
            ("abcd", 4, "abcd"),
            ("a\u{0}\u{0}bcd", 4, "abcd"),
        ] {
            assert_eq!(clean_first(text, max), expected, "{text:?}");
        }
        assert_eq!(clean("a\u{2066}b"), "ab");
    }
}
