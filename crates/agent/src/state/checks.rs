//! Applies the results of the checks that the host ran on an answer.

use sortie_core::check::{CheckResult, Checked, Verdict};
use sortie_core::event::JournalEntry;
use sortie_core::run::Outcome;

use super::{IllegalEvent, MAX_SENT_BACK, Phase, RunState, illegal};
use crate::render;

impl RunState {
    /// Ends the run with its checked result, or sends it back to work if a check failed: a bounded
    /// number of times.
    pub(super) fn checked(
        &mut self,
        entry: &JournalEntry,
        results: &[CheckResult],
    ) -> Result<(), IllegalEvent> {
        let Phase::Checking(text) = &self.phase else {
            return Err(illegal(entry, "no answer is being checked"));
        };
        let verdict = Verdict::of(results);
        let outcome = completed(text.clone(), Checked::of(results.to_vec()));
        if verdict == Verdict::Refuted && self.reminders.refutations < MAX_SENT_BACK {
            self.reminders.refutations += 1;
            self.phase = Phase::AwaitingModel;
            let failed = render::failed_checks(self.spec.lang, results);
            let failed = render::frame(self.spec.lang, "checks", &failed);
            self.notice("notice-refuted", &[("failed", failed.into())]);
        } else {
            self.phase = Phase::Concluding(outcome);
        }
        // A refuted answer is no result: if the run fails later, it has failed.
        self.result = None;
        Ok(())
    }
}

pub(super) const fn completed(text: String, checked: Option<Checked>) -> Outcome {
    Outcome::Completed { text, checked }
}

/// Returns the outcome of a run whose answer was not checked.
pub(crate) const fn unchecked(text: String) -> Outcome {
    let checked = Checked {
        verdict: Verdict::Unverified,
        results: Vec::new(),
    };
    completed(text, Some(checked))
}
