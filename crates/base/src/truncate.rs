//! The one way to shorten text: never inside a character, and with a mark where text is missing.
//!
//! A limit counts the kept text: the mark comes in addition. Only [`truncate_middle`], whose callers
//! give their own marker, counts it in.

/// Marks the end of a text that was truncated.
pub const ELLIPSIS: &str = "…";

/// A text whose middle may have been left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The remaining text, with the marker where something is missing.
    pub text: String,
    /// How many characters are missing; 0 if the text is whole.
    pub left_out: usize,
}

/// Returns the first `max_chars` characters, followed by `…` if the text is longer.
pub fn truncate(text: &str, max_chars: usize) -> String {
    marked(text, first_chars(text, max_chars))
}

/// Truncates a text in place; returns whether it was longer than `max_chars`.
pub fn truncate_in_place(text: &mut String, max_chars: usize) -> bool {
    let kept = first_chars(text, max_chars).len();
    let is_long = kept < text.len();
    if is_long {
        text.truncate(kept);
        text.push_str(ELLIPSIS);
    }
    is_long
}

/// Returns at most `max_chars` characters around the byte `at`, with `…` where text is missing.
pub fn truncate_around(text: &str, at: usize, max_chars: usize) -> String {
    let before = first_bytes(text, at).chars().count();
    let skipped = before.saturating_sub(max_chars / 2);
    if skipped == 0 || text.chars().count() <= max_chars {
        return truncate(text, max_chars);
    }
    let rest: String = text.chars().skip(skipped).collect();
    format!("{ELLIPSIS}{}", truncate(&rest, max_chars))
}

/// Returns at most `max_bytes` bytes of the text, followed by `…` if the text is longer.
pub fn truncate_bytes(text: &str, max_bytes: usize) -> String {
    marked(text, first_bytes(text, max_bytes))
}

/// Returns the first `count` characters, or the whole text if it has fewer.
pub fn first_chars(text: &str, count: usize) -> &str {
    split_at_char(text, count).0
}

/// Returns the longest beginning of the text that has at most `max_bytes` bytes.
pub fn first_bytes(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// Replaces the middle of a text that is longer than `max_chars` by `marker`.
///
/// The result, marker included, has at most `max_chars` characters. If not even the marker fits, the
/// beginning is kept without it.
pub fn truncate_middle(text: &str, max_chars: usize, marker: &str) -> Truncated {
    let total = text.chars().count();
    if total <= max_chars {
        return Truncated {
            text: text.to_owned(),
            left_out: 0,
        };
    }
    let Some(kept) = max_chars.checked_sub(marker.chars().count()) else {
        return Truncated {
            text: first_chars(text, max_chars).to_owned(),
            left_out: total - max_chars,
        };
    };
    let left_out = total - kept;
    let (head, rest) = split_at_char(text, kept.div_ceil(2));
    let (_, tail) = split_at_char(rest, left_out);
    Truncated {
        text: format!("{head}{marker}{tail}"),
        left_out,
    }
}

fn marked(text: &str, kept: &str) -> String {
    if kept.len() == text.len() {
        text.to_owned()
    } else {
        format!("{kept}{ELLIPSIS}")
    }
}

fn split_at_char(text: &str, index: usize) -> (&str, &str) {
    let offset = text.char_indices().nth(index);
    text.split_at(offset.map_or(text.len(), |(offset, _)| offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_truncated_between_characters() {
        for (text, max, expected) in [
            ("", 0, ""),
            ("a", 0, "…"),
            ("abc", 3, "abc"),
            ("abcd", 3, "abc…"),
            ("分析项目", 4, "分析项目"),
            ("分析项目", 2, "分析…"),
            ("🦀🦀", 1, "🦀…"),
        ] {
            assert_eq!(truncate(text, max), expected, "{text:?} {max}");
            let mut shortened = text.to_owned();
            assert_eq!(truncate_in_place(&mut shortened, max), text != expected);
            assert_eq!(shortened, expected, "{text:?} {max}");
        }
        for (text, max, expected) in [
            ("", 0, ""),
            ("abc", 3, "abc"),
            ("abcd", 3, "abc…"),
            ("分析", 6, "分析"),
            ("分析", 5, "分…"),
            ("分析", 2, "…"),
        ] {
            assert_eq!(truncate_bytes(text, max), expected, "{text:?} {max}");
        }
    }

    #[test]
    fn the_middle_gives_way_to_the_marker() {
        for (text, max, expected, left_out) in [
            ("abc", 3, "abc", 0),
            ("abcdefghij", 8, "abc[…]ij", 5),
            ("abcdefghij", 3, "[…]", 10),
            ("abcdefghij", 2, "ab", 8),
            ("一二三四五六七八九十", 7, "一二[…]九十", 6),
        ] {
            let truncated = truncate_middle(text, max, "[…]");
            assert_eq!(truncated.text, expected, "{text:?} {max}");
            assert_eq!(truncated.left_out, left_out, "{text:?} {max}");
        }
    }

    #[test]
    fn keeps_the_match_in_view() {
        let check = |text: &str, at: usize, max: usize, expected: &str| {
            assert_eq!(truncate_around(text, at, max), expected);
        };
        check("short", 3, 10, "short");
        check("0123456789", 0, 4, "0123…");
        check("0123456789", 8, 4, "…6789");
        check("分析项目结构报告", 12, 4, "…项目结构…");
    }
}
