//! The runtime: instances of the component, their limits, and what they are lent.
//!
//! It knows wasmtime and the contract; of sessions and of Redis it knows nothing.

pub(crate) mod bounds;
mod due;
mod epoch;
mod exports;
mod growth;
mod imports;
mod instance;
mod key_value;
mod pool;
mod program;
mod state;

pub(crate) use self::{
    due::Due,
    epoch::start_ticking,
    exports::SessionReply,
    instance::{Fault, Instance},
    pool::{Limits, Pool, Refusal, Taken},
    program::Program,
    state::{InstanceState, Lent},
};
