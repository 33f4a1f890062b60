//! How a server shows that it is the one that a file tells of, before anybody sends it a token.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// The longest nonce, in hexadecimal digits: as much as anybody needs, and little to compute with.
pub const MAX_NONCE_CHARS: usize = 64;

/// What a server and the clients of its own machine both know. Made anew at each start, kept in a file
/// that only their owner reads, and sent to nobody.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Proof([u8; 32]);

impl Proof {
    /// The one with these bytes.
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// Reads one back from its file.
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

    /// The secret in hexadecimal digits, for its file and for nothing else.
    pub fn reveal(&self) -> String {
        sortie_core::hex(&self.0)
    }

    /// What only somebody who knows the secret can answer: HMAC-SHA256 of the nonce as it is written,
    /// in hexadecimal digits. `None` if that is no nonce.
    pub fn answer(&self, nonce: &str) -> Option<String> {
        let is_nonce = !nonce.is_empty()
            && nonce.len() <= MAX_NONCE_CHARS
            && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_nonce {
            return None;
        }
        // Keys of every length are fine for an HMAC.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(nonce.as_bytes());
        Some(sortie_core::hex(&mac.finalize().into_bytes()))
    }

    /// Whether an answer is the right one, in a time that does not tell where it is wrong.
    pub fn holds(&self, nonce: &str, answer: &str) -> bool {
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
    fn only_the_secret_and_the_nonce_make_the_answer() {
        let proof = Proof::new([7; 32]);
        let answer = proof.answer("00ff").unwrap();
        // From another implementation: python3 -c "import hmac;
        // print(hmac.new(b'\x07'*32, b'00ff', 'sha256').hexdigest())".
        assert_eq!(
            answer,
            "5f03dc73f513772b3a775ca7972ca1fd26a5bc33518773c55489356dde08d72c"
        );
        assert!(proof.holds("00ff", &answer));
        assert!(!proof.holds("00fe", &answer));
        assert!(!Proof::new([8; 32]).holds("00ff", &answer));
        assert!(!proof.holds("00ff", ""));
        assert!(!format!("{proof:?}").contains('7'));
        assert_eq!(Proof::read(&proof.reveal()), Some(proof));
        assert_eq!(Proof::read("07"), None);
        assert_eq!(Proof::read(&"é".repeat(32)), None);
    }

    #[test]
    fn what_is_no_nonce_has_no_answer() {
        let proof = Proof::new([7; 32]);
        for nonce in ["", "xyz", "00 ff", &"a".repeat(MAX_NONCE_CHARS + 1)] {
            assert_eq!(proof.answer(nonce), None, "{nonce:?}");
            assert!(!proof.holds(nonce, ""));
        }
        assert!(proof.answer(&"a".repeat(MAX_NONCE_CHARS)).is_some());
    }
}
