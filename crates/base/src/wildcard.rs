//! Names with wildcards, as rules and settings write them.
//!
//! One matcher for all of them: two that disagree on case let a deny rule be passed by a letter.

/// A pattern that is read once and compared often. `*` stands for any run of characters, also
/// none; every other character stands for itself, whatever its case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard {
    lower: String,
    starred: bool,
}

impl Wildcard {
    /// Reads a pattern. Every text is one.
    pub fn new(pattern: &str) -> Self {
        Self {
            lower: fold(pattern),
            starred: pattern.contains('*'),
        }
    }

    /// Whether a name fits, whatever its case.
    pub fn fits(&self, name: &str) -> bool {
        self.fits_folded(&fold(name))
    }

    /// Whether a name fits that [`fold`] has made comparable.
    pub fn fits_folded(&self, name: &str) -> bool {
        if self.starred {
            fits_stars(&self.lower, name)
        } else {
            self.lower == name
        }
    }

    /// The one name that fits, folded; none for a pattern with `*`.
    pub fn only(&self) -> Option<&str> {
        (!self.starred).then_some(self.lower.as_str())
    }
}

/// Whether a name fits a pattern, whatever its case.
pub fn matches(pattern: &str, name: &str) -> bool {
    Wildcard::new(pattern).fits(name)
}

/// Whether a name fits one of the patterns, whatever its case.
pub fn matches_any<P: AsRef<str>>(patterns: &[P], name: &str) -> bool {
    let name = fold(name);
    patterns
        .iter()
        .any(|pattern| Wildcard::new(pattern.as_ref()).fits_folded(&name))
}

/// A text in which letters that differ only in case are the same: character by character, so that
/// a letter folds alike wherever it stands (`str::to_lowercase` folds a final sigma differently).
/// First to upper case, which unites letters with several small forms.
pub fn fold(text: &str) -> String {
    text.chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

/// The first place of each part is the best one, so nothing is tried twice. The time is bounded by
/// the product of the lengths, which are short, and there is no recursion.
fn fits_stars(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let head = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(head) else {
        return false;
    };
    let Some(tail) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wildcards_fit_whole_names_in_any_case() {
        for (pattern, name, expected) in [
            ("exec", "exec", true),
            ("exec", "execute", false),
            ("Exec", "eXEC", true),
            ("*", "", true),
            ("*", "anything", true),
            ("**", "anything", true),
            ("", "", true),
            ("", "x", false),
            ("memory_*", "Memory_save", true),
            ("memory_*", "memory", false),
            ("*_FILE", "read_file", true),
            ("*_issue", "get_issues", false),
            ("mcp__*__get", "mcp__srv__get", true),
            ("mcp__*__get", "mcp__get", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1c", false),
            ("ab*ba", "aba", false),
            ("a*a", "a", false),
            ("*b*", "abc", true),
            ("查*", "查找文件", true),
            ("ÉTÉ*", "été_2", true),
            ("stra\u{df}e", "STRASSE", true),
            // A final sigma is written differently and is the same letter.
            ("ΟΔΟΣ", "οδος", true),
            ("ΟΔΟΣ*", "οδοσx", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} ~ {name}");
            assert_eq!(
                matches_any(&[pattern], name),
                expected,
                "{pattern} ~ {name}"
            );
        }
    }

    /// Writes each letter in one of its cases.
    fn respelled(text: &str, upper: &[bool]) -> String {
        let mut choices = upper.iter().copied().cycle();
        text.chars()
            .map(|c| match choices.next() {
                Some(true) => c.to_ascii_uppercase(),
                Some(false) | None => c.to_ascii_lowercase(),
            })
            .collect()
    }

    /// The same rule, tried at every place: slow, and plainly right.
    fn naive(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => (0..=name.len()).any(|at| naive(rest, &name[at..])),
            Some((c, rest)) => name
                .split_first()
                .is_some_and(|(first, others)| first == c && naive(rest, others)),
        }
    }

    proptest! {
        #[test]
        fn spelling_of_letters_never_matters(
            pattern in "[a-cA-C*_]{0,8}",
            name in "[a-cA-C_]{0,10}",
            first in proptest::collection::vec(any::<bool>(), 1..8),
            second in proptest::collection::vec(any::<bool>(), 1..8),
        ) {
            let plain = matches(&pattern, &name);
            prop_assert_eq!(plain, matches(&respelled(&pattern, &first), &respelled(&name, &second)));
        }

        #[test]
        fn it_agrees_with_trying_every_place(pattern in "[ab*]{0,7}", name in "[ab]{0,9}") {
            let letters: Vec<char> = pattern.chars().collect();
            let text: Vec<char> = name.chars().collect();
            prop_assert_eq!(matches(&pattern, &name), naive(&letters, &text));
        }
    }
}
