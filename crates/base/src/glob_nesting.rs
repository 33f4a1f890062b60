//! Bounds the nesting of braces in glob patterns.
//!
//! A pattern like `{a,{b,{c,d}}}` is compiled by recursion, and the matcher of one that nests deeper
//! than the regular expression engine permits panics. Patterns come from models, from agent files
//! and from the `.gitignore` of a repository, so every pattern is measured before it is compiled.

/// How deep braces may nest. People write one level, now and then two.
pub const MAX_NESTING: usize = 10;

/// Returns whether braces nest too deeply. Escaped braces and those in brackets count too.
pub fn is_too_deep(pattern: &str) -> bool {
    let mut depth = 0_usize;
    pattern.bytes().any(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > MAX_NESTING
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted() {
        for (pattern, expected) in [
            ("*.{ts,tsx}", false),
            (
                "{a,b}{c,d}{e,f}{g,h}{i,j}{k,l}{m,n}{o,p}{q,r}{s,t}{u,v}",
                false,
            ),
            ("{{{{{{{{{{a}}}}}}}}}}", false),
            ("{{{{{{{{{{{a}}}}}}}}}}}", true),
            ("}}}}{", false),
        ] {
            assert_eq!(is_too_deep(pattern), expected, "{pattern}");
        }
    }
}
