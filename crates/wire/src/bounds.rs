//! The most that is kept of what a server sends. Beyond a bound the answer fails and says which.

use sortie_core::ports::model::ModelError;

/// Bytes of one line of a stream: whole items come in one line.
pub const LINE_BYTES: usize = 8 << 20;
/// Bytes of one whole answer, as they came.
pub const STREAM_BYTES: usize = 64 << 20;
/// Bytes of text and reasoning in one answer.
pub const TEXT_BYTES: usize = 16 << 20;
/// Bytes of the arguments of one call.
pub const ARGUMENT_BYTES: usize = 4 << 20;
/// Calls in one answer.
pub const CALLS: usize = 256;
/// Parts of one answer of any kind.
pub const PARTS: usize = 4096;
/// Bytes that are read of the body of a refusal.
pub const ERROR_BODY_BYTES: usize = 64 << 10;
/// Characters of an error's message.
pub const MESSAGE_CHARS: usize = 400;

/// Builds the error for an answer that passes a bound.
pub(crate) fn too_long(what: &str, bytes: usize) -> ModelError {
    ModelError::retryable(format!(
        "{what} is longer than {} MiB, the most that is read; asking again may help",
        bytes >> 20
    ))
}
