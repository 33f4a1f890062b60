//! `keys.json`: the hashes of all tokens and browser sessions. The server and the command line both
//! read and write it; each change is made under a lock and by one rename.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sortie_base::atomic_file;
use sortie_base::private_files::{self, Class, FileRefusal, Finding, Verdict};
use sortie_base::regular_file;
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;
use sortie_protocol::Role;

use super::token::Token;
use crate::links::Pass;
use crate::random::{self, NoRandomness};

/// The name of the key that the first start creates. No other key may have it.
const FIRST_NAME: &str = "local";
/// More keys than this are a mistake, or a program that never revokes.
pub(crate) const MAX_KEYS: usize = 1_000;
/// Keys of one tenant, so that no tenant uses up [`MAX_KEYS`].
const MAX_TENANT_KEYS: usize = 50;
/// Browser sessions in total. One more ends the oldest of the tenant that has the most.
const MAX_SESSIONS: usize = 100;
/// Browser sessions of one key; one more ends its oldest.
const MAX_KEY_SESSIONS: usize = 20;
/// The characters of a secret's hash that mark its sessions: enough to be unique.
const MARK_CHARS: usize = 16;
/// The longest name of a key.
const MAX_NAME_CHARS: usize = 64;
/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// The largest token file that is read; a token has less than a hundred bytes.
const MAX_TOKEN_BYTES: u64 = 4 * 1024;

/// The file of keys, and its folder.
#[derive(Clone, Debug)]
pub struct KeyFile {
    home: PathBuf,
}

/// A key as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredKey {
    /// The id of the key.
    pub id: String,
    /// The name of the key.
    pub name: String,
    /// The role of the key.
    pub role: Role,
    /// The tenant that the key is limited to; `None` for all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// When the key was created.
    pub created_at: Timestamp,
    /// When the key expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    pub(crate) hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<Previous>,
}

impl StoredKey {
    /// Returns whether the key has not expired.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }

    /// Returns whether the secret with this mark is valid: the present one, or the previous one
    /// within its grace period.
    pub(crate) fn knows(&self, mark: &str, now: Timestamp) -> bool {
        let before = self.previous.as_ref();
        let before = before.filter(|previous| now < previous.until);
        mark_of(&self.hash) == mark
            || before.is_some_and(|previous| mark_of(&previous.hash) == mark)
    }
}

/// Returns the mark of a secret: sessions carry it, so that they end with the secret.
pub(crate) fn mark_of(hash: &str) -> &str {
    hash.get(..MARK_CHARS).unwrap_or(hash)
}

/// The previous secret of a key, and the end of its grace period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Previous {
    pub(crate) hash: String,
    pub(crate) until: Timestamp,
}

/// A browser session. It never has more rights than its key, and ends with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredSession {
    pub(crate) id: String,
    /// The hash of the secret in the cookie.
    pub(crate) hash: String,
    /// The hash of the page key: the second secret, which the page keeps in the storage of its own
    /// origin. A session without one matches no page key.
    #[serde(default)]
    pub(crate) page_hash: String,
    pub(crate) key: String,
    /// The mark of the secret that created the session.
    #[serde(default)]
    pub(crate) mark: String,
    pub(crate) role: Role,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// The two secrets of a new browser session. A request needs both.
#[derive(Debug)]
pub(crate) struct NewSession {
    /// The cookie, which the browser sends to every port of the host.
    pub(crate) cookie: Token,
    /// The page key, for the storage of the page, which belongs to one origin including its port.
    pub(crate) page_key: String,
}

/// The content of the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Contents {
    #[serde(default)]
    pub(crate) keys: Vec<StoredKey>,
    #[serde(default)]
    pub(crate) sessions: Vec<StoredSession>,
}

