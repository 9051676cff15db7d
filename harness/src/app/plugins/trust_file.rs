//! The trust file: which bytes a plugin's name stands for, `{"plugins": [{"name", "sha256", "source"}, …]}`.
//!
//! It is written whole and put in place by renaming, so a reader sees the old file or the new one; writers take turns by a
//! lock beside it. Whoever can write to it decides what runs, so it is used only if no one but this user or root could.

use std::{
    fmt,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use keepline::plugin::is_sha256;
use serde::{Deserialize, Serialize};

use crate::app::error::usage_error;

/// A file is small: a few names with their digests.
const MAX_BYTES: u64 = 4 << 20;
const NAME_CHARACTERS: usize = 64;

/// A plugin that was trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedPlugin {
    pub name: String,
    /// Of the component's bytes, in base 16 with small letters.
    pub sha256: String,
    /// Where it is: an absolute path, or `oci:` with one.
    pub source: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    plugins: Vec<PinnedPlugin>,
}

/// The file of pinned plugins.
#[derive(Clone, Debug)]
pub struct TrustFile {
    path: PathBuf,
}

/// Checks the name that a plugin is pinned under.
pub fn check_plugin_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=NAME_CHARACTERS).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(usage_error(format!("{name:?} is no plugin's name: 1 to {NAME_CHARACTERS} characters out of a-z, 0-9 and '-'")))
}

impl TrustFile {
    /// The file at this path, which need not be there yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All pinned plugins; none if the file is not there.
    pub fn read(&self) -> Result<Vec<PinnedPlugin>> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened.map_err(|error| self.unreadable(error))?,
        };
        let metadata = file.metadata().map_err(|error| self.unreadable(error))?;
        if !metadata.is_file() {
            return Err(self.unreadable("it is not a regular file"));
        }
        self.check_owners(&metadata)?;
        let mut text = Vec::new();
        let length = file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| self.unreadable(error))?;
        if u64::try_from(length).unwrap_or(u64::MAX) > MAX_BYTES {
            return Err(self.unreadable(format!("it has more than {MAX_BYTES} bytes")));
        }
        let Contents { plugins } = serde_json::from_slice(&text).map_err(|error| self.unreadable(error))?;
        for (at, plugin) in plugins.iter().enumerate() {
            let failed = |problem: &dyn fmt::Display| self.unreadable(format!("plugins[{at}]: {problem}"));
            check_plugin_name(&plugin.name).map_err(|error| failed(&error))?;
            if !is_sha256(&plugin.sha256) {
                let found = &plugin.sha256;
                return Err(failed(&format!("sha256 must be 64 characters out of 0-9 and a-f, not {found:?}")));
            }
            if plugins.iter().take(at).any(|earlier| earlier.name == plugin.name) {
                return Err(failed(&format!("there is another {:?}", plugin.name)));
            }
        }
        Ok(plugins)
    }

    fn unreadable(&self, problem: impl fmt::Display) -> anyhow::Error {
        usage_error(format!("can't read the pinned plugins in {}: {problem}", self.path.display()))
    }

    /// The plugin of this name.
    pub fn find(&self, name: &str) -> Result<PinnedPlugin> {
        check_plugin_name(name)?;
        let found = self.read()?.into_iter().find(|plugin| plugin.name == name);
        found.ok_or_else(|| {
            let message = format!(
                "no plugin {name:?} is pinned in {}: `keepline plugin list` shows those that are, `keepline plugin add` \
                 adds one",
                self.path.display()
            );
            usage_error(message)
        })
    }

    /// Adds a plugin; one of its name must not be there. A file that is not there is created, readable by its owner alone.
    pub fn add(&self, plugin: PinnedPlugin) -> Result<()> {
        self.change(|plugins| match plugins.iter().find(|other| other.name == plugin.name) {
            None => {
                plugins.push(plugin);
                Ok(())
            }
            Some(other) => Err(usage_error(other.taken())),
        })
    }

    /// Removes a plugin.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.find(name)?;
        self.change(|plugins| {
            plugins.retain(|plugin| plugin.name != name);
            Ok(())
        })
    }

    /// Changes the plugins while no other writer does.
    fn change(&self, change: impl FnOnce(&mut Vec<PinnedPlugin>) -> Result<()>) -> Result<()> {
        let place = || format!("can't change the pinned plugins in {}", self.path.display());
        let folder = self.folder();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(place)?;
        // Not the file itself, which each change replaces.
        let mut beside = self.path.file_name().unwrap_or_default().to_owned();
        beside.push(".lock");
        let mut options = OpenOptions::new();
        let lock = options.create(true).write(true).truncate(false).mode(0o600).open(folder.join(beside));
        let lock = lock.with_context(place)?;
        lock.lock().with_context(place)?;
        let mut plugins = self.read()?;
        change(&mut plugins)?;
        // Readable by its owner alone.
        let mut new = tempfile::NamedTempFile::new_in(folder).with_context(place)?;
        serde_json::to_writer_pretty(&mut new, &Contents { plugins })?;
        new.write_all(b"\n").with_context(place)?;
        new.as_file().sync_all().with_context(place)?;
        new.persist(&self.path).with_context(place)?;
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(place)
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Checks that no one but this user or root can have written the opened file, or put another in its place.
    fn check_owners(&self, file: &Metadata) -> Result<()> {
        let folder = self.folder();
        let of_folder = fs::metadata(folder).with_context(|| format!("can't read {}", folder.display()))?;
        for (path, metadata) in [(&*self.path, file), (folder, &of_folder)] {
            let problem = match (metadata.uid(), metadata.mode()) {
                (owner, _) if owner != 0 && owner != rustix::process::geteuid().as_raw() => {
                    format!("it belongs to another user (uid {owner})")
                }
                // In a folder such as /tmp, others can't replace what is not theirs.
                (_, mode) if mode & 0o022 != 0 && !(metadata.is_dir() && mode & 0o1000 != 0) => {
                    format!("others can write to it (mode {:04o}). Run chmod go-w {}", mode & 0o7777, path.display())
                }
                _ => continue,
            };
            let message = format!(
                "the pinned plugins in {} can't be trusted: {}: {problem}",
                self.path.display(),
                path.display()
            );
            return Err(usage_error(message));
        }
        Ok(())
    }
}

