//! Checks of a result: the host runs them after a run has given its final answer, outside the run.

use serde::{Deserialize, Serialize};

/// The most checks of one run.
pub const MAX_CHECKS: usize = 20;
/// The most characters of a command, a path, an expression or an address in a check.
pub const MAX_CHECK_CHARS: usize = 2_000;

/// What must hold after a run has given its final answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Check {
    /// The command exits with 0.
    Command(String),
    FileExists(String),
    /// The file exists, and its content differs from that at the start of the run.
    FileChanged(String),
    /// The content of the file matches the regular expression.
    Matches {
        file: String,
        regex: String,
    },
    /// The content of the file has this SHA-256, in hexadecimal digits.
    Sha256 {
        file: String,
        hash: String,
    },
    /// A GET request is answered with this status.
    Http {
        url: String,
        status: u16,
    },
    /// A stop hook of the operator lets the run end. No caller can request it.
    Hook(String),
}

impl Check {
    /// Returns the file whose content at the start the check compares with.
    pub fn watched(&self) -> Option<&str> {
        match self {
            Self::FileChanged(file) => Some(file),
            Self::Command(_)
            | Self::FileExists(_)
            | Self::Matches { .. }
            | Self::Sha256 { .. }
            | Self::Http { .. }
            | Self::Hook(_) => None,
        }
    }

    /// Returns the texts that are limited by [`MAX_CHECK_CHARS`].
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::Command(text)
            | Self::FileExists(text)
            | Self::FileChanged(text)
            | Self::Hook(text) => vec![text],
            Self::Matches { file, regex } => vec![file, regex],
            Self::Sha256 { file, hash } => vec![file, hash],
            Self::Http { url, .. } => vec![url],
        }
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(command) => write!(f, "command `{command}`"),
            Self::FileExists(file) => write!(f, "file_exists {file}"),
            Self::FileChanged(file) => write!(f, "file_changed {file}"),
            Self::Matches { file, regex } => write!(f, "matches {file} /{regex}/"),
            Self::Sha256 { file, hash } => write!(f, "sha256 {file} {hash}"),
            Self::Http { url, status } => write!(f, "http {url} {status}"),
            Self::Hook(name) => write!(f, "hook {name}"),
        }
    }
}

words! {
    /// What one check found.
    CheckStatus {
        Passed = "passed",
        Failed = "failed",
        /// It could not be run; the evidence says why.
        NotRun = "not_run",
    }
}

words! {
    /// What the checks together say about a result.
    Verdict {
        /// Every check passed.
        Verified = "verified",
        /// No check failed, but not all could be run.
        Unverified = "unverified",
        /// A check failed.
        Refuted = "refuted",
    }
}

impl Verdict {
    /// Returns the verdict of these checks.
    pub fn of(results: &[CheckResult]) -> Self {
        let has = |status| results.iter().any(|result| result.status == status);
        if has(CheckStatus::Failed) {
            Self::Refuted
        } else if results.is_empty() || has(CheckStatus::NotRun) {
            Self::Unverified
        } else {
            Self::Verified
        }
    }
}

impl Checked {
    /// Returns the checks of a result. A hook that has no objection proves nothing, so alone it gives no
    /// verdict, and one that failed to run is left to the operator's log.
    pub fn of(results: Vec<CheckResult>) -> Option<Self> {
        let counts = |result: &CheckResult| {
            !matches!(result.check, Check::Hook(_)) || result.status == CheckStatus::Failed
        };
        let results: Vec<CheckResult> = results.into_iter().filter(counts).collect();
        (!results.is_empty()).then(|| Self {
            verdict: Verdict::of(&results),
            results,
        })
    }
}

/// What one check found, and the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub check: Check,
    pub status: CheckStatus,
    /// Bounded and redacted: the exit code and the end of the output, the size of a file.
    pub evidence: String,
}

/// The checks of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    pub verdict: Verdict,
    pub results: Vec<CheckResult>,
}

#[cfg(test)]
mod tests {
    use super::CheckStatus::{Failed, NotRun, Passed};
    use super::*;

    #[test]
    fn checks_are_written_as_objects_with_one_key() {
        let text = r#"[{"command":"true"},{"file_exists":"a"},{"file_changed":"b"},{"matches":{"file":"c","regex":"x"}},{"sha256":{"file":"d","hash":"00"}},{"http":{"url":"http://localhost/","status":200}}]"#;
        let checks: Vec<Check> = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&checks).unwrap(), text);
        for wrong in [
            r#"{"comand":"x"}"#,
            r#"{"matches":{"file":"c","regex":"x","y":1}}"#,
        ] {
            serde_json::from_str::<Check>(wrong).unwrap_err();
        }
    }

    #[test]
    fn one_failed_check_refutes_and_one_that_did_not_run_leaves_it_open() {
        let result = |status| CheckResult {
            check: Check::FileExists("a".to_owned()),
            status,
            evidence: String::new(),
        };
        for (statuses, expected) in [
            (&[][..], Verdict::Unverified),
            (&[Passed], Verdict::Verified),
            (&[Passed, NotRun], Verdict::Unverified),
            (&[Failed, NotRun, Passed], Verdict::Refuted),
        ] {
            let results: Vec<_> = statuses.iter().copied().map(result).collect();
            assert_eq!(Verdict::of(&results), expected, "{statuses:?}");
        }
    }
}
