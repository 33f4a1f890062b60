//! Chooses the model for a run's next prompt, the delay before it, and when the run gives up.
//!
//! A run has a chain of models: its own and its fallbacks. It stays with the model that last
//! completed a prompt, so that caches and signatures remain valid.

use sha2::{Digest, Sha256};
use sortie_core::id::RunId;
use sortie_core::ports::model::Fault;

/// Consecutive failures of the last model of the chain before the run ends.
const MAX_FAILURES: u32 = 5;
/// Consecutive failures of a model before the run falls back to the next one of the chain.
const FAILURES_BEFORE_FALLBACK: u32 = 2;
/// Consecutive tool calls that a model writes as text before the run falls back to the next model
/// or ends: the first, and two in the tool mode that is tried next.
const MAX_TEXT_CALLS: u32 = 3;
/// The delay after the first failure; it doubles with each further one.
const FIRST_DELAY_MS: u64 = 500;
/// The longest delay that the provider did not request.
const LONGEST_DELAY_MS: u64 = 30_000;
/// The longest delay that a provider can request; a day would amount to a refusal.
const LONGEST_REQUESTED_DELAY_MS: u64 = 15 * 60 * 1000;

/// The position of a run in its chain of models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelChain {
    /// The current model's index in the chain.
    place: usize,
    /// Consecutive failures of the current model.
    failures: u32,
    /// Consecutive replies of the current model that were tool calls written as text.
    text_calls: u32,
    /// The delay that the provider requested with its last error.
    requested_delay_ms: Option<u64>,
    overflow: Overflow,
    /// The index of the model that rejected the history as too long, until a model completes a
    /// prompt.
    too_long_for: Option<usize>,
}

/// The state of a history that may be too long for the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Overflow {
    /// No model has rejected the history.
    #[default]
    Fits,
    /// The model rejected the history as too long.
    TooLong,
    /// The history was compacted, and the model has not completed a prompt since.
    Shortened,
}

/// The action that follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Prompt again: the same model or the next one.
    Prompt,
    /// Compact the history, then prompt again.
    Compact,
    /// Ends the run with this failure.
    GiveUp,
}

impl ModelChain {
    /// Records a failure. `others` is the number of fallbacks; `can_shrink` says whether the
    /// history can be compacted.
    pub(crate) fn failed(&mut self, fault: Fault, others: usize, can_shrink: bool) -> Verdict {
        let has_next = self.place < others;
        if let Fault::TextCall { .. } = fault {
            return self.wrote_call(has_next);
        }
        self.failures += 1;
        self.requested_delay_ms = None;
        if fault == Fault::ContextOverflow {
            self.too_long_for = Some(self.place);
        }
        match fault {
            Fault::Transient => self.again_or_next(has_next),
            Fault::RateLimited { .. } if has_next => self.next_model(),
            Fault::RateLimited { retry_after_ms } => {
                self.requested_delay_ms = retry_after_ms;
                self.again_or_next(has_next)
            }
            Fault::ContextOverflow if self.overflow == Overflow::Fits && can_shrink => {
                self.overflow = Overflow::TooLong;
                Verdict::Compact
            }
            Fault::Auth | Fault::BadRequest | Fault::ContextOverflow if has_next => {
                self.next_model()
            }
            // A fallback to another provider must not bypass this provider's content filter.
            Fault::Auth
            | Fault::BadRequest
            | Fault::ContextOverflow
            | Fault::ContentFilter
            | Fault::TextCall { .. }
            | Fault::Cancelled => Verdict::GiveUp,
        }
    }

    /// Records a tool call written as text. Sets no delay: the provider itself works.
    fn wrote_call(&mut self, has_next: bool) -> Verdict {
        self.text_calls += 1;
        self.failures = 0;
        self.requested_delay_ms = None;
        if self.text_calls < MAX_TEXT_CALLS {
            Verdict::Prompt
        } else if has_next {
            self.next_model()
        } else {
            Verdict::GiveUp
        }
    }

    fn again_or_next(&mut self, has_next: bool) -> Verdict {
        if has_next && self.failures >= FAILURES_BEFORE_FALLBACK {
            self.next_model()
        } else if self.failures >= MAX_FAILURES {
            Verdict::GiveUp
        } else {
            Verdict::Prompt
        }
    }

    fn next_model(&mut self) -> Verdict {
        self.place += 1;
        self.failures = 0;
        self.text_calls = 0;
        self.overflow = Overflow::Fits;
        Verdict::Prompt
    }

    /// Records a completion. One whose tool calls cannot be parsed leaves the model in the tool
    /// mode that is being tried.
    pub(crate) fn answered(&mut self, is_readable: bool) {
        self.failures = 0;
        if is_readable {
            self.text_calls = 0;
        }
        self.requested_delay_ms = None;
        self.overflow = Overflow::Fits;
        self.too_long_for = None;
    }

    /// Records that the history was compacted, for the model that rejected it as too long.
    pub(crate) fn shortened(&mut self) {
        self.place = self.too_long_for.unwrap_or(self.place);
        self.failures = 0;
        self.overflow = Overflow::Shortened;
    }

    /// Returns whether the last reply was a tool call written as text.
    pub(crate) fn after_text_call(self) -> bool {
        self.text_calls > 0
    }

    /// Returns whether the history has to be compacted before the next prompt.
    pub(crate) fn must_shorten(self) -> bool {
        self.overflow == Overflow::TooLong
    }

    /// Returns whether the history was compacted and no model has completed a prompt since.
    pub(crate) fn was_shortened(self) -> bool {
        self.overflow == Overflow::Shortened
    }

    /// Returns the current model of a chain.
    pub(crate) fn model<'a>(self, first: &'a str, others: &'a [String]) -> &'a str {
        match self.place.checked_sub(1) {
            None => first,
            Some(index) => others.get(index).map_or(first, String::as_str),
        }
    }

    /// Returns whether another model follows the current one.
    pub(crate) fn has_next(self, others: usize) -> bool {
        self.place < others
    }

    /// Returns the delay before the next prompt. A part of it depends on the run, so that runs that
    /// failed together do not retry together.
    pub(crate) fn delay_ms(self, run: RunId) -> u64 {
        let Some(doublings) = self.failures.checked_sub(1) else {
            return 0;
        };
        let whole = FIRST_DELAY_MS
            .saturating_mul(1 << doublings.min(16))
            .min(LONGEST_DELAY_MS);
        let spread = whole / 2 + whole / 2 * u64::from(lot(run, self.failures)) / 255;
        match self.requested_delay_ms {
            Some(requested) => spread.max(requested.min(LONGEST_REQUESTED_DELAY_MS)),
            None => spread,
        }
    }
}

/// Returns a pseudo-random number that is the same at every replay of the journal.
fn lot(run: RunId, failures: u32) -> u8 {
    let mut hash = Sha256::new();
    hash.update(run.to_string().as_bytes());
    hash.update(failures.to_be_bytes());
    hash.finalize()[0]
}
