//! Typed options of the bundled filter for conversations. The filter itself checks them and has the defaults.

use serde_json::{Map, Value};

macro_rules! words {
    ($( $(#[doc = $about:literal])+ $name:ident { $( $(#[doc = $doc:literal])+ $variant:ident = $word:literal, )+ } )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $name {
                $( $(#[doc = $doc])+ $variant, )+
            }

            impl From<$name> for Value {
                fn from(word: $name) -> Self {
                    match word {
                        $( $name::$variant => $word.into(), )+
                    }
                }
            }
        )+
    };
}

words! {
    /// How what is remembered is attached to a question.
    WindowForm {
        /// As an array of chat messages.
        Messages = "messages",
        /// As one text, with who speaks before each message.
        Text = "text",
    }
    /// Whose transcript an entry's turns belong to.
    MemoryMode {
        /// The session's.
        Conversation = "conversation",
        /// That of the node that the entry names.
        Node = "node",
    }
    /// Where a question's words are looked for, beside its window.
    Recall {
        /// Nowhere.
        Off = "off",
        /// In what was said in the session.
        Session = "session",
        /// In what was said in all sessions of the user whom the question names.
        User = "user",
    }
    /// How long what was said in a session is recalled in others of its user.
    RecallLife {
        /// As long as the user is not forgotten, whatever becomes of sessions that are not deleted.
        User = "user",
        /// Until the session's time has run out, as of its last answer.
        Session = "session",
    }
    /// Where passages come from that may be excluded.
    RecallSource {
        /// From tools: their results.
        Tool = "tool",
        /// From other programs: messages that were imported.
        Import = "import",
    }
}

macro_rules! conversation_options {
    ($( $(#[doc = $about:literal])+ $name:ident: $type:ty; )+) => {
        /// How conversations are kept, for [`FilterOptions::conversation`](crate::FilterOptions::conversation). `None`
        /// means the filter's default.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[allow(clippy::exhaustive_structs, reason = "made field by field, with the default for the rest")]
        pub struct ConversationOptions {
            $( $(#[doc = $about])+ pub $name: Option<$type>, )+
        }

        impl ConversationOptions {
            /// As `configure` takes them, with the switch itself.
            pub(crate) fn add_to(self, options: &mut Map<String, Value>) {
                options.insert("conversation".into(), true.into());
                $( if let Some(value) = self.$name { options.insert(stringify!($name).into(), value.into()); } )+
            }

            /// Their names.
            #[cfg(test)]
            pub(crate) const NAMES: &[&str] = &[$( stringify!($name), )+];
        }
    };
}

conversation_options! {
    /// Tokens that a question gets at most, its summary included: 0, or 64 to 2,000,000. Default 0: derived from
    /// `context_window`.
    max_context_tokens: u64;
    /// The model's context window in tokens: 0, or 256 to 8,000,000. Four fifths of what it leaves beside
    /// `reserve_tokens` are the budget. Default 0: unknown, and the budget is 50,000.
    context_window: u64;
    /// Tokens that the question and its answer need, 0 to 8,000,000. Default 0: 35 % of `context_window`, at most 64,000.
    reserve_tokens: u64;
    /// Bytes of JSON that a question gets at most, 1,024 to 8 MiB. Default 8 MiB.
    max_window_bytes: u64;
    /// Messages of users and assistants that a question gets at most, 1 to 500. Default 500.
    message_limit: u64;
    /// Percent of the budget that stay when a full window is cut back, 10 to 90. Default 50.
    window_keep: u64;
    /// Whether the thread's first turn stays in the window. Default false.
    pin_first_turn: bool;
    /// Tokens of the newest results of tools that stay whole when a window is cut back, 0 to 2,000,000. Default 40,000.
    tool_result_tokens: u64;
    /// Default messages.
    window_form: WindowForm;
    /// Who speaks, in a text: at most 64 bytes. Default `Human`.
    human_prefix: String;
    /// Who speaks, in a text: at most 64 bytes. Default `Assistant`.
    assistant_prefix: String;
    /// What a text becomes: `{{history}}` and `{{query}}` stand for it and for the question, each once at most. Default
    /// empty: the history alone.
    query_prompt_template: String;
    /// Whether questions get a `memory_trace`. Default false.
    memory_trace: bool;
    /// Characters below which an answer is not stored, 0 to 8,388,608. Default 1.
    min_message_length: u64;
    /// Characters to which a message is cut, 0 to 8,388,608. Default 400,000; 0: only one of more than 1 MiB in JSON is.
    max_message_length: u64;
    /// Whether `<think>…</think>` is left out of what is stored. Default false.
    strip_thinking: bool;
    /// Answers that stand in for one that failed, and are not stored. Default `[generation was interrupted]`.
    skip_markers: Vec<String>;
    /// Patterns that are replaced in what is stored. Default none.
    redact: Vec<String>;
    /// Default conversation.
    memory_mode: MemoryMode;
    /// Whether an entry in node mode that names no node fails, instead of passing without memory. Default false.
    require_node: bool;
    /// Hours that an unused node's transcript lives, 0 (for ever) to 876,000. Default 720.
    node_ttl_hours: f64;
    /// Records beyond which the oldest turns become due to be removed: 0, or from 10. Default 0: any number.
    max_session_messages: u64;
    /// Bytes beyond which they do: 0, or from 1,024. Default 0: any number.
    max_session_bytes: u64;
    /// Whether a summary becomes due of what no longer fits. Default true.
    summaries: bool;
    /// Tokens of a summary, 32 to 32,768. Default 1,024.
    summary_max_tokens: u64;
    /// What a model is asked for: at most 16 KiB. Default empty: the filter's own.
    summary_prompt: String;
    /// Whether a title becomes due after the first turn. Default true.
    auto_generate_titles: bool;
    /// Characters of a title, 10 to 200. Default 50.
    title_max_length: u64;
    /// Whether the first message is the title until there is a better one. Default true.
    title_from_first_message: bool;
    /// Whether a title becomes due with each summary. Default false.
    update_existing_titles: bool;
    /// What a model is asked for: at most 16 KiB. Default empty: the filter's own.
    title_prompt: String;
    /// Whether questions get what the window shows no more, where they bear on it. Needs a store with indexes. Default
    /// off.
    recall: Recall;
    /// Tokens of what is recalled, beside the window, 64 to 32,768. Default 2,000.
    recall_tokens: u64;
    /// Whether speakers, dates and times that a question names count for more than words. Default true.
    recall_hints: bool;
    /// Whether embeddings help to find what is recalled: questions should come with one, as
    /// [`Options::embedder`](crate::Options::embedder) makes them, and passages get theirs by the task `vectors`. Default
    /// false.
    recall_vectors: bool;
    /// What is not recalled. Default none.
    recall_exclude: Vec<RecallSource>;
    /// Hours after which what was said is not recalled any more, 0 (never) to 876,000. Default 0.
    recall_ttl_hours: f64;
    /// How long what was said in a session is recalled in others. Default: as long as the user is not forgotten.
    recall_life: RecallLife;
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use super::*;
    use crate::{FilterOptions, Keepline, Options, plugin, store::MemoryStore};

    #[test]
    fn given_options_are_written_with_the_switch_that_turns_conversations_on() {
        let options = ConversationOptions {
            max_context_tokens: Some(4000),
            window_form: Some(WindowForm::Text),
            memory_mode: Some(MemoryMode::Node),
            skip_markers: Some(vec!["x".into()]),
            recall: Some(Recall::User),
            recall_exclude: Some(vec![RecallSource::Import]),
            recall_life: Some(RecallLife::Session),
            ..ConversationOptions::default()
        };
        let mut written = Map::new();
        options.add_to(&mut written);
        let expected = serde_json::json!({"conversation": true, "max_context_tokens": 4000, "window_form": "text",
            "memory_mode": "node", "skip_markers": ["x"], "recall": "user", "recall_exclude": ["import"],
            "recall_life": "session"});
        assert_eq!(Value::Object(written), expected);
    }

    #[tokio::test]
    async fn the_bundled_filter_has_these_options_and_no_others() {
        let plugin = plugin::for_tests();
        let conversation = Some(ConversationOptions::default());
        let filter = FilterOptions { conversation, ..FilterOptions::default() }.into();
        let options = Options { filter, ..Options::default() };
        let keepline = Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await.unwrap();
        let effective: Map<String, Value> = serde_json::from_str(&keepline.filter_options()).unwrap();
        let others = [
            "session_ttl_hours",
            "session_ttl_mode",
            "max_history",
            "auto_summarize",
            "unbound_context",
            "session_ids",
            "max_value_bytes",
            "max_context_bytes",
            "max_keys",
            "conversation",
        ];
        let names: BTreeSet<&str> =
            effective.keys().map(String::as_str).filter(|name| !others.contains(name)).collect();
        assert_eq!(names, ConversationOptions::NAMES.iter().copied().collect());
    }
}
