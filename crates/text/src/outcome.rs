//! How a run ended, as a sentence.

use sortie_core::{CancelledBy, Lang, Outcome};

use crate::t;

/// What went wrong, as a sentence in this language; `None` for a run that completed.
///
/// A failure's own message was written in the run's language when it failed and stays as it is.
pub fn outcome_error(lang: Lang, outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Completed { .. } => None,
        Outcome::Failed { message, .. } => Some(message.clone()),
        Outcome::Timeout { limit_ms, .. } => Some(t!(
            lang,
            "fail-timeout",
            seconds = *limit_ms as f64 / 1000.0
        )),
        Outcome::Cancelled { cancellation, .. } => {
            let reason = cancellation.reason.as_str();
            Some(match cancellation.by {
                CancelledBy::Person => t!(lang, "cancelled-by-person", reason = reason),
                CancelledBy::Parent => t!(lang, "cancelled-by-parent", reason = reason),
                CancelledBy::ParentEnded => t!(lang, "cancelled-parent-ended", reason = reason),
            })
        }
    }
}
