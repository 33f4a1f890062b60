//! Small things about text that both models need.

/// The first `max_chars` characters, with a mark if something is missing.
pub(crate) fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A name that somebody else gave, as it can be shown and kept: no control characters, and not long.
pub(crate) fn plain_name(name: &str) -> String {
    const MOST_CHARS: usize = 200;
    let plain: String = name.chars().filter(|letter| !letter.is_control()).collect();
    cut(&plain, MOST_CHARS)
}

/// Whether `text` fits `pattern`, in which `*` stands for any run of characters.
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    while let Some((middle, next)) = rest.split_once('*') {
        let Some(at) = text.find(middle) else {
            return false;
        };
        text = &text[at + middle.len()..];
        rest = next;
    }
    text.ends_with(rest)
}

/// The known name that is closest to a misspelled one, if any is close.
pub(crate) fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|name| (distance(wrong, name), *name))
        .filter(|(edits, name)| *edits <= 2.max(name.chars().count() / 3))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// How many single-character edits lie between two words.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_whole_texts() {
        for (pattern, text, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("a*", "ba", false),
            ("*b", "ab", true),
            ("*b*", "abc", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcdef", false),
            ("*", "", true),
            ("**", "anything", true),
            ("ab*b", "ab", false),
            ("查*", "查找文件", true),
        ] {
            assert_eq!(wildcard(pattern, text), fits, "{pattern} on {text}");
        }
    }

    #[test]
    fn the_nearest_name_is_close_or_absent() {
        let known = ["agent", "label", "last_result_contains"];
        for (wrong, expected) in [
            ("agnet", Some("agent")),
            ("labels", Some("label")),
            ("last_result_contain", Some("last_result_contains")),
            ("zzzzzz", None),
        ] {
            assert_eq!(nearest(wrong, &known), expected, "{wrong}");
        }
    }

    #[test]
    fn text_is_cut_between_characters() {
        for (text, max, expected) in [("探索项目", 2, "探索…"), ("abc", 3, "abc"), ("", 0, "")]
        {
            assert_eq!(cut(text, max), expected);
        }
    }
}
