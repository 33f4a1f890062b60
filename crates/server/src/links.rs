//! Login links: a code that logs one browser in, once, within minutes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use sortie_core::time::Timestamp;
use sortie_protocol::Role;

use crate::keys::{MAX_KEYS, hash_of, same};
use crate::random::{self, NoRandomness};

/// How long a link is valid.
const LIFETIME_MS: i64 = 5 * 60 * 1_000;
/// Open links of one key; one more replaces its oldest.
const MAX_OF_KEY: usize = 8;
/// Open links of all keys together: the links of one key never replace those of another.
const MAX_OPEN: usize = MAX_OF_KEY * MAX_KEYS;

/// The links that were not used yet. Only hashes are stored, and only in memory.
#[derive(Debug, Default)]
pub(crate) struct Links {
    open: Mutex<VecDeque<Open>>,
}

#[derive(Debug)]
struct Open {
    hash: String,
    pass: Pass,
    expires_at: Timestamp,
}

/// The browser session that a link creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The key of the session.
    pub(crate) key: String,
    /// The secret of the key from which the session derives, and with which it ends.
    pub(crate) mark: String,
    /// The role of the session.
    pub(crate) role: Role,
}

impl Links {
    /// Creates a code. Returns it with its expiry.
    pub(crate) fn make(
        &self,
        pass: Pass,
        now: Timestamp,
    ) -> Result<(String, Timestamp), NoRandomness> {
        let code = random::secret()?;
        let expires_at = now.plus_ms(LIFETIME_MS);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|link| now < link.expires_at);
        let its = |link: &Open| link.pass.key == pass.key;
        if open.iter().filter(|link| its(link)).count() >= MAX_OF_KEY
            && let Some(oldest) = open.iter().position(its)
        {
            open.remove(oldest);
        }
        if open.len() >= MAX_OPEN {
            open.pop_front();
        }
        open.push_back(Open {
            hash: hash_of(&code),
            pass,
            expires_at,
        });
        Ok((code, expires_at))
    }

    /// Uses up a code.
    pub(crate) fn take(&self, code: &str, now: Timestamp) -> Option<Pass> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let index = find(&open, code, now)?;
        open.remove(index).map(|link| link.pass)
    }

    /// Returns the pass of a code without using it up.
    pub(crate) fn peek(&self, code: &str, now: Timestamp) -> Option<Pass> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let index = find(&open, code, now)?;
        open.get(index).map(|link| link.pass.clone())
    }
}

fn find(open: &VecDeque<Open>, code: &str, now: Timestamp) -> Option<usize> {
    let hash = hash_of(code);
    // Compares with every code, in constant time.
    let mut found = None;
    for (index, link) in open.iter().enumerate() {
        if same(&link.hash, &hash) && now < link.expires_at {
            found = Some(index);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(key: &str) -> Pass {
        Pass {
            key: key.to_owned(),
            mark: "0011223344556677".to_owned(),
            role: Role::Viewer,
        }
    }

    #[test]
    fn link_works_once_before_it_expires() {
        let links = Links::default();
        let now = Timestamp(1_000);
        let (code, _) = links.make(pass("abcdefgh"), now).unwrap();
        let (late, _) = links.make(pass("abcdefgh"), now).unwrap();
        assert_eq!(links.take("wrong", now), None);
        assert_eq!(links.peek(&code, now), Some(pass("abcdefgh")));
        assert_eq!(links.peek(&late, now.plus_ms(LIFETIME_MS)), None);
        assert_eq!(links.take(&code, now), Some(pass("abcdefgh")));
        assert_eq!(links.take(&code, now), None);
        assert_eq!(links.take(&late, now.plus_ms(LIFETIME_MS)), None);
    }

    #[test]
    fn open_links_are_limited_by_key() {
        let links = Links::default();
        let now = Timestamp(0);
        let (others, _) = links.make(pass("otherkey"), now).unwrap();
        let (first, _) = links.make(pass("abcdefgh"), now).unwrap();
        for _ in 0..MAX_OF_KEY {
            links.make(pass("abcdefgh"), now).unwrap();
        }
        assert_eq!(links.open.lock().unwrap().len(), MAX_OF_KEY + 1);
        assert_eq!(links.take(&first, now), None);
        assert_eq!(links.take(&others, now), Some(pass("otherkey")));
    }
}
