//! Tenants: who a run belongs to on a shared server.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name: it is also the name of a folder.
const MAX_TENANT_CHARS: usize = 63;

/// One of several parties that share a server. No tenant sees data of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tenant(String);

/// An invalid tenant name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid tenant name {0:?}: use 1 to 63 lower-case letters, digits and hyphens, beginning with a \
     letter or digit"
)]
pub struct BadTenant(String);

impl Tenant {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tenant {
    type Err = BadTenant;

    fn from_str(text: &str) -> Result<Self, BadTenant> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let begins_well = bytes.first().is_some_and(|first| is_plain(*first));
        let goes_on_well = bytes.iter().all(|byte| is_plain(*byte) || *byte == b'-');
        if begins_well && goes_on_well && bytes.len() <= MAX_TENANT_CHARS {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadTenant(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Tenant {
    type Error = BadTenant;

    fn try_from(text: String) -> Result<Self, BadTenant> {
        text.parse()
    }
}

impl From<Tenant> for String {
    fn from(tenant: Tenant) -> Self {
        tenant.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Tenant;

    #[test]
    fn only_names_that_are_safe_as_folders_are_tenants() {
        let long = "a".repeat(63);
        for good in ["a", "0", "acme", "acme-2", "a-", long.as_str()] {
            assert!(good.parse::<Tenant>().is_ok(), "{good}");
        }
        let longer = "a".repeat(64);
        let bad = [
            "",
            "-",
            "-a",
            "A",
            "a b",
            "a/b",
            "..",
            "a.b",
            "ä",
            "a\0",
            "a\n",
            longer.as_str(),
        ];
        for bad in bad {
            assert!(bad.parse::<Tenant>().is_err(), "{bad:?}");
            let quoted = serde_json::Value::String(bad.to_owned());
            assert!(serde_json::from_value::<Tenant>(quoted).is_err(), "{bad:?}");
        }
    }
}