impl Contents {
    /// Ends sessions beyond the limits: first the oldest of this key, then the oldest of the tenant
    /// that has the most, so that no tenant displaces others.
    fn bound_sessions(&mut self, key: &str) {
        let is_its = |session: &StoredSession| session.key == key;
        while self.sessions.iter().filter(|one| is_its(one)).count() > MAX_KEY_SESSIONS {
            self.drop_oldest(is_its);
        }
        while self.sessions.len() > MAX_SESSIONS {
            let most = self.tenant_with_most_sessions();
            let keys: HashSet<String> = self
                .keys
                .iter()
                .filter(|key| key.tenant == most)
                .map(|key| key.id.clone())
                .collect();
            self.drop_oldest(|session| keys.contains(&session.key));
        }
    }

    fn tenant_with_most_sessions(&self) -> Option<Tenant> {
        let tenant_of: HashMap<&str, Option<&Tenant>> = self
            .keys
            .iter()
            .map(|key| (key.id.as_str(), key.tenant.as_ref()))
            .collect();
        let mut counts: BTreeMap<Option<&Tenant>, usize> = BTreeMap::new();
        for session in &self.sessions {
            let tenant = tenant_of.get(session.key.as_str()).copied().flatten();
            *counts.entry(tenant).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.and_then(|(tenant, _)| tenant.cloned())
    }

    /// Ends the oldest session of these; without any, the oldest of all, so that one always ends.
    fn drop_oldest(&mut self, of: impl Fn(&StoredSession) -> bool) {
        let oldest = self.sessions.iter().position(of).unwrap_or_default();
        if oldest < self.sessions.len() {
            self.sessions.remove(oldest);
        }
    }
}

/// A key to create.
#[derive(Clone, Debug)]
pub struct NewKeyRequest {
    /// The name of the key.
    pub name: String,
    /// The role of the key.
    pub role: Role,
    /// The tenant to limit the key to.
    pub tenant: Option<Tenant>,
    /// When the key expires.
    pub expires_at: Option<Timestamp>,
}

/// Why keys could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no key with this id.
    #[error("there is no key {0}; `sortie keys list` shows them")]
    NoSuchKey(String),
    /// The name is invalid.
    #[error(
        "the name of a key must have 1 to {MAX_NAME_CHARS} characters and no control characters"
    )]
    BadName,
    /// Another key has the name.
    #[error("there is a key called {0:?} already; choose another name, or revoke that one first")]
    NameTaken(String),
    /// There are too many keys.
    #[error("there are {MAX_KEYS} keys already; revoke some first")]
    TooMany,
    /// The tenant has too many keys.
    #[error("the tenant has {MAX_TENANT_KEYS} keys already; revoke some first")]
    TooManyOfTenant,
    /// Another user could have replaced the keys.
    #[error("the keys cannot be trusted")]
    Unsafe(#[from] FileRefusal),
    /// Other users can read the token of the first key.
    #[error("other users can read {path}; replace the token with `sortie keys rotate`")]
    Leaked {
        /// The file of the token.
        path: PathBuf,
    },
    /// There are no random bytes.
    #[error("cannot create a secret")]
    Random(#[from] NoRandomness),
    /// The file is not a file of keys.
    #[error("{path} is not a file of keys")]
    Unreadable {
        path: PathBuf,
        /// Why it cannot be parsed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file could not be read or written.
    #[error("cannot {doing} {path}")]
    File {
        doing: &'static str,
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl KeyFile {
    /// Opens the file of keys in a home folder, and creates the folder if needed.
    pub fn open(home: impl Into<PathBuf>) -> Result<Self, KeyError> {
        let file = Self { home: home.into() };
        private_files::make_folder(&file.home).map_err(|source| KeyError::File {
            doing: "make",
            path: file.home.clone(),
            source,
        })?;
        Ok(file)
    }

    /// Refuses files that another user could have replaced: that user could create keys.
    fn check(&self) -> Result<Vec<Finding>, KeyError> {
        let files = [
            (self.path(), Class::Private),
            (self.lock_path(), Class::Private),
            (self.token_path(), Class::Secret),
        ];
        Ok(private_files::enforce(&self.home, &files)?)
    }

    fn lock_path(&self) -> PathBuf {
        self.home.join("keys.lock")
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.home.join("keys.json")
    }

    /// Returns the path of the first key's token.
    pub fn token_path(&self) -> PathBuf {
        self.home.join("token")
    }

    /// Returns the token in its file; if it is not one of an admin, creates a new admin key and file.
    /// Existing keys stay unchanged: whatever its name, a key may be in use elsewhere.
    pub fn ensure_first(&self, now: Timestamp) -> Result<Token, KeyError> {
        let leaked = self
            .check()?
            .into_iter()
            .find(|one| one.verdict == Verdict::Leaked);
        if let Some(finding) = leaked {
            return Err(KeyError::Leaked { path: finding.path });
        }
        self.change(|contents| {
            if let Some(token) = self.first_token(contents, now)? {
                return Ok(token);
            }
            let request = NewKeyRequest {
                name: first_name(contents),
                role: Role::Admin,
                tenant: None,
                expires_at: None,
            };
            // Added beyond the limit: without this key no other could be revoked.
            let token = push(contents, request, now)?;
            if self.token_path().exists() {
                let path = self.token_path().display().to_string();
                let key = token.id();
                tracing::warn!(path, key, "the token is not valid; created a new key");
            }
            write_private(&self.token_path(), token.reveal().as_bytes())?;
            Ok(token)
        })
    }

    /// Creates a key and returns its token.
    pub fn create(
        &self,
        request: NewKeyRequest,
        now: Timestamp,
    ) -> Result<(StoredKey, Token), KeyError> {
        self.change(|contents| {
            let token = add(contents, request, now)?;
            Ok((find(contents, token.id())?.clone(), token))
        })
    }

    /// Revokes a key, and ends its browser sessions.
    pub fn revoke(&self, id: &str) -> Result<StoredKey, KeyError> {
        self.change(|contents| {
            let key = find(contents, id)?.clone();
            contents.keys.retain(|other| other.id != id);
            contents.sessions.retain(|session| session.key != id);
            Ok(key)
        })
    }

    /// Gives a key a new secret. The old one is valid until `old_until`.
    pub fn rotate(
        &self,
        id: &str,
        old_until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(StoredKey, Token), KeyError> {
        self.change(|contents| {
            let local = self.first_token(contents, now)?;
            let key = find(contents, id)?;
            let token = Token::new(key.id.clone())?;
            let old = std::mem::replace(&mut key.hash, token.hash());
            key.previous = old_until.map(|until| Previous { hash: old, until });
            let key = key.clone();
            // Sessions of the old secret end with it.
            contents
                .sessions
                .retain(|session| session.key != id || key.knows(&session.mark, now));
            if local.is_some_and(|local| local.id() == id) {
                // The command line reads this file.
                write_private(&self.token_path(), token.reveal().as_bytes())?;
            }
            Ok((key, token))
        })
    }

    /// Returns all keys, oldest first.
    pub fn list(&self) -> Result<Vec<StoredKey>, KeyError> {
        Ok(self.read()?.keys)
    }

    /// Creates a browser session of a key.
    pub(crate) fn add_session(
        &self,
        pass: &Pass,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<NewSession, KeyError> {
        self.change(|contents| {
            let key = find(contents, &pass.key)?;
            if !key.knows(&pass.mark, now) {
                return Err(KeyError::NoSuchKey(pass.key.clone()));
            }
            let role = pass.role.min(key.role);
            let cookie = Token::new(random::id()?)?;
            let page_key = random::secret()?;
            contents.sessions.retain(|session| now < session.expires_at);
            contents.sessions.push(StoredSession {
                id: cookie.id().to_owned(),
                hash: cookie.hash(),
                page_hash: super::hash_of(&page_key),
                key: pass.key.clone(),
                mark: pass.mark.clone(),
                role,
                created_at: now,
                expires_at,
            });
            contents.bound_sessions(&pass.key);
            Ok(NewSession { cookie, page_key })
        })
    }

    /// Ends a browser session.
    pub(crate) fn end_session(&self, id: &str) -> Result<(), KeyError> {
        self.change(|contents| {
            contents.sessions.retain(|session| session.id != id);
            Ok(())
        })
    }

    /// Everything in the file; nothing if there is none.
    pub(crate) fn read(&self) -> Result<Contents, KeyError> {
        let path = self.path();
        let failed = |source| KeyError::File {
            doing: "read",
            path: path.clone(),
            source,
        };
        self.check()?;
        let text = match regular_file::read(&path, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Contents::default());
            }
            Err(error) => return Err(failed(error)),
        };
        serde_json::from_slice(&text).map_err(|source| KeyError::Unreadable {
            path: path.clone(),
            source: source.into(),
        })
    }

    /// Returns the token in its file, if it is valid and of an admin.
    fn first_token(&self, contents: &Contents, now: Timestamp) -> Result<Option<Token>, KeyError> {
        let path = self.token_path();
        let text = match regular_file::read(&path, MAX_TOKEN_BYTES) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(KeyError::File {
                    doing: "read",
                    path,
                    source,
                });
            }
        };
        let Some(token) = Token::read(text.trim()) else {
            return Ok(None);
        };
        let is_valid = contents.keys.iter().any(|key| {
            key.id == token.id()
                && key.role == Role::Admin
                && key.tenant.is_none()
                && key.is_valid(now)
                && super::same(&key.hash, &token.hash())
        });
        Ok(is_valid.then_some(token))
    }

    /// Reads, changes and writes the file under its lock.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Contents) -> Result<T, KeyError>,
    ) -> Result<T, KeyError> {
        self.check()?;
        let path = self.lock_path();
        let failed = |source| KeyError::File {
            doing: "lock",
            path: path.clone(),
            source,
        };
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(private_files::FILE_MODE)
            .open(&path)
            .map_err(failed)?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| failed(error.into()))?;
        let mut contents = self.read()?;
        let result = change(&mut contents)?;
        let text = serde_json::to_vec_pretty(&contents).map_err(|source| KeyError::Unreadable {
            path: self.path(),
            source: source.into(),
        })?;
        write_private(&self.path(), &text)?;
        // Dropping the descriptor releases the lock.
        drop(lock);
        Ok(result)
    }
}

