//! The name that was probably meant.

/// Longer names are no slips of the pen, and comparing them would cost too much.
const MAX_COMPARED_CHARS: usize = 64;

/// Returns the known name that is closest to a misspelled one, if any is close.
pub fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    if wrong.chars().nth(MAX_COMPARED_CHARS).is_some() {
        return None;
    }
    known
        .iter()
        .map(|name| (distance(wrong, name), *name))
        .filter(|(edits, name)| *edits <= 2.max(name.chars().count() / 3))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// How many single-character edits lie between two words.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_close_or_absent() {
        let known = ["agent", "label", "last_result_contains"];
        for (wrong, expected) in [
            ("agnet", Some("agent")),
            ("labels", Some("label")),
            ("last_result_contain", Some("last_result_contains")),
            ("zzzzzz", None),
        ] {
            assert_eq!(nearest(wrong, &known), expected, "{wrong}");
        }
        assert_eq!(nearest(&"a".repeat(100_000), &known), None);
    }
}
