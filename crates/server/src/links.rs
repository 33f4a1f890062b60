//! Login links: a code that lets one browser in, once, soon.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use sortie_core::Timestamp;
use sortie_protocol::Role;

use crate::keys::{hash_of, same};
use crate::random::{self, NoRandomness};

/// How long a link works.
const LIFE_MS: i64 = 5 * 60 * 1_000;
/// Links that are open at once; the oldest goes when there is one more.
const MAX_OPEN: usize = 64;

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
        let hash = hash_of(code);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|link| now < link.expires_at);
        // Every one is compared, wherever the right one is.
        let mut found = None;
        for (index, link) in open.iter().enumerate() {
            if same(&link.hash, &hash) {
                found = Some(index);
            }
        }
        open.remove(found?).map(|link| link.pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_works_once_and_not_too_late() {
        let links = Links::default();
        let pass = Pass {
            key: "abcdefgh".to_owned(),
            role: Role::Viewer,
        };
        let now = Timestamp(1_000);
        let (code, _) = links.make(pass.clone(), now).unwrap();
        let (late, _) = links.make(pass.clone(), now).unwrap();
        assert_eq!(links.take("wrong", now), None);
        assert_eq!(links.take(&code, now), Some(pass));
        assert_eq!(links.take(&code, now), None);
        assert_eq!(links.take(&late, now.plus_ms(LIFE_MS)), None);
    }

    #[test]
    fn open_links_are_bounded() {
        let links = Links::default();
        let pass = Pass {
            key: "abcdefgh".to_owned(),
            role: Role::Viewer,
        };
        let (first, _) = links.make(pass.clone(), Timestamp(0)).unwrap();
        for _ in 0..MAX_OPEN {
            links.make(pass.clone(), Timestamp(0)).unwrap();
        }
        assert_eq!(links.open.lock().unwrap().len(), MAX_OPEN);
        assert_eq!(links.take(&first, Timestamp(0)), None);
    }
}
