//! Of each prompt's history, which share begins as the one before did.

#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::{collections::VecDeque, sync::Arc};

use anyhow::Result;
use keepline::{
    Plugin,
    store::{MemoryLimits, MemoryStore, Store},
};
use serde_json::{Value, json};

use super::{Effort, QUESTION, Talking, keepline, with_window};
use crate::{contenders::answer_of, measure::Contender, report::Section};

/// Tokens of a turn, and of the window that its prompts fill.
const PREFIXES: [(u64, u64); 5] = [(72, 4_000), (72, 8_000), (350, 4_000), (350, 8_000), (350, 32_000)];

pub(super) async fn measure(plugin: &Plugin, effort: Effort) -> Result<Section> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(MemoryLimits::default()));
    let columns = ["share %", "with a window that slides: share %"];
    let mut section = Section::new("Conversation: share of the prefix that stays", &columns);
    section.heading = "turns, window".into();
    for (turn, window) in PREFIXES {
        let keepline = keepline(plugin, &store, with_window(window)).await?;
        let mut talking = Talking::new(&keepline, &format!("prefix-{turn}-{window}"), 1, turn);
        let (mut cut_back, mut sliding) = (Share::default(), Share::default());
        let mut said = VecDeque::new();
        // Until it is full, and then a few times over.
        let turns = (window / turn) * u64::from(effort.rounds.clamp(3, 5));
        for number in 0..turns {
            talking.question = format!("{number}: {}", answer_of(QUESTION - 10));
            let got = talking.ask().await?.unwrap_or_default();
            let got: Value = serde_json::from_str(&got).unwrap_or_default();
            let is_full = number > window / turn;
            cut_back.add(got.get("memory_messages").map(Value::to_string).unwrap_or_default(), is_full);
            sliding.add(json!(said).to_string(), is_full);
            talking.answer().await?;

            said.push_back(json!({"content": talking.question, "role": "user"}));
            said.push_back(json!({"content": talking.answer, "role": "assistant"}));
            while said.len() as u64 > window / turn * 2 {
                said.pop_front();
            }
        }
        section.row(format!("{turn} tokens, {window}"), &[cut_back.percent(), sliding.percent()]);
    }
    section.note("bytes of memory_messages, from the first window that is full on");
    section.note("a window that slides: as many of the newest turns as it holds");
    Ok(section)
}

/// Bytes of prompts, and those of them that begin as the prompt before did.
#[derive(Default)]
struct Share {
    before: String,
    same: usize,
    whole: usize,
}

impl Share {
    fn add(&mut self, now: String, counts: bool) {
        if counts {
            self.same += now.bytes().zip(self.before.bytes()).take_while(|(one, other)| one == other).count();
            self.whole += now.len();
        }
        self.before = now;
    }

    fn percent(&self) -> Option<f64> {
        (self.whole > 0).then(|| 100.0 * self.same as f64 / self.whole as f64)
    }
}
