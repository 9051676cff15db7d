//! Conversations: the cost of a pair by window and length, entries beside deferred work, and how much of a prompt's
//! prefix stays the same.

mod deferred;
mod pairs;
mod prefixes;

use anyhow::Result;
use keepline::{Keepline, Pipe, Plugin};
use tokio::runtime::Handle;

use crate::{
    contenders::{answer, answer_of},
    measure::Contender,
    report::Section,
    stores::{Stores, Tested, keepline},
};

/// How much work goes into it.
#[derive(Clone, Copy)]
pub struct Effort {
    rounds: u32,
    pairs: u64,
    /// The longest conversation that is measured, in messages.
    max_messages: u64,
}

impl Effort {
    pub fn of(quick: bool) -> Self {
        match quick {
            true => Self { rounds: 3, pairs: 20, max_messages: 1_000 },
            false => Self { rounds: 9, pairs: 224, max_messages: u64::MAX },
        }
    }
}

/// Bytes of a question. With an answer of 150 bytes a turn has 72 tokens by the filter's estimate.
const QUESTION: usize = 50;

/// Deferred work is done on the runtime `background`.
pub async fn measure(plugin: &Plugin, effort: Effort, background: &Handle) -> Result<Vec<Section>> {
    let Stores { all: stores, .. } = &Stores::open()?;
    let mut sections = Vec::new();
    for tested in stores {
        sections.push(pairs::measure(plugin, tested, effort).await?);
    }
    sections.push(deferred::measure(plugin, stores, effort, background).await?);
    sections.push(prefixes::measure(plugin, effort).await?);
    Ok(sections)
}

/// The filter's configuration.
fn with_window(tokens: u64) -> String {
    format!(r#"{{"conversation": true, "max_context_tokens": {tokens}, "summaries": false}}"#)
}

/// Sessions in turn, which grow by what they are measured with.
struct Talking {
    pipe: Pipe,
    question: String,
    answer: String,
    /// Metadata of each session.
    sessions: Vec<String>,
    at: usize,
}

impl Talking {
    fn new(keepline: &Keepline, name: &str, sessions: u64, turn_tokens: u64) -> Self {
        // A message weighs four tokens beside its text, and 16 bytes of text weigh five.
        let bytes = usize::try_from((turn_tokens - 8) * 16 / 5).unwrap_or(QUESTION);
        Self {
            pipe: keepline.pipe(),
            question: answer_of(QUESTION),
            answer: answer_of(bytes.saturating_sub(QUESTION)),
            sessions: (0..sessions).map(|number| format!(r#"{{"session_id": "{name}-{number}"}}"#)).collect(),
            at: 0,
        }
    }

    /// What the next question goes on with.
    async fn ask(&mut self) -> Result<Option<String>> {
        let metadata = self.sessions.get(self.at % self.sessions.len()).map_or("{}", String::as_str);
        Ok(self.pipe.question(&self.question, metadata).await?.metadata)
    }
}

impl Contender for Talking {
    async fn prepare(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    async fn question(&mut self) -> Result<()> {
        self.ask().await.map(drop)
    }

    async fn answer(&mut self) -> Result<()> {
        answer(&mut self.pipe, &self.answer, "{}").await
    }
}
