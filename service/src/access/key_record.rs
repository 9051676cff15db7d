//! A key as it is kept: the hash of its secret, and what it may be used for.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{Caller, Scope, Scopes, TenantName};

/// Bytes of randomness in a secret that is made here. Guessing one is out of the question, so a plain hash keeps it.
const SECRET_BYTES: usize = 32;
const ID_BYTES: usize = 8;

/// What a client sends. It is shown once, when it is made, and printed nowhere else.
#[derive(Clone)]
pub struct KeySecret(String);

impl KeySecret {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn generate() -> Result<Self, getrandom::Error> {
        Ok(Self(random_text::<SECRET_BYTES>("kl_")?))
    }

    /// One that somebody else made.
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeySecret(…)")
    }
}

/// A key without its secret. Its form in the key file is this, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// Names the key in lists, logs and revocations. It is no secret.
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal digits.
    pub hash: String,
    /// The tenant whose memory the key opens; none: the configured store itself.
    #[serde(default)]
    pub tenant: Option<TenantName>,
    /// Whose definitions and data sets the key's holder uses.
    #[serde(default = "default_project")]
    pub project: String,
    /// The only user whose data the key reaches; none: all of the tenant's.
    #[serde(default)]
    pub user: Option<String>,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// Whom or what it is for, in its maker's words.
    #[serde(default)]
    pub note: String,
    /// When it was made, in milliseconds since 1970; 0: not known.
    #[serde(default)]
    pub created_at_ms: u64,
}

fn default_project() -> String {
    KeyRecord::DEFAULT_PROJECT.to_owned()
}

impl KeyRecord {
    /// The project of keys that name none, and of services without keys.
    pub const DEFAULT_PROJECT: &str = "default";

    /// A key with these scopes, for the configured store and all of its users.
    ///
    /// # Errors
    /// When the system has no randomness, for its id.
    pub fn new(secret: &KeySecret, scopes: &[Scope]) -> Result<Self, getrandom::Error> {
        Ok(Self {
            id: random_text::<ID_BYTES>("key_")?,
            hash: hash(secret.expose()),
            tenant: None,
            project: default_project(),
            user: None,
            scopes: scopes.to_vec(),
            note: String::new(),
            created_at_ms: 0,
        })
    }

    /// Whether its secret is this. Takes the same time for any two texts.
    pub(super) fn has_hash(&self, hash_of_secret: &str) -> bool {
        self.hash.as_bytes().ct_eq(hash_of_secret.as_bytes()).into()
    }

    /// Whoever sends a request with this key.
    pub(super) fn caller(&self) -> Caller {
        let mut scopes = Scopes::default();
        for scope in &self.scopes {
            match scope {
                Scope::Read => scopes.read = true,
                Scope::Write => scopes.write = true,
                Scope::Admin => scopes.admin = true,
            }
        }
        Caller {
            tenant: self.tenant.clone(),
            project: self.project.as_str().into(),
            user: self.user.as_deref().map(Into::into),
            scopes,
            key_id: Some(self.id.as_str().into()),
        }
    }

    /// What is wrong with a record that was read.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let is_hash = self.hash.len() == 64 && self.hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if self.id.is_empty() {
            return Some("id must not be empty");
        }
        if !is_hash {
            return Some("hash must be the SHA-256 of the secret: 64 hexadecimal digits in small letters");
        }
        if self.user.as_deref().is_some_and(str::is_empty) || self.project.is_empty() {
            return Some("user and project must not be empty");
        }
        self.scopes.is_empty().then_some("scopes must be some of \"read\", \"write\", \"admin\"")
    }
}

/// SHA-256, in hexadecimal digits.
pub(super) fn hash(secret: &str) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(secret.as_bytes()) {
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    text
}

fn random_text<const BYTES: usize>(prefix: &str) -> Result<String, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    let mut text = prefix.to_owned();
    keepline_json::push_base32(&mut text, &bytes);
    Ok(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hashed_and_never_printed() {
        let secret = KeySecret::generate().unwrap();
        assert!(secret.expose().starts_with("kl_") && secret.expose().len() > 50, "{}", secret.expose());
        let record = KeyRecord::new(&secret, &[Scope::Read]).unwrap();
        assert!(record.has_hash(&hash(secret.expose())) && !record.has_hash(&hash("kl_other")));
        assert!(!format!("{secret:?} {record:?}").contains(secret.expose()));
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash("abc"), expected, "as FIPS 180-2 has it");
    }

    #[test]
    fn a_record_that_would_open_more_than_it_says_is_refused() {
        let record = KeyRecord::new(&KeySecret::from_text("x"), &[Scope::Write]).unwrap();
        assert_eq!(record.fault(), None);
        assert!(KeyRecord { user: Some("".into()), ..record.clone() }.fault().unwrap().starts_with("user"));
        assert!(KeyRecord { hash: "X".into(), ..record.clone() }.fault().unwrap().starts_with("hash"));
        assert!(KeyRecord { scopes: Vec::new(), ..record }.fault().unwrap().starts_with("scopes"));
    }
}
