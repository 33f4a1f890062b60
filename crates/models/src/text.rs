//! Names from other programs, made safe to show and to store.

use sortie_base::hidden::is_hidden;
use sortie_base::truncate::truncate;

/// Returns a foreign name without hidden characters and at most 200 characters long.
pub(crate) fn plain_name(name: &str) -> String {
    const MAX_CHARS: usize = 200;
    truncate(&name.replace(is_hidden, ""), MAX_CHARS)
}
