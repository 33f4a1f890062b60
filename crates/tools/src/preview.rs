//! What a person sees of a call before saying yes.

use sortie_core::ToolFailure;

use crate::text::cut;

/// How many characters are shown.
const MAX_PREVIEW_CHARS: usize = 8_000;

/// What would happen, or why nothing would.
pub(crate) fn shown(preview: Result<String, ToolFailure>) -> String {
    match preview {
        Ok(text) => cut(&text, MAX_PREVIEW_CHARS),
        Err(failure) => cut(&format!("It would fail: {failure}"), MAX_PREVIEW_CHARS),
    }
}
