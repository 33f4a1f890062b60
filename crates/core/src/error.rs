//! Errors for a log or one line of text.

use std::error::Error;

/// An error with all its causes.
pub fn with_causes(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        source = cause.source();
    }
    words
}
