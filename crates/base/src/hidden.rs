//! Characters that a reader cannot see, or that change how other characters are read.
//!
//! This is the only table of such characters: terminals, approvals, lists, the web page (through
//! `web/src/markdown/hidden.ts`, which a test compares with this file) and text for models all use
//! it. A second table would disagree with the first, and a character that one of them lacks lets a
//! command look like another.
//!
//! There are two operations. *Writing out* replaces a character by `\u{e0100}`; people who decide
//! see it. *Removing* is for text that models read and for prose. Text that a person decides by
//! (commands, paths, names) has no exceptions; prose keeps the invisible characters that emoji and
//! joining scripts are spelled with, each only where it has that effect.

/// The version of Unicode that the tables were made from.
pub const UNICODE_VERSION: &str = "16.0";

/// Hidden characters, as ascending inclusive ranges: `Cc`, `Cf`, `Zl`, `Zp`,
/// `Default_Ignorable_Code_Point`, `Bidi_Control`, and letters and symbols that are drawn blank.
pub const HIDDEN: &[(char, char)] = &[
    ('\u{0}', '\u{1f}'),
    ('\u{7f}', '\u{9f}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    // Braille without dots.
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    // A filler of the Khitan script.
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{1bca0}', '\u{1bca3}'),
    // A note without a head.
    ('\u{1d159}', '\u{1d159}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Spaces that look like U+0020 and are another character, so that one word looks like two. They
/// are written out where a person decides, and stay in prose.
pub const SPACES: &[(char, char)] = &[
    ('\u{a0}', '\u{a0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{2000}', '\u{200a}'),
    ('\u{202f}', '\u{202f}'),
    ('\u{205f}', '\u{205f}'),
    ('\u{3000}', '\u{3000}'),
];

/// Format characters (`Prepended_Concatenation_Mark`) that fonts draw: prose keeps them.
pub const DRAWN: &[(char, char)] = &[
    ('\u{600}', '\u{605}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
];

/// Characters that emoji sequences are made of (a superset of the assigned `Extended_Pictographic`).
pub const PICTOGRAPHS: &[(char, char)] = &[
    ('\u{a9}', '\u{a9}'),
    ('\u{ae}', '\u{ae}'),
    ('\u{203c}', '\u{203c}'),
    ('\u{2049}', '\u{2049}'),
    ('\u{2122}', '\u{2122}'),
    ('\u{2139}', '\u{2139}'),
    ('\u{2190}', '\u{21ff}'),
    ('\u{2300}', '\u{23ff}'),
    ('\u{24c2}', '\u{24c2}'),
    ('\u{25a0}', '\u{27bf}'),
    ('\u{2934}', '\u{2935}'),
    ('\u{2b05}', '\u{2b55}'),
    ('\u{3030}', '\u{3030}'),
    ('\u{303d}', '\u{303d}'),
    ('\u{3297}', '\u{3297}'),
    ('\u{3299}', '\u{3299}'),
    ('\u{1f000}', '\u{1faff}'),
];

/// Scripts in which a joiner between two letters changes how they are drawn: Arabic to Mongolian.
pub const JOINING: (char, char) = ('\u{600}', '\u{18af}');

/// The flags that are spelled with tags: England, Scotland, Wales. Other tags spell hidden words.
pub const TAG_FLAGS: [&str; 3] = [
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

const JOINER: char = '\u{200d}';
const NON_JOINER: char = '\u{200c}';
const TEXT_STYLE: char = '\u{fe0e}';
const EMOJI_STYLE: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';
const ESCAPE: char = '\u{1b}';
/// How a written-out character begins. Text that has these characters itself gets its backslash
/// written out, so that no text looks like another with a hidden character.
const WRITTEN: &str = "\\u{";

/// Whether a character is hidden: line feeds and tabs are, as all control characters.
pub fn is_hidden(character: char) -> bool {
    within(HIDDEN, character)
}

/// Writes out every hidden character and every unusual space, for text of several lines that
/// a person decides by. Line feeds stay, and tabs that indent a line.
///
/// Injective: two different texts are never shown alike.
pub fn write_out(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut indents = true;
    for (at, character) in text.char_indices() {
        match character {
            '\n' => out.push(character),
            '\t' if indents => out.push(character),
            character => push_exact(&mut out, character, &text[at..]),
        }
        indents = character == '\n' || (indents && matches!(character, ' ' | '\t'));
    }
    out
}

/// As [`write_out`], on one line: line feeds and tabs are written out as well. For names, paths,
/// labels and lists.
pub fn write_out_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        push_exact(&mut out, character, &text[at..]);
    }
    out
}

/// Removes every hidden character but line feeds and tabs, without exceptions: for foreign text
/// that models may take for instructions.
pub fn remove(text: &str) -> String {
    text.chars()
        .filter(|character| matches!(character, '\n' | '\t') || !is_hidden(*character))
        .collect()
}

/// As [`remove`], for prose: emoji sequences and joining scripts keep what they are spelled with.
pub fn remove_from_prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    read_prose(text, |character, seen| match seen {
        Visibility::Plainly => out.push(character),
        Visibility::Hidden => {}
    });
    out
}

/// The last filter in front of a terminal: writes out what is hidden in prose. Colours that this
/// program sets (`ESC [ … m`) stay.
///
/// Text that a person decides by went through [`write_out`] before; here a backslash is left alone,
/// so that nothing is written out twice.
pub fn write_out_for_terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(ESCAPE) {
        let (before, sequence) = rest.split_at(start);
        push_prose(&mut out, before);
        let length = colour_length(sequence);
        if length == 0 {
            push_written(&mut out, ESCAPE);
        }
        out.push_str(&sequence[..length]);
        rest = &sequence[length.max(ESCAPE.len_utf8())..];
    }
    push_prose(&mut out, rest);
    out
}

/// Writes out hidden characters in a JSON document in the way of JSON (`\u200b`), which changes no
/// value. Line feeds of its layout stay.
pub fn write_out_json(document: &str) -> String {
    let mut out = String::with_capacity(document.len());
    for character in document.chars() {
        if character == '\n' || !is_hidden(character) {
            out.push(character);
            continue;
        }
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// All hidden characters, one after the other.
pub fn all() -> impl Iterator<Item = char> {
    HIDDEN.iter().flat_map(|(first, last)| *first..=*last)
}

/// How a reader meets a character.
enum Visibility {
    Plainly,
    Hidden,
}

fn push_exact(out: &mut String, character: char, rest: &str) {
    let hides = is_hidden(character) || within(SPACES, character);
    if hides || rest.starts_with(WRITTEN) {
        push_written(out, character);
    } else {
        out.push(character);
    }
}

fn push_written(out: &mut String, character: char) {
    out.extend(character.escape_unicode());
}

fn push_prose(out: &mut String, text: &str) {
    read_prose(text, |character, seen| match seen {
        Visibility::Plainly => out.push(character),
        Visibility::Hidden => push_written(out, character),
    });
}

/// Reads prose and reports for each character whether it is hidden at its position.
fn read_prose(text: &str, mut act: impl FnMut(char, Visibility)) {
    // The last two characters that a reader sees.
    let (mut earlier, mut before) = (None, None);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(flag) = TAG_FLAGS.iter().find(|flag| rest.starts_with(**flag)) {
            flag.chars().for_each(|part| act(part, Visibility::Plainly));
            rest = &rest[flag.len()..];
            (earlier, before) = (None, None);
            continue;
        }
        rest = &rest[character.len_utf8()..];
        let is_seen = !is_hidden(character)
            || matches!(character, '\n' | '\t')
            || within(DRAWN, character)
            || is_spelling(earlier, before, character, rest.chars().next());
        if is_seen {
            act(character, Visibility::Plainly);
            (earlier, before) = (before, Some(character));
        } else {
            act(character, Visibility::Hidden);
        }
    }
}

/// Whether an invisible character is part of the spelling of its neighbours.
fn is_spelling(
    earlier: Option<char>,
    before: Option<char>,
    character: char,
    after: Option<char>,
) -> bool {
    let pictograph = |neighbour: Option<char>| neighbour.is_some_and(|c| within(PICTOGRAPHS, c));
    let letter = |neighbour: Option<char>| {
        neighbour.is_some_and(|c| (JOINING.0..=JOINING.1).contains(&c) && !is_hidden(c))
    };
    let ends_emoji = pictograph(before) || (before == Some(EMOJI_STYLE) && pictograph(earlier));
    match character {
        TEXT_STYLE | EMOJI_STYLE => {
            let is_key = before.is_some_and(|c| c.is_ascii_digit() || matches!(c, '#' | '*'));
            pictograph(before) || (is_key && after == Some(KEYCAP))
        }
        JOINER if ends_emoji && pictograph(after) => true,
        JOINER | NON_JOINER => letter(before) && letter(after),
        _ => false,
    }
}

/// The bytes of a colour at the beginning of the text; 0 if it begins otherwise. Concealed text
/// is no colour.
fn colour_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == ';'));
    match end {
        Some(end) if rest[end..].starts_with('m') && !conceals(&rest[..end]) => {
            "\u{1b}[".len() + end + "m".len()
        }
        Some(_) | None => 0,
    }
}

