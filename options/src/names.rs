//! Enumerations whose values have registered names.

/// An enumeration whose values have names.
#[doc(hidden)]
#[macro_export]
macro_rules! registered_names {
    ($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$case_doc])* $case,)*
        }

        impl $name {
            /// All of them, in the order in which they are registered.
            pub const ALL: &[Self] = &[$(Self::$case),*];

            /// The same, each with its name.
            pub const NAMED: &[(&str, Self)] = &[$(($text, Self::$case)),*];

            /// As the contract spells it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$case => $text,)* }
            }

            /// None: the name is not known.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, one)| *one)
            }

            /// The names of all.
            pub fn names() -> Vec<&'static str> {
                Self::NAMED.iter().map(|(name, _)| *name).collect()
            }
        }
    };
}
