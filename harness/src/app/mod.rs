//! From flags to a running Keepline: configuration, store, plugin, runtimes, signals, errors.

mod config;
pub mod error;
pub mod look;
mod open;
mod openai;
pub mod runtime;
pub mod shutdown;
pub mod store_settings;
mod tokenizers;
mod with_keepline;

pub use self::{
    config::{
        config, config_with, plugin_file, quiet_config, refuse_replaced_store, store_name, store_place, target_config,
    },
    open::{
        TRANSFER_TIMEOUT, existing_store, filter_fields, keepline_on, options, plugin, sandbox, transfer_redis,
        transfer_store, warn_of_store,
    },
    openai::completions::configured as model,
    with_keepline::with_keepline,
};
