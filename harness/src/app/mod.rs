//! From flags to a running Keepline: configuration, store, plugin, runtimes, signals, errors.

mod config;
pub mod error;
pub mod look;
mod open;
mod openai;
mod plugins;
pub mod runtime;
pub mod shutdown;
pub mod store_settings;
mod tokenizers;
mod with_keepline;

pub use self::{
    config::{
        data_folder, load_config, load_config_with, load_service_config, parse_source, plugin_source, quiet_config,
        refuse_replaced_store, store_address, target_config, trust_file,
    },
    open::{
        configured_sandbox, keepline_options, list_filter_fields, load_pipelines, load_plugin, open_existing_store,
        open_keepline_on, open_keepline_with_pipelines, open_pipelines_on, open_transfer_store, print_store_warnings,
        transfer_redis,
    },
    openai::completions::configured_completion_model as model,
    plugins::{PinnedPlugin, PluginSource, TrustFile, check_plugin_name},
    with_keepline::{PipelineScope, with_keepline, with_pipelines},
};
