//! Where directories are measured: on a disk, for in memory a sync costs nothing.

use std::{env, fs, path::Path};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// File systems that are no disk.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// A directory in which others are made. It is removed at the end, with all of them.
pub struct Place {
    made: TempDir,
    file_system: Option<String>,
}

impl Place {
    /// In the directory that was asked for; else in the system's for temporary files, or in the working directory if that
    /// one is in memory.
    pub fn make(asked_for: Option<&Path>) -> Result<Self> {
        let parent = match asked_for {
            Some(path) => path.to_owned(),
            None => {
                let temporary = env::temp_dir();
                if file_system(&temporary).is_some_and(|kind| is_in_memory(&kind)) {
                    env::current_dir().context("there is no working directory")?
                } else {
                    temporary
                }
            }
        };
        let parent = fs::canonicalize(&parent).with_context(|| format!("can't use {}", parent.display()))?;
        let file_system = file_system(&parent);
        if file_system.as_deref().is_some_and(is_in_memory) {
            eprintln!(
                "note: {} is in memory, where a sync costs nothing: use --disk to measure directories on a disk",
                parent.display()
            );
        }
        let made = TempDir::new_in(&parent);
        let made = made.with_context(|| format!("can't create a directory in {}", parent.display()))?;
        Ok(Self { made, file_system })
    }

    pub fn path(&self) -> &Path {
        self.made.path()
    }

    /// For people.
    pub fn describe(&self) -> String {
        let kind = self.file_system.as_deref().unwrap_or("unknown file system");
        format!("{kind}, in {}", self.path().parent().unwrap_or(self.path()).display())
    }
}

/// Removes a directory whose stores are still at work: now and then one of them creates a file meanwhile.
pub fn remove(directory: &Path) {
    _ = (0..10).any(|_| fs::remove_dir_all(directory).is_ok() || !directory.exists());
}

fn is_in_memory(kind: &str) -> bool {
    IN_MEMORY.contains(&kind)
}

/// The kind of file system that a path is on, where the system tells: Linux does.
fn file_system(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    // The innermost; of several at one place, the one that was mounted last.
    let mounts = mounts.filter(|(mounted, _)| path.starts_with(mounted));
    mounts.max_by_key(|(mounted, _)| Path::new(mounted).components().count()).map(|(_, kind)| kind.to_owned())
}
