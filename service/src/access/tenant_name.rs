//! Names of tenants.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

/// A tenant's name: `[a-z0-9-]{1,64}`. It is part of the name of the tenant's folder or of its keys in Redis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TenantName(Arc<str>);

/// The text is no name of a tenant.
#[derive(Clone, Debug, thiserror::Error)]
#[error("a tenant is named by 1 to 64 characters out of a-z, 0-9 and '-', and not {0:?}")]
pub struct InvalidTenantName(String);

impl FromStr for TenantName {
    type Err = InvalidTenantName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=64).contains(&name.len()) && name.bytes().all(is_allowed) {
            return Ok(Self(name.into()));
        }
        Err(InvalidTenantName(name.chars().take(100).collect()))
    }
}

impl TryFrom<String> for TenantName {
    type Error = InvalidTenantName;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<TenantName> for String {
    fn from(name: TenantName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl TenantName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
