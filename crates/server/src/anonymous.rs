//! Connections that have not authenticated yet. The number per address is limited: one more closes
//! the oldest of that address. So a client that opens connections and sends nothing closes only its
//! own, and a client with a token can connect even from the same address.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// All connections that have not authenticated.
#[derive(Debug)]
pub(crate) struct AnonymousConnections {
    /// The limit for one address.
    most: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// The number of the last connection.
    last: u64,
    /// The connections by address, oldest first.
    by_address: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
}

/// One connection that has not authenticated. Removed when it ends or authenticates.
#[derive(Debug)]
pub(crate) struct AnonymousConnection {
    all: Arc<AnonymousConnections>,
    address: IpAddr,
    number: u64,
    closed: CancellationToken,
}

impl AnonymousConnections {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            open: Mutex::default(),
        })
    }

    pub(crate) fn register(self: &Arc<Self>, address: IpAddr) -> AnonymousConnection {
        let closed = CancellationToken::new();
        let mut open = self.open();
        open.last += 1;
        let number = open.last;
        let connections = open.by_address.entry(address).or_default();
        if connections.len() >= self.most
            && let Some((_, oldest)) = connections.pop_first()
        {
            oldest.cancel();
        }
        connections.insert(number, closed.clone());
        drop(open);
        AnonymousConnection {
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

impl AnonymousConnection {
    /// Returns when the connection has to be closed for a newer one.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Removes the connection, so that it is no longer counted or closed: a request had a valid
    /// token.
    pub(crate) fn authenticated(&self) {
        let mut open = self.all.open();
        if let Some(connections) = open.by_address.get_mut(&self.address) {
            connections.remove(&self.number);
            if connections.is_empty() {
                open.by_address.remove(&self.address);
            }
        }
    }
}

impl Drop for AnonymousConnection {
    fn drop(&mut self) {
        self.authenticated();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    #[test]
    fn one_connection_more_closes_the_oldest_anonymous_one_of_its_address() {
        let anonymous = AnonymousConnections::new(2);
        let other = anonymous.register(THERE);
        let known = anonymous.register(HERE);
        known.authenticated();
        let [first, second, third] = [HERE; 3].map(|address| anonymous.register(address));
        assert!(first.closed.is_cancelled());
        for anonymous in [&other, &known, &second, &third] {
            assert!(!anonymous.closed.is_cancelled());
        }
        drop(second);
        let fourth = anonymous.register(HERE);
        assert!(
            !third.closed.is_cancelled(),
            "the one that ended is no longer counted"
        );
        drop((other, known, first, third, fourth));
        assert!(anonymous.open().by_address.is_empty(), "nothing is kept");
    }
}
