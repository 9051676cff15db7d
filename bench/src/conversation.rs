//! Conversations: the cost of a pair by window and length, entries beside deferred work, and how much of a prompt's
//! prefix stays the same.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use keepline::{
    Keepline,
    maintenance::{Maintenance, MaintenanceOptions, NoModel},
};
use serde_json::{Value, json};

use crate::{
    Bench,
    contenders::{Piped, answer_of},
    measure::{Comparison, Contender},
    report::{Section, thousands},
    stores::{Stores, Tested, keepline},
};

/// Bytes of a question. With an answer of 150 bytes a turn has 72 tokens by the filter's estimate.
const QUESTION: usize = 50;

pub async fn measure(bench: &Bench) -> Result<Vec<Section>> {
    let stores = Stores::open(&bench.disk)?;
    Ok(vec![pairs(bench, &stores).await?, beside_deferred_work(bench, &stores).await?, prefixes(bench, &stores).await?])
}

/// The filter's configuration.
fn with_window(tokens: u64) -> String {
    format!(r#"{{"conversation": true, "max_context_tokens": {tokens}, "summaries": false}}"#)
}

/// Sessions in turn, with turns of so many tokens.
fn talking(keepline: &Keepline, name: &str, sessions: u64, turn_tokens: u64) -> Piped {
    // A message weighs four tokens beside its text, and 16 bytes of text weigh five.
    let bytes = (turn_tokens - 8) * 16 / 5;
    let mut talking = Piped::new(keepline, name, sessions);
    (talking.question, talking.answer) = (answer_of(QUESTION), answer_of(bytes as usize - QUESTION));
    talking
}

/// By the length of the conversation and the size of the window.
async fn pairs(bench: &Bench, stores: &Stores) -> Result<Section> {
    const TURN: u64 = 72;
    const PAIRS: u64 = 200;
    let mut table = Comparison::new("Conversation: a pair, by messages and window", "store, messages: window");
    for Tested { name: store, store: tested, unsynced } in &stores.all {
        let plain = keepline(&bench.plugin, tested, "{}").await?;
        let filling = keepline(&bench.plugin, unsynced, with_window(64)).await?;
        for messages in bench.effort.points(&[100, 1_000, 100_000]) {
            // Both windows are of the same conversations, which grow by half at most while they are measured.
            let added = 2 * u64::from(bench.effort.rounds + 1) * PAIRS * 2;
            let sessions = (added * 2).div_ceil(messages);
            let name = format!("talk-{messages}");
            talking(&filling, &name, sessions, TURN).fill(messages / 2).await?;
            let label = format!("{store}, {}", thousands(messages));
            table.baseline(format!("{label}: none"), talking(&plain, &format!("plain-{messages}"), sessions, TURN))?;
            for window in [4_000, 32_000] {
                let keepline = keepline(&bench.plugin, tested, with_window(window)).await?;
                table.add(format!("{label}: {}", thousands(window)), talking(&keepline, &name, sessions, TURN))?;
            }
        }
    }
    table.note(format!("turns of {TURN} tokens; none: the same filter without conversations, on as many sessions"));
    table.run_limited(bench.effort, PAIRS).await
}

/// Entries while titles and summaries are made, without a model.
async fn beside_deferred_work(bench: &Bench, stores: &Stores) -> Result<Section> {
    /// With long turns, a summary becomes due at every twelfth answer.
    const SESSIONS: u64 = 4;
    const TURN: u64 = 350;
    const WINDOW: u64 = 4_000;
    let mut table = Comparison::new("Conversation: entries beside deferred work", "store");
    let mut works = Vec::new();
    for Tested { name, store, .. } in &stores.all {
        let without = with_window(WINDOW).replace('}', r#", "auto_generate_titles": false}"#);
        let alone = keepline(&bench.plugin, store, without).await?;
        let with = with_window(WINDOW).replace(r#""summaries": false"#, r#""summaries": true"#);
        let busy = keepline(&bench.plugin, store, with).await?;
        let options = MaintenanceOptions::default();
        let work = Maintenance::new(busy.clone(), Arc::new(NoModel), options, bench.all.handle().clone());
        table.baseline(format!("{name}, alone"), talking(&alone, "alone", SESSIONS, TURN))?;
        let mut talking = talking(&busy, "busy", SESSIONS, TURN);
        talking.work = Some(work.clone());
        // However little is measured, a summary has come due.
        talking.fill(14).await?;
        table.add(format!("{name}, beside deferred work"), talking)?;
        works.push(work);
    }
    table.note(format!("turns of {TURN} tokens, a window of {WINDOW}, {SESSIONS} sessions in turn, no model"));
    let mut section = table.run_limited(bench.effort, 200).await?;
    for (work, tested) in works.iter().zip(&stores.all) {
        let abandoned = work.shutdown(Duration::from_secs(60)).await;
        let done = work.counters();
        ensure!(abandoned == 0 && done.summaries.done > 0, "deferred work was not done: {done:?}");
        section.note(format!("{}: {} summaries, {} titles", tested.name, done.summaries.done, done.titles.done));
    }
    Ok(section)
}

/// The share of each prompt's history that begins as the one before did.
async fn prefixes(bench: &Bench, stores: &Stores) -> Result<Section> {
    let memory = stores.all.first().context("no stores")?;
    let columns = vec!["share %".into(), "sliding: share %".into()];
    let mut section = Section::new("Conversation: share of the prefix that stays", "turns, window", columns);
    for (turn, window) in [(72, 4_000), (72, 8_000), (350, 4_000), (350, 8_000), (350, 32_000)] {
        let keepline = keepline(&bench.plugin, &memory.store, with_window(window)).await?;
        let mut talking = talking(&keepline, &format!("prefix-{turn}-{window}"), 1, turn);
        let (mut cut_back, mut sliding) = (Share::default(), Share::default());
        let mut said = VecDeque::new();
        // Until it is full, and then a few times over.
        for number in 0..window / turn * u64::from(bench.effort.rounds.min(5)) {
            talking.question = format!("{number}: {}", answer_of(QUESTION - 10));
            talking.prepare().await?;
            let metadata: Value = serde_json::from_str(&talking.ask().await?.unwrap_or_default()).unwrap_or_default();
            let is_full = number > window / turn;
            cut_back.add(metadata.get("memory_messages").map(Value::to_string).unwrap_or_default(), is_full);
            sliding.add(json!(said).to_string(), is_full);
            talking.answer().await?;

            said.push_back(json!({"content": talking.question, "role": "user"}));
            said.push_back(json!({"content": talking.answer, "role": "assistant"}));
            while said.len() as u64 > window / turn * 2 {
                said.pop_front();
            }
        }
        section.row(format!("{turn} tokens, {}", thousands(window)), vec![cut_back.percent(), sliding.percent()]);
    }
    section.note("bytes of memory_messages, from the first full window on");
    section.note("sliding: a window that keeps as many of the newest turns as it holds");
    Ok(section)
}

/// Bytes of prompts, and how many of them begin as the prompt before did.
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
