//! Formatting of errors for logs and one-line messages.

use std::error::Error;

/// Returns an error with all its causes, separated by colons.
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
