//! The table of options.
//!
//! A row is `name: Kind = default;` below its documentation. The rows stand in the order in which options are listed.
//! A macro that is handed to [`session_options!`] or [`conversation_options!`] gets what was handed over with it in brackets,
//! and then the rows; it finds the names in them ([`kinds`](crate::kinds), [`words`](crate::words)) where it is called.

/// Hands the options of sessions and their values to a macro.
#[macro_export]
macro_rules! session_options {
    ($to:ident!($($with:tt)*)) => {
        $to! {
            [$($with)*]
            /// Hours that a session lives. 0: it does not expire.
            session_ttl_hours: Hours = 0.0;
            /// When they start to run: when the session is created, or with each use.
            session_ttl_mode: OneOf<TtlMode> = TtlMode::Fixed;
            /// History records that a session may have before the older ones become a summary.
            max_history: Integer<0, 1_000_000> = 100;
            /// Whether they do.
            auto_summarize: Boolean = true;
            /// Whether entries get and leave memory. Without it nothing is stored, and what a client forged is taken away.
            memory_enabled: Boolean = true;
            /// What becomes of a `memory_context` in a question without a session.
            unbound_context: OneOf<UnboundContext> = UnboundContext::Keep;
            /// Which ids sessions may have.
            session_ids: OneOf<SessionIds> = SessionIds::Strict;
            /// Bytes of a value as JSON.
            max_value_bytes: Integer<1, 8_388_608> = 1_048_576;
            /// Bytes that are attached to a question, keys and values together. If it is not given, there is room for the
            /// longest answer.
            max_context_bytes: DerivedInteger<1, 8_389_632> = 2_097_152;
            /// Keys that a session may have, the filter's own two included.
            max_keys: Integer<2, 10_000> = 1000;
        }
    };
}

