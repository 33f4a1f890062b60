//! Names with wildcards.

/// Whether `name` fits `pattern`, in which `*` stands for any run of characters.
///
/// Tool names are compared without regard to case, so that a deny list cannot be slipped past by
/// writing `Exec`.
pub fn matches(pattern: &str, name: &str) -> bool {
    NamePattern::new(pattern).fits(&name.to_lowercase())
}

/// A pattern for names that is read once and asked often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamePattern {
    lower: String,
    starred: bool,
}

impl NamePattern {
    pub(crate) fn new(pattern: &str) -> Self {
        Self {
            lower: pattern.to_lowercase(),
            starred: pattern.contains('*'),
        }
    }

    /// Whether a name, in lower case, fits.
    pub(crate) fn fits(&self, name: &str) -> bool {
        if self.starred {
            fits_stars(&self.lower, name)
        } else {
            self.lower == name
        }
    }

    /// The one name it stands for, in lower case.
    pub(crate) fn only(&self) -> Option<&str> {
        (!self.starred).then_some(self.lower.as_str())
    }
}

fn fits_stars(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let head = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(head) else {
        return false;
    };
    let mut tail = None;
    for part in parts {
        if let Some(earlier) = tail.replace(part) {
            match rest.find(earlier) {
                Some(at) => rest = &rest[at + earlier.len()..],
                None => return false,
            }
        }
    }
    tail.is_some_and(|tail| rest.ends_with(tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wildcards() {
        for (pattern, name, expected) in [
            ("exec", "exec", true),
            ("exec", "execute", false),
            ("Exec", "exec", true),
            ("*", "", true),
            ("*", "anything", true),
            ("", "x", false),
            ("memory_*", "memory_save", true),
            ("memory_*", "memory", false),
            ("*_file", "read_file", true),
            ("mcp__*__get", "mcp__srv__get", true),
            ("mcp__*__get", "mcp__get", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1c", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} ~ {name}");
        }
    }

    proptest! {
        #[test]
        fn every_name_fits_itself_and_the_star(name in "[a-z_]{0,12}", cut in 0usize..12) {
            prop_assert!(matches(&name, &name));
            prop_assert!(matches("*", &name));
            let cut = cut.min(name.len());
            let starred = format!("{}*", &name[..cut]);
            prop_assert!(matches(&starred, &name));
        }
    }
}