impl Token {
    /// Parses a token that was written by `Display`.
    fn read(text: &str) -> Option<Self> {
        let shown = super::Credential::of_token(text)?;
        Some(Self::of_parts(shown.id, shown.secret))
    }
}

fn find<'a>(contents: &'a mut Contents, id: &str) -> Result<&'a mut StoredKey, KeyError> {
    contents
        .keys
        .iter_mut()
        .find(|key| key.id == id)
        .ok_or_else(|| KeyError::NoSuchKey(id.to_owned()))
}

/// Adds a requested key.
fn add(contents: &mut Contents, request: NewKeyRequest, now: Timestamp) -> Result<Token, KeyError> {
    let length = request.name.chars().count();
    if length == 0 || length > MAX_NAME_CHARS || request.name.chars().any(char::is_control) {
        return Err(KeyError::BadName);
    }
    // Records name the caller by the name of its key, so names are unique.
    let is_taken = request.name.trim().eq_ignore_ascii_case(FIRST_NAME)
        || contents.keys.iter().any(|key| {
            key.name == request.name && key.tenant == request.tenant && key.is_valid(now)
        });
    if is_taken {
        return Err(KeyError::NameTaken(request.name));
    }
    if contents.keys.len() >= MAX_KEYS {
        return Err(KeyError::TooMany);
    }
    let is_its = |key: &&StoredKey| request.tenant.is_some() && key.tenant == request.tenant;
    if contents.keys.iter().filter(is_its).count() >= MAX_TENANT_KEYS {
        return Err(KeyError::TooManyOfTenant);
    }
    push(contents, request, now)
}

