//! The component's exports. It must have `lanes`; one that is older, or leaner, may lack the other interfaces.

use wasmtime::{
    Store,
    component::{Instance, InstancePre},
};

use super::instance_state::InstanceState;
use crate::contract::{lanes, sessions, shared::Problem, tasks, transcripts, users};

macro_rules! exports {
    ($($interface:ident),*) => {
        /// Where a component has its exports.
        #[derive(Clone)]
        pub(crate) struct Indices {
            lanes: lanes::GuestIndices,
            $($interface: Option<$interface::GuestIndices>,)*
        }

        impl Indices {
            /// # Errors
            /// When `lanes` is missing.
            pub(super) fn of(component: &InstancePre<InstanceState>) -> wasmtime::Result<Self> {
                let missing = |error| {
                    wasmtime::Error::msg(format!("it does not export keepline:memory/lanes@0.3.0: {error}"))
                };
                Ok(Self {
                    lanes: lanes::GuestIndices::new(component).map_err(missing)?,
                    $($interface: $interface::GuestIndices::new(component).ok(),)*
                })
            }
        }

        /// The functions of an instance.
        pub(crate) struct Exports {
            lanes: lanes::Guest,
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
                    lanes: indices.lanes.load(&mut *store, instance)?,
                    $($interface: match &indices.$interface {
                        Some(indices) => Some(indices.load(&mut *store, instance)?),
                        None => None,
                    },)*
                })
            }

            pub(crate) fn lanes(&self) -> &lanes::Guest {
                &self.lanes
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

exports!(tasks, sessions, transcripts, users);

fn missing_interface(name: &str) -> Problem {
    let message = format!("The plugin does not export the interface {name}");
    Problem { code: "unsupported".to_owned(), subject: name.to_owned(), limit: 0, message }
}
