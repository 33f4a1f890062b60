//! Limits on what is accepted from a server. A response that exceeds one fails with an error that
//! names the limit.

use sortie_core::ports::model::ModelError;

/// Bytes of one line of a stream: whole items arrive in one line.
pub const LINE_BYTES: usize = 8 << 20;
/// Bytes of one whole response, as received.
pub const STREAM_BYTES: usize = 64 << 20;
/// Bytes of text and reasoning in one reply.
pub const TEXT_BYTES: usize = 16 << 20;
/// Bytes of the arguments of one call.
pub const ARGUMENT_BYTES: usize = 4 << 20;
/// Calls in one reply.
pub const CALLS: usize = 256;
/// Parts of any kind in one reply.
pub const PARTS: usize = 4096;
/// Bytes that are read of the body of an error response.
pub const ERROR_BODY_BYTES: usize = 64 << 10;
/// Characters of an error's message.
pub const MESSAGE_CHARS: usize = 400;

/// Returns the error for a response that exceeds a limit.
pub(crate) fn too_long(what: &str, bytes: usize) -> ModelError {
    ModelError::retryable(format!(
        "{what} exceeds the limit of {} MiB; a retry may help",
        bytes >> 20
    ))
}
