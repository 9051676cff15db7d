//! A question and its answer, by the length of the conversation and the size of the window.

use anyhow::Result;
use keepline::Plugin;

use super::{Effort, Talking, Tested, keepline, with_window};
use crate::{
    measure::{Contender, Samples, micros},
    report::Section,
};

/// Messages of a conversation.
const LENGTHS: [u64; 4] = [10, 100, 1_000, 100_000];
/// Tokens of a window.
const WINDOWS: [u64; 2] = [4_000, 32_000];
/// Tokens of a turn.
const TURN: u64 = 72;
/// While they are measured, conversations become longer by this part of what they are meant to be, at most.
const GROWTH: u64 = 2;

pub(super) async fn measure(plugin: &Plugin, tested: &Tested, effort: Effort) -> Result<Section> {
    let plain = keepline(plugin, &tested.store, "{}").await?;
    let filling = keepline(plugin, &tested.unsafely, with_window(64)).await?;
    let [short, long] = WINDOWS;
    let short = keepline(plugin, &tested.store, with_window(short)).await?;
    let long = keepline(plugin, &tested.store, with_window(long)).await?;
    let columns = ["none: p50 µs", "4,000 tokens: p50 µs", "×", "32,000 tokens: p50 µs", "×"];
    let mut section = Section::new(format!("Conversation, {}: a question and its answer", tested.name), &columns);
    section.heading = "messages".into();
    for messages in LENGTHS.into_iter().filter(|messages| *messages <= effort.max_messages) {
        // Both windows are of the same conversations.
        let added = 2 * u64::from(effort.rounds) * effort.pairs * 2;
        let sessions = (added * GROWTH).div_ceil(messages);
        let name = format!("talk-{messages}");
        let mut fill = Talking::new(&filling, &name, sessions, TURN);
        for _ in 0..sessions * messages / 2 {
            fill.prepare().await?;
            fill.question().await?;
            fill.answer().await?;
        }
        let mut talks = [
            Talking::new(&plain, &format!("plain-{messages}"), sessions, TURN),
            Talking::new(&short, &name, sessions, TURN),
            Talking::new(&long, &name, sessions, TURN),
        ];
        let mut samples = [Samples::new()?, Samples::new()?, Samples::new()?];
        for _ in 0..effort.rounds {
            for (talk, samples) in talks.iter_mut().zip(&mut samples) {
                samples.round(talk, effort.pairs).await?;
            }
        }
        let [none, short, long] = samples.map(|samples| micros(&samples.pair, 0.5));
        let values = [none, short, short / none, long, long / none];
        section.row(messages.to_string(), &values.map(Some));
    }
    section.note("turns of 72 tokens; while they are measured, conversations grow by half at most");
    section.note("×: compared with the same filter without conversations, on as many sessions");
    Ok(section)
}
