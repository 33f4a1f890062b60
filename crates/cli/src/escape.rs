//! Text of a model, shown to a person who decides by it: nothing in it is hidden, nothing acts.

/// Characters that are invisible or reorder what follows.
const fn hides(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// The text on one line, with every character that is not plainly visible written out.
pub(crate) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            '\r' => line.push_str("\\r"),
            character if character.is_control() || hides(character) => {
                line.extend(character.escape_unicode());
            }
            character => line.push(character),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_hidden_and_nothing_acts() {
        for (text, expected) in [
            ("cargo test -- --nocapture", "cargo test -- --nocapture"),
            ("ls\nAllow? [y/N] y", "ls\\nAllow? [y/N] y"),
            ("ls\r\u{1b}[2Krm -rf .", "ls\\r\\u{1b}[2Krm -rf ."),
            ("a\u{202e}b\u{200b}c", "a\\u{202e}b\\u{200b}c"),
            ("删除 文件", "删除 文件"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }
}
