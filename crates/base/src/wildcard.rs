//! Matches names against patterns with `*`, for rules and settings.
//!
//! One matcher for all of them: with two that disagree on case, another letter evades a deny rule.

/// A compiled pattern. `*` matches any run of characters, also
/// an empty one; every other character matches itself, ignoring case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard {
    lower: String,
    starred: bool,
}

impl Wildcard {
    /// Compiles a pattern. Every text is a valid pattern.
    pub fn new(pattern: &str) -> Self {
        Self {
            lower: fold(pattern),
            starred: pattern.contains('*'),
        }
    }

    /// Returns whether a name matches, ignoring case.
    pub fn fits(&self, name: &str) -> bool {
        self.fits_folded(&fold(name))
    }

    /// Returns whether a name matches that was folded with [`fold`].
    pub fn fits_folded(&self, name: &str) -> bool {
        if self.starred {
            fits_stars(&self.lower, name)
        } else {
            self.lower == name
        }
    }

    /// Returns the only name that matches, folded; `None` for a pattern with `*`.
    pub fn only(&self) -> Option<&str> {
        (!self.starred).then_some(self.lower.as_str())
    }
}

/// Returns whether a name matches a pattern, ignoring case.
pub fn matches(pattern: &str, name: &str) -> bool {
    Wildcard::new(pattern).fits(name)
}

/// Returns whether a name matches one of the patterns, ignoring case.
pub fn matches_any<P: AsRef<str>>(patterns: &[P], name: &str) -> bool {
    let name = fold(name);
    patterns
        .iter()
        .any(|pattern| Wildcard::new(pattern.as_ref()).fits_folded(&name))
}

/// Folds the case of a text character by character, so that
/// a letter folds alike at every position (`str::to_lowercase` folds a final sigma differently).
/// Folds to upper case first, which unites letters with several small forms.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

/// The first match of each part is the best one, so there is no backtracking. The time is limited by
/// the product of the two short lengths, and there is no recursion.
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

    /// The same rule by exhaustive search: slow and obviously correct.
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
        fn case_never_matters(
            pattern in "[a-cA-C*_]{0,8}",
            name in "[a-cA-C_]{0,10}",
            first in proptest::collection::vec(any::<bool>(), 1..8),
            second in proptest::collection::vec(any::<bool>(), 1..8),
        ) {
            let plain = matches(&pattern, &name);
            prop_assert_eq!(plain, matches(&respelled(&pattern, &first), &respelled(&name, &second)));
        }

        #[test]
        fn matching_agrees_with_exhaustive_search(pattern in "[ab*]{0,7}", name in "[ab]{0,9}") {
            let letters: Vec<char> = pattern.chars().collect();
            let text: Vec<char> = name.chars().collect();
            prop_assert_eq!(matches(&pattern, &name), naive(&letters, &text));
        }
    }
}
