//! Signatures of Standard Webhooks: HMAC-SHA256 over id, time and body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use sortie_base::secret::Secret;
use subtle::ConstantTimeEq as _;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// The lengths of a key that the specification recommends.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The version of a signature.
const VERSION: &str = "v1,";
/// Signatures of one header that are compared.
const MAX_SIGNATURES: usize = 16;

/// A secret that cannot be used. The message does not contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret must be `whsec_` followed by 24 to 64 bytes in base64")]
pub struct BadSecret;

/// Why a signed message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSignature {
    #[error("its time is too far from now")]
    TooOld,
    #[error("its signature is not that of the secret")]
    Wrong,
}

/// The signed parts of a message.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The header `webhook-id`.
    pub id: &'a str,
    /// The header `webhook-timestamp`: seconds since the epoch.
    pub timestamp: i64,
    pub body: &'a [u8],
}

/// Signs and verifies messages with one secret.
#[derive(Clone, Debug)]
pub struct Signer {
    secret: Secret,
}

impl Signer {
    /// Reads a secret.
    pub fn parse(secret: &Secret) -> Result<Self, BadSecret> {
        let signer = Self {
            secret: Secret::trimmed(secret.expose()),
        };
        match signer.key() {
            Some(key) if KEY_BYTES.contains(&key.len()) => Ok(signer),
            Some(_) | None => Err(BadSecret),
        }
    }

    fn key(&self) -> Option<Vec<u8>> {
        let encoded = self.secret.expose().strip_prefix(PREFIX)?;
        STANDARD.decode(encoded).ok()
    }

    /// Returns the header `webhook-signature` of a message.
    pub fn sign(&self, message: Signed<'_>) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key().unwrap_or_default())
            .expect("HMAC accepts keys of any length");
        mac.update(message.id.as_bytes());
        mac.update(b".");
        mac.update(message.timestamp.to_string().as_bytes());
        mac.update(b".");
        mac.update(message.body);
        format!("{VERSION}{}", STANDARD.encode(mac.finalize().into_bytes()))
    }

    /// Verifies a message against the signatures of its header, and its time against `now` in seconds.
    pub fn verify(
        &self,
        message: Signed<'_>,
        signatures: &str,
        now: i64,
        window_seconds: u64,
    ) -> Result<(), BadSignature> {
        if now.abs_diff(message.timestamp) > window_seconds {
            return Err(BadSignature::TooOld);
        }
        let expected = self.sign(message);
        let mut given = signatures.split(' ').take(MAX_SIGNATURES);
        if given.any(|one| bool::from(one.as_bytes().ct_eq(expected.as_bytes()))) {
            Ok(())
        } else {
            Err(BadSignature::Wrong)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn message(body: &str) -> Signed<'_> {
        Signed {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: 1_614_265_330,
            body: body.as_bytes(),
        }
    }

    #[test]
    fn signature_is_that_of_the_specification() {
        let signer = Signer::parse(&Secret::new(SECRET)).unwrap();
        let signature = signer.sign(message(r#"{"test": 2432232314}"#));
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn only_the_signed_message_is_accepted_and_only_for_a_while() {
        let signer = Signer::parse(&Secret::new(SECRET)).unwrap();
        let signature = signer.sign(message("a"));
        let verify = |body: &str, signatures: &str, now: i64| {
            signer.verify(message(body), signatures, now, 300)
        };
        let now = 1_614_265_330;
        assert_eq!(verify("a", &signature, now), Ok(()));
        assert_eq!(verify("a", &format!("v1,other {signature}"), now), Ok(()));
        assert_eq!(verify("a", &signature, now + 300), Ok(()));
        assert_eq!(
            verify("a", &signature, now + 301),
            Err(BadSignature::TooOld)
        );
        assert_eq!(
            verify("a", &signature, now - 301),
            Err(BadSignature::TooOld)
        );
        assert_eq!(verify("b", &signature, now), Err(BadSignature::Wrong));
        assert_eq!(verify("a", "", now), Err(BadSignature::Wrong));
    }

    #[test]
    fn secrets_of_another_form_are_refused_and_never_shown() {
        for text in [
            "",
            "whsec_",
            "whsec_!!!",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_AAAA",
        ] {
            assert_eq!(
                Signer::parse(&Secret::new(text)).err(),
                Some(BadSecret),
                "{text}"
            );
        }
        let signer = Signer::parse(&Secret::new(SECRET)).unwrap();
        assert!(!format!("{signer:?}").contains("MfKQ"));
    }
}
