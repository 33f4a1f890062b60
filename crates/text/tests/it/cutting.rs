//! Cutting text: by cases that a reader can check, and by properties over everything else.

use proptest::prelude::*;
use sortie_base::hidden;
use sortie_text::{
    columns, first_chars, one_line, pad_columns, strip_sequences, truncate_columns, truncate_middle,
};
use unicode_segmentation::UnicodeSegmentation as _;

const FAMILY: &str = "👨‍👩‍👧‍👦";
const FLAG: &str = "🇨🇳";
const WAVE: &str = "👋🏽";
/// `e` and a combining acute accent.
const ACCENTED: &str = "e\u{301}";

#[test]
fn the_first_characters() {
    let cases = [
        ("", 3, ""),
        ("abc", 0, ""),
        ("abc", 3, "abc"),
        ("abc", 9, "abc"),
        ("abcd", 3, "abc"),
        ("查找所有与认证相关的文件", 4, "查找所有"),
        ("a查b找c", 4, "a查b找"),
        ("שלום עולם", 4, "שלום"),
    ];
    for (text, count, expected) in cases {
        assert_eq!(first_chars(text, count), expected, "{text:?} {count}");
    }
}

#[test]
fn columns_are_truncated_between_graphemes() {
    let cases: &[(&str, usize, &str)] = &[
        ("", 0, ""),
        ("", 5, ""),
        ("abc", 0, ""),
        ("abc", 1, "…"),
        ("abc", 2, "a…"),
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        // Wide characters never stick out: a column stays empty.
        ("中文字", 6, "中文字"),
        ("中文字", 5, "中文…"),
        ("中文字", 4, "中…"),
        ("中文字", 2, "…"),
        ("a中b文", 4, "a中…"),
        // A family is one character of two columns, or it is not there.
        (FAMILY, 2, FAMILY),
        (FAMILY, 1, "…"),
        ("👨‍👩‍👧‍👦👨‍👩‍👧‍👦", 3, "👨‍👩‍👧‍👦…"),
        ("👨‍👩‍👧‍👦👨‍👩‍👧‍👦", 2, "…"),
        ("🇨🇳🇨🇳", 3, "🇨🇳…"),
        ("👋🏽 hi", 4, "👋🏽 …"),
        // The accent stays with its letter.
        ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
        ("e\u{301}e\u{301}", 2, "e\u{301}e\u{301}"),
        // Right to left, and a ligature that joins two letters into one column.
        ("שלום עולם", 5, "שלום…"),
        ("لا إله", 3, "لا…"),
    ];
    for (text, max, expected) in cases {
        assert_eq!(truncate_columns(text, *max), *expected, "{text:?} {max}");
    }
}

#[test]
fn cells_have_exactly_their_columns() {
    let cases: &[(&str, usize, &str)] = &[
        ("", 0, ""),
        ("", 3, "   "),
        ("ab", 4, "ab  "),
        ("abcd", 4, "abcd"),
        ("abcde", 4, "abc…"),
        ("中文", 5, "中文 "),
        ("中文字", 4, "中… "),
        ("e\u{301}", 3, "e\u{301}  "),
    ];
    for (text, exact, expected) in cases {
        assert_eq!(pad_columns(text, *exact), *expected, "{text:?} {exact}");
    }
    for text in [FAMILY, FLAG, WAVE, ACCENTED] {
        assert_eq!(columns(&pad_columns(text, 4)), 4, "{text:?}");
    }
}

#[test]
fn the_middle_is_left_out_and_counted() {
    let check = |text: &str, max: usize, expected: &str, left_out: usize| {
        let cut = truncate_middle(text, max, "[…]");
        assert_eq!(
            (cut.text.as_str(), cut.left_out),
            (expected, left_out),
            "{text:?} {max}"
        );
    };
    check("", 0, "", 0);
    check("abcdef", 6, "abcdef", 0);
    check("abcdefghij", 8, "abc[…]ij", 5);
    check("abcdefghij", 7, "ab[…]ij", 6);
    check("abcdefghij", 4, "a[…]", 9);
    check("abcdefghij", 3, "[…]", 10);
    check("一二三四五六七八九十", 7, "一二[…]九十", 6);
    check("abcdefghij", 2, "ab", 8);
    check("abcdefghij", 0, "", 10);
}

