//! Connections on which nobody has shown who they are yet. One address has only so many of them: when
//! it opens one more, its oldest is closed. So whoever opens connections and says nothing drives out
//! only its own, and somebody with a token, from the same address even, comes in.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// All of them.
#[derive(Debug)]
pub(crate) struct Strangers {
    /// How many one address may have.
    most: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// The number of the last one.
    last: u64,
    /// By address, oldest first.
    by_address: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
}

/// One connection of somebody unknown. Forgotten when it ends, or when it shows a right token.
#[derive(Debug)]
pub(crate) struct Stranger {
    all: Arc<Strangers>,
    address: IpAddr,
    number: u64,
    closed: CancellationToken,
}

impl Strangers {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            open: Mutex::default(),
        })
    }

    /// Takes a connection in.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Stranger {
        let closed = CancellationToken::new();
        let mut open = self.open();
        open.last += 1;
        let number = open.last;
        let its = open.by_address.entry(address).or_default();
        if its.len() >= self.most
            && let Some((_, oldest)) = its.pop_first()
        {
            oldest.cancel();
        }
        its.insert(number, closed.clone());
        drop(open);
        Stranger {
            all: Arc::clone(self),
            address,
            number,
            closed,
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stranger {
    /// Returns when the connection has to make room.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Somebody has shown a right token on it: it no longer counts, and is closed for nobody.
    pub(crate) fn is_known(&self) {
        let mut open = self.all.open();
        if let Some(its) = open.by_address.get_mut(&self.address) {
            its.remove(&self.number);
            if its.is_empty() {
                open.by_address.remove(&self.address);
            }
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.is_known();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    #[test]
    fn an_address_drives_out_its_own_oldest_and_nobody_who_is_known() {
        let strangers = Strangers::new(2);
        let other = strangers.enter(THERE);
        let known = strangers.enter(HERE);
        known.is_known();
        let [first, second, third] = [HERE; 3].map(|address| strangers.enter(address));
        assert!(first.closed.is_cancelled());
        for stranger in [&other, &known, &second, &third] {
            assert!(!stranger.closed.is_cancelled());
        }
        drop(second);
        let fourth = strangers.enter(HERE);
        assert!(!third.closed.is_cancelled(), "the one that left made room");
        drop((other, known, first, third, fourth));
        assert!(strangers.open().by_address.is_empty(), "nothing is kept");
    }
}
