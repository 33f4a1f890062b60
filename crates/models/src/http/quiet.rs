//! What a model says while it says it, without the secrets that its provider was sent.

use std::sync::{Mutex, PoisonError};

use sortie_core::{DeltaSink, Held};

use crate::secret::{REDACTED, Secret};

/// Passes words on, but keeps back what may be the beginning of a secret until it is known not to be
/// one.
pub(super) struct Quiet<'a> {
    inner: &'a dyn DeltaSink,
    secrets: Vec<&'a str>,
    kept_back: Mutex<String>,
}

impl<'a> Quiet<'a> {
    pub(super) fn new(inner: &'a dyn DeltaSink, secrets: impl Iterator<Item = &'a Secret>) -> Self {
        Self {
            inner,
            secrets: secrets
                .filter(|secret| !secret.is_short())
                .map(Secret::expose)
                .collect(),
            kept_back: Mutex::default(),
        }
    }

    /// Passes on what was kept back: nothing more comes that could make a secret of it.
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
        if self.secrets.is_empty() {
            self.inner.text(delta);
            return;
        }
        let ready = {
            let mut kept = self.kept_back();
            kept.push_str(delta);
            for secret in &self.secrets {
                if kept.contains(secret) {
                    *kept = kept.replace(secret, REDACTED);
                }
            }
            let uncertain = self
                .secrets
                .iter()
                .map(|secret| begun(&kept, secret))
                .max()
                .unwrap_or(0);
            let certain = kept.len() - uncertain;
            let rest = kept.split_off(certain);
            std::mem::replace(&mut *kept, rest)
        };
        if !ready.is_empty() {
            self.inner.text(&ready);
        }
    }

    fn held(&self, held: Option<Held>) {
        self.inner.held(held);
    }
}

/// How many bytes at the end of a text are the beginning of a secret.
fn begun(text: &str, secret: &str) -> usize {
    secret
        .char_indices()
        .map(|(end, _)| end)
        .skip(1)
        .filter(|end| text.ends_with(&secret[..*end]))
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl DeltaSink for Heard {
        fn text(&self, delta: &str) {
            self.0.lock().unwrap().push(delta.to_owned());
        }
        fn held(&self, _held: Option<Held>) {}
    }

    fn check(deltas: &[&str], expected: &[&str]) {
        let heard = Heard::default();
        let key = Secret::new("secret-key-12");
        let quiet = Quiet::new(&heard, std::iter::once(&key));
        for delta in deltas {
            quiet.text(delta);
        }
        quiet.finish();
        assert_eq!(*heard.0.lock().unwrap(), expected, "{deltas:?}");
    }

    #[test]
    fn a_secret_is_never_heard_however_it_is_cut() {
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
