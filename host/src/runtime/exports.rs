//! The component's exports. A filter must have `lanes`, and pipelines `runs` with their `configuration`; one that is older, or
//! leaner, may lack the other interfaces.

use wasmtime::{
    Store,
    component::{Instance, InstancePre},
};

use super::instance_state::InstanceState;
use crate::contract::{
    lanes,
    pipelines::{configuration, datasets, definitions, runs},
    sessions,
    shared::Problem,
    tasks, transcripts, users,
};

/// What a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PluginWorld {
    /// It exports `lanes`.
    Filter,
    /// It exports `runs`.
    Pipelines,
}

macro_rules! exports {
    ($($interface:ident),*) => {
        /// Where a component has its exports.
        #[derive(Clone)]
        pub(crate) struct Indices {
            $($interface: Option<$interface::GuestIndices>,)*
        }

        impl Indices {
            fn find(component: &InstancePre<InstanceState>) -> Self {
                Self { $($interface: $interface::GuestIndices::new(component).ok(),)* }
            }
        }

        /// The functions of an instance.
        pub(crate) struct Exports {
            $($interface: Option<$interface::Guest>,)*
        }

        impl Exports {
            /// # Errors
            /// When one has another type.
            pub(super) fn of(
                instance: &Instance,
                store: &mut Store<InstanceState>,
                indices: &Indices,
            ) -> wasmtime::Result<Self> {
                Ok(Self {
                    $($interface: match &indices.$interface {
                        Some(indices) => Some(indices.load(&mut *store, instance)?),
                        None => None,
                    },)*
                })
            }

            $(
                /// # Errors
                /// When the component lacks the interface.
                pub(crate) fn $interface(&self) -> Result<&$interface::Guest, Problem> {
                    self.$interface.as_ref().ok_or_else(|| missing_interface(stringify!($interface)))
                }
            )*
        }
    };
}

exports!(lanes, tasks, sessions, transcripts, users, configuration, definitions, runs, datasets);

impl Indices {
    /// # Errors
    /// When the component is neither a filter nor pipelines.
    pub(super) fn of(component: &InstancePre<InstanceState>) -> wasmtime::Result<(Self, PluginWorld)> {
        let indices = Self::find(component);
        if indices.lanes.is_some() {
            return Ok((indices, PluginWorld::Filter));
        }
        if indices.runs.is_some() && indices.configuration.is_some() {
            return Ok((indices, PluginWorld::Pipelines));
        }
        let lanes = lanes::GuestIndices::new(component).err().map(|error| error.to_string()).unwrap_or_default();
        let message = format!("it does not export keepline:memory/lanes@0.3.0: {lanes}");
        Err(wasmtime::Error::msg(message))
    }
}

impl Exports {
    /// # Errors
    /// When the component is no filter.
    pub(crate) fn filter_lanes(&self) -> wasmtime::Result<&lanes::Guest> {
        self.lanes().map_err(|missing| wasmtime::Error::msg(missing.message))
    }
}

fn missing_interface(name: &str) -> Problem {
    let message = format!("The plugin does not export the interface {name}");
    Problem { code: "unsupported".to_owned(), subject: name.to_owned(), limit: 0, message }
}
