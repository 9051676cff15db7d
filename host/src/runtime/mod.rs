//! The runtime: instances of the component, their limits, and what they are lent.
//!
//! It knows wasmtime and the contract; of sessions and of Redis it knows nothing.

pub(crate) mod bounds;
mod brought;
mod budget;
mod due;
mod epoch;
mod exports;
mod footprint;
mod growth;
mod idle;
mod imports;
mod instance;
mod key_value;
mod lane;
mod meter;
mod pool;
mod program;
mod scope;
mod state;
mod subject;
mod told;

pub(crate) use self::{
    due::Due,
    epoch::start_ticking,
    exports::SessionReply,
    growth::Held,
    instance::{Fault, Instance},
    pool::{Limits, Pool, Refusal, Taken},
    program::Program,
    scope::{Found, OWNER, Owner, SESSION, SESSIONS, Scope, TaskScope},
    state::{InstanceState, Lent},
    subject::Subject,
};
