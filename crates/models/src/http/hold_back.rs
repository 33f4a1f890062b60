//! Holds back the beginning of a reply that may turn out to be a tool call written as text.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sortie_core::ports::model::{DeltaSink, RateLimitWait};

/// The maximum that is held back: an answer that begins with code is delayed by this much, and a
/// call is rarely longer.
const MAX_HELD_BACK_BYTES: usize = 8 << 10;

/// Forwards text once it cannot be the beginning of a tool call any more.
pub(super) struct HoldBack<'a> {
    inner: &'a dyn DeltaSink,
    state: Mutex<State>,
}

enum State {
    /// The text so far may be a call.
    Holding(String),
    /// Text is forwarded as it arrives.
    Open,
}

impl<'a> HoldBack<'a> {
    pub(super) fn new(inner: &'a dyn DeltaSink) -> Self {
        Self {
            inner,
            state: Mutex::new(State::Holding(String::new())),
        }
    }

    /// Forwards the held-back text: the reply is an answer.
    pub(super) fn release(&self) {
        if let State::Holding(held) = std::mem::replace(&mut *self.state(), State::Open)
            && !held.is_empty()
        {
            self.inner.text(&held);
        }
    }

    /// Returns whether text was forwarded.
    pub(super) fn has_shown(&self) -> bool {
        matches!(*self.state(), State::Open)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeltaSink for HoldBack<'_> {
    fn text(&self, delta: &str) {
        let mut state = self.state();
        match &mut *state {
            State::Open => {
                drop(state);
                self.inner.text(delta);
            }
            State::Holding(held) => {
                held.push_str(delta);
                if held.len() > MAX_HELD_BACK_BYTES || !sortie_wire::may_be_text_call(held) {
                    drop(state);
                    self.release();
                }
            }
        }
    }

    fn rate_limited(&self, wait: Option<RateLimitWait>) {
        self.inner.rate_limited(wait);
    }
}
