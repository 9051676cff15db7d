//! Records the changes to a directory, in order.

use std::{collections::BTreeMap, fs, io, path::Path};

use fastrand::Rng;

use crate::cut::{Loss, surviving};

/// A file, whatever its name is.
pub(crate) type File = usize;

/// The files of a directory by name.
pub(crate) type Contents = BTreeMap<String, Vec<u8>>;

#[derive(Debug)]
pub(crate) enum Change {
    Write {
        file: File,
        at: u64,
        data: Box<[u8]>,
    },
    Resize {
        file: File,
        length: u64,
    },
    Create {
        name: String,
        file: File,
    },
    Unlink {
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    /// Of a file or, without one, of the directory. It covers what was noted before it had `begun`.
    Sync {
        file: Option<File>,
        begun: usize,
        succeeds: bool,
    },
    Mark(u64),
}

/// Everything that happened to a directory between [`Disk::record`](crate::Disk::record) and
/// [`Disk::stop`](crate::Disk::stop).
#[derive(Debug, Default)]
pub struct Recording {
    pub(crate) names: BTreeMap<String, File>,
    /// What each file held when it was first seen.
    pub(crate) files: Vec<Vec<u8>>,
    pub(crate) changes: Vec<Change>,
}

impl Recording {
    /// A file that was there before.
    pub(crate) fn begin(&mut self, name: String, content: Vec<u8>) -> File {
        self.names.insert(name, self.files.len());
        self.files.push(content);
        self.files.len() - 1
    }

    pub(crate) fn create(&mut self, name: String) -> File {
        let file = self.files.len();
        self.files.push(Vec::new());
        self.note(Change::Create { name, file });
        file
    }

    pub(crate) fn note(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// How many moments there are: the power can be cut at any from 0 to this.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// How many syncs there were.
    pub fn syncs(&self) -> usize {
        self.changes.iter().filter(|change| matches!(change, Change::Sync { .. })).count()
    }

    /// Any moment, every second time the one at which something has just been promised.
    pub fn moment(&self, random: &mut Rng) -> usize {
        let marks: Vec<_> =
            (0..self.len()).filter(|at| matches!(self.changes.get(*at), Some(Change::Mark(_)))).collect();
        match random.choice(marks) {
            Some(mark) if random.bool() => mark + 1,
            _ => random.usize(..=self.len()),
        }
    }

    /// What was promised before a moment.
    pub fn marks(&self, before: usize) -> impl Iterator<Item = u64> {
        self.changes.iter().take(before).filter_map(|change| match change {
            Change::Mark(what) => Some(*what),
            _ => None,
        })
    }

    /// Fill a new directory as a power cut at a moment could have left this one, and say in which way.
    pub fn cut(&self, moment: usize, random: &mut Rng, into: &Path) -> io::Result<String> {
        let loss = Loss::any(moment, random);
        fs::create_dir(into)?;
        for (name, content) in surviving(self, moment, loss, random) {
            fs::write(into.join(name), content)?;
        }
        Ok(format!("{loss:?} of {moment} changes"))
    }

    /// What all of it comes to.
    pub(crate) fn replayed(&self) -> Contents {
        surviving(self, self.len(), Loss::Nothing, &mut Rng::with_seed(0))
    }

    /// Whether it has everything: replayed as a whole it must come to what is in the directory.
    pub fn is_complete(&self, root: &Path) -> io::Result<bool> {
        Ok(self.replayed() == contents(root)?)
    }
}

/// Whether a file is memory rather than a file.
pub(crate) fn is_memory(name: &str) -> bool {
    name.ends_with("-shm")
}

/// What is in a directory.
pub(crate) fn contents(root: &Path) -> io::Result<Contents> {
    let mut found = Contents::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| io::Error::other(format!("{name:?}")))?;
        if !is_memory(&name) && entry.file_type()?.is_file() {
            found.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(found)
}
