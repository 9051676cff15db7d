//! The interface that all commands share: help, configuration, exit codes, messages, JSON, plugins.

mod configuration;
mod exit_codes;
mod help;
mod output;
mod plugins;
mod scripts;
