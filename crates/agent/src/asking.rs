//! Whom a run asks next, after how long, and when it gives up.
//!
//! A run has a chain of models: its own and its fall-backs. It stays with the one that answered, so
//! that caches and signatures go on to fit.

use sha2::{Digest, Sha256};
use sortie_core::id::RunId;
use sortie_core::ports::model::Fault;

/// Failures of the last model of the chain in a row before the run ends.
const MAX_FAILURES: u32 = 5;
/// Failures of a model in a row before the next of the chain is asked.
const FAILURES_BEFORE_FALLBACK: u32 = 2;
/// Tool calls that a model writes as text, one after the other, before the next of the chain is
/// asked or the run ends: the first, and two in the tool mode that is tried then.
const MAX_TEXT_CALLS: u32 = 3;
/// The wait after the first failure; it doubles with each further one.
const FIRST_DELAY_MS: u64 = 500;
/// The longest wait that is not the provider's own wish.
const LONGEST_DELAY_MS: u64 = 30_000;
/// The longest wait that a provider can ask for; a day is not a wait but a refusal.
const LONGEST_WISH_MS: u64 = 15 * 60 * 1000;

/// Where a run is in its chain of models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asking {
    /// The present model's place in the chain.
    place: usize,
    /// Failures of the present model in a row.
    failures: u32,
    /// Replies of the present model in a row that were tool calls written as text.
    text_calls: u32,
    /// The wait that the provider asked for with its last refusal.
    wish_ms: Option<u64>,
    overflow: Overflow,
    /// The place of the model that found the history too long, until one answers.
    too_long_for: Option<usize>,
}

/// How far a run is with a history that is too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Overflow {
    /// As far as anybody knows, it fits.
    #[default]
    Fits,
    /// The model said that it does not.
    TooLong,
    /// It was made shorter, and the model has not answered since.
    Shortened,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Ask again: the same model or the next one.
    Ask,
    /// Make the history shorter, then ask again.
    Compact,
    /// End the run.
    GiveUp,
}

impl Asking {
    /// Takes a failure. `others` is the number of fall-backs; `can_shrink` says whether the history
    /// can be made shorter.
    pub(crate) fn failed(&mut self, fault: Fault, others: usize, can_shrink: bool) -> Verdict {
        let has_next = self.place < others;
        if let Fault::TextCall { .. } = fault {
            return self.wrote_call(has_next);
        }
        self.failures += 1;
        self.wish_ms = None;
        if fault == Fault::ContextOverflow {
            self.too_long_for = Some(self.place);
        }
        match fault {
            Fault::Transient => self.again_or_next(has_next),
            Fault::RateLimited { .. } if has_next => self.next_model(),
            Fault::RateLimited { retry_after_ms } => {
                self.wish_ms = retry_after_ms;
                self.again_or_next(has_next)
            }
            Fault::ContextOverflow if self.overflow == Overflow::Fits && can_shrink => {
                self.overflow = Overflow::TooLong;
                Verdict::Compact
            }
            Fault::Auth | Fault::BadRequest | Fault::ContextOverflow if has_next => {
                self.next_model()
            }
            // Another provider's filter must not be a way around this one's.
            Fault::Auth
            | Fault::BadRequest
            | Fault::ContextOverflow
            | Fault::ContentFilter
            | Fault::TextCall { .. }
            | Fault::Cancelled => Verdict::GiveUp,
        }
    }

    /// The provider works, so nothing is waited for.
    fn wrote_call(&mut self, has_next: bool) -> Verdict {
        self.text_calls += 1;
        self.failures = 0;
        self.wish_ms = None;
        if self.text_calls < MAX_TEXT_CALLS {
            Verdict::Ask
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
            Verdict::Ask
        }
    }

    fn next_model(&mut self) -> Verdict {
        self.place += 1;
        self.failures = 0;
        self.text_calls = 0;
        self.overflow = Overflow::Fits;
        Verdict::Ask
    }

    /// Takes an answer. One whose calls cannot be read leaves the model in the tool mode that is
    /// tried.
    pub(crate) fn answered(&mut self, is_readable: bool) {
        self.failures = 0;
        if is_readable {
            self.text_calls = 0;
        }
        self.wish_ms = None;
        self.overflow = Overflow::Fits;
        self.too_long_for = None;
    }

    /// The history was made shorter, for the model that had found it too long.
    pub(crate) fn shortened(&mut self) {
        self.place = self.too_long_for.unwrap_or(self.place);
        self.failures = 0;
        self.overflow = Overflow::Shortened;
    }

    /// Whether the last reply was a tool call written as text.
    pub(crate) fn in_words(self) -> bool {
        self.text_calls > 0
    }

    /// Whether the history has to be made shorter before the next question.
    pub(crate) fn must_shorten(self) -> bool {
        self.overflow == Overflow::TooLong
    }

    /// Whether the history was made shorter without an answer since.
    pub(crate) fn was_shortened(self) -> bool {
        self.overflow == Overflow::Shortened
    }

    /// The present model of a chain.
    pub(crate) fn model<'a>(self, first: &'a str, others: &'a [String]) -> &'a str {
        match self.place.checked_sub(1) {
            None => first,
            Some(index) => others.get(index).map_or(first, String::as_str),
        }
    }

    /// Whether another model comes after the present one.
    pub(crate) fn has_next(self, others: usize) -> bool {
        self.place < others
    }

    /// How long to wait before the next question. Runs that failed together do not come back
    /// together: a part of the wait depends on the run.
    pub(crate) fn delay_ms(self, run: RunId) -> u64 {
        let Some(doublings) = self.failures.checked_sub(1) else {
            return 0;
        };
        let whole = FIRST_DELAY_MS
            .saturating_mul(1 << doublings.min(16))
            .min(LONGEST_DELAY_MS);
        let spread = whole / 2 + whole / 2 * u64::from(lot(run, self.failures)) / 255;
        match self.wish_ms {
            Some(wish) => spread.max(wish.min(LONGEST_WISH_MS)),
            None => spread,
        }
    }
}

/// A number that looks random and is the same whenever the journal is read.
fn lot(run: RunId, failures: u32) -> u8 {
    let mut hash = Sha256::new();
    hash.update(run.to_string().as_bytes());
    hash.update(failures.to_be_bytes());
    hash.finalize()[0]
}
