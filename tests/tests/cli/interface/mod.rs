//! The interface that all commands share: help, configuration, exit codes, messages, JSON, plugins.

mod configuration;
mod exit_codes;
mod help;
mod layouts;
mod new_plugin;
mod output;
mod pinned_plugins;
mod plugins;
mod scripts;
