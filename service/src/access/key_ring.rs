//! The keys that a service takes.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use axum::http::{HeaderMap, header};
use tokio::sync::watch;

use super::{Caller, KeyFile, KeyRecord, Scopes, key_record};

/// How often the file is looked at: a key that was revoked is refused, and its streams end, well within a second.
const LOOK: Duration = Duration::from_millis(250);

/// The keys of a service; or, without any, the one user of this machine.
pub struct KeyRing {
    /// None: no key is asked for.
    keys: Option<watch::Sender<Arc<[KeyRecord]>>>,
}

/// Why a request's key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRefusal {
    /// There is none.
    Missing,
    /// It is unknown or revoked, or there are several.
    Invalid,
}

/// Whoever has a valid key, for as long as it is one.
pub struct Authenticated {
    pub caller: Caller,
    keys: Option<watch::Receiver<Arc<[KeyRecord]>>>,
}

impl KeyRing {
    /// No key is asked for: who reaches the service may do everything.
    pub fn open_to_all() -> Arc<Self> {
        Arc::new(Self { keys: None })
    }

    /// These keys.
    pub fn of(keys: Vec<KeyRecord>) -> Arc<Self> {
        Arc::new(Self { keys: Some(watch::Sender::new(keys.into())) })
    }

    /// The keys of a file, which is read again whenever it changes. A file that is gone has no keys; of one that can't be
    /// read, or has a fault, the keys of before are kept, and the log says so.
    ///
    /// # Errors
    /// When it can't be read at first.
    pub fn of_file(file: KeyFile) -> anyhow::Result<Arc<Self>> {
        let seen = fs::metadata(file.path()).ok().map(|metadata| Version::of(&metadata));
        let ring = Self::of(file.read()?);
        let watched = Arc::downgrade(&ring);
        thread::Builder::new().name("keys".to_owned()).spawn(move || follow(&file, seen, &watched))?;
        Ok(ring)
    }

    /// Whether keys are asked for.
    pub fn asks_for_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Who sends a request with these headers: `Authorization: Bearer KEY` or `X-API-Key: KEY`.
    ///
    /// # Errors
    /// When keys are asked for and there is no valid one.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<Authenticated, KeyRefusal> {
        let Some(keys) = &self.keys else { return Ok(Authenticated { caller: Caller::local(), keys: None }) };
        let keys = keys.subscribe();
        let hash = key_record::hash(presented_key(headers)?);
        // All are compared, so that the time tells nothing of which one was nearly met.
        let mut found = None;
        for key in keys.borrow().iter() {
            if key.has_hash(&hash) {
                found = Some(key.caller());
            }
        }
        let caller = found.ok_or(KeyRefusal::Invalid)?;
        Ok(Authenticated { caller, keys: Some(keys) })
    }
}

impl Authenticated {
    /// Whoever sends a request that needs no key: nobody who could do anything else.
    pub fn of_nobody() -> Self {
        Self { caller: Caller { scopes: Scopes::default(), ..Caller::local() }, keys: None }
    }

    /// Waits until the key is revoked, or is changed in what it may be used for.
    pub async fn revoked(self) {
        let (Some(mut keys), Some(id)) = (self.keys, self.caller.key_id.clone()) else {
            return std::future::pending().await;
        };
        let is_gone = |keys: &Arc<[KeyRecord]>| {
            let found = keys.iter().find(|key| key.id == *id);
            found.is_none_or(|key| key.caller() != self.caller)
        };
        // An error: the service has ended.
        let _ = keys.wait_for(is_gone).await;
    }
}

/// The key that a request was sent with.
fn presented_key(headers: &HeaderMap) -> Result<&str, KeyRefusal> {
    let mut found = None;
    for name in [header::AUTHORIZATION.as_str(), "x-api-key"] {
        for value in headers.get_all(name) {
            let text = value.to_str().map_err(|_| KeyRefusal::Invalid)?;
            let key = if name == "x-api-key" { text.trim() } else { bearer(text).ok_or(KeyRefusal::Invalid)? };
            // Which one counts must not depend on who reads them: a proxy in front, or we.
            if found.is_some_and(|earlier| earlier != key) {
                return Err(KeyRefusal::Invalid);
            }
            found = Some(key);
        }
    }
    found.filter(|key| !key.is_empty()).ok_or(KeyRefusal::Missing)
}

