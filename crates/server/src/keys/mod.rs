//! Who may come in: tokens, the file that keeps their hashes, and what a server remembers of it.

mod file;
mod ring;
mod token;

pub use file::{KeyError, KeyFile, NewKeyWish, StoredKey};
pub(crate) use file::{MAX_KEYS, mark_of};
pub(crate) use ring::{Found, KeyRing};
pub use token::Token;
pub(crate) use token::{Credential, hash_of, same};
