//! A plugin of any bytes: it is loaded or refused, in one short line, and without a panic of the engine.
//!
//! The walk sees every input. To compile takes a thousand times as long, so that only small ones are.

use keepline::{
    Sandbox,
    plugin::{PluginError, inspect},
};

pub fn holds(data: &[u8]) {
    let mut sandbox = Sandbox::default();
    sandbox.plugin.max_function_cost = 20_000;
    sandbox.plugin.max_cost = 500_000;
    let refusal = match inspect(data, &sandbox) {
        Ok(found) => {
            assert!(found.refusal.is_some() || found.measured.iter().all(|row| row.found <= row.limit), "{found:?}");
            found.refusal.unwrap_or_default()
        }
        Err(error @ PluginError::NotAComponent(_)) => error.to_string(),
        Err(error) => panic!("{error}"),
    };
    assert!(refusal.len() < 5000 && !refusal.contains(|c: char| c.is_control()), "{refusal:?}");
    assert!(!refusal.contains("defect"), "{refusal}");
}