fn push(
    contents: &mut Contents,
    request: NewKeyRequest,
    now: Timestamp,
) -> Result<Token, KeyError> {
    let token = Token::new(random::id()?)?;
    contents.keys.push(StoredKey {
        id: token.id().to_owned(),
        name: request.name,
        role: request.role,
        tenant: request.tenant,
        created_at: now,
        expires_at: request.expires_at,
        hash: token.hash(),
        previous: None,
    });
    Ok(token)
}

/// Returns `local`, or the first of `local-2`, `local-3`, … that is free: the token of an earlier one
/// may be lost, but its key still exists.
fn first_name(contents: &Contents) -> String {
    let is_free = |name: &String| {
        contents
            .keys
            .iter()
            .all(|key| key.tenant.is_some() || key.name != *name)
    };
    std::iter::once(FIRST_NAME.to_owned())
        .chain((2..).map(|number: u64| format!("{FIRST_NAME}-{number}")))
        .find(is_free)
        .unwrap_or_else(|| FIRST_NAME.to_owned())
}

/// Writes a file that only its owner can read, atomically.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), KeyError> {
    atomic_file::replace(path, bytes).map_err(|source| KeyError::File {
        doing: "write",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn request(name: &str, tenant: Option<&str>) -> NewKeyRequest {
        NewKeyRequest {
            name: name.to_owned(),
            role: Role::Admin,
            tenant: tenant.map(|tenant| tenant.parse().unwrap()),
            expires_at: None,
        }
    }

    #[test]
    fn key_with_the_first_name_does_not_become_the_first_key() {
        let home = tempfile::TempDir::new().unwrap();
        let file = KeyFile::open(home.path()).unwrap();
        let first = file.ensure_first(NOW).unwrap();
        let (theirs, _) = file.create(request("boss", Some("acme")), NOW).unwrap();
        // As an earlier version wrote it.
        let text = fs::read_to_string(file.path()).unwrap();
        fs::write(file.path(), text.replace("\"boss\"", "\"local\"")).unwrap();
        fs::remove_file(file.token_path()).unwrap();
        let second = file.ensure_first(NOW).unwrap();
        assert_ne!(second.id(), first.id());
        assert_ne!(second.id(), theirs.id);
        let keys = file.list().unwrap();
        let named = |name: &str| {
            let mut found = keys.iter().filter(|key| key.name == name);
            found.find(|key| key.tenant.is_none()).map(|key| &key.id)
        };
        assert_eq!(named("local").map(String::as_str), Some(first.id()));
        assert_eq!(named("local-2").map(String::as_str), Some(second.id()));
        let kept = keys.iter().find(|key| key.id == theirs.id).unwrap();
        assert_eq!(kept.tenant, theirs.tenant);
        assert_eq!(kept.hash, theirs.hash);
        assert_eq!(file.ensure_first(NOW).unwrap(), second, "and stays so");
    }

    #[test]
    fn keys_of_a_tenant_are_limited() {
        let home = tempfile::TempDir::new().unwrap();
        let file = KeyFile::open(home.path()).unwrap();
        for number in 0..MAX_TENANT_KEYS {
            let request = request(&number.to_string(), Some("acme"));
            file.create(request, NOW).unwrap();
        }
        let more = file.create(request("more", Some("acme")), NOW);
        assert!(matches!(more, Err(KeyError::TooManyOfTenant)), "{more:?}");
        assert!(file.create(request("more", Some("other")), NOW).is_ok());
        assert!(file.create(request("more", None), NOW).is_ok());
    }

    #[test]
    fn tenant_with_the_most_sessions_loses_its_oldest() {
        let session = |key: &str, number: usize| StoredSession {
            id: format!("{key}-{number}"),
            hash: String::new(),
            page_hash: String::new(),
            key: key.to_owned(),
            mark: String::new(),
            role: Role::Viewer,
            created_at: NOW,
            expires_at: NOW,
        };
        let mut contents = Contents::default();
        let admin = push(&mut contents, request("admin", None), NOW).unwrap();
        contents.sessions.push(session(admin.id(), 0));
        for number in 0..2 * MAX_SESSIONS / MAX_KEY_SESSIONS {
            let key = push(
                &mut contents,
                request(&number.to_string(), Some("acme")),
                NOW,
            )
            .unwrap();
            for number in 0..=MAX_KEY_SESSIONS {
                contents.sessions.push(session(key.id(), number));
                contents.bound_sessions(key.id());
            }
        }
        assert_eq!(contents.sessions.len(), MAX_SESSIONS);
        assert_eq!(contents.sessions[0].key, admin.id(), "the oldest of all");
    }
}
