//! The identity of a policy: the hash of its whole content.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sortie_core::policy::Policy;

/// Returns the SHA-256 of the canonical JSON of a policy, as 64 hexadecimal digits.
pub fn hash(policy: &Policy) -> String {
    // The keys of a policy are fixed words, and its values are strings and booleans: it always
    // serializes.
    let value = serde_json::to_value(policy).unwrap_or_default();
    let digest = Sha256::digest(canonical(&value).as_bytes());
    digest.iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a String takes all that is written");
        digits
    })
}

/// Returns JSON without blanks and with sorted keys, whatever map type `serde_json` was built with.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            let parts = entries
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)));
            format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sortie_core::policy::{Layer, Mode, PolicyLayer};

    #[test]
    fn hash_is_computed_from_canonical_json() {
        let mut policy = Policy::default();
        let value = serde_json::to_value(&policy).unwrap();
        let text = r#"{"allow_dangerous":false,"layers":[],"mode":"default","read_only":false}"#;
        assert_eq!(canonical(&value), text);
        let empty = hash(&policy);
        assert_eq!(empty.len(), 64);
        policy.mode = Mode::Plan;
        let planning = hash(&policy);
        policy
            .layers
            .push(PolicyLayer::new(Layer::Global, "config policy"));
        assert!(empty != planning && planning != hash(&policy));
        assert_eq!(hash(&policy), hash(&policy.clone()));
    }
}
