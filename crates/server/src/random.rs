//! Random secrets and ids.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sortie_protocol::Proof;

/// Bytes of a secret.
const SECRET_BYTES: usize = 32;
/// The length of a secret of [`SECRET_BYTES`] as text.
pub(crate) const SECRET_CHARS: usize = 43;
/// The length of a key's id.
pub(crate) const ID_CHARS: usize = 8;
/// The characters of ids: 32 of them, so that the values of a byte are distributed evenly.
const ID_ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// The operating system has no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("cannot get random bytes from the operating system")]
pub struct NoRandomness;

fn bytes<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// Creates the proof of a starting server.
pub fn new_proof() -> Result<Proof, NoRandomness> {
    Ok(Proof::new(bytes()?))
}

/// Creates a secret, as base64url.
pub(crate) fn secret() -> Result<String, NoRandomness> {
    Ok(URL_SAFE_NO_PAD.encode(bytes::<SECRET_BYTES>()?))
}

/// Creates a random id.
pub(crate) fn id() -> Result<String, NoRandomness> {
    let bytes = bytes::<ID_CHARS>()?;
    Ok(bytes
        .iter()
        .map(|byte| char::from(ID_ALPHABET[usize::from(byte % 32)]))
        .collect())
}

/// Returns whether a text has the form of a secret.
pub(crate) fn is_secret(text: &str) -> bool {
    text.len() == SECRET_CHARS
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Returns whether a text has the form of an id.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID_CHARS
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}
