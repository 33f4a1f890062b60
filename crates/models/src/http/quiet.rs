//! Streams the text of a model without the secrets that its provider was sent.

use std::sync::{Mutex, PoisonError};

use sortie_base::redact::Redactor;
use sortie_core::ports::model::{DeltaSink, RateLimitWait};

/// Forwards text deltas. Text that may be the beginning of a secret is held back until more
/// arrives.
pub(super) struct Quiet<'a> {
    inner: &'a dyn DeltaSink,
    redactor: Redactor,
    kept_back: Mutex<String>,
}

impl<'a> Quiet<'a> {
    pub(super) fn new(inner: &'a dyn DeltaSink, redactor: Redactor) -> Self {
        Self {
            inner,
            redactor,
            kept_back: Mutex::default(),
        }
    }

    /// Forwards the text that was held back: the stream has ended, so it is no secret.
    pub(super) fn finish(&self) {
        let rest = std::mem::take(&mut *self.kept_back());
        if !rest.is_empty() {
            self.inner.text(&rest);
        }
    }

    fn kept_back(&self) -> std::sync::MutexGuard<'_, String> {
        self.kept_back
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeltaSink for Quiet<'_> {
    fn text(&self, delta: &str) {
        if self.redactor.knows_none() {
            self.inner.text(delta);
            return;
        }
        let ready = {
            let mut kept = self.kept_back();
            kept.push_str(delta);
            let mut ready = self.redactor.redact_known(&kept).into_owned();
            let certain = ready.len() - self.redactor.unfinished_bytes(&ready);
            *kept = ready.split_off(certain);
            ready
        };
        if !ready.is_empty() {
            self.inner.text(&ready);
        }
    }

    fn rate_limited(&self, wait: Option<RateLimitWait>) {
        self.inner.rate_limited(wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl DeltaSink for Recorder {
        fn text(&self, delta: &str) {
            self.0.lock().unwrap().push(delta.to_owned());
        }
        fn rate_limited(&self, _wait: Option<RateLimitWait>) {}
    }

    fn check(deltas: &[&str], expected: &[&str]) {
        let recorder = Recorder::default();
        let quiet = Quiet::new(&recorder, Redactor::new(["secret-key-12"]));
        for delta in deltas {
            quiet.text(delta);
        }
        quiet.finish();
        assert_eq!(*recorder.0.lock().unwrap(), expected, "{deltas:?}");
    }

    #[test]
    fn a_secret_is_redacted_however_the_stream_is_split() {
        check(&["plain", " words 的"], &["plain", " words 的"]);
        check(&["it is secret-key-12!"], &["it is [redacted]!"]);
        check(
            &["it is sec", "ret-key", "-12!"],
            &["it is ", "[redacted]!"],
        );
        let letters: Vec<String> = "x secret-key-12 y".chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        check(&letters, &["x", " ", "[redacted]", " ", "y"]);
        check(&["a secret", " thing"], &["a ", "secret thing"]);
        check(&["it ends with sec"], &["it ends with ", "sec"]);
    }
}
