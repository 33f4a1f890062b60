//! Detects the language of the user.

use sortie_core::words::Lang;

/// Returns Chinese if the instruction or the system prompt is mostly Chinese.
pub(super) fn of(instruction: &str, system: &str) -> Lang {
    if is_chinese(instruction) || is_chinese(system) {
        Lang::Zh
    } else {
        Lang::En
    }
}

/// One Chinese character carries about as much as four letters, so a few names and paths in Latin
/// letters do not make a sentence English, nor does one Chinese folder name make it Chinese.
fn is_chinese(text: &str) -> bool {
    let han = text.chars().filter(|c| is_han(*c)).count();
    let letters = text.chars().filter(char::is_ascii_alphabetic).count();
    han > 0 && han * 4 >= letters
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_that_of_most_words() {
        for (instruction, system, expected) in [
            ("survey this repository", "You are an agent.", Lang::En),
            ("探索这个项目", "You are an agent.", Lang::Zh),
            ("阅读 README 和 docs，给出概览", "", Lang::Zh),
            ("survey the folder 项目 in this workspace", "", Lang::En),
            ("survey", "你是一个只读的探索助手。", Lang::Zh),
            ("", "", Lang::En),
        ] {
            assert_eq!(
                of(instruction, system),
                expected,
                "{instruction} / {system}"
            );
        }
    }
}
