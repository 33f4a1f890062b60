//! Secrets that nobody can guess.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sortie_protocol::Proof;

/// Bytes of a secret.
const SECRET_BYTES: usize = 32;
/// How long a secret of [`SECRET_BYTES`] is as text.
pub(crate) const SECRET_CHARS: usize = 43;
/// How long the id of a key is.
pub(crate) const ID_CHARS: usize = 8;
/// What ids are made of. 32 of them, so that each of a byte's values is as likely as the others.
const ID_ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// The operating system has no random bytes to give.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no random bytes")]
pub struct NoRandomness;

fn bytes<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// A proof for a server that starts.
pub fn new_proof() -> Result<Proof, NoRandomness> {
    Ok(Proof::new(bytes()?))
}

/// A new secret, as base64url.
pub(crate) fn secret() -> Result<String, NoRandomness> {
    Ok(URL_SAFE_NO_PAD.encode(bytes::<SECRET_BYTES>()?))
}

/// A new id.
pub(crate) fn id() -> Result<String, NoRandomness> {
    let bytes = bytes::<ID_CHARS>()?;
    Ok(bytes
        .iter()
        .map(|byte| char::from(ID_ALPHABET[usize::from(byte % 32)]))
        .collect())
}

/// Whether a text could be a secret.
pub(crate) fn is_secret(text: &str) -> bool {
    text.len() == SECRET_CHARS
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Whether a text could be an id.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID_CHARS
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}
