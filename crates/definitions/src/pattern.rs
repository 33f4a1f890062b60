//! Names with wildcards.

/// Whether `name` fits `pattern`, in which `*` stands for any run of characters. Case does not count,
/// so that a deny list cannot be slipped past by other letters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let pattern = pattern.to_lowercase();
    let name = name.to_lowercase();
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(head) else {
        return false;
    };
    let Some((middle, tail)) = rest.rsplit_once('*') else {
        return left.ends_with(rest);
    };
    for part in middle.split('*') {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(tail)
}

/// Whether `name` fits one of the patterns.
pub(crate) fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        for (pattern, name, expected) in [
            ("pdf", "pdf", true),
            ("PDF", "pdf", true),
            ("pdf", "pdf-forms", false),
            ("*", "", true),
            ("", "pdf", false),
            ("pdf-*", "pdf-forms", true),
            ("*-forms", "pdf-forms", true),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1c", false),
            ("ab*ba", "aba", false),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} ~ {name}");
        }
    }
}
