//! Names with `*` in them.

/// Whether a name fits a pattern in which `*` stands for any text.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else {
            return false;
        };
        rest = behind;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits() {
        for (pattern, name, expected) in [
            ("get", "get", true),
            ("get", "gets", false),
            ("get", "", false),
            ("*", "", true),
            ("*", "get", true),
            ("get_*", "get_issue", true),
            ("get_*", "forget_issue", false),
            ("*_issue", "get_issue", true),
            ("*_issue", "get_issues", false),
            ("g*i*e", "get_issue", true),
            ("g*x*e", "get_issue", false),
            ("a*a", "a", false),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
