//! The reason why an instance was stopped, as one printable line.

use wasmtime::Trap;

use crate::logging::{MAX_MESSAGE, make_printable};

/// Why an instance did not answer: it trapped or went over a limit.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the plugin was stopped: {why}")]
pub(crate) struct PluginFault {
    pub(super) why: String,
    /// It gave up because it was refused memory that other instances of its pool hold.
    pub(crate) is_pool_exhausted: bool,
}

impl PluginFault {
    /// What it answered can't be accepted. The reason may hold words of the component's own: it becomes one printable
    /// line, wherever it is shown.
    pub(crate) fn from_reason(mut why: String) -> Self {
        make_printable(&mut why, MAX_MESSAGE);
        Self { why, is_pool_exhausted: false }
    }
}

impl From<wasmtime::Error> for PluginFault {
    /// One line: the trap if it is one, else the host's own words.
    fn from(error: wasmtime::Error) -> Self {
        let told = error.root_cause().to_string();
        Self::from_reason(match error.downcast_ref::<Trap>() {
            Some(Trap::UnreachableCodeReached) => "it gave up (unreachable code)".into(),
            Some(Trap::StackOverflow) => "it overflowed its stack".into(),
            Some(Trap::AllocationTooLarge) => "it asked for too much memory".into(),
            Some(trap) => trap.to_string(),
            None => told,
        })
    }
}
