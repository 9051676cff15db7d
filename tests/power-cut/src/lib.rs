//! A disk whose power can be cut, for tests of what keeps its files in one directory.
//!
//! A process that is killed leaves the kernel's page cache behind, so no kill shows what a power cut does. Here every
//! system call of this process that changes a file of the [recorded](Disk::record) directory is noted in its order,
//! together with every sync. Afterwards, for any moment of that record, [`Recording::cut`] makes a directory as a
//! power cut at that moment could have left it:
//! - what was synced is there;
//! - of what was written after the last sync of its file, any subset is there, by sectors of [`SECTOR`] bytes, one of
//!   them torn now and then; a file's size may lag behind or run ahead of its content, and what lies between is zeros or
//!   garbage;
//! - a new name, a removed one, a changed one may be as before unless the *directory* was synced;
//! - what a failed sync was to write may be lost, even if a later one succeeds: Linux reports an error once;
//! - `*-shm` is memory that SQLite's processes share, and is gone.
//!
//! The calls are intercepted where the program is linked ([`calls`]), not in a VFS of SQLite: so a sync counts only if
//! it really reaches the kernel, whoever makes it, SQLite or the standard library, and nothing needs to be told that it
//! is watched. That a recording is complete is checked: replayed as a whole it must give the directory as it is
//! (`Recording::replayed`).
//!
//! Refuses: subdirectories, memory maps that are written to, writes by other processes. All but the first are found by
//! that check. Linux only. Syncs take no time unless [`Disk::syncs_take`] says so: this machine's power stays on.

#![cfg(target_os = "linux")]

pub mod calls;
mod cut;
mod disk;
mod recording;

pub use self::{
    disk::{Disk, Syncs},
    recording::Recording,
};

/// What a disk writes at once, unless it is torn.
pub const SECTOR: usize = 512;
