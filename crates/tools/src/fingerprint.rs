//! How the writing tools determine after a crash whether a write happened.

use std::io::Read as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use sortie_core::id::{EffectId, hex};
use sortie_core::ports::tool::{Reconciled, ToolAnswer, ToolContext};

use crate::blocking::{Stop, in_workspace};
use crate::confine::{Kept, Workspace};

/// The state of a file before a write, and the state that the write was to produce.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    pub(crate) before: State,
    /// `None` if the write could only fail.
    pub(crate) after: Option<State>,
}

/// The state of a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// The file does not exist.
    Absent,
    /// The SHA-256 of the content.
    Sha256(String),
    /// The file cannot be read, or policy denies it.
    Unreadable,
}

impl State {
    /// Returns the state of a file with this content.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::Sha256(hex(&Sha256::digest(bytes)))
    }

    /// Returns the current state of the path.
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

/// Compares the file with the fingerprint that was recorded before the call.
pub(crate) async fn reconcile_file(
    context: &ToolContext<'_>,
    kept: &Arc<Kept>,
    path: String,
    remembered: &Value,
    answer: String,
) -> Reconciled {
    let look = move |workspace: &Workspace, _: &Stop| Ok(State::at(workspace, &path));
    let now = in_workspace(context, kept, look).await;
    now.map_or(Reconciled::Unknown, |now| {
        reconcile(&now, remembered, answer)
    })
}

/// Compares the current state with the recorded fingerprint.
fn reconcile(now: &State, remembered: &Value, answer: String) -> Reconciled {
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

/// Returns the name of the temporary file of a call. It is the same for each attempt of one call,
/// so that running the call again after a crash removes what the crash left behind.
pub(crate) fn temporary_name(effect: &EffectId) -> String {
    let digest = hex(&Sha256::digest(effect.to_string().as_bytes()));
    format!(".sortie-{}.tmp", &digest[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconcile_compares_current_state_with_the_fingerprint() {
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
