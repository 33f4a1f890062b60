//! Login links: a code that lets one browser in, once, soon.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use sortie_core::Timestamp;
use sortie_protocol::Role;

use crate::keys::{MAX_KEYS, hash_of, same};
use crate::random::{self, NoRandomness};

/// How long a link works.
const LIFE_MS: i64 = 5 * 60 * 1_000;
/// Links of one key that are open at once; its oldest goes when there is one more.
const MAX_OF_KEY: usize = 8;
/// All of them, as many as all keys may have: one key's never drive out another's.
const MAX_OPEN: usize = MAX_OF_KEY * MAX_KEYS;

/// The links that nobody has used yet. Only hashes are kept, and only in memory.
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

/// Whom a link lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The key behind it.
    pub(crate) key: String,
    /// Which of the key's secrets it comes from, with which it ends.
    pub(crate) mark: String,
    /// What the browser may do.
    pub(crate) role: Role,
}

impl Links {
    /// A new code, and until when it works.
    pub(crate) fn make(
        &self,
        pass: Pass,
        now: Timestamp,
    ) -> Result<(String, Timestamp), NoRandomness> {
        let code = random::secret()?;
        let expires_at = now.plus_ms(LIFE_MS);
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

    /// Uses a code up.
    pub(crate) fn take(&self, code: &str, now: Timestamp) -> Option<Pass> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let index = find(&open, code, now)?;
        open.remove(index).map(|link| link.pass)
    }

    /// Whom a code would let in; it stays as good as it was.
    pub(crate) fn look(&self, code: &str, now: Timestamp) -> Option<Pass> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let index = find(&open, code, now)?;
        open.get(index).map(|link| link.pass.clone())
    }
}

fn find(open: &VecDeque<Open>, code: &str, now: Timestamp) -> Option<usize> {
    let hash = hash_of(code);
    // Every one is compared, wherever the right one is.
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
    fn a_link_works_once_and_not_too_late() {
        let links = Links::default();
        let now = Timestamp(1_000);
        let (code, _) = links.make(pass("abcdefgh"), now).unwrap();
        let (late, _) = links.make(pass("abcdefgh"), now).unwrap();
        assert_eq!(links.take("wrong", now), None);
        assert_eq!(links.look(&code, now), Some(pass("abcdefgh")));
        assert_eq!(links.look(&late, now.plus_ms(LIFE_MS)), None);
        assert_eq!(links.take(&code, now), Some(pass("abcdefgh")));
        assert_eq!(links.take(&code, now), None);
        assert_eq!(links.take(&late, now.plus_ms(LIFE_MS)), None);
    }

    #[test]
    fn open_links_of_a_key_are_bounded_and_drive_out_no_others() {
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
