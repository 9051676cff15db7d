//! Events: what services have done, for those who follow it.

mod definitions;
mod sessions;
mod visible;

pub use self::{
    definitions::{AssemblyCompleted, Event, Executed, MemoryCompleted, RulesEvaluated, TYPES},
    sessions::{SessionChange, announce_of_owner, announce_session, needs_owner},
    visible::{EventFrame, is_visible},
};
