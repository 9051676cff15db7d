//! One program for all targets: KEEPLINE_FUZZ names the one that runs. The rest is libFuzzer's command line.

#![no_main]

use std::sync::OnceLock;

use keepline_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

fn target() -> Target {
    let name = std::env::var("KEEPLINE_FUZZ").unwrap_or_default();
    match TARGETS.iter().find(|(known, _)| *known == name) {
        Some((_, target)) => *target,
        None => panic!("KEEPLINE_FUZZ must be one of {:?}", TARGETS.map(|(name, _)| name)),
    }
}

fuzz_target!(|data: &[u8]| {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(target)(data);
});
