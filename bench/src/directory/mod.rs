//! A directory: pairs by way of syncing and number of pipes, beside the same statements by SQLite alone and beside a sync
//! of the disk; and whether who only asks is held up by who writes. How it grows: `growth`.

mod floor;
mod place;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use futures::future::try_join_all;
use indicatif::ProgressBar;
use keepline::{
    Keepline, Options, Plugin,
    store::{DirectoryOptions, DirectoryStore, DirectorySync},
};
use tokio::runtime::Runtime;

use self::floor::{SYNCED_BYTES, Statements};
pub use self::place::{Place, remove};
use crate::{
    contenders::{Piped, SESSIONS, side_by_side},
    measure::{Contender, Samples, median, micros, nanos},
    report::Section,
};

const PAIRS: &str = "Directory: pairs by way of syncing";
const QUESTIONS: &str = "Directory: questions beside writers";
const OFF: &str = "off";
const GROUP: &str = "group";
const ALWAYS: &str = "always";
const WAYS: [(&str, DirectorySync); 3] =
    [(OFF, DirectorySync::Off), (GROUP, DirectorySync::Group), (ALWAYS, DirectorySync::Always)];
/// Conversations side by side.
const ONE: u64 = 1;
const MANY: u64 = 64;
const PIPES: [u64; 3] = [ONE, 8, MANY];
/// Conversations that write while one asks.
const WRITERS: u64 = 8;
/// How much work goes into it.
pub struct Effort {
    rounds: u32,
    pairs: u64,
    /// Where pairs wait for the disk, a round has fewer: as many as take about this time.
    round: Duration,
    questions: u64,
    syncs: u64,
}

impl Effort {
    pub fn of(quick: bool) -> Self {
        match quick {
            true => Self { rounds: 3, pairs: 1_000, round: Duration::from_millis(100), questions: 2_000, syncs: 50 },
            false => Self { rounds: 9, pairs: 10_000, round: Duration::from_secs(1), questions: 20_000, syncs: 500 },
        }
    }
}

/// Even 64 conversations that sync each by itself, on a slow disk, are measured and not cut short.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store that syncs in one way, and what its pairs came to with one number of pipes.
struct Way {
    name: &'static str,
    sync: DirectorySync,
    store: Arc<DirectoryStore>,
    keepline: Keepline,
    samples: Samples,
    syncs: u64,
}

