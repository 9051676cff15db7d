//! Typed options of the bundled filter. The filter itself checks them and has the defaults.

use keepline_options::{
    bucket_names::SessionIds,
    conversation_options,
    kinds::OptionValue as _,
    session_options,
    words::{MemoryMode, Recall, RecallLife, RecallSource, TtlMode, UnboundContext, WindowForm},
};

/// The Rust type of a kind, as an embedder's editor shows it.
macro_rules! type_of {
    (Boolean) => { bool };
    (Hours) => { f64 };
    (Integer<$min:tt, $max:tt>) => { u64 };
    (IntegerOrZero<$min:tt, $max:tt>) => { u64 };
    (DerivedInteger<$min:tt, $max:tt>) => { u64 };
    (Text<$max:tt>) => { String };
    (Template<$max:tt>) => { String };
    (Texts<$max:tt>) => { Vec<String> };
    (Patterns<$max:tt>) => { Vec<String> };
    (OneOf<$word:tt>) => { $word };
    (SomeOf<$word:tt>) => { Vec<$word> };
}

macro_rules! option_struct {
    (
        [$(#[$about:meta])* $struct:ident { $( $(#[$beside:meta])* $field:ident: $type:ty, )* }]
        $( $(#[$doc:meta])+ $name:ident: $kind:ident $(<$($bound:tt),+>)? = $default:expr; )+
    ) => {
        $(#[$about])*
        ///
        /// `None` means the filter's default, which stands after each option, with what it may hold: `Integer<MIN, MAX>` is
        /// a whole number in this range, both ends included; `Text<MAX>` has so many bytes at most, and a list so many
        /// texts; `Hours` are 0 to 876,000.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[allow(clippy::exhaustive_structs, reason = "made field by field, with the default for the rest")]
        pub struct $struct {
            $(
                $(#[$doc])+
                ///
                #[doc = concat!(
                    "`", stringify!($kind $(<$($bound),+>)?), "`, default `", stringify!($default), "`"
                )]
                pub $name: Option<type_of!($kind $(<$($bound),+>)?)>,
            )+
            $( $(#[$beside])* pub $field: $type, )*
        }

        impl WriteMembers for $struct {
            fn write_members(&self, out: &mut String) {
                $(
                    if let Some(value) = &self.$name {
                        out.push_str(concat!(", \"", stringify!($name), "\": "));
                        value.write(out);
                    }
                )+
            }
        }
    };
}

trait WriteMembers {
    /// Appends the options that are given as members of a JSON object, each after ", ".
    fn write_members(&self, out: &mut String);
}

session_options!(option_struct!(
    /// Options of the bundled filter, for [`Options::filter`](crate::Options::filter):
    /// `options.filter = FilterOptions { max_keys: Some(50), ..FilterOptions::default() }.into()`. Another plugin may have
    /// others: its options are written as JSON.
    FilterOptions {
        /// Whether conversations are kept, and how. Default none: they are not.
        conversation: Option<ConversationOptions>,
    }
));

conversation_options!(option_struct!(
    /// How conversations are kept, for [`FilterOptions::conversation`](crate::FilterOptions::conversation).
    ConversationOptions {}
));

/// As `configure` takes it.
impl From<FilterOptions> for String {
    fn from(options: FilterOptions) -> Self {
        let mut members = Self::new();
        options.write_members(&mut members);
        if let Some(conversation) = &options.conversation {
            members.push_str(", \"conversation\": true");
            conversation.write_members(&mut members);
        }
        ["{", members.trim_start_matches(", "), "}"].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use serde_json::{Value, json};

    use super::*;
    use crate::{Keepline, Options, plugin, store::MemoryStore};

    macro_rules! names {
        ([] $( $(#[doc = $doc:literal])+ $name:ident: $kind:ty = $default:expr; )+) => {
            [$( stringify!($name) ),+]
        };
    }

    fn written(options: FilterOptions) -> Value {
        serde_json::from_str(&String::from(options)).unwrap()
    }

    #[test]
    fn unset_options_are_left_to_the_filter() {
        assert_eq!(String::from(FilterOptions::default()), "{}");
        let options = FilterOptions {
            session_ttl_hours: Some(0.5),
            session_ttl_mode: Some(TtlMode::Sliding),
            max_keys: Some(50),
            ..FilterOptions::default()
        };
        let expected = json!({"session_ttl_hours": 0.5, "session_ttl_mode": "sliding", "max_keys": 50});
        assert_eq!(written(options), expected);
    }

    #[test]
    fn given_options_are_written_with_conversation_enabled() {
        let conversation = ConversationOptions {
            max_context_tokens: Some(4000),
            window_form: Some(WindowForm::Text),
            memory_mode: Some(MemoryMode::Node),
            skip_markers: Some(vec!["x".into()]),
            recall: Some(Recall::User),
            recall_exclude: Some(vec![RecallSource::Import]),
            recall_life: Some(RecallLife::Session),
            ..ConversationOptions::default()
        };
        let options = FilterOptions { conversation: Some(conversation), ..FilterOptions::default() };
        let expected = json!({"conversation": true, "max_context_tokens": 4000, "window_form": "text",
            "memory_mode": "node", "skip_markers": ["x"], "recall": "user", "recall_exclude": ["import"],
            "recall_life": "session"});
        assert_eq!(written(options), expected);
    }

    #[tokio::test]
    async fn the_bundled_filter_has_these_options_and_no_others() {
        let plugin = plugin::for_tests();
        let filter = FilterOptions {
            // It is shown only then.
            memory_enabled: Some(false),
            conversation: Some(ConversationOptions::default()),
            ..FilterOptions::default()
        };
        let options = Options { filter: filter.into(), ..Options::default() };
        let keepline = Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await.unwrap();
        let effective: serde_json::Map<String, Value> = serde_json::from_str(&keepline.filter_options()).unwrap();
        let names: BTreeSet<&str> = effective.keys().map(String::as_str).collect();
        let all = [session_options!(names!()).as_slice(), &["conversation"], &conversation_options!(names!())].concat();
        assert_eq!(names, all.into_iter().collect());
    }
}
