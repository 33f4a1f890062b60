//! Limits the memory of request bodies that are being received: one limit for all, and a share of it
//! for each tenant or key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::guard::Caller;

/// The limit of all bodies that arrive at the same time.
const ALL_BYTES: usize = 64 * 1024 * 1024;
/// The limit of one tenant, or of one key without a tenant: a caller that sends much, or slowly,
/// leaves memory for the others.
const SHARE_BYTES: usize = ALL_BYTES / 4;

/// The owner of a share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Share {
    Tenant(String),
    Key(String),
    Anonymous,
}

/// The memory in use.
#[derive(Debug, Default)]
struct UsedMemory {
    all: usize,
    shares: HashMap<Share, usize>,
}

/// The memory of request bodies.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyMemory(Arc<Mutex<UsedMemory>>);

impl BodyMemory {
    /// Creates an empty reservation for a body of the caller.
    pub(crate) fn reserve(&self, caller: Option<&Caller>) -> Reservation {
        let share_of = match caller.map(|caller| (caller.tenant(), caller.key())) {
            Some((Some(tenant), _)) => Share::Tenant(tenant.to_string()),
            Some((None, key)) => Share::Key(key.to_owned()),
            None => Share::Anonymous,
        };
        Reservation {
            memory: self.clone(),
            share_of,
            bytes: 0,
        }
    }
}

/// The memory of one body. It grows with the bytes that arrive, not with the announced length, and is
/// released when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory: BodyMemory,
    share_of: Share,
    bytes: usize,
}

impl Reservation {
    /// Grows the reservation to this many bytes. Returns whether the limits allow it.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let mut taken = self.memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        let share = taken
            .shares
            .get(&self.share_of)
            .copied()
            .unwrap_or_default();
        if taken.all + more > ALL_BYTES || share + more > SHARE_BYTES {
            return false;
        }
        taken.all += more;
        taken.shares.insert(self.share_of.clone(), share + more);
        self.bytes += more;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut taken = self.memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= self.bytes;
        let share = taken
            .shares
            .get(&self.share_of)
            .copied()
            .unwrap_or_default();
        if share > self.bytes {
            taken
                .shares
                .insert(self.share_of.clone(), share - self.bytes);
        } else {
            taken.shares.remove(&self.share_of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(memory: &BodyMemory, key: &str) -> Reservation {
        let mut reservation = memory.reserve(None);
        reservation.share_of = Share::Key(key.to_owned());
        reservation
    }

    #[test]
    fn bodies_are_limited_by_key_and_in_total() {
        let memory = BodyMemory::default();
        let mut first = of(&memory, "a");
        assert!(first.grow_to(SHARE_BYTES));
        assert!(first.grow_to(1), "that much is reserved already");
        assert!(!of(&memory, "a").grow_to(1), "the share is used up");
        let mut others: Vec<Reservation> = ["b", "c", "d"].map(|key| of(&memory, key)).into();
        for other in &mut others {
            assert!(other.grow_to(SHARE_BYTES));
        }
        assert!(!of(&memory, "e").grow_to(1), "the total is used up");
        drop(first);
        assert!(of(&memory, "e").grow_to(1));
        drop(others);
        let taken = memory.0.lock().unwrap();
        assert_eq!((taken.all, taken.shares.len()), (0, 0));
    }
}
