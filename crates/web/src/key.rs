//! A key of a search provider, and how it stays out of everything that is written down.

use std::fmt;
use std::sync::Arc;

use reqwest::header::HeaderValue;

/// A key. It prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Arc<str>);

impl Key {
    /// Keeps a key, without the white space that copying leaves around it.
    pub fn new(key: &str) -> Self {
        Self(Arc::from(key.trim()))
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the header that carries it; `None` if no header can.
    pub(crate) fn header(&self, prefix: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
