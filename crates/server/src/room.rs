//! Room for what clients are sending: so much for all of them, and a part of it for each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::guard::Caller;

/// What bodies that arrive at the same time may take together.
const ALL_BYTES: usize = 64 * 1024 * 1024;
/// What those of one tenant, or of one key without a tenant, may take of it: whoever sends much, or
/// slowly, leaves room for others.
const SHARE_BYTES: usize = ALL_BYTES / 4;

/// Whose share it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Whose {
    Tenant(String),
    Key(String),
    /// Somebody at the login page.
    Nobody,
}

/// What is taken at the moment.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    shares: HashMap<Whose, usize>,
}

/// Room for bodies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rooms(Arc<Mutex<Taken>>);

impl Rooms {
    /// Room for a body of so and so, none so far.
    pub(crate) fn enter(&self, caller: Option<&Caller>) -> Room {
        let whose = match caller.map(|caller| (caller.tenant(), caller.key())) {
            Some((Some(tenant), _)) => Whose::Tenant(tenant.to_string()),
            Some((None, key)) => Whose::Key(key.to_owned()),
            None => Whose::Nobody,
        };
        Room {
            rooms: self.clone(),
            whose,
            bytes: 0,
        }
    }
}

/// The room that one body takes as its bytes arrive: what was only announced takes none. Free again when
/// this is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    rooms: Rooms,
    whose: Whose,
    bytes: usize,
}

impl Room {
    /// Makes it large enough for so many bytes, if there is as much.
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let mut taken = self.rooms.0.lock().unwrap_or_else(PoisonError::into_inner);
        let share = taken.shares.get(&self.whose).copied().unwrap_or_default();
        if taken.all + more > ALL_BYTES || share + more > SHARE_BYTES {
            return false;
        }
        taken.all += more;
        taken.shares.insert(self.whose.clone(), share + more);
        self.bytes += more;
        true
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut taken = self.rooms.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= self.bytes;
        let share = taken.shares.get(&self.whose).copied().unwrap_or_default();
        if share > self.bytes {
            taken.shares.insert(self.whose.clone(), share - self.bytes);
        } else {
            taken.shares.remove(&self.whose);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rooms: &Rooms, key: &str) -> Room {
        let mut room = rooms.enter(None);
        room.whose = Whose::Key(key.to_owned());
        room
    }

    #[test]
    fn one_key_has_its_share_and_all_have_theirs_together() {
        let rooms = Rooms::default();
        let mut first = of(&rooms, "a");
        assert!(first.hold(SHARE_BYTES));
        assert!(first.hold(1), "it has that already");
        assert!(!of(&rooms, "a").hold(1), "its share is taken");
        let mut others: Vec<Room> = ["b", "c", "d"].map(|key| of(&rooms, key)).into();
        for other in &mut others {
            assert!(other.hold(SHARE_BYTES));
        }
        assert!(!of(&rooms, "e").hold(1), "all of it is taken");
        drop(first);
        assert!(of(&rooms, "e").hold(1));
        drop(others);
        let taken = rooms.0.lock().unwrap();
        assert_eq!((taken.all, taken.shares.len()), (0, 0));
    }
}
