//! The component's exports: one line per function, as in `wit/`, and the typed calls of them.

use wasmtime::{
    Store,
    component::{Component, ComponentExportIndex, Func, Instance, TypedFunc},
};

use super::instance_state::InstanceState;
use crate::contract::{
    filter::{AnswerEntry, AnswerReply, ConfigProblem, ConfigureReply, Question, QuestionReply},
    logging::LogLevel,
    maintenance::{Job, PluginProgress},
    sessions::{
        HistoryPage, KeyCounted, KeyList, KeysCleared, SessionCreated, SessionDeleted, SessionPage, SessionReply,
        SessionState, ValueFound, ValueStored,
    },
    transcripts::{
        FoundLines, LineQuery, MessageContent, MessagePage, MessageQuery, SettingsSet, TitleSet, Transcript,
        TranscriptChanged, TranscriptRegistered, TranscriptSettings, TranscriptState, UserForgotten, UserSessions,
        UserValueStored, UserValues,
    },
};

macro_rules! exports {
    ($($interface:literal { $($name:literal $function:ident($($argument:ident: $type:ty),*) -> $reply:ty;)* })*) => {
        /// Where a component has its exports.
        #[derive(Clone)]
        pub(crate) struct Indices {
            $($($function: ComponentExportIndex,)*)*
        }

        impl Indices {
            /// # Errors
            /// When one is missing.
            pub(super) fn of(component: &Component) -> wasmtime::Result<Self> {
                let missing = |name| wasmtime::Error::msg(format!("it does not export {name}"));
                $(
                    let interface =
                        component.get_export_index(None, $interface).ok_or_else(|| missing($interface))?;
                    $(
                        let $function = component
                            .get_export_index(Some(&interface), $name)
                            .ok_or_else(|| missing(concat!($interface, "#", $name)))?;
                    )*
                )*
                Ok(Self { $($($function,)*)* })
            }
        }

        /// The functions of an instance. Each has the type with which it is called: that was checked here.
        pub(super) struct Exports {
            $($($function: Func,)*)*
        }

        impl Exports {
            /// # Errors
            /// When one has another type.
            pub(super) fn of(
                instance: &Instance,
                store: &mut Store<InstanceState>,
                indices: &Indices,
            ) -> wasmtime::Result<Self> {
                Ok(Self { $($(
                    $function: *instance
                        .get_typed_func::<($($type,)*), ($reply,)>(&mut *store, &indices.$function)?
                        .func(),
                )*)* })
            }

            $($(
                pub(super) async fn $function(
                    &self,
                    store: &mut Store<InstanceState>,
                    $($argument: $type),*
                ) -> wasmtime::Result<$reply> {
                    // SAFETY: checked in `of`, with these very types. A `TypedFunc` can't be kept itself, for its type
                    // holds the lifetime of one call's arguments.
                    #[allow(unsafe_code, reason = "the type was checked when the instance was made")]
                    let function = unsafe { TypedFunc::<($($type,)*), ($reply,)>::new_unchecked(self.$function) };
                    let (reply,) = function.call_async(store, ($($argument,)*)).await?;
                    Ok(reply)
                }
            )*)*
        }
    };
}

exports! {
    "keepline:memory/filter@0.2.0" {
        "configure" configure(options: &str, log_from: LogLevel) -> Result<ConfigureReply, ConfigProblem>;
        "question" question(entry: Question<'_>) -> QuestionReply;
        "answer" answer(entry: AnswerEntry<'_>) -> AnswerReply;
    }
    "keepline:memory/maintenance@0.2.0" {
        "advance" advance(job: &Job) -> PluginProgress;
    }
    "keepline:memory/sessions@0.2.0" {
        "create" create(session: &str) -> SessionReply<SessionCreated>;
        "resume" resume(session: &str) -> SessionReply<SessionState>;
        "list-sessions" list_sessions(cursor: &str, limit: u32) -> SessionReply<SessionPage>;
        "delete" delete(session: &str) -> SessionReply<SessionDeleted>;
        "put" put(session: &str, key: &str, value: &str) -> SessionReply<ValueStored>;
        "get" get(session: &str, key: &str) -> SessionReply<ValueFound>;
        "keys" keys(session: &str) -> SessionReply<KeyList>;
        "clear" clear(session: &str, key: Option<&str>) -> SessionReply<KeysCleared>;
        "increment" increment(session: &str, key: &str, amount: i64) -> SessionReply<KeyCounted>;
        "history" history(session: &str, before: Option<u64>, limit: u32) -> SessionReply<HistoryPage>;
    }
    "keepline:memory/transcripts@0.2.0" {
        "describe" describe(transcript: Transcript<'_>) -> SessionReply<TranscriptState>;
        "messages" messages(transcript: Transcript<'_>, query: MessageQuery<'_>) -> SessionReply<MessagePage>;
        "content" content(transcript: Transcript<'_>, position: u64, offset: u64, limit: u32)
            -> SessionReply<MessageContent>;
        "find-lines" find_lines(transcript: Transcript<'_>, position: u64, query: LineQuery<'_>)
            -> SessionReply<FoundLines>;
        "rewrite" rewrite(transcript: Transcript<'_>, position: u64, content: Option<&str>)
            -> SessionReply<TranscriptChanged>;
        "clear" clear_messages(transcript: Transcript<'_>, branch: Option<u64>) -> SessionReply<TranscriptChanged>;
        "set-messages" set_messages(transcript: Transcript<'_>, messages: &[String], next: Option<u64>)
            -> SessionReply<TranscriptChanged>;
        "register" register(transcript: Transcript<'_>, user: Option<&str>) -> SessionReply<TranscriptRegistered>;
        "set-title" set_title(transcript: Transcript<'_>, title: Option<&str>) -> SessionReply<TitleSet>;
        "set-settings" set_settings(transcript: Transcript<'_>, settings: &TranscriptSettings)
            -> SessionReply<SettingsSet>;
    }
    "keepline:memory/users@0.2.0" {
        "values" user_values(user: &str, key: Option<&str>) -> SessionReply<UserValues>;
        "put" put_user_value(user: &str, key: &str, value: Option<&str>) -> SessionReply<UserValueStored>;
        "list-sessions" user_sessions(user: &str, before: Option<u64>, limit: u32) -> SessionReply<UserSessions>;
        "forget" forget_user(user: &str) -> SessionReply<UserForgotten>;
    }
}
