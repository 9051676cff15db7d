//! The system calls that change files, put in the place of the C library's for the program that this crate is linked
//! into. Each does what it always does, and tells the disk that is recorded, if the file is one of its. Only a sync
//! does nothing else.
//!
//! A definition in the program goes before that of a shared library, for code in C and for Rust's standard library
//! alike. Files are recognised by their inode, so neither `open` nor `dup` has to be known.

#![allow(unsafe_code, reason = "the C library's functions have no safe form")]
#![allow(clippy::missing_safety_doc, reason = "they are those of the C library")]

use std::{
    ffi::{CStr, OsStr},
    os::unix::ffi::OsStrExt,
    path::Path,
    slice,
};

use libc::{
    SYS_ftruncate, SYS_pwrite64, SYS_rename, SYS_unlink, SYS_write, c_char, c_int, c_void, off_t, size_t, ssize_t,
};

use crate::disk::{Disk, Node};

/// What an open file is.
fn node_of(file: c_int) -> Option<Node> {
    // SAFETY: a stat is plain numbers, and the kernel fills it or says that it did not.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(file, &mut stat) == 0).then(|| Node::of(&stat))
    }
}

/// The disk that an open file is on, if one is recorded.
fn disk_of(file: c_int) -> Option<(std::sync::Arc<Disk>, Node)> {
    if !Disk::any_is_recorded() {
        return None;
    }
    let node = node_of(file)?;
    Some((Disk::with(node, file)?, node))
}

/// Where the next write to a file goes.
fn position(file: c_int) -> u64 {
    // SAFETY: no memory is involved.
    unsafe {
        let at = match libc::fcntl(file, libc::F_GETFL) & libc::O_APPEND {
            0 => libc::lseek(file, 0, libc::SEEK_CUR),
            _ => libc::lseek(file, 0, libc::SEEK_END),
        };
        u64::try_from(at).unwrap_or(0)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(file: c_int, data: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller's promise about `data` is handed on.
    let call = || unsafe { libc::syscall(SYS_write, file, data, length) as ssize_t };
    let Some((disk, node)) = disk_of(file) else { return call() };
    disk.write(node, position(file), length, || written(data, call())).unwrap_or_else(no_room) as ssize_t
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(file: c_int, data: *const c_void, length: size_t, at: off_t) -> ssize_t {
    // SAFETY: as above.
    let call = || unsafe { libc::syscall(SYS_pwrite64, file, data, length, at) as ssize_t };
    let Some((disk, node)) = disk_of(file) else { return call() };
    let at = u64::try_from(at).unwrap_or(0);
    disk.write(node, at, length, || written(data, call())).unwrap_or_else(no_room) as ssize_t
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(file: c_int, data: *const c_void, length: size_t, at: off_t) -> ssize_t {
    // SAFETY: the same function under its other name.
    unsafe { pwrite64(file, data, length, at) }
}

/// What a write returned, and the bytes that it wrote.
fn written<'a>(data: *const c_void, returned: ssize_t) -> (ssize_t, &'a [u8]) {
    match usize::try_from(returned) {
        // SAFETY: the kernel has just read as many.
        Ok(count) if count > 0 => (returned, unsafe { slice::from_raw_parts(data.cast(), count) }),
        _ => (returned, &[]),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(file: c_int, length: off_t) -> c_int {
    // SAFETY: no memory is involved.
    let call = || unsafe { libc::syscall(SYS_ftruncate, file, length) as c_int };
    let Some((disk, node)) = disk_of(file) else { return call() };
    disk.resize(node, u64::try_from(length).unwrap_or(0), call).unwrap_or_else(no_room)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate(file: c_int, length: off_t) -> c_int {
    // SAFETY: the same function under its other name.
    unsafe { ftruncate64(file, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(file: c_int) -> c_int {
    sync(file)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(file: c_int) -> c_int {
    sync(file)
}

/// Of whatever file, no sync reaches the kernel: this machine's power stays on, and a test has no time for its disk.
fn sync(file: c_int) -> c_int {
    match disk_of(file) {
        Some((disk, node)) if !disk.sync(node) => {}
        _ => return 0,
    }
    failed(libc::EIO)
}

/// What a call returns on a full disk.
fn no_room<T: From<i8>>() -> T {
    failed(libc::ENOSPC)
}

fn failed<T: From<i8>>(why: c_int) -> T {
    // SAFETY: the address is this thread's own error number.
    unsafe { *libc::__errno_location() = why };
    T::from(-1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise about `path` is handed on.
    let call = || unsafe { libc::syscall(SYS_unlink, path) as c_int };
    // SAFETY: as above.
    match unsafe { on_disk(path) } {
        Some((disk, name)) => disk.unlink(&name, call),
        None => call(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's promise about both is handed on.
    let call = || unsafe { libc::syscall(SYS_rename, from, to) as c_int };
    // SAFETY: as above.
    match unsafe { (on_disk(from), on_disk(to)) } {
        (Some((disk, from)), Some((_, to))) => disk.rename(&from, &to, call),
        _ => call(),
    }
}

/// The disk that a path leads to, and the name there.
unsafe fn on_disk(path: *const c_char) -> Option<(std::sync::Arc<Disk>, String)> {
    if path.is_null() || !Disk::any_is_recorded() {
        return None;
    }
    // SAFETY: the caller promises a C string.
    Disk::at(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes())))
}
