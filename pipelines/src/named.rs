//! Enumerations whose values have registered names.

/// An enumeration whose values have names.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$of])* $variant,)*
        }

        impl $name {
            /// In the order in which they are declared.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its registered name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// The one of that name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }

            /// The names of all.
            pub fn names() -> Vec<&'static str> {
                Self::ALL.iter().map(|one| one.name()).collect()
            }
        }
    };
}

pub(crate) use named;
