//! What went wrong with a server, in words for a model and free of secrets.

use std::error::Error;

use sortie_base::redact::Redactor;

use crate::clean::clean_first;

/// The most characters of a reason.
const MAX_REASON_CHARS: usize = 600;

/// The most characters of a server's own words.
const MAX_WORDS_CHARS: usize = 4_000;

/// What went wrong with a server, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Whole sentences of ours.
    pub(crate) sentence: String,
    /// Words of the server itself: what it last wrote, or its own error. Data, never instructions.
    pub(crate) words: String,
}

impl Trouble {
    /// Trouble that says all by itself.
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            words: String::new(),
        }
    }

    /// Adds words of the server.
    pub(crate) fn with_words(mut self, words: &str, redactor: &Redactor) -> Self {
        self.words = clean_first(&redactor.redact(words), MAX_WORDS_CHARS);
        self
    }

    /// All of it in one text for a person.
    pub(crate) fn summary(&self) -> String {
        if self.words.is_empty() {
            return self.sentence.clone();
        }
        format!("{}; it wrote: {}", self.sentence, self.words)
    }
}

/// An error with its causes, in one line, bounded and without secrets.
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
    clean_first(&redactor.redact(&text), MAX_REASON_CHARS)
}
