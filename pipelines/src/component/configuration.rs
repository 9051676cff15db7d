//! Exports the configuration, and holds what an instance keeps between calls.

use std::cell::Cell;

use keepline_store_client::{
    Host as _, Level, Problem, codes,
    component::{
        allocator::Arena,
        imports::{Imports, replace_log_level},
    },
};

use crate::{
    component::bindings::{self, exports::keepline::pipelines::configuration},
    config::PipelineConfig,
};

/// The exports of the contract are implemented for it.
pub(super) struct Component;

#[allow(unsafe_code, clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
mod symbols {
    use super::{Component, bindings};

    bindings::export!(Component with_types_in bindings);
}

/// Room for a small run.
#[global_allocator]
static HEAP: Arena<{ 64 << 10 }> = Arena::new();

thread_local! {
    /// What an instance keeps between calls.
    pub(super) static CONFIG: Cell<PipelineConfig> = const { Cell::new(PipelineConfig::DEFAULT) };
}

impl configuration::Guest for Component {
    fn configure(options: String, log_from: Level) -> Result<configuration::Configured, Problem> {
        let config = PipelineConfig::parse(&options)?;
        replace_log_level(log_from);
        CONFIG.set(config);
        let option = |(name, value, is_default): (&str, String, bool)| configuration::OptionValue {
            name: name.to_owned(),
            value,
            is_default,
        };
        Ok(configuration::Configured {
            options: config.options().into_iter().map(option).collect(),
            warnings: warnings(),
        })
    }
}

/// What the store can't do and pipelines rely on.
fn warnings() -> Vec<Problem> {
    if Imports.store_profile().indexes {
        return Vec::new();
    }
    let message = "the store lacks indexes: documents, events by type or stream, and nodes by member can't be read";
    vec![*Problem::new(codes::UNSUPPORTED, "indexes", message)]
}
