//! Who asks, and what they may do.
//!
//! Keys lie in a file, as hashes ([`KeyFile`]); a service reads it again whenever it changes ([`KeyRing`]). Browsers are held
//! to hosts and origins that the service is meant to be reached by ([`OriginPolicy`]).

mod caller;
mod key_file;
mod key_record;
mod key_ring;
mod origin;
mod tenant_name;

pub use self::{
    caller::{Caller, Scope, Scopes},
    key_file::KeyFile,
    key_record::{KeyRecord, KeySecret},
    key_ring::{Authenticated, KeyRefusal, KeyRing},
    origin::{OriginPolicy, OriginRefusal},
    tenant_name::{InvalidTenantName, TenantName},
};
