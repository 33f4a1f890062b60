//! Short ids for people. UUIDv7 ids of the same minute share their first characters, so the length
//! of a unique prefix depends on all other ids.

use sortie_core::id::{MIN_PREFIX_CHARS, RunId};

/// Computes the shortest prefix of an id that is unique among a set of ids. A set of ids with the
/// neighbours of each among all ids gives the same prefixes as all ids do.
#[derive(Debug)]
pub(crate) struct Prefixes {
    sorted: Vec<String>,
}

impl Prefixes {
    /// Builds the set from these ids.
    pub(crate) fn of(ids: impl Iterator<Item = RunId>) -> Self {
        let mut sorted: Vec<String> = ids.map(|id| id.to_string()).collect();
        sorted.sort_unstable();
        Self { sorted }
    }

    /// Returns the shortest prefix of this id that matches no other id.
    pub(crate) fn short(&self, id: RunId) -> String {
        let id = id.to_string();
        let place = self.sorted.partition_point(|other| *other < id);
        let before = place
            .checked_sub(1)
            .and_then(|place| self.sorted.get(place));
        let after = self.sorted[place..].iter().find(|other| **other != id);
        let shared = [before, after]
            .into_iter()
            .flatten()
            .map(|other| common(&id, other))
            .max()
            .unwrap_or(0);
        let mut length = (shared + 1).max(MIN_PREFIX_CHARS);
        // A trailing hyphen distinguishes nothing and looks like a typo.
        if id.as_bytes().get(length - 1) == Some(&b'-') {
            length += 1;
        }
        id.get(..length).unwrap_or(&id).to_owned()
    }
}

fn common(left: &str, right: &str) -> usize {
    left.bytes()
        .zip(right.bytes())
        .take_while(|(left, right)| left == right)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_short_and_unique() {
        let ids = [
            "0190f3a8-1111-7000-8000-000000000001",
            "0190f3a8-1112-7000-8000-000000000001",
            "0190f3a8-1112-7000-8000-000000000002",
            "0190f3a9-0000-7000-8000-000000000000",
            "ffffffff-0000-7000-8000-000000000000",
        ];
        let ids: Vec<RunId> = ids.iter().map(|id| id.parse().unwrap()).collect();
        let prefixes = Prefixes::of(ids.iter().copied());
        let short: Vec<String> = ids.iter().map(|id| prefixes.short(*id)).collect();
        assert_eq!(
            short,
            [
                "0190f3a8-1111",
                "0190f3a8-1112-7000-8000-000000000001",
                "0190f3a8-1112-7000-8000-000000000002",
                "0190f3a9",
                "ffffffff",
            ]
        );
    }

    #[test]
    fn one_id_alone_needs_eight_characters() {
        let id: RunId = "0190f3a8-1111-7000-8000-000000000001".parse().unwrap();
        assert_eq!(Prefixes::of([id].into_iter()).short(id), "0190f3a8");
        assert_eq!(Prefixes::of([].into_iter()).short(id), "0190f3a8");
    }
}
