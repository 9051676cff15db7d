//! The runtime: instances of the component, their limits, and what they are lent.
//!
//! It knows wasmtime and the contract; of sessions and of Redis it knows nothing.

mod convert;
mod due;
mod epoch;
mod growth;
mod instance;
mod pool;
mod state;

pub use self::convert::Convert;
pub(crate) use self::{
    due::Due,
    epoch::start_ticking,
    instance::{Fault, Instance},
    pool::{Limits, Pool, Refusal, Taken},
    state::{InstanceState, Lent},
};
