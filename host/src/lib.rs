//! Keepline: persistent memory for LLM pipelines, as a sandboxed WASI component and the host that lends
//! it a store.
//!
//! A [`Plugin`] is a component, compiled and checked: it can reach what this host lends it (a store, a
//! clock, a log) and nothing else. A [`Keepline`] is a plugin with a [`store`] and a configuration.
//! From it come [`Pipe`]s, through which a conversation's questions and answers pass, and [`Sessions`], for
//! whatever else is done to what is remembered. All of it can be used from many tasks at once; a pipe is one
//! conversation's at a time.
//!
//! ```
//! use std::sync::Arc;
//!
//! use keepline::{
//!     Keepline, Options, Plugin, Sandbox,
//!     pipe::Effect,
//!     store::{MemoryLimits, MemoryStore},
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Once a process: a quarter of a second, or a few milliseconds with cached code.
//! let plugin = Plugin::bundled(&Sandbox::default())?;
//! // Or `RedisStore::new(RedisOptions { host: "redis.internal".into(), ..Default::default() })?`.
//! let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
//! let mut options = Options::default();
//! options.filter = r#"{"session_ttl_hours": 24}"#.into();
//! let keepline = Keepline::new(plugin, store, options).await?;
//!
//! // One for each stream of entries, whatever the number of conversations in it.
//! let mut pipe = keepline.pipe();
//! let question = pipe.question("Where is my parcel?", r#"{"session_id": "anna"}"#).await?;
//! assert_eq!(question.effect, Effect::Resumed); // nothing to remember yet
//! pipe.answer("In Leipzig.", "{}").await?; // of the question's session
//!
//! pipe.open(); // the next conversation, perhaps in another process
//! let question = pipe.question("And now?", r#"{"session_id": "anna"}"#).await?;
//! assert_eq!(
//!     question.metadata.as_deref(),
//!     Some(r#"{"session_id": "anna","memory_context":{"answer_count":1,"last_answer":"In Leipzig."}}"#),
//! );
//! assert_eq!(keepline.sessions().keys("anna").await?.keys, ["answer_count", "last_answer"]);
//! # Ok(())
//! # }
//! ```
//!
//! More than a text and its metadata can be handed in with [`Pipe::ask`] and [`Pipe::reply`]: message ids, vectors, what
//! tools did. What a filter wants done off an entry's path it names as tasks, which [`maintenance`] has done in the
//! background.
//!
//! An entry takes no longer than it may ([`Options::entry_timeout`], or a [`Deadline`] of the caller's), whatever the
//! store does. One whose memory fails passes without it ([`OnStoreError`]); a component that misbehaves is stopped
//! and replaced ([`Sandbox`]). [`Keepline::metrics`] tells how often.

// A dependency that hides in a method is in no `use` line.
#![deny(clippy::multiple_inherent_impl, clippy::too_many_lines)]

#[cfg(feature = "config")]
pub mod config;
mod contract;
pub mod embedding;
mod entry;
pub mod events;
mod keepline;
pub mod logging;
pub mod maintenance;
pub mod memories;
pub mod pipe;
pub mod pipelines;
pub mod plugin;
mod runtime;
mod sandbox;
pub mod sessions;

/// For tests of what must hold whatever a plugin returns.
#[doc(hidden)]
pub mod fuzzing {
    /// Whether that may be sent on in place of an entry's own metadata, being at most so much longer; or why not.
    ///
    /// # Errors
    /// What the plugin is stopped for.
    pub fn accept(own: &str, returned: &str, most_added: usize) -> Result<(), String> {
        crate::entry::metadata::EntryMetadata::parse(own)
            .check_returned(returned, most_added)
            .map(drop)
            .map_err(|fault| fault.to_string())
    }
}

/// What the component is lent as `key-value`, and everything that a store of one's own needs.
pub use keepline_stores as store;

/// Of the filter's options.
pub use keepline_options::{
    bucket_names::SessionIds,
    words::{MemoryMode, Recall, RecallLife, RecallSource, TtlMode, UnboundContext, WindowForm},
};

pub use self::{
    entry::{
        EntryError, Passed,
        files::{FileResolver, ResolvedFile},
        memory::Memory,
        tokens::TokenCounter,
    },
    keepline::inner::counters::{Counters, MemoryCounters, SkipCounters},
    keepline::options::{
        OnStoreError, Options,
        filter::{ConversationOptions, FilterOptions},
    },
    keepline::{Keepline, KeeplineError, metrics::Metrics},
    pipe::Pipe,
    pipelines::Pipelines,
    plugin::{Plugin, PluginError},
    sandbox::{CodeCache, Isolation, PluginLimits, Sandbox},
    sessions::{SessionError, Sessions},
    store::{Deadline, Health},
};

/// Keeps the README's snippets compiling.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