/// Whether the parameters of a colour sequence make text invisible (`8`), also behind others (`0;8`) or
/// written as `08`. The numbers of a colour (`38;5;8`) do not.
fn conceals(parameters: &str) -> bool {
    let mut numbers = parameters
        .split(';')
        .map(|number| number.trim_start_matches('0'));
    while let Some(number) = numbers.next() {
        match number {
            "8" => return true,
            "38" | "48" => {
                let parts = match numbers.next() {
                    Some("5") => 1,
                    Some("2") => 3,
                    Some(_) | None => return true,
                };
                for _ in 0..parts {
                    numbers.next();
                }
            }
            _ => {}
        }
    }
    false
}

fn within(ranges: &[(char, char)], character: char) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= character);
    after
        .checked_sub(1)
        .and_then(|at| ranges.get(at))
        .is_some_and(|(_, last)| character <= *last)
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    fn every_character() -> impl Iterator<Item = char> {
        '\0'..=char::MAX
    }

    /// The reverse of writing out, as a reader does it.
    fn read_back(shown: &str) -> String {
        let mut text = String::new();
        let mut rest = shown;
        while let Some(at) = rest.find(WRITTEN) {
            text.push_str(&rest[..at]);
            let code = &rest[at + WRITTEN.len()..];
            let end = code.find('}').unwrap();
            let number = u32::from_str_radix(&code[..end], 16).unwrap();
            text.push(char::from_u32(number).unwrap());
            rest = &code[end + 1..];
        }
        text + rest
    }

    #[test]
    fn the_table_contains_every_character_that_unicode_calls_invisible() {
        let property = Regex::new(
            r"^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Bidi_Control}]$",
        )
        .unwrap();
        let blank = ['\u{2800}', '\u{16fe4}', '\u{1d159}'];
        for character in every_character() {
            let expected =
                property.is_match(character.encode_utf8(&mut [0; 4])) || blank.contains(&character);
            assert_eq!(
                is_hidden(character),
                expected,
                "{}",
                character.escape_unicode()
            );
        }
    }

    #[test]
    fn the_spaces_are_those_of_unicode() {
        let property = Regex::new(r"^\p{Zs}$").unwrap();
        for character in every_character().filter(|character| *character != ' ') {
            let expected = property.is_match(character.encode_utf8(&mut [0; 4]));
            assert_eq!(within(SPACES, character), expected, "{character:?}");
        }
    }

    #[test]
    fn ranges_are_in_order() {
        for ranges in [HIDDEN, SPACES, DRAWN, PICTOGRAPHS] {
            assert!(ranges.is_sorted());
            assert!(ranges.iter().all(|(first, last)| first <= last));
            assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }

    #[test]
    fn no_operation_leaves_a_hidden_character() {
        for character in all() {
            let text = format!("a{character}b");
            let code = format!("\\u{{{:x}}}", u32::from(character));
            assert_eq!(write_out_line(&text), format!("a{code}b"));
            let kept = matches!(character, '\n' | '\t');
            if character != '\n' {
                assert_eq!(write_out(&text), format!("a{code}b"));
            }
            if !kept {
                assert_eq!(remove(&text), "ab", "{code}");
                let in_prose = within(DRAWN, character);
                let terminal = write_out_for_terminal(&text);
                assert_eq!(terminal == format!("a{code}b"), !in_prose, "{code}");
                assert_eq!(remove_from_prose(&text) == "ab", !in_prose, "{code}");
            }
            let json = write_out_json(&serde_json::to_string(&text).unwrap());
            assert!(json.is_ascii(), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }

    #[test]
    fn a_text_with_an_escape_of_its_own_is_not_taken_for_a_hidden_character() {
        for (text, shown) in [
            ("./build.sh\u{e0100}", "./build.sh\\u{e0100}"),
            ("./build.sh\\u{e0100}", "./build.sh\\u{5c}u{e0100}"),
            ("a\\\\u{1}", "a\\\\u{5c}u{1}"),
            ("printf 'a\\nb'", "printf 'a\\nb'"),
            ("if x\n\tthen\ty", "if x\n\tthen\\u{9}y"),
            ("rm\u{a0}-rf 删除", "rm\\u{a0}-rf 删除"),
        ] {
            assert_eq!(write_out(text), shown);
        }
    }

    #[test]
    fn write_out_is_injective() {
        let parts = [
            "a",
            " ",
            "\\",
            "u",
            "{",
            "}",
            "u{",
            "\\u{",
            "41",
            "5c",
            "200b",
            "\n",
            "\t",
            "\u{200b}",
            "\u{e0100}",
            "\u{3164}",
            "\u{202e}",
            "\u{a0}",
            "\u{1b}[2K",
            "\r",
            "\0",
            "é",
            "删",
            "👩",
            "\u{200d}",
            "\u{fe0f}",
        ];
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..20_000 {
            let text: String = (0..random.usize(..12))
                .map(|_| parts[random.usize(..parts.len())])
                .collect();
            for shown in [write_out(&text), write_out_line(&text)] {
                assert_eq!(read_back(&shown), text, "{shown}");
                let raw = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t');
                assert!(!shown.contains(raw), "{shown:?}");
            }
            assert!(!write_out_line(&text).contains(is_hidden), "{text:?}");
        }
    }

    #[test]
    fn prose_keeps_how_emoji_and_scripts_are_spelled() {
        for text in [
            "👨\u{200d}👩\u{200d}👧",
            "❤\u{fe0f}\u{200d}🔥",
            "👋🏽",
            "1\u{fe0f}\u{20e3}",
            "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}!",
            "نام\u{200c}ها",
            "क\u{94d}\u{200d}ष",
            "line\n\ttab",
        ] {
            assert_eq!(remove_from_prose(text), text);
            assert_eq!(write_out_for_terminal(text), text);
            assert!(!write_out_line(text).contains(is_hidden));
        }
        for (text, expected) in [
            ("a\u{200d}b", "ab"),
            ("a\u{fe0f}", "a"),
            ("1\u{fe0f}2", "12"),
            ("❤\u{fe0f}\u{fe0f}", "❤\u{fe0f}"),
            ("👩\u{200d}\u{200d}👧", "👩\u{200d}👧"),
            ("🏴\u{e0041}\u{e0042}", "🏴"),
            ("🏴\u{e0067}\u{e0062}\u{e007f}", "🏴"),
        ] {
            assert_eq!(remove_from_prose(text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_colours_reach_a_terminal() {
        for (text, expected) in [
            ("\u{1b}[31mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m"),
            ("\u{1b}[38;5;208mx\u{1b}[0m", "\u{1b}[38;5;208mx\u{1b}[0m"),
            ("\u{1b}[2Kx", "\\u{1b}[2Kx"),
            ("\u{1b}[8mx", "\\u{1b}[8mx"),
            ("\u{1b}[08mx", "\\u{1b}[08mx"),
            ("\u{1b}[0;8mx", "\\u{1b}[0;8mx"),
            ("\u{1b}[38;5;8;8mx", "\\u{1b}[38;5;8;8mx"),
            ("\u{1b}[38;5;8mx", "\u{1b}[38;5;8mx"),
            ("\u{1b}[48;2;8;8;8mx", "\u{1b}[48;2;8;8;8mx"),
            ("\u{1b}]0;t\u{7}", "\\u{1b}]0;t\\u{7}"),
            ("\u{1b}", "\\u{1b}"),
            ("a\\u{200b}\u{200b}", "a\\u{200b}\\u{200b}"),
        ] {
            assert_eq!(write_out_for_terminal(text), expected);
        }
    }
}