impl Way {
    async fn open(plugin: &Plugin, parent: &Path, (name, sync): (&'static str, DirectorySync)) -> Result<Self> {
        let (keepline, store) = over(plugin, &parent.join(name), sync, "{}").await?;
        Ok(Self { name, sync, store, keepline, samples: Samples::new()?, syncs: 0 })
    }

    /// How many pairs a round has: fewer where they wait for the disk.
    fn pairs(&self, pipes: u64, effort: &Effort, sync: Duration) -> u64 {
        let syncs = effort.round.as_secs_f64() / sync.as_secs_f64().max(1e-6);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of syncs, not below 0")]
        let waiting = match self.sync {
            DirectorySync::Off => return effort.pairs,
            DirectorySync::Group => pipes as f64 * syncs,
            DirectorySync::Always => syncs,
        } as u64;
        waiting.clamp(pipes * 2, effort.pairs.max(pipes * 2))
    }

    async fn round(&mut self, pipes: u64, pairs: u64) -> Result<()> {
        let before = self.store.counters().syncs;
        side_by_side(&self.keepline, pipes, pairs, &mut self.samples).await?;
        self.syncs += self.store.counters().syncs - before;
        Ok(())
    }

    /// What was measured until now is forgotten.
    fn begin(&mut self) -> Result<()> {
        (self.samples, self.syncs) = (Samples::new()?, 0);
        Ok(())
    }
}

/// A directory, and a Keepline that has patience with it.
pub async fn over(
    plugin: &Plugin,
    path: &Path,
    sync: DirectorySync,
    filter: &str,
) -> Result<(Keepline, Arc<DirectoryStore>)> {
    let store = Arc::new(open(path, sync)?);
    let mut options = Options::default();
    (options.entry_timeout, options.filter) = (PATIENCE, filter.into());
    Ok((Keepline::new(plugin.clone(), store.clone(), options).await?, store))
}

pub fn open(path: &Path, sync: DirectorySync) -> Result<DirectoryStore> {
    Ok(DirectoryStore::open(path, DirectoryOptions { sync, timeout: PATIENCE, ..DirectoryOptions::default() })?)
}

/// `pool` has all of the machine's cores.
pub fn measure(
    plugin: &Plugin,
    effort: &Effort,
    parent: &Path,
    pool: &Runtime,
    progress: &ProgressBar,
) -> Result<Vec<Section>> {
    progress.set_message("a sync of the disk");
    let syncs = floor::syncs(parent, effort.syncs)?;
    let mut ways =
        WAYS.into_iter().map(|way| pool.block_on(Way::open(plugin, parent, way))).collect::<Result<Vec<_>>>()?;
    let mut statements = Statements::new(parent)?;
    let pairs = pairs_of(&mut ways, &mut statements, &syncs, effort, pool, progress)?;

    let mut questions = Section::new(QUESTIONS, &["p50 µs", "p99 µs", "an answer meanwhile: p50 µs"]);
    for way in &ways {
        progress.set_message(format!("directory: questions, {}", way.name));
        pool.block_on(questions_beside(&way.keepline, way.name, WRITERS, effort, &mut questions))?;
    }
    if let Some(way) = ways.first() {
        pool.block_on(questions_beside(&way.keepline, "nobody writes", 0, effort, &mut questions))?;
    }
    questions.note(format!(
        "one conversation asks, {WRITERS} others store one answer after the other; a question that waited for a sync \
         would take as long as an answer"
    ));
    Ok(vec![pairs, questions])
}

/// Ways of syncing take turns, round by round.
fn pairs_of(
    ways: &mut [Way],
    statements: &mut Statements,
    syncs: &Samples,
    effort: &Effort,
    pool: &Runtime,
    progress: &ProgressBar,
) -> Result<Section> {
    let mut section = Section::new(PAIRS, &["p50 µs", "p99 µs", "pairs/s", "syncs a pair"]);
    let (mut floor, sync) = (Samples::new()?, floor::median(syncs));
    let (mut to_floor, mut group_to_off) = (Vec::new(), Vec::new());
    statements.round(effort.pairs, &mut Samples::new()?)?;
    for pipes in PIPES {
        let title = format!("{pipes} pipe{}", if pipes == 1 { "" } else { "s" });
        // Once for nothing: sessions exist, and histories are as long as they get.
        for way in &mut *ways {
            progress.set_message(format!("directory: {}, {title}", way.name));
            pool.block_on(way.round(pipes, way.pairs(pipes, effort, sync)))?;
            way.begin()?;
        }
        for round in 0..effort.rounds {
            for way in &mut *ways {
                progress.set_message(format!(
                    "directory: {}, {title}, round {} of {}",
                    way.name,
                    round + 1,
                    effort.rounds
                ));
                pool.block_on(way.round(pipes, way.pairs(pipes, effort, sync)))?;
            }
            if pipes == ONE {
                statements.round(effort.pairs, &mut floor)?;
            }
        }
        for way in &*ways {
            let (half, most) = quantiles(&way.samples);
            let syncs = way.syncs as f64 / way.samples.pair.len() as f64;
            section.row(format!("{}, {title}", way.name), &[half, most, Some(way.samples.rate()), Some(syncs)]);
        }
        let rates = |name| ways.iter().find(|way| way.name == name).map_or(&[][..], |way| way.samples.rates());
        let ratios = |over: &[f64], under: &[f64]| over.iter().zip(under).map(|(over, under)| over / under).collect();
        if pipes == ONE {
            to_floor = ratios(floor.rates(), rates(OFF));
        }
        if pipes == MANY {
            group_to_off = ratios(rates(GROUP), rates(OFF));
        }
    }
    let (half, most) = quantiles(&floor);
    section.row("the same statements by SQLite alone, off, 1 thread", &[half, most, Some(floor.rate()), Some(0.0)]);
    let (half, most) = quantiles(syncs);
    section.row(format!("a write of {} KiB and its sync", SYNCED_BYTES / 1024), &[half, most, None, None]);
    let half = |name: &str| section.rows.iter().find(|row| row.name.starts_with(name))?.values.first().copied()?;
    if let (Some(ours), Some(floor)) = (half("off, 1 pipe"), half("the same")) {
        section.note(format!(
            "off, 1 pipe: a pair costs {:.2} × the statements alone by rate (median of the rounds), {:.2} × by p50",
            median(&to_floor),
            ours / floor
        ));
    }
    section.note(format!(
        "group with {MANY} pipes reaches {:.0} % of off (median of the rounds)",
        median(&group_to_off) * 100.0
    ));
    section.note("a pair is a question and an answer; one answer in 25 folds its session's history");
    Ok(section)
}

fn quantiles(samples: &Samples) -> (Option<f64>, Option<f64>) {
    (Some(micros(&samples.pair, 0.5)), Some(micros(&samples.pair, 0.99)))
}

/// A row: what a question takes while others write all the time.
async fn questions_beside(
    keepline: &Keepline,
    name: &str,
    writers: u64,
    effort: &Effort,
    section: &mut Section,
) -> Result<()> {
    let mut asking = Piped::new(keepline.pipe(), "asks", SESSIONS);
    Samples::new()?.round(&mut asking, SESSIONS as u64).await?;
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..writers)
        .map(|n| {
            let (mut writing, done) = (Piped::new(keepline.pipe(), &format!("writes-{n}"), 1), done.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                writing.question().await?;
                while !done.load(Ordering::Relaxed) {
                    let started = Instant::now();
                    writing.answer().await?;
                    times.push(nanos(started.elapsed()));
                }
                anyhow::Ok(times)
            })
        })
        .collect();
    let asked = ask(asking, effort.questions);
    // On a task of its own, as the writers are.
    let asked = tokio::spawn(asked).await;
    done.store(true, Ordering::Relaxed);
    let mut samples = Samples::new()?;
    for written in try_join_all(writers).await? {
        written?.into_iter().for_each(|time| samples.answer.saturating_record(time));
    }
    asked??.into_iter().for_each(|time| samples.question.saturating_record(time));
    let answer = (!samples.answer.is_empty()).then(|| micros(&samples.answer, 0.5));
    section.row(name, &[Some(micros(&samples.question, 0.5)), Some(micros(&samples.question, 0.99)), answer]);
    Ok(())
}

async fn ask(mut asking: Piped, questions: u64) -> Result<Vec<u64>> {
    let mut times = Vec::new();
    for _ in 0..questions {
        let started = Instant::now();
        asking.question().await?;
        times.push(nanos(started.elapsed()));
    }
    Ok(times)
}
