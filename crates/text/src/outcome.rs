//! Describes how a run ended.

use sortie_core::run::{CancelledBy, Outcome};
use sortie_core::words::Lang;

use crate::t;

/// Returns the error of a run as a sentence; `None` for a run that completed.
///
/// The message of a failure was written in the run's language when it failed and stays unchanged.
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
