//! The one type for secret text: keys, tokens, header values, environment variables.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::redact::REDACTED;

/// Secret text that prints and serializes as [`REDACTED`].
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a secret exactly as given.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Wraps a secret without the white space that copying leaves around it.
    pub fn trimmed(text: &str) -> Self {
        Self::new(text.trim())
    }

    /// Returns the secret text. Call it only where the secret is sent or compared.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Secret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "writeOnly": true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_and_serializes_redacted() {
        let secret = Secret::trimmed(" sk-very-secret \n");
        let seen = format!(
            "{secret} {secret:?} {:#?} {}",
            Some(&secret),
            serde_json::to_string(&secret).unwrap()
        );
        assert_eq!(
            seen,
            "[redacted] [redacted] Some(\n    [redacted],\n) \"[redacted]\""
        );
        assert_eq!(secret.expose(), "sk-very-secret");
        assert_eq!(Secret::new(" a ").expose(), " a ");
    }
}
