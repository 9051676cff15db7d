//! Runs a component: its instances, their limits, and the imports that they are given.
//!
//! It knows wasmtime and the contract; it knows nothing of the rules of sessions, or of Redis.

mod exports;
mod fault;
mod imports;
mod instance;
mod instance_state;
mod limits;
mod plugin_info;
mod pool;
mod program;
mod reply_bounds;
mod scope;

pub(crate) use self::{
    exports::{Exports, PluginWorld},
    fault::PluginFault,
    instance::{InstanceStore, PluginInstance},
    instance_state::HostServices,
    limits::{call_deadline::CallDeadline, epoch::start_ticking, memory::MemoryReservation},
    pool::{CallRefusal, InstancePool, PoolLimits, PooledInstance},
    program::PluginProgram,
    reply_bounds::{BoundedReply, is_valid_task, task_subject},
    scope::{CallScope, EntryOwner, ObservedBuckets, PipelineAccess, PipelineScope, TaskScope, TaskSubject},
};
