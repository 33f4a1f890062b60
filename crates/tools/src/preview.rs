//! What a person sees of a call before saying yes.

use sortie_base::truncate::truncate;
use sortie_core::ToolFailure;

/// How many characters are shown.
const MAX_PREVIEW_CHARS: usize = 8_000;

/// What would happen, or why nothing would.
pub(crate) fn shown(preview: Result<String, ToolFailure>) -> String {
    match preview {
        Ok(text) => truncate(&text, MAX_PREVIEW_CHARS),
        Err(failure) => truncate(&format!("It would fail: {failure}"), MAX_PREVIEW_CHARS),
    }
}
