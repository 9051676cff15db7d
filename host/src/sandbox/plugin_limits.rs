//! Limits how large a component may be and what loading it may take, before any of it is compiled or run.
//!
//! Parsing, validation, type checks and code generation cost about what these measures say: a component that stays
//! below them is loaded in bounded time and memory.

use std::time::Duration;

macro_rules! measures {
    ($( $( #[doc = $about:literal] )+ $measure:ident $field:ident $name:literal = $default:expr; )+) => {
        /// What a component may be, at most, and what compiling it may take. The defaults suit the bundled filter, and
        /// plugins that are some fifty times as large.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub struct PluginLimits {
            $( $( #[doc = $about] )+ pub $field: u64, )+
            /// Processor time of the compiler, where it runs in a process of its own ([`Compiler`](super::Compiler)).
            /// Whole seconds; it is ended as well when six times as much has passed on the clock. Default 10 s.
            pub compile_time: Duration,
            /// Memory that the compiler may allocate, where it runs in a process of its own, bytes. Default 448 MiB.
            pub compile_memory_bytes: u64,
        }

        /// One thing that is measured in a component.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Measure {
            $( $( #[doc = $about] )+ $measure, )+
        }

        impl Measure {
            /// All of them, in the order in which they are shown.
            pub const ALL: &[Self] = &[$( Self::$measure, )+];

            /// What is counted, in the plural.
            pub fn name(self) -> &'static str {
                match self {
                    $( Self::$measure => $name, )+
                }
            }

            /// The field of the configuration that holds the limit.
            pub fn option(self) -> &'static str {
                match self {
                    $( Self::$measure => concat!("plugin_", stringify!($field)), )+
                }
            }
        }

        impl PluginLimits {
            /// The defaults.
            pub const DEFAULT: Self = Self {
                $( $field: $default, )+
                compile_time: Duration::from_secs(10),
                compile_memory_bytes: 448 << 20,
            };

            /// The limit of one measure.
            pub fn of(&self, measure: Measure) -> u64 {
                match measure {
                    $( Measure::$measure => self.$field, )+
                }
            }
        }
    };
}

measures! {
    /// Size of the component, bytes. Default 16 MiB.
    Bytes max_bytes "bytes" = 16 << 20;
    /// Types, imports, exports, aliases, globals, segments and the like: those of a nested component as often as it is
    /// instantiated, and large ones, such as a table with its first elements, for several, one for each 8 bytes. A core
    /// module counts for 750, a component and an instance of either for 100. Default 50,000.
    Definitions max_definitions "definitions" = 50_000;
    /// How deep types are nested in one another. Default 50.
    TypeNesting max_type_nesting "levels of nested types" = 50;
    /// Parts of its largest type, when whatever that refers to is written out. Default 10,000.
    TypeSize max_type_size "parts in one type" = 10_000;
    /// What the function that is most laborious to compile takes, estimated: one step for each operator and local, and for
    /// each branch, label and call one for each value that may be live there, times the depth of blocks for locals. Default
    /// 10,000,000.
    FunctionCost max_function_cost "compile steps for one function" = 10_000_000;
    /// The same for all functions together, with 5,000 steps for each function and for what else is compiled like one: each
    /// type of a function, each export and each reference in a table of core modules. Default 40,000,000.
    Cost max_cost "compile steps" = 40_000_000;
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One measure of a component, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// What is measured.
    pub measure: Measure,
    /// What was found: of a component that was refused, up to there.
    pub found: u64,
    /// What is allowed.
    pub limit: u64,
}

impl Measured {
    /// Whether it has reached four fifths of what is allowed.
    pub fn is_near_limit(&self) -> bool {
        u128::from(self.found) * 5 >= u128::from(self.limit) * 4
    }
}
