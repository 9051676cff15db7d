//! Options that are one of a set of words: an enum each.

use crate::bucket_names::SessionIds;

/// A set of words.
pub trait Word: Copy + PartialEq + 'static {
    /// As they are written.
    const WORDS: &'static [&'static str];

    /// The word at this place among [`Self::WORDS`]; the first, if there are not so many.
    fn at(index: usize) -> Self;

    /// Its place.
    fn index(self) -> usize;

    /// As it is written.
    fn as_str(self) -> &'static str {
        Self::WORDS.get(self.index()).copied().unwrap_or_default()
    }

    /// The word that is written so.
    fn of(text: &str) -> Option<Self> {
        Self::WORDS.iter().position(|word| *word == text).map(Self::at)
    }
}

macro_rules! word {
    ($name:ident { $first:ident = $first_word:literal, $( $variant:ident = $word:literal, )* }) => {
        impl Word for $name {
            const WORDS: &'static [&'static str] = &[$first_word, $( $word, )*];

            fn at(index: usize) -> Self {
                match index {
                    $( index if index == Self::$variant as usize => Self::$variant, )*
                    _ => Self::$first,
                }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

macro_rules! words {
    ($( $(#[doc = $about:literal])+ $name:ident { $( $(#[doc = $doc:literal])+ $variant:ident = $word:literal, )+ } )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[allow(clippy::exhaustive_enums, reason = "one that is added is added to the options")]
            pub enum $name {
                $( $(#[doc = $doc])+ $variant, )+
            }

            word! { $name { $( $variant = $word, )+ } }
        )+
    };
}

word! { SessionIds { Strict = "strict", Hash = "hash", } }

words! {
    /// When a session's time to live starts to run.
    TtlMode {
        /// At its creation.
        Fixed = "fixed",
        /// At its last use.
        Sliding = "sliding",
    }
    /// What becomes of a `memory_context` in a question without a session.
    UnboundContext {
        /// It stays.
        Keep = "keep",
        /// It is cut out: nothing that is called memory is ever a client's.
        Strip = "strip",
    }
    /// How what is remembered is attached to a question.
    WindowForm {
        /// As an array of chat messages.
        Messages = "messages",
        /// As one text, with the speaker before each message.
        Text = "text",
    }
    /// Whose transcript an entry's turns belong to.
    MemoryMode {
        /// The session's.
        Conversation = "conversation",
        /// That of the node that the entry names.
        Node = "node",
    }
    /// Where passages that bear on a question are looked for, beside its window.
    Recall {
        /// Nowhere.
        Off = "off",
        /// In what was said in the session, or the node.
        Session = "session",
        /// In what was said in all sessions of the user whom the question names.
        User = "user",
    }
    /// How long what was said in a session is recalled in others of its user.
    RecallLife {
        /// As long as the user is not forgotten, even after the session has expired.
        User = "user",
        /// Until the session expires, as of its last answer.
        Session = "session",
    }
    /// A source of passages that may be excluded from recall.
    RecallSource {
        /// The results of tools.
        Tool = "tool",
        /// Messages that were imported from other programs.
        Import = "import",
    }
}
