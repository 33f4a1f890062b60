//! Command patterns of rules.

use sortie_shell::{Pattern, Understanding, Verdict};

/// The suffix for "and any further arguments" in other systems: `git diff:*`.
const ANY_MORE: &str = ":*";

/// The command pattern of a rule, matched on the programs that the shell would start.
#[derive(Clone, Debug)]
pub(crate) struct CommandPattern {
    patterns: Vec<Pattern>,
    exact: bool,
}

impl CommandPattern {
    /// Parses a command pattern; the error is a sentence.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut patterns = vec![pattern(text)?];
        // Parse it both ways: a deny rule copied from another system must not become ineffective.
        if let Some(stem) = text.strip_suffix(ANY_MORE).filter(|stem| !stem.is_empty()) {
            patterns.push(pattern(&format!("{stem} *"))?);
        }
        Ok(Self {
            patterns,
            // A pattern with a quoted star would be exact too; treating it as inexact is the safe
            // error.
            exact: !text.contains('*'),
        })
    }

    /// Returns all interpretations of the pattern.
    pub(crate) fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Returns whether the pattern matches exactly one command.
    pub(crate) const fn is_exact(&self) -> bool {
        self.exact
    }

    /// Returns whether everything that the command runs matches.
    pub(crate) fn permits(&self, command: &Understanding) -> bool {
        Pattern::all_fit(&self.patterns, command)
    }

    /// Returns whether anything that the command runs matches, or may match.
    pub(crate) fn restricts(&self, command: &Understanding) -> bool {
        match Pattern::any_fits(&self.patterns, command) {
            Verdict::Clear => false,
            Verdict::Fits(_) | Verdict::CannotCheck { .. } => true,
        }
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    text.parse()
        .map_err(|error: sortie_shell::PatternError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks whether the rule permits and restricts the command, as two letters.
    fn check(rule: &str, command: &str, expected: &str) {
        let pattern = CommandPattern::read(rule).unwrap();
        let command_read = sortie_shell::read(command);
        let shown = [
            if pattern.permits(&command_read) {
                "p"
            } else {
                "-"
            },
            if pattern.restricts(&command_read) {
                "r"
            } else {
                "-"
            },
        ];
        assert_eq!(shown.concat(), expected, "{rule} {command}");
    }

    #[test]
    fn commands_are_matched_as_arguments() {
        check("git status *", "git status", "pr");
        check("git status *", "git status --short", "pr");
        check("git status *", "git stash", "--");
        check("git status *", "\"git\" 'st'atus", "pr");
        check("git status *", "git status; rm -rf x", "-r");
        check("git status *", "git status $(rm x)", "-r");
        check("git status *", "git status > out", "-r");
        check("rm *", "/bin/rm x", "-r");
        check("rm *", "r$x y", "-r");
        check("rm *", "echo 'rm x'", "--");
        check("rm *", "echo 'unfinished", "-r");
        check("git diff:*", "git diff --stat", "pr");
        check("npm run test:*", "npm run test:unit", "pr");
        check("npm run test:*", "npm run tests", "--");
        check("*", "anything at all", "pr");
    }
}
