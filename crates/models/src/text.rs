//! Names from other programs, made safe to show and to store.

use sortie_base::hidden::is_hidden;
use sortie_base::truncate::truncate;

/// Returns a foreign name without hidden characters and at most 200 characters long.
pub(crate) fn plain_name(name: &str) -> String {
    const MAX_CHARS: usize = 200;
    truncate(&name.replace(is_hidden, ""), MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_every_hidden_character_and_are_truncated() {
        for hidden in sortie_base::hidden::all() {
            assert_eq!(plain_name(&format!("a{hidden}b")), "ab");
        }
        assert_eq!(plain_name(&"x".repeat(300)).chars().count(), 201);
    }
}
