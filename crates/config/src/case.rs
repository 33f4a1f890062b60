//! Conversions between the spellings of a key.

/// Converts a camelCase name to snake_case; other names are returned unchanged.
pub(crate) fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            if !out.is_empty() && !out.ends_with('_') {
                out.push('_');
            }
            out.push(letter.to_ascii_lowercase());
        } else {
            out.push(letter);
        }
    }
    out
}

/// Returns the form that a name has inside the name of an environment variable.
pub(crate) fn variable(name: &str) -> String {
    name.chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for (name, expected) in [
            ("maxConcurrent", "max_concurrent"),
            ("max_concurrent", "max_concurrent"),
            ("MaxConcurrent", "max_concurrent"),
            ("extraSkillDirs", "extra_skill_dirs"),
            ("lang", "lang"),
            ("审查Agent", "审查_agent"),
        ] {
            assert_eq!(snake(name), expected);
        }
        assert_eq!(variable("my-gateway.v2"), "MY_GATEWAY_V2");
    }
}
