//! Makes a struct of the rows of a table of options: fields, defaults, reader and writer.

use keepline_options::kinds::OptionValue;

use crate::contract::{Problem, lanes};
use crate::options::reader::Reader;

/// A struct whose fields are options.
pub(crate) trait OptionTable {
    /// Their names, each after ", ".
    const NAMES: &'static str;

    /// Sets the option that is read. Whether there is one of this name.
    fn set(&mut self, reader: &Reader<'_>) -> Result<bool, Box<Problem>>;

    /// Appends all, with their values. Whether one is the default is not told.
    fn list(&self, out: &mut Vec<lanes::OptionValue>);
}

/// For [`session_options!`](keepline_options::session_options) and
/// [`conversation_options!`](keepline_options::conversation_options). Handed over with it: the struct, and fields that are
/// no options.
macro_rules! option_struct {
    (
        [$(#[$about:meta])* $struct:ident { $( $(#[$beside:meta])* $field:ident: $type:ty, )* }]
        $( $(#[$doc:meta])+ $name:ident: $kind:ty = $default:expr; )+
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $struct {
            $( $(#[$doc])+ pub $name: <$kind as Kind>::Value, )+
            $( $(#[$beside])* pub $field: $type, )*
        }

        impl Default for $struct {
            fn default() -> Self {
                Self {
                    $( $name: <<$kind as Kind>::Value as OptionValue>::of($default), )+
                    $( $field: Default::default(), )*
                }
            }
        }

        impl OptionTable for $struct {
            const NAMES: &'static str = concat!($( ", ", stringify!($name) ),+);

            fn set(&mut self, reader: &Reader<'_>) -> Result<bool, Box<Problem>> {
                match reader.field {
                    $( stringify!($name) => <$kind as Read>::read(&mut self.$name, reader, $default)?, )+
                    _ => return Ok(false),
                }
                Ok(true)
            }

            fn list(&self, out: &mut Vec<lanes::OptionValue>) {
                $( list_option(out, stringify!($name), &self.$name); )+
            }
        }
    };
}

pub(crate) use option_struct;

/// Appends an option. (Inlined, these would be a hundredth of the component.)
#[inline(never)]
pub(crate) fn list_option(out: &mut Vec<lanes::OptionValue>, name: &str, value: &impl OptionValue) {
    let mut json = String::new();
    value.write(&mut json);
    out.push(lanes::OptionValue { name: name.to_owned(), value: json, is_default: false });
}
