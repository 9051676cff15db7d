//! What an answer with six passages pays for recall: nothing while somebody waits, and some deferred work.

use std::time::Instant;

use anyhow::{Result, ensure};
use keepline::{Keepline, Pipe, Plugin, pipe::Effect};
use redis::aio::MultiplexedConnection;
use serde_json::json;

use super::{Effort, index, pair, words::Words};
use crate::{
    measure::{histogram, median, micros, nanos},
    redis_usage::Used,
    report::Section,
    stores::Tested,
};

/// Passages of an answer; its question is one more.
const PASSAGES: usize = 6;
/// Before anything is measured, so that there is something to fold.
const WARM_UP: u32 = 24;

pub(super) fn section() -> Section {
    let columns = [
        "answer without: p50 µs",
        "answer with recall: p50 µs",
        "×",
        "deferred work: p50 µs",
        "deferred work: mean µs",
        "deferred work: p99 µs",
    ];
    let mut section = Section::new("Recall: an answer of six passages", &columns);
    section.heading = "store".into();
    section.note("deferred work: all steps after one answer, off its path; with p99, 64 passages are folded");
    section
}

/// A session that grows.
struct Talk {
    keepline: Keepline,
    pipe: Pipe,
    session: String,
    metadata: String,
    words: Words,
    recalls: bool,
}

impl Talk {
    async fn both(plugin: &Plugin, tested: &Tested, name: &str) -> Result<[Self; 2]> {
        let [without, with] = pair(plugin, tested).await?;
        let talk = |keepline: Keepline, recalls: bool| {
            let session = format!("{name}-{recalls}");
            let metadata = json!({"session_id": session}).to_string();
            Self { pipe: keepline.pipe(), keepline, session, metadata, words: Words::new(5), recalls }
        };
        Ok([talk(without, false), talk(with, true)])
    }

    async fn ask(&mut self) -> Result<()> {
        let question = self.words.question();
        let passed = self.pipe.question(&question, &self.metadata).await?;
        ensure!(passed.effect != Effect::Failed, "a question failed: {:?}", passed.problem);
        Ok(())
    }

    async fn answer(&mut self, text: &str) -> Result<()> {
        let passed = self.pipe.answer(text, "{}").await?;
        ensure!(passed.effect == Effect::Stored, "an answer was {:?}: {:?}", passed.effect, passed.problem);
        Ok(())
    }

    async fn work(&self) -> Result<()> {
        if self.recalls { index(&self.keepline, &format!("session/{}", self.session)).await } else { Ok(()) }
    }

    async fn warm_up(&mut self) -> Result<()> {
        for _ in 0..WARM_UP {
            self.ask().await?;
            let text = self.words.answer(PASSAGES);
            self.answer(&text).await?;
            self.work().await?;
        }
        Ok(())
    }
}

pub(super) async fn measure(plugin: &Plugin, tested: &Tested, effort: Effort, section: &mut Section) -> Result<()> {
    let (mut answers, mut work) = ([histogram()?, histogram()?], histogram()?);
    let mut talks = Talk::both(plugin, tested, "answers").await?;
    for talk in &mut talks {
        talk.warm_up().await?;
    }
    for _ in 0..effort.rounds {
        for (talk, answers) in talks.iter_mut().zip(&mut answers) {
            for _ in 0..effort.answers {
                talk.ask().await?;
                let text = talk.words.answer(PASSAGES);
                let begun = Instant::now();
                talk.answer(&text).await?;
                let answered = Instant::now();
                talk.work().await?;
                answers.saturating_record(nanos(answered - begun));
                if talk.recalls {
                    work.saturating_record(nanos(answered.elapsed()));
                }
            }
        }
    }
    let [without, with] = answers.map(|times| micros(&times, 0.5));
    let values = [without, with, with / without, micros(&work, 0.5), work.mean() / 1000.0, micros(&work, 0.99)];
    section.row(tested.name, &values.map(Some));
    Ok(())
}

/// What that costs Redis itself.
pub(super) async fn of_redis(
    plugin: &Plugin,
    tested: &Tested,
    effort: Effort,
    connection: &mut MultiplexedConnection,
) -> Result<Section> {
    let columns = [
        "answer: script µs",
        "deferred work: script µs, p50",
        "deferred work: script µs, mean",
        "answer and deferred work: script µs",
        "×",
        "answer and deferred work: process µs",
        "×",
    ];
    let mut section = Section::new("Recall, CPU of Redis: an answer of six passages", &columns);
    let mut base: Option<[f64; 2]> = None;
    for talk in &mut Talk::both(plugin, tested, "cpu").await? {
        talk.warm_up().await?;
        let (mut answers, mut works, mut all, mut process) = (Vec::new(), Vec::new(), 0.0, 0.0);
        let count = effort.rounds * effort.answers;
        for _ in 0..count {
            talk.ask().await?;
            let asked = Used::by_now(connection).await?;
            let text = talk.words.answer(PASSAGES);
            talk.answer(&text).await?;
            let answered = Used::by_now(connection).await?;
            talk.work().await?;
            let worked = Used::by_now(connection).await?;
            answers.push(answered.scripts - asked.scripts);
            works.push(worked.scripts - answered.scripts);
            all += worked.scripts - asked.scripts;
            process += worked.process - asked.process;
        }
        let each = |sum: f64| sum / f64::from(count);
        let (all, process) = (each(all), each(process));
        let [base_all, base_process] = *base.get_or_insert([all, process]);
        let work = talk.recalls.then(|| (median(&works), each(works.iter().sum())));
        section.row(
            if talk.recalls { "with recall" } else { "without" },
            &[
                Some(median(&answers)),
                work.map(|(p50, _)| p50),
                work.map(|(_, mean)| mean),
                Some(all),
                Some(all / base_all),
                Some(process),
                Some(process / base_process),
            ],
        );
    }
    section.note(
        "script: as INFO commandstats counts it; process: all of Redis's main thread, with one request at a time",
    );
    section.note("the mean has folding in it, which comes once for 64 passages");
    Ok(section)
}
