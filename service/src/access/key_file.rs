//! The file that keys are kept in: `{"keys": [record, …]}`.
//!
//! It is written whole and put in place by renaming, so a reader sees the old file or the new one; writers take turns by a
//! lock beside it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::KeyRecord;

/// A file of keys.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    keys: Vec<KeyRecord>,
}

impl KeyFile {
    /// The file at this path, which need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its keys.
    ///
    /// # Errors
    /// When it is not there, can't be read, or has a record that is none: then none of its keys is taken.
    pub fn read(&self) -> Result<Vec<KeyRecord>> {
        let place = || format!("can't read the keys in {}", self.path.display());
        let text = fs::read(&self.path).with_context(place)?;
        let Contents { keys } = serde_json::from_slice(&text).with_context(place)?;
        for (at, key) in keys.iter().enumerate() {
            if let Some(fault) = key.fault() {
                bail!("{}: keys[{at}] ({:?}): {fault}", place(), key.id);
            }
            if keys.iter().take(at).any(|earlier| earlier.id == key.id || earlier.hash == key.hash) {
                bail!("{}: keys[{at}] ({:?}): there is another with its id or hash", place(), key.id);
            }
        }
        Ok(keys)
    }

    /// Adds a key. A file that is not there is created, readable by its owner alone.
    ///
    /// # Errors
    /// When the file can't be read or written.
    pub fn add(&self, key: KeyRecord) -> Result<()> {
        self.change(|keys| {
            keys.push(key);
            true
        })
        .map(drop)
    }

    /// Removes a key; false, if there is none with this id.
    ///
    /// # Errors
    /// When the file can't be read or written.
    pub fn remove(&self, id: &str) -> Result<bool> {
        self.change(|keys| {
            let before = keys.len();
            keys.retain(|key| key.id != id);
            keys.len() < before
        })
    }

    /// Changes the keys while no other writer does. Nothing is written unless `change` says so.
    fn change(&self, change: impl FnOnce(&mut Vec<KeyRecord>) -> bool) -> Result<bool> {
        let place = || format!("can't change the keys in {}", self.path.display());
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).with_context(place)?;
        }
        // Not the file itself, which each change replaces.
        let lock =
            private(OpenOptions::new().create(true).truncate(false)).open(self.beside("lock")).with_context(place)?;
        lock.lock().with_context(place)?;
        let is_missing = matches!(fs::metadata(&self.path), Err(error) if error.kind() == io::ErrorKind::NotFound);
        let mut keys = if is_missing { Vec::new() } else { self.read()? };
        let changes = change(&mut keys);
        if changes {
            self.replace(&Contents { keys }).with_context(place)?;
        }
        lock.unlock().with_context(place)?;
        Ok(changes)
    }

    fn replace(&self, contents: &Contents) -> io::Result<()> {
        let new = self.beside("new");
        let mut file = private(OpenOptions::new().create(true).truncate(true)).open(&new)?;
        serde_json::to_writer_pretty(&file, contents)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".");
        name.push(ending);
        self.path.with_file_name(name)
    }
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.write(true).mode(0o600)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{os::unix::fs::PermissionsExt, thread};

    use super::*;
    use crate::access::{KeySecret, Scope};

    fn record(secret: &str) -> KeyRecord {
        KeyRecord::new(&KeySecret::from_text(secret), &[Scope::Read]).unwrap()
    }

    #[test]
    fn keys_that_are_added_at_once_are_all_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::new(folder.path().join("sub/keys.json"));
        thread::scope(|scope| {
            for writer in 0..4 {
                let file = &file;
                scope.spawn(move || (0..10).for_each(|n| file.add(record(&format!("{writer} {n}"))).unwrap()));
            }
        });
        let keys = file.read().unwrap();
        assert_eq!(keys.len(), 40);
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(file.remove(&keys.first().unwrap().id).unwrap() && !file.remove("none").unwrap());
        assert_eq!(file.read().unwrap(), keys.get(1..).unwrap());
    }

    #[test]
    fn a_file_with_a_fault_names_its_place_and_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::new(folder.path().join("keys.json"));
        let valid = serde_json::to_value(record("x")).unwrap();
        for (member, value, expected) in [
            ("scopes", serde_json::json!([]), "keys[1]"),
            ("tenant", serde_json::json!("A b"), "a tenant is named by"),
            ("more", serde_json::json!(1), "unknown field `more`"),
            ("id", valid["id"].clone(), "another with its id or hash"),
        ] {
            let mut second = serde_json::to_value(record("y")).unwrap();
            second.as_object_mut().unwrap().insert(member.into(), value);
            let text = serde_json::json!({"keys": [valid, second]}).to_string();
            fs::write(file.path(), &text).unwrap();
            let error = format!("{:#}", file.read().unwrap_err());
            assert!(error.contains(expected) && error.contains("keys.json"), "{error}");
            assert!(file.add(record("z")).is_err());
            assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
        }
    }
}
