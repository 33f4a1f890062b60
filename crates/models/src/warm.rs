//! Sends the first of many equal prompts ahead, so that the others read from the provider's cache
//! instead of each paying for a cache write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The smallest prefix for which waiting pays off.
pub(crate) const SMALLEST_PREFIX_BYTES: usize = 3_000;
/// How long other requests wait for the first.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long a prefix counts as cached, a little less than the five minutes that the provider
/// promises.
const STAYS_WARM: Duration = Duration::from_secs(4 * 60);
/// The maximum number of prefixes that are tracked.
const MAX_PREFIXES: usize = 4096;

/// What equal prompts share: the model and the hash of their beginning.
pub(crate) type PrefixKey = (String, [u8; 32]);

/// The prefixes that a provider's cache contains.
#[derive(Debug, Default)]
pub(crate) struct Warm {
    prefixes: Mutex<HashMap<PrefixKey, Prefix>>,
}

#[derive(Debug)]
enum Prefix {
    /// A request was sent ahead; the channel closes when its outcome is known.
    Ahead(watch::Receiver<()>),
    /// The prefix was in the cache at this moment.
    Warm(Instant),
}

/// The request that is sent ahead. If it is dropped before its first byte, another one takes the
/// lead.
#[derive(Debug)]
pub(crate) struct Lead {
    warm: Arc<Warm>,
    key: PrefixKey,
    /// Closes when the lead is dropped, after the state was written.
    _sender: watch::Sender<()>,
    arrived: bool,
}

impl Warm {
    /// Waits while another request with the same prefix is ahead. Returns the lead if this request
    /// is to be sent ahead.
    pub(crate) async fn wait(self: &Arc<Self>, key: PrefixKey) -> Option<Lead> {
        let until = Instant::now() + LONGEST_WAIT;
        loop {
            let mut ahead = match self.look(&key) {
                CacheState::Lead(lead) => return Some(lead),
                CacheState::Warm => return None,
                CacheState::Ahead(ahead) => ahead,
            };
            // No value is ever sent: the channel closes when the lead is dropped.
            if tokio::time::timeout_at(until, ahead.changed())
                .await
                .is_err()
            {
                return None;
            }
        }
    }

    fn look(self: &Arc<Self>, key: &PrefixKey) -> CacheState {
        let now = Instant::now();
        let mut prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        match prefixes.get_mut(key) {
            Some(Prefix::Ahead(ahead)) => return CacheState::Ahead(ahead.clone()),
            Some(Prefix::Warm(at)) if now - *at < STAYS_WARM => {
                // A cache read renews the entry.
                *at = now;
                return CacheState::Warm;
            }
            Some(Prefix::Warm(_)) | None => {}
        }
        if prefixes.len() >= MAX_PREFIXES {
            prefixes.retain(|_, prefix| match prefix {
                Prefix::Ahead(_) => true,
                Prefix::Warm(at) => now - *at < STAYS_WARM,
            });
        }
        if prefixes.len() >= MAX_PREFIXES {
            return CacheState::Warm;
        }
        let (sender, receiver) = watch::channel(());
        prefixes.insert(key.clone(), Prefix::Ahead(receiver));
        CacheState::Lead(Lead {
            warm: Arc::clone(self),
            key: key.clone(),
            _sender: sender,
            arrived: false,
        })
    }
}

enum CacheState {
    Lead(Lead),
    Ahead(watch::Receiver<()>),
    Warm,
}

impl Lead {
    /// Records that the response has begun: the provider has read the prompt.
    pub(crate) fn arrived(mut self) {
        self.arrived = true;
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut prefixes = self
            .warm
            .prefixes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.arrived {
            prefixes.insert(self.key.clone(), Prefix::Warm(Instant::now()));
        } else {
            prefixes.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> PrefixKey {
        ("m".to_owned(), [number; 32])
    }

    /// Returns how long each of three siblings waits when the first responds after `first` or
    /// fails.
    async fn waits(first: Option<u64>) -> Vec<u64> {
        let warm = Arc::new(Warm::default());
        let start = Instant::now();
        let mut siblings = Vec::new();
        for _ in 0..3 {
            let warm = Arc::clone(&warm);
            siblings.push(tokio::spawn(async move {
                let lead = warm.wait(key(1)).await;
                let waited = start.elapsed().as_millis() as u64;
                if let Some(lead) = lead {
                    tokio::time::sleep(Duration::from_millis(first.unwrap_or(700))).await;
                    if first.is_some() {
                        lead.arrived();
                    }
                }
                waited
            }));
        }
        let mut waited = Vec::new();
        for sibling in siblings {
            waited.push(sibling.await.unwrap());
        }
        // Which of the waiting siblings is next is unspecified.
        waited.sort_unstable();
        waited
    }

    #[tokio::test(start_paused = true)]
    async fn siblings_wait_for_the_first_byte_of_the_first() {
        assert_eq!(waits(Some(900)).await, [0, 900, 900]);
        assert_eq!(waits(Some(60_000)).await, [0, 10_000, 10_000], "bounded");
        assert_eq!(waits(None).await, [0, 700, 1400], "a failed lead passes on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_prefix_stays_warm_for_four_minutes_after_its_last_use() {
        let warm = Arc::new(Warm::default());
        warm.wait(key(1)).await.unwrap().arrived();
        for (minutes, other, leads) in [
            (3, false, false),
            (3, false, false),
            (0, true, true),
            (5, false, true),
        ] {
            tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
            let lead = warm.wait(key(if other { 2 } else { 1 })).await;
            assert_eq!(lead.is_some(), leads, "{minutes} {other}");
        }
    }
}
