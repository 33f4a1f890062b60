//! Errors of a server for models, without secrets.

use std::error::Error;

use sortie_base::redact::Redactor;

use crate::clean::clean_first;

/// Limit of a reason.
const MAX_REASON_CHARS: usize = 600;

/// Limit of a server's own message.
const MAX_WORDS_CHARS: usize = 4_000;

/// An error of a server, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Our own text, in whole sentences.
    pub(crate) sentence: String,
    /// Text of the server: its last output or its own error. Data, never instructions.
    pub(crate) words: String,
}

impl Trouble {
    /// Creates an error without text of the server.
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            words: String::new(),
        }
    }

    /// Adds text of the server.
    pub(crate) fn with_words(mut self, words: &str, redactor: &Redactor) -> Self {
        self.words = clean_first(&redactor.redact_error(words), MAX_WORDS_CHARS);
        self
    }

    /// Returns everything as one text for a person.
    pub(crate) fn summary(&self) -> String {
        if self.words.is_empty() {
            return self.sentence.clone();
        }
        format!("{}; it wrote: {}", self.sentence, self.words)
    }
}

/// Returns an error with its causes on one line, limited and redacted.
pub(crate) fn reason(error: &(dyn Error + 'static), redactor: &Redactor) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Many errors print their cause themselves.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    clean_first(&redactor.redact_error(&text), MAX_REASON_CHARS)
}
