//! A question with recall beside the same one without, by the passages of its session; and what their index takes.

use std::time::Instant;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use keepline::{Keepline, Plugin, pipe::Effect};
use redis::aio::MultiplexedConnection;
use serde_json::json;

use super::{Effort, WINDOW, bytes_of, fill, index, pair, words::Words};
use crate::{
    measure::{histogram, micros, nanos},
    redis_usage::Used,
    report::Section,
    stores::Tested,
};

/// Of a session, a message each.
const PASSAGES: [usize; 3] = [100, 6_000, 100_000];
/// Of a hundred questions, as many have to recall something: else nothing is measured.
const RECALLED: u32 = 90;

pub(super) fn section() -> Section {
    let columns = ["without: p50 µs", "p99 µs", "with recall: p50 µs", "p99 µs", "×, p50", "recall adds: p50 µs"];
    let mut section = Section::new("Recall: a question, by passages of its session", &columns);
    section.heading = "store, passages".into();
    section.note(format!(
        "the same questions of eight words to the same session, in turn; a window of {WINDOW} tokens, recall_tokens 2,000"
    ));
    section.note("passages of 25 words out of 100,000, as often as in a language; the newest 20,000 are looked at");
    section
}

pub(super) fn index_section() -> Section {
    let columns = ["transcript: bytes", "recall adds: bytes", "×", "making it: µs", "making it: script µs"];
    let mut section = Section::new("Recall, Redis: what a passage takes", &columns);
    section.heading = "passages".into();
    section.note("each for one passage; bytes of the session's keys, as MEMORY USAGE tells them");
    section.note("making it: all that deferred work does of a session that had none, folding among it");
    section
}

/// One row of the first section for each length, and over Redis one of the second.
pub(super) async fn measure(
    plugin: &Plugin,
    tested: &Tested,
    effort: Effort,
    mut redis: Option<&mut MultiplexedConnection>,
    asked: &mut Section,
    made: &mut Section,
) -> Result<()> {
    let filling = super::keepline(plugin, &tested.unsafely, super::filter("session")).await?;
    for passages in PASSAGES.into_iter().filter(|passages| *passages <= effort.max_passages) {
        let session = format!("recall-{passages}");
        match redis.as_deref_mut() {
            Some(connection) => {
                fill(&filling, &session, passages).await?;
                let own = bytes_of(connection, &session).await?;
                let (before, begun) = (Used::by_now(connection).await?, Instant::now());
                index(&filling, &format!("session/{session}")).await?;
                let (took, after) = (begun.elapsed(), Used::by_now(connection).await?);
                let each = |sum: f64| sum / passages as f64;
                let (own, added) = (each(own), each(bytes_of(connection, &session).await? - own));
                let values =
                    [own, added, added / own, each(took.as_secs_f64() * 1e6), each(after.scripts - before.scripts)];
                made.row(passages.to_string(), &values.map(Some));
            }
            None => {
                fill(&filling, &session, passages).await?;
                index(&filling, &format!("session/{session}")).await?;
            }
        }
        let [without, with] = ask(&pair(plugin, tested).await?, &session, effort).await?;
        let [p50, p99, with_p50, with_p99] =
            [micros(&without, 0.5), micros(&without, 0.99), micros(&with, 0.5), micros(&with, 0.99)];
        let values = [p50, p99, with_p50, with_p99, with_p50 / p50, with_p50 - p50];
        asked.row(format!("{}, {passages}", tested.name), &values.map(Some));
    }
    Ok(())
}

/// Nanoseconds without recall, and with it.
async fn ask(keeplines: &[Keepline; 2], session: &str, effort: Effort) -> Result<[Histogram<u64>; 2]> {
    let metadata = json!({"session_id": session}).to_string();
    let mut times = [histogram()?, histogram()?];
    let mut pipes = keeplines.each_ref().map(Keepline::pipe);
    let mut recalled = [0, 0];
    for round in 0..=effort.rounds {
        for ((pipe, times), recalled) in pipes.iter_mut().zip(&mut times).zip(&mut recalled) {
            // Both are asked the same.
            let mut words = Words::new(u64::from(round) + 100);
            for _ in 0..effort.questions {
                let question = words.question();
                let begun = Instant::now();
                let passed = pipe.question(&question, &metadata).await?;
                let took = begun.elapsed();
                ensure!(passed.effect == Effect::Enriched, "a question was {:?}: {:?}", passed.effect, passed.problem);
                // The first round warms up.
                if round > 0 {
                    times.saturating_record(nanos(took));
                    *recalled += u32::from(passed.metadata.is_some_and(|told| told.contains("\"memory_recall\"")));
                }
            }
        }
    }
    let most = effort.rounds * effort.questions;
    ensure!(recalled[0] == 0 && recalled[1] * 100 >= most * RECALLED, "recalled {recalled:?} of {most}");
    Ok(times)
}
