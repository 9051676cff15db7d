//! Limits what an instance uses: time, memory and calls.

pub(super) mod budget;
pub(super) mod call_deadline;
pub(super) mod cpu_meter;
pub(super) mod cpu_scheduler;
pub(super) mod epoch;
pub(super) mod footprint;
pub(super) mod memory;
