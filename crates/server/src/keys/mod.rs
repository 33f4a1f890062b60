//! API keys: tokens, the file of their hashes, and the server's cache of it.

mod file;
mod ring;
mod token;

pub use file::{KeyError, KeyFile, NewKeyRequest, StoredKey};
pub(crate) use file::{MAX_KEYS, mark_of};
pub(crate) use ring::{Authenticated, KeyRing};
pub use token::Token;
pub(crate) use token::{Credential, hash_of, same};