#[test]
fn one_line_is_safe_to_show() {
    let cases: &[(&str, &str)] = &[
        ("", ""),
        ("plain", "plain"),
        ("  a \t b\r\n\r\nc  ", "a b c"),
        ("line\u{2028}separator\u{2029}s", "line separator s"),
        ("nul\0bell\u{7}back\u{8}del\u{7f}", "nul bell back del"),
        // Colours, cursor movements, private modes.
        ("\u{1b}[31mred\u{1b}[0m", "red"),
        ("\u{1b}[38;2;1;2;3mx\u{1b}[2J\u{1b}[?25l", "x"),
        ("\u{9b}31mred", "red"),
        ("\u{1b}[0 qcursor", "cursor"),
        // Titles, hyperlinks and the clipboard, however they end.
        ("\u{1b}]0;title\u{7}text", "text"),
        (
            "\u{1b}]8;;https://example.com\u{1b}\\link\u{1b}]8;;\u{1b}\\",
            "link",
        ),
        ("\u{9d}0;title\u{9c}text", "text"),
        ("\u{1b}Pq#0\u{1b}\\after", "after"),
        ("\u{1b}_payload\u{1b}\\after", "after"),
        // Other escapes: character sets, save, reset.
        ("\u{1b}(B\u{1b}7\u{1b}ctext", "text"),
        // What never ends does not hide the rest.
        ("\u{1b}]0;never closed", "0;never closed"),
        ("\u{1b}[", ""),
        ("\u{1b}", ""),
        ("a\u{1b}\u{1b}[1mb", "ab"),
        ("\u{1b}[31中", "中"),
        ("\u{1b}中", "中"),
        // Text cannot be made to read in another order.
        ("user\u{202e}txt.exe\u{202c}", "usertxt.exe"),
        ("\u{2066}a\u{2069}\u{200e}\u{200f}\u{61c}b", "ab"),
        // What belongs to a script or an emoji stays.
        ("שלום\nעולם", "שלום עולם"),
        ("می\u{200c}خواهم", "می\u{200c}خواهم"),
        (FAMILY, FAMILY),
        (ACCENTED, ACCENTED),
        ("全角　空格", "全角 空格"),
    ];
    for (text, expected) in cases {
        assert_eq!(one_line(text), *expected, "{text:?}");
    }
}

#[test]
fn a_control_string_beyond_the_bound_is_text() {
    let long = "x".repeat(5_000);
    assert_eq!(
        one_line(&format!("\u{1b}]{long}\u{7}end")),
        format!("{long} end")
    );
}

#[test]
fn no_hidden_character_is_left() {
    for character in hidden::all() {
        let text = format!("a{character}b");
        let prose = hidden::remove_from_prose(&text);
        if !character.is_control() && !character.is_whitespace() {
            assert_eq!(one_line(&text), prose, "{}", character.escape_unicode());
        }
        assert!(!one_line(&text).contains(char::is_control));
        if !character.is_control() {
            assert_eq!(strip_sequences(&text), prose);
        }
    }
}

#[test]
fn several_lines_keep_their_shape() {
    let cases = [
        ("a\n\tb  c\n", "a\n\tb  c\n"),
        ("\u{1b}[1mbold\u{1b}[m\r\nnext\u{202e}\0", "bold\nnext"),
    ];
    for (text, expected) in cases {
        assert_eq!(strip_sequences(text), expected, "{text:?}");
    }
}

/// Text made of the parts that make cutting hard, and of anything else.
fn hard_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-z中文字 ]",
        2 => any::<char>().prop_map(String::from),
        1 => prop::sample::select(vec![
            FAMILY, FLAG, WAVE, ACCENTED, "\u{200d}", "\u{fe0f}", "\u{fe0e}", "\u{301}", "لا", "\r\n",
            "\u{1b}[31m", "\u{1b}]0;t\u{7}", "\u{1b}", "\u{9b}", "\u{202e}", "각", "กำ", "क्षि", "“",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn a_truncated_line_is_whole_graphemes_and_fits(text in hard_text(), max in 0_usize..50) {
        let cut = truncate_columns(&text, max);
        prop_assert!(columns(&cut) <= max);
        if columns(&text) <= max {
            prop_assert_eq!(&cut, &text);
        } else if max > 0 {
            let kept = cut.strip_suffix('…').unwrap();
            prop_assert!(text.starts_with(kept));
            let boundary = kept.len() == text.len()
                || text.grapheme_indices(true).any(|(offset, _)| offset == kept.len());
            prop_assert!(boundary, "cut inside a grapheme: {:?}", kept);
        }
    }

    #[test]
    fn a_cell_fits_exactly(text in hard_text(), exact in 0_usize..50) {
        prop_assert_eq!(columns(&pad_columns(&one_line(&text), exact)), exact);
    }

    #[test]
    fn first_characters_are_a_prefix(text in hard_text(), count in 0_usize..60) {
        let first = first_chars(&text, count);
        prop_assert!(text.starts_with(first));
        prop_assert_eq!(first.chars().count(), count.min(text.chars().count()));
    }

    #[test]
    fn a_truncated_middle_adds_up(text in hard_text(), max in 0_usize..60) {
        // Nothing that `hard_text` has any chance to make.
        let marker = "<left out>";
        let cut = truncate_middle(&text, max, marker);
        let total = text.chars().count();
        prop_assert!(cut.text.chars().count() <= max);
        prop_assert_eq!(cut.left_out == 0, total <= max);
        let Some((head, tail)) = cut.text.split_once(marker) else {
            prop_assert!(text.starts_with(&cut.text));
            return Ok(());
        };
        prop_assert!(text.starts_with(head) && text.ends_with(tail));
        prop_assert_eq!(head.chars().count() + tail.chars().count() + cut.left_out, total);
    }

    #[test]
    fn one_line_has_nothing_that_a_terminal_obeys(text in hard_text()) {
        let line = one_line(&text);
        prop_assert!(!line.contains(char::is_control), "{:?}", line);
        prop_assert_eq!(&hidden::remove_from_prose(&line), &line);
        prop_assert_eq!(one_line(&line), line);
    }
}
