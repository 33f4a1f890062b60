//! How a server proves that it is the one that `server.json` names, before a client sends a token.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// Maximum number of hexadecimal digits of a nonce, which bounds the work of a request without
/// credentials.
pub const MAX_NONCE_CHARS: usize = 64;

/// A secret that a server shares with the clients on its own machine. It is created at each start,
/// stored in a file that only its owner can read, and never sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Proof([u8; 32]);

impl Proof {
    /// Creates a proof from the bytes of the secret.
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// Parses the hexadecimal digits in which the file stores the secret.
    pub fn read(text: &str) -> Option<Self> {
        let digits = text.trim().as_bytes();
        let mut secret = [0; 32];
        if digits.len() != 2 * secret.len() {
            return None;
        }
        for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            *byte = u8::try_from(16 * high + low).ok()?;
        }
        Some(Self(secret))
    }

    /// Returns the secret in hexadecimal digits, only for its file.
    pub fn reveal(&self) -> String {
        sortie_core::id::hex(&self.0)
    }

    /// Returns the HMAC-SHA256 of the nonce as it is written, in hexadecimal digits, or `None` for an
    /// invalid nonce. Only a party that knows the secret can compute it.
    pub fn answer(&self, nonce: &str) -> Option<String> {
        let is_nonce = !nonce.is_empty()
            && nonce.len() <= MAX_NONCE_CHARS
            && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_nonce {
            return None;
        }
        // An HMAC accepts keys of every length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(nonce.as_bytes());
        Some(sortie_core::id::hex(&mac.finalize().into_bytes()))
    }

    /// Checks an answer in constant time.
    pub fn verifies(&self, nonce: &str, answer: &str) -> bool {
        self.answer(nonce)
            .is_some_and(|right| right.as_bytes().ct_eq(answer.as_bytes()).into())
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_depends_on_the_secret_and_the_nonce() {
        let proof = Proof::new([7; 32]);
        let answer = proof.answer("00ff").unwrap();
        // From another implementation: python3 -c "import hmac;
        // print(hmac.new(b'\x07'*32, b'00ff', 'sha256').hexdigest())".
        assert_eq!(
            answer,
            "5f03dc73f513772b3a775ca7972ca1fd26a5bc33518773c55489356dde08d72c"
        );
        assert!(proof.verifies("00ff", &answer));
        assert!(!proof.verifies("00fe", &answer));
        assert!(!Proof::new([8; 32]).verifies("00ff", &answer));
        assert!(!proof.verifies("00ff", ""));
        assert!(!format!("{proof:?}").contains('7'));
        assert_eq!(Proof::read(&proof.reveal()), Some(proof));
        assert_eq!(Proof::read("07"), None);
        assert_eq!(Proof::read(&"é".repeat(32)), None);
    }

    #[test]
    fn invalid_nonces_have_no_answer() {
        let proof = Proof::new([7; 32]);
        for nonce in ["", "xyz", "00 ff", &"a".repeat(MAX_NONCE_CHARS + 1)] {
            assert_eq!(proof.answer(nonce), None, "{nonce:?}");
            assert!(!proof.verifies(nonce, ""));
        }
        assert!(proof.answer(&"a".repeat(MAX_NONCE_CHARS)).is_some());
    }
}