/// Hands the options of conversations to a macro. They have no effect unless the option `conversation` is on.
#[macro_export]
macro_rules! conversation_options {
    ($to:ident!($($with:tt)*)) => {
        $to! {
            [$($with)*]
            /// Tokens that a question gets, its summary included. 0: derived from `context_window`.
            max_context_tokens: IntegerOrZero<64, 2_000_000> = 0;
            /// The model's context window in tokens. Four fifths of what it leaves beside `reserve_tokens` are the budget.
            /// 0: unknown, and the budget is 50,000.
            context_window: IntegerOrZero<256, 8_000_000> = 0;
            /// Tokens of the context window that the question and its answer need. 0: 35 % of it, at most 64,000.
            reserve_tokens: IntegerOrZero<1, 8_000_000> = 0;
            /// Bytes of JSON that a question gets: window, summary and trace. A longer window loses its oldest turns, or all.
            max_window_bytes: Integer<1024, 8_388_608> = 8_388_608;
            /// Messages of users and assistants that a question gets.
            message_limit: Integer<1, 500> = 500;
            /// Percent of the budget that stay when a full window is cut back.
            window_keep: Integer<10, 90> = 50;
            /// Whether the thread's first turn stays in the window.
            pin_first_turn: Boolean = false;
            /// Tokens of the newest results of tools that stay whole when a window is cut back; older results become
            /// placeholders.
            tool_result_tokens: Integer<0, 2_000_000> = 40_000;
            /// How the window is attached: as chat messages, or as one text.
            window_form: OneOf<WindowForm> = WindowForm::Messages;
            /// The user's name in a window that is one text.
            human_prefix: Text<64> = "Human";
            /// The assistant's name in a window that is one text.
            assistant_prefix: Text<64> = "Assistant";
            /// What becomes of a window that is one text: `{{history}}` stands for it and `{{query}}` for the question, each
            /// once at most. Empty: the history alone.
            query_prompt_template: Template<16_384> = "";
            /// Whether questions get a `memory_trace`.
            memory_trace: Boolean = false;
            /// Characters below which an answer is skipped: it is not stored.
            min_message_length: Integer<0, 8_388_608> = 1;
            /// Characters to which a text is cut, with a note of it at its end. 0: only texts of more than 1 MiB in JSON are
            /// cut, as they are in any case.
            max_message_length: Integer<0, 8_388_608> = 400_000;
            /// Whether `<think>…</think>` is left out of what is stored.
            strip_thinking: Boolean = false;
            /// Answers that stand in for one that failed: they are skipped.
            skip_markers: Texts<64> = &["[generation was interrupted]"];
            /// Patterns that are replaced in what is stored: text and classes `{d}` digit, `{h}` hexadecimal, `{w}` letter,
            /// digit or `_`, `{t}` also `-.~+/=`, `{n}` no blank; `{d4}`, `{d4+}`, `{d+}`; `\{` for a brace.
            redact: Patterns<64> = &[];
            /// Whose transcript the turns of an entry belong to that does not say so itself: the session's, or a node's.
            memory_mode: OneOf<MemoryMode> = MemoryMode::Conversation;
            /// Whether an entry in node mode that names no node fails, instead of passing without memory.
            require_node: Boolean = false;
            /// Hours that an unused node's transcript lives. 0: it does not expire.
            node_ttl_hours: Hours = 720.0;
            /// Records beyond which a conversation's oldest turns become due to be removed. 0: any number.
            max_session_messages: IntegerOrZero<10, 1_099_511_627_776> = 0;
            /// Bytes of records beyond which a conversation's oldest turns become due to be removed. 0: any number.
            max_session_bytes: IntegerOrZero<1024, 1_099_511_627_776> = 0;
            /// Whether a summary becomes due of what no longer fits into the budget.
            summaries: Boolean = true;
            /// Tokens of a summary; never more than a quarter of the budget.
            summary_max_tokens: Integer<32, 32_768> = 1024;
            /// What a model is asked for a summary. Empty: the filter's own prompt.
            summary_prompt: Text<16_384> = "";
            /// Whether a title becomes due after the first turn.
            auto_generate_titles: Boolean = true;
            /// Characters of a title.
            title_max_length: Integer<10, 200> = 50;
            /// Whether the first message is the title until there is a better one.
            title_from_first_message: Boolean = true;
            /// Whether a title becomes due with each summary.
            update_existing_titles: Boolean = false;
            /// What a model is asked for a title. Empty: the filter's own prompt.
            title_prompt: Text<16_384> = "";
            /// Where passages are looked for that bear on a question and that its window does not show. Needs a store with
            /// indexes.
            recall: OneOf<Recall> = Recall::Off;
            /// Tokens of what is recalled, beside the window.
            recall_tokens: Integer<64, 32_768> = 2000;
            /// Whether speakers, dates and times that a question names count for more than words.
            recall_hints: Boolean = true;
            /// Whether embeddings help to find what is recalled: questions should come with one, and passages get theirs by
            /// the task `vectors`.
            recall_vectors: Boolean = false;
            /// Sources of passages that are not recalled.
            recall_exclude: SomeOf<RecallSource> = &[];
            /// Hours after which what was said is not recalled any more. 0: never.
            recall_ttl_hours: Hours = 0.0;
            /// How long what was said in a session is recalled in others of its user.
            recall_life: OneOf<RecallLife> = RecallLife::User;
        }
    };
}

macro_rules! alias_kinds {
    ([] $( $(#[doc = $about:literal])+ $name:ident: $kind:ty = $default:expr; )+) => {
        $( $(#[doc = $about])+ pub type $name = $kind; )+
    };
}

/// The kind of each option under its name: `kind_of::max_keys::MAX`.
#[allow(non_camel_case_types, reason = "named as the options")]
pub mod kind_of {
    use crate::{bucket_names::SessionIds, kinds::*, words::*};

    session_options!(alias_kinds!());
    conversation_options!(alias_kinds!());
}
