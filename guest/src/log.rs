//! Log lines and their contexts.
//!
//! A line is only formatted if the host wants its level.

use crate::contract::{Host, Level};

/// What was done, what was refused.
pub(crate) const SESSION: &str = "keepline.session";

/// Stored texts that could not be read.
pub(crate) const VALUE: &str = "keepline.value";

/// What of an operator's messages is not stored.
pub(crate) const MESSAGES: &str = "keepline.messages";

/// What was left out.
pub(crate) const LIMIT: &str = "keepline.limit";

/// The store failed, or can do less than others.
pub(crate) const STORE: &str = "keepline.store";

/// What was done, if anybody wants to know.
pub(crate) fn debug(host: &impl Host, parts: &[&str]) {
    if host.logs(Level::Debug) {
        host.log(Level::Debug, SESSION, &parts.concat());
    }
}

/// What went wrong.
pub(crate) fn warn(host: &impl Host, context: &str, parts: &[&str]) {
    if host.logs(Level::Warn) {
        host.log(Level::Warn, context, &parts.concat());
    }
}
