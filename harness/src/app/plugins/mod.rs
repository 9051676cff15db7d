//! Finds the component that a user names: a file, or a plugin that is pinned in the trust file.

mod source;
mod trust_file;

pub use self::{
    source::PluginSource,
    trust_file::{PinnedPlugin, TrustFile, check_plugin_name},
};
