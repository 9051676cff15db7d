//! Memories: what a user and an assistant said to each other, stored pair by pair and found again by what it is about.
//!
//! For pipelines that hold the messages of a conversation themselves: after each answer, [`Keepline::remember`](crate::Keepline::remember) stores the
//! newest pair; before the next question, [`Keepline::memories`](crate::Keepline::memories) finds pairs that bear on it, and [`format_for_prompt`]
//! makes a text of them.
//!
//! ```
//! # use std::sync::Arc;
//! # use keepline::{Keepline, Options, Plugin, Sandbox, store::MemoryStore};
//! use keepline::memories::{MemorySearch, Method, Remember, RememberOutcome, format_for_prompt};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut options = Options::default();
//! # options.filter = r#"{"conversation": true}"#.into();
//! # let plugin = Plugin::bundled(&Sandbox::default())?;
//! # let keepline = Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await?;
//! let messages = [
//!     json!({"role": "user", "content": "My dog is called Bruno."}),
//!     json!({"role": "assistant", "content": "A fine name."}),
//! ];
//! let memory = Remember { user: "anna", session: Some("chat-1"), messages: &messages, ..Remember::default() };
//! let remembered = keepline.remember(memory, None).await;
//! assert!(matches!(remembered.outcome, RememberOutcome::Stored { .. }));
//! // Then, as after any answer: maintenance.submit(remembered.due);
//!
//! let search = MemorySearch { user: "anna", query: Some("dog"), method: Method::Keyword, ..MemorySearch::default() };
//! let found = keepline.memories(search).await?.found;
//! assert_eq!(found[0].combined_text, "User: My dog is called Bruno.\n\nAssistant: A fine name.");
//! assert!(format_for_prompt(&found, 2000).contains("Bruno"));
//! # Ok(())
//! # }
//! ```
//!
//! A memory is a turn of a session's transcript, as the answers' lane writes it: it expires, is exported, corrected and
//! forgotten with it. Promises that nothing is stored without a user, no pair twice, and none of it in another user's
//! session; and that storing never fails a caller that has its answer already.

mod pair;
mod remember;
mod search;
mod text;
mod transcripts;

pub use self::{
    remember::{MemorySkip, Remember, RememberOutcome, Remembered},
    search::{FoundMemory, Memories, MemorySearch, Method, MethodUsed},
    text::{display_title, format_for_prompt, preview},
};
