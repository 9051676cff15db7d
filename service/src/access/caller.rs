//! What is known of whoever sends a request, once their key has been checked.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{KeyRecord, TenantName};

/// What a key may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// To look, and to compute without a change.
    Read,
    /// To change what is remembered.
    Write,
    /// To delete all sessions of a tenant, and to look after it.
    Admin,
}

/// The scopes of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    /// [`Scope::Read`]
    pub read: bool,
    /// [`Scope::Write`]
    pub write: bool,
    /// [`Scope::Admin`]
    pub admin: bool,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// Its name, as keys and descriptions have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl Scopes {
    /// All of them, as on loopback without keys.
    pub const ALL: Self = Self { read: true, write: true, admin: true };

    /// Whether it is among them.
    pub fn has(self, scope: Scope) -> bool {
        match scope {
            Scope::Read => self.read,
            Scope::Write => self.write,
            Scope::Admin => self.admin,
        }
    }
}

/// Whoever sends a request, as the record of their key says; without keys, the one user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// None: the only tenant of a service without keys.
    pub tenant: Option<TenantName>,
    /// Whose definitions and data sets the caller uses.
    pub project: Arc<str>,
    /// The only user whose data the caller reaches; none: all of the tenant's.
    pub user: Option<Arc<str>>,
    /// What the caller may do.
    pub scopes: Scopes,
    /// The id of the key, which is no secret; none: the service asks for no key.
    pub key_id: Option<Arc<str>>,
}

impl Caller {
    /// The one user of this machine, of whom no key is asked.
    pub fn local() -> Self {
        let project = KeyRecord::DEFAULT_PROJECT.into();
        Self { tenant: None, project, user: None, scopes: Scopes::ALL, key_id: None }
    }
}
