//! The preview of a call for the approver.

use sortie_base::truncate::truncate;
use sortie_core::ports::tool::ToolFailure;

/// The most characters of a preview.
const MAX_PREVIEW_CHARS: usize = 8_000;

/// Returns what the call would do, or why it would fail.
pub(crate) fn shown(preview: Result<String, ToolFailure>) -> String {
    match preview {
        Ok(text) => truncate(&text, MAX_PREVIEW_CHARS),
        Err(failure) => truncate(&format!("It would fail: {failure}"), MAX_PREVIEW_CHARS),
    }
}
