//! Expands `${VAR}` and `${VAR:-default}` in the settings of a server. Pure: the caller passes the variables.

use std::collections::BTreeMap;

/// Limit of a text after expansion.
const MAX_EXPANDED_BYTES: usize = 64 * 1024;
/// VS Code writes `${env:VAR}`.
const ENVIRONMENT_PREFIX: &str = "env:";

/// Replaces variables by their values, and adds each value to `used`: it may be a secret.
/// A value is not expanded again.
pub(crate) fn expand(
    text: &str,
    variables: &BTreeMap<String, String>,
    used: &mut Vec<String>,
) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, behind) = after
            .split_once('}')
            .ok_or("a `${` is never closed: write ${NAME} or ${NAME:-default}")?;
        expanded.push_str(before);
        expanded.push_str(&value_of(inside, variables, used)?);
        rest = behind;
        if expanded.len() > MAX_EXPANDED_BYTES {
            return Err("the value is too long after its variables are replaced".to_owned());
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn value_of(
    inside: &str,
    variables: &BTreeMap<String, String>,
    used: &mut Vec<String>,
) -> Result<String, String> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let name = name.strip_prefix(ENVIRONMENT_PREFIX).unwrap_or(name);
    if let Some(value) = variables
        .get(name)
        .filter(|value| !value.is_empty() || default.is_none())
    {
        used.push(value.clone());
        return Ok(value.clone());
    }
    default.map(str::to_owned).ok_or_else(|| {
        format!("the variable {name} is not set: set it, or write ${{{name}:-default}}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let variables = [("TOKEN", "s3cret"), ("EMPTY", ""), ("LOOP", "${TOKEN}")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut used = Vec::new();
        let expanded = expand(text, &BTreeMap::from(variables), &mut used);
        match expected {
            Ok(expected) => assert_eq!(expanded.as_deref(), Ok(expected), "{text}"),
            Err(part) => {
                let error = expanded.unwrap_err();
                assert!(error.contains(part), "{text}: {error}");
                assert!(!error.contains("s3cret"), "{error}");
            }
        }
    }

    #[test]
    fn fills_in_variables() {
        check("plain $HOME {x}", Ok("plain $HOME {x}"));
        check("Bearer ${TOKEN}", Ok("Bearer s3cret"));
        check("${env:TOKEN}", Ok("s3cret"));
        check("${NONE:-a:-b}/${TOKEN}", Ok("a:-b/s3cret"));
        check("${NONE:-}", Ok(""));
        check("${EMPTY}", Ok(""));
        check("${EMPTY:-x}", Ok("x"));
        check("${LOOP}", Ok("${TOKEN}"));
        check("${NONE}", Err("variable NONE is not set"));
        check("${TOKEN}${input:key}", Err("variable input:key"));
        check("${TOKEN", Err("never closed"));
    }
}