fn bearer(text: &str) -> Option<&str> {
    let (scheme, key) = text.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// Tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Reads the file whenever it changes, for as long as the ring is in use.
fn follow(file: &KeyFile, mut seen: Option<Version>, ring: &Weak<KeyRing>) {
    loop {
        thread::sleep(LOOK);
        let Some(ring) = ring.upgrade() else { return };
        let Some(keys) = &ring.keys else { return };
        let now = match fs::metadata(file.path()) {
            Ok(metadata) => Some(Version::of(&metadata)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            // Its folder can't be read for now.
            Err(_) => continue,
        };
        if now == seen {
            continue;
        }
        let read = if now.is_some() { file.read() } else { Ok(Vec::new()) };
        match read {
            Ok(read) => {
                tracing::info!(target: "keepline.service", keys = read.len(), "keys were read again");
                keys.send_replace(read.into());
            }
            Err(error) => tracing::error!(target: "keepline.service", "the keys of before are kept: {error:#}"),
        }
        seen = now;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::access::{KeySecret, Scope};

    fn record(secret: &str) -> KeyRecord {
        KeyRecord::new(&KeySecret::from_text(secret), &[Scope::Read]).unwrap()
    }

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn one_valid_key_in_either_header_is_taken() {
        let ring = KeyRing::of(vec![record("one"), record("two")]);
        let refusal = |given: &[_]| ring.authenticate(&headers(given)).err();
        for given in [
            &[("authorization", "Bearer one")][..],
            &[("authorization", "bearer  two ")],
            &[("x-api-key", "one")],
            &[("x-api-key", "one"), ("authorization", "Bearer one")],
        ] {
            assert_eq!(refusal(given), None, "{given:?}");
        }
        for (given, expected) in [
            (&[][..], KeyRefusal::Missing),
            (&[("x-api-key", "")], KeyRefusal::Missing),
            (&[("authorization", "Bearer three")], KeyRefusal::Invalid),
            (&[("authorization", "Basic one")], KeyRefusal::Invalid),
            (&[("authorization", "one")], KeyRefusal::Invalid),
            (&[("x-api-key", "one"), ("authorization", "Bearer two")], KeyRefusal::Invalid),
            (&[("x-api-key", "one"), ("x-api-key", "three")], KeyRefusal::Invalid),
        ] {
            assert_eq!(refusal(given), Some(expected), "{given:?}");
        }
    }

    #[tokio::test]
    async fn a_key_that_is_revoked_or_narrowed_in_its_file_ends_what_it_opened() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::new(folder.path().join("keys.json"));
        let (first, second) = (record("one"), record("two"));
        file.add(first.clone()).unwrap();
        file.add(second.clone()).unwrap();
        let ring = KeyRing::of_file(file.clone()).unwrap();
        let (one, two) = (headers(&[("x-api-key", "one")]), headers(&[("x-api-key", "two")]));
        let (of_first, of_second) = (ring.authenticate(&one).unwrap(), ring.authenticate(&two).unwrap());
        file.remove(&first.id).unwrap();
        of_first.revoked().await;
        assert_eq!(ring.authenticate(&one).err(), Some(KeyRefusal::Invalid));
        assert!(ring.authenticate(&two).is_ok());
        file.remove(&second.id).unwrap();
        file.add(KeyRecord { user: Some("anna".into()), ..second }).unwrap();
        of_second.revoked().await;
        assert_eq!(ring.authenticate(&two).unwrap().caller.user.as_deref(), Some("anna"));
        // A file that is gone opens nothing.
        let of_second = ring.authenticate(&two).unwrap();
        fs::remove_file(file.path()).unwrap();
        of_second.revoked().await;
        assert_eq!(ring.authenticate(&two).err(), Some(KeyRefusal::Invalid));
    }
}
