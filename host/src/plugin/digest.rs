//! SHA-256 of components and of what goes with them, in base 16 with small letters.

use sha2::{Digest as _, Sha256};

use super::error::PluginError;

/// The SHA-256 of these bytes, in base 16 with small letters.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Whether this is a SHA-256 as [`sha256`] writes it.
#[must_use]
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Checks that these bytes are the ones that were pinned. What is then loaded must be this same buffer: a file that is
/// read again may have changed.
///
/// # Errors
/// [`PluginError::Changed`], when their SHA-256 is not `pinned`, in base 16 with small letters.
pub fn check_pin(bytes: &[u8], pinned: &str) -> Result<(), PluginError> {
    let found = sha256(bytes);
    if found == pinned { Ok(()) } else { Err(PluginError::Changed { pinned: pinned.to_owned(), found }) }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
