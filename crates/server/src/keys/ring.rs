//! The server's cache of the file of keys. Each request checks whether the file has changed.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;
use sortie_protocol::{Role, Via};

use super::file::{Contents, KeyError, KeyFile, StoredKey, mark_of};
use super::token::{Credential, hash_of, same};
use crate::links::Pass;

/// A hash that no secret has: unknown ids are compared with it, so that they take as long as known
/// ones.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The keys of a server.
#[derive(Debug)]
pub(crate) struct KeyRing {
    file: KeyFile,
    /// The content of the file when it was last read, and the identity of that file.
    known: Mutex<Known>,
    /// When keys were last used, by id.
    used: Mutex<HashMap<String, Timestamp>>,
}

#[derive(Debug)]
struct Known {
    stamp: Option<Stamp>,
    contents: Arc<Contents>,
}

/// What changes when a file is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    /// The time of the last change of content, owner or mode.
    changed: (i64, i64),
}

/// An authenticated key or browser session.
#[derive(Clone, Debug)]
pub(crate) struct Authenticated {
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) via: Via,
    /// The mark of the secret that authenticated it, directly or through a session.
    pub(crate) mark: String,
    /// The browser session, if it is one.
    pub(crate) session: Option<String>,
    pub(crate) expires_at: Option<Timestamp>,
}

impl Authenticated {
    /// Creates a pass for a browser, with at most this role.
    pub(crate) fn pass(&self, role: Role) -> Pass {
        Pass {
            key: self.key.clone(),
            mark: self.mark.clone(),
            role: role.min(self.role),
        }
    }
}

impl KeyRing {
    pub(crate) fn new(file: KeyFile) -> Result<Self, KeyError> {
        let contents = Arc::new(file.read()?);
        Ok(Self {
            file,
            known: Mutex::new(Known {
                stamp: None,
                contents,
            }),
            used: Mutex::new(HashMap::new()),
        })
    }

    pub(crate) fn file(&self) -> &KeyFile {
        &self.file
    }

    /// Makes the next request read the file again, after a change of our own: two changes within one
    /// tick of the file system's clock look like one.
    pub(crate) fn forget(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.stamp = None;
    }

    /// Returns the key of a bearer token.
    pub(crate) fn by_token(
        &self,
        shown: &Credential<'_>,
        now: Timestamp,
    ) -> Result<Option<Authenticated>, KeyError> {
        let contents = self.contents()?;
        let key = contents.keys.iter().find(|key| key.id == shown.id);
        let hash = hash_of(shown.secret);
        let present = same(&hash, key.map_or(NO_HASH, |key| &key.hash));
        let previous = key
            .and_then(|key| key.previous.as_ref())
            .filter(|previous| now < previous.until);
        let before = same(&hash, previous.map_or(NO_HASH, |previous| &previous.hash));
        let Some(key) = key.filter(|key| (present | before) && key.is_valid(now)) else {
            return Ok(None);
        };
        self.note_use(&key.id, now);
        Ok(Some(Authenticated {
            key: key.id.clone(),
            name: key.name.clone(),
            role: key.role,
            tenant: key.tenant.clone(),
            via: Via::Key,
            mark: mark_of(&hash).to_owned(),
            session: None,
            expires_at: key.expires_at,
        }))
    }

    /// Returns the browser session that a cookie belongs to. The cookie alone opens no route with
    /// data: the browser sends it to every server on the host, whatever its port.
    pub(crate) fn by_cookie(
        &self,
        shown: &Credential<'_>,
        now: Timestamp,
    ) -> Result<Option<Authenticated>, KeyError> {
        self.browser(shown, None, now)
    }

    /// Returns the browser session that a cookie and a page key both belong to.
    pub(crate) fn by_cookie_and_page_key(
        &self,
        shown: &Credential<'_>,
        page_key: &str,
        now: Timestamp,
    ) -> Result<Option<Authenticated>, KeyError> {
        self.browser(shown, Some(page_key), now)
    }

    fn browser(
        &self,
        shown: &Credential<'_>,
        page_key: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Authenticated>, KeyError> {
        let contents = self.contents()?;
        let session = contents
            .sessions
            .iter()
            .find(|session| session.id == shown.id);
        let fits = same(
            &hash_of(shown.secret),
            session.map_or(NO_HASH, |session| &session.hash),
        );
        let page_fits = page_key.is_none_or(|page_key| {
            let expected = session.map_or(NO_HASH, |session| &session.page_hash);
            same(&hash_of(page_key), expected)
        });
        let fits = fits & page_fits;
        let Some(session) = session.filter(|session| fits && now < session.expires_at) else {
            return Ok(None);
        };
        let key = contents.keys.iter().find(|key| key.id == session.key);
        let still = |key: &&StoredKey| key.is_valid(now) && key.knows(&session.mark, now);
        let Some(key) = key.filter(still) else {
            return Ok(None);
        };
        self.note_use(&key.id, now);
        Ok(Some(Authenticated {
            key: key.id.clone(),
            name: key.name.clone(),
            role: session.role.min(key.role),
            tenant: key.tenant.clone(),
            via: Via::Browser,
            mark: session.mark.clone(),
            session: Some(session.id.clone()),
            expires_at: Some(session.expires_at),
        }))
    }

    /// Returns whether an admitted caller would still be admitted.
    pub(crate) fn is_still_valid(&self, found: &Authenticated, now: Timestamp) -> bool {
        let Ok(contents) = self.contents() else {
            return false;
        };
        let key = contents.keys.iter().find(|key| key.id == found.key);
        let key_is_valid = key.is_some_and(|key| {
            key.is_valid(now)
                && key.knows(&found.mark, now)
                && key.role >= found.role
                && key.tenant == found.tenant
        });
        let session_is_valid = found.session.as_ref().is_none_or(|id| {
            let session = contents.sessions.iter().find(|session| session.id == *id);
            session.is_some_and(|session| now < session.expires_at)
        });
        key_is_valid && session_is_valid
    }

    /// Returns when a key was last used since the server started.
    pub(crate) fn last_used(&self, id: &str) -> Option<Timestamp> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.get(id).copied()
    }

    fn note_use(&self, id: &str, now: Timestamp) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match used.get_mut(id) {
            Some(at) => *at = now,
            None => {
                used.insert(id.to_owned(), now);
            }
        }
    }

    /// Returns the present content of the file.
    pub(crate) fn contents(&self) -> Result<Arc<Contents>, KeyError> {
        let stamp = self.stamp()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if stamp.is_none() || known.stamp != stamp {
            known.contents = Arc::new(self.file.read()?);
            known.stamp = stamp;
        }
        Ok(Arc::clone(&known.contents))
    }

    fn stamp(&self) -> Result<Option<Stamp>, KeyError> {
        let path = self.file.path();
        match fs::symlink_metadata(&path) {
            Ok(found) => Ok(Some(Stamp {
                inode: found.ino(),
                size: found.size(),
                changed: (found.ctime(), found.ctime_nsec()),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(KeyError::File {
                doing: "read",
                path,
                source,
            }),
        }
    }
}
