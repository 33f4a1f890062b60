//! How the writing tools find out, after a crash, whether a write happened.

use std::io::Read as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use sortie_core::{EffectId, Reconciled, ToolAnswer, hex};

use crate::confine::Workspace;

/// What a file was before a write, and what it was to become.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    /// Before.
    pub(crate) before: State,
    /// After; missing if the write could only be refused.
    pub(crate) after: Option<State>,
}

/// What a file is.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// There is none.
    Absent,
    /// It has this SHA-256.
    Sha256(String),
    /// It cannot be read, or may not be.
    Unreadable,
}

impl State {
    /// What these bytes are.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::Sha256(hex(&Sha256::digest(bytes)))
    }

    /// What is at the path now.
    pub(crate) fn at(workspace: &Workspace, path: &str) -> Self {
        let found = workspace
            .locate(path)
            .and_then(|path| workspace.find_file(&path));
        match found {
            Ok(Some(open)) => hash(open.file).unwrap_or(Self::Unreadable),
            Ok(None) => Self::Absent,
            Err(_) => Self::Unreadable,
        }
    }
}

fn hash(mut file: std::fs::File) -> Option<State> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(State::Sha256(hex(&hasher.finalize()))),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// Compares what is there now with what was remembered.
pub(crate) fn reconcile(now: &State, remembered: &Value, answer: String) -> Reconciled {
    let Ok(fingerprint) = Fingerprint::deserialize(remembered) else {
        return Reconciled::Unknown;
    };
    if fingerprint.after.as_ref() == Some(now) {
        Reconciled::Happened(ToolAnswer::text(answer))
    } else if fingerprint.before == *now {
        Reconciled::NotYet
    } else {
        Reconciled::Unknown
    }
}

/// The name of the file that a call writes before it is renamed: always the same for one call, so
/// that running it again after a crash clears up what the crash left.
pub(crate) fn temporary_name(effect: &EffectId) -> String {
    let digest = hex(&Sha256::digest(effect.to_string().as_bytes()));
    format!(".sortie-{}.tmp", &digest[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decides() {
        let state = |text: &str| match text {
            "absent" => State::Absent,
            "unreadable" => State::Unreadable,
            text => State::of(text.as_bytes()),
        };
        let check = |before: &str, after: Option<&str>, now: &str, expected: &str| {
            let fingerprint = Fingerprint {
                before: state(before),
                after: after.map(state),
            };
            let remembered = serde_json::to_value(&fingerprint).unwrap();
            let verdict = match reconcile(&state(now), &remembered, "done".into()) {
                Reconciled::Happened(answer) => answer.text,
                Reconciled::NotYet => "not yet".to_owned(),
                Reconciled::Unknown => "unknown".to_owned(),
            };
            assert_eq!(verdict, expected, "{before} {after:?} {now}");
        };
        check("absent", Some("new"), "absent", "not yet");
        check("absent", Some("new"), "new", "done");
        check("absent", Some("new"), "other", "unknown");
        check("old", Some("new"), "old", "not yet");
        check("old", Some("new"), "absent", "unknown");
        check("same", Some("same"), "same", "done");
        check("old", None, "old", "not yet");
        check("unreadable", Some("new"), "unreadable", "not yet");
        assert_eq!(
            reconcile(&State::Absent, &Value::Null, String::new()),
            Reconciled::Unknown
        );
    }
}