impl PinnedPlugin {
    /// Why its name can't be used again.
    pub fn taken(&self) -> String {
        let Self { name, sha256, source } = self;
        format!("{name:?} is pinned to {source} with SHA-256 {sha256}; `keepline plugin remove {name}` removes that")
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, thread};

    use serde_json::{Value, json};

    use super::*;

    fn pinned(name: &str) -> PinnedPlugin {
        PinnedPlugin { name: name.to_owned(), sha256: "0a".repeat(32), source: "/a.wasm".to_owned() }
    }

    #[test]
    fn plugins_that_are_added_at_once_are_all_there_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = TrustFile::new(folder.path().join("sub/plugins.json"));
        thread::scope(|scope| {
            for writer in 0..4 {
                let file = &file;
                scope.spawn(move || (0..10).for_each(|n| file.add(pinned(&format!("p-{writer}-{n}"))).unwrap()));
            }
        });
        assert_eq!(file.read().unwrap().len(), 40);
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
        file.remove("p-0-0").unwrap();
        assert!(file.remove("p-0-0").is_err() && file.find("p-0-1").unwrap() == pinned("p-0-1"));
        let error = file.add(pinned("p-0-1")).unwrap_err().to_string();
        assert!(error.contains("plugin remove p-0-1") && error.contains(&"0a".repeat(32)), "{error}");
        assert_eq!(file.read().unwrap().len(), 39);
    }

    #[test]
    fn a_trust_file_with_a_fault_names_its_place_and_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = TrustFile::new(folder.path().join("plugins.json"));
        for (member, value, expected) in [
            ("name", json!("A b"), "plugins[1]: \"A b\" is no plugin's name"),
            ("name", json!("x"), "plugins[1]: there is another \"x\""),
            ("sha256", json!("0A".repeat(32)), "plugins[1]: sha256 must be 64 characters"),
            ("sha256", json!("../x"), "plugins[1]: sha256 must be 64 characters"),
            ("more", json!(1), "unknown field `more`"),
            ("source", Value::Null, "expected a string"),
        ] {
            let mut second = serde_json::to_value(pinned("y")).unwrap();
            second.as_object_mut().unwrap().insert(member.into(), value);
            let text = json!({"plugins": [pinned("x"), second]}).to_string();
            fs::write(file.path(), &text).unwrap();
            let error = format!("{:#}", file.find("x").unwrap_err());
            assert!(error.contains(expected) && error.contains("plugins.json"), "{error}");
            assert!(file.add(pinned("z")).is_err());
            assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
        }
    }

    #[test]
    fn a_trust_file_that_others_can_write_to_is_refused_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let file = TrustFile::new(folder.path().join("plugins.json"));
        file.add(pinned("x")).unwrap();
        for path in [file.path(), folder.path()] {
            let before = fs::metadata(path).unwrap().permissions();
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
            let error = file.find("x").unwrap_err().to_string();
            assert!(error.contains(&format!("chmod go-w {}", path.display())), "{error}");
            fs::set_permissions(path, before).unwrap();
        }
        file.find("x").unwrap();
    }
}
