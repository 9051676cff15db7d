//! Recall: what a question pays for it, by how much there is to look through; and what an answer pays, off its path.

use anyhow::{Result, bail, ensure};
use keepline::{
    Deadline, Keepline, Pipe,
    maintenance::{Job, Step, Task, TaskBucket, session_buckets},
    pipe::Effect,
    sessions::chat_messages,
};
use serde_json::json;

use crate::{
    Bench,
    measure::{Comparison, Contender},
    report::{Section, thousands},
    speed::CpuOfRedis,
    stores::{Stores, Tested, connect, keepline},
    words::Words,
};

/// Tokens of a window: the same with recall and without.
const WINDOW: u64 = 4_000;
/// The task that indexes the passages of its subject.
const INDEX: &str = "recall";
/// With recall off, and of the session.
const MODES: [(&str, &str); 2] = [("without", "off"), ("with recall", "session")];

pub async fn measure(bench: &Bench) -> Result<Vec<Section>> {
    let stores = Stores::open(&bench.disk)?;
    let mut sections = vec![questions(bench, &stores).await?, answers(bench, &stores).await?];
    if stores.server.is_some() {
        sections.push(cpu_of_answers(bench, &stores).await?);
    }
    Ok(sections)
}

/// The filter's configuration.
pub fn filter(recall: &str) -> String {
    format!(
        r#"{{"conversation": true, "max_context_tokens": {WINDOW}, "summaries": false, "auto_generate_titles": false,
            "recall": "{recall}"}}"#
    )
}

async fn questions(bench: &Bench, stores: &Stores) -> Result<Section> {
    let mut table = Comparison::new("Recall: a question, by passages of its session", "store, passages");
    table.sides = ["question", ""];
    for Tested { name, store, unsynced } in &stores.all {
        let filling = keepline(&bench.plugin, unsynced, filter("session")).await?;
        let sizes: &[usize] = if bench.effort.is_quick { &[100] } else { &[100, 6_000, 100_000] };
        for &passages in sizes {
            let session = format!("recall-{passages}");
            fill(&filling, &session, passages).await?;
            let label = format!("{name}, {}", thousands(passages as u64));
            for (mode, recall) in MODES {
                let pipe = keepline(&bench.plugin, store, filter(recall)).await?.pipe();
                let asking = Asking::new(pipe, &session, recall != "off");
                table.enter(recall == "off", format!("{label}: {mode}"), asking)?;
            }
        }
    }
    table.note(format!("the same questions of eight words, in turn; a window of {WINDOW} tokens, recall_tokens 2,000"));
    table.note("passages of 25 words out of 100,000, as often as in a language; the newest 20,000 are looked at");
    table.run(bench.effort).await
}

/// Creates a session of so many passages, of a message each, and indexes them.
async fn fill(keepline: &Keepline, session: &str, passages: usize) -> Result<()> {
    /// Messages of a call.
    const PIECE: usize = 2_000;
    let mut sessions = keepline.sessions().by(Deadline::NEVER);
    sessions.create(session).await?;
    let (mut words, mut next) = (Words::new(1), 0);
    while next < passages {
        let piece: Vec<String> = (next..passages.min(next + PIECE)).map(|number| words.message(number)).collect();
        let after = Some(next as u64).filter(|next| *next > 0);
        sessions.set_messages(session.into(), &chat_messages(&piece), after).await?;
        next += piece.len();
    }
    index(keepline, session_buckets(session, None)).await
}

/// Indexes all passages of these buckets that are not indexed yet, as its deferred work does.
async fn index(keepline: &Keepline, buckets: Vec<TaskBucket>) -> Result<()> {
    let task = Task { buckets, name: INDEX.to_owned(), state: String::new() };
    let mut job = Job { task, holder: "bench".to_owned(), lease_milliseconds: 15_000, results: Vec::new() };
    loop {
        let progress = keepline.advance(&job, None).await;
        job.task = progress.task;
        match progress.step {
            Step::Done => return Ok(()),
            Step::Again => {}
            step => bail!("indexing {:?}: {step:?} {:?}", job.task.buckets, progress.problem),
        }
    }
}

/// Questions to one session.
struct Asking {
    pipe: Pipe,
    metadata: String,
    words: Words,
    question: String,
    recalls: bool,
    asked: u32,
    recalled: u32,
}

impl Asking {
    fn new(pipe: Pipe, session: &str, recalls: bool) -> Self {
        let metadata = json!({"session_id": session}).to_string();
        Self { pipe, metadata, words: Words::new(100), question: String::new(), recalls, asked: 0, recalled: 0 }
    }
}

impl Contender for Asking {
    async fn prepare(&mut self) -> Result<()> {
        self.question = self.words.question();
        Ok(())
    }

    async fn question(&mut self) -> Result<()> {
        let passed = self.pipe.question(&self.question, &self.metadata).await?;
        ensure!(passed.effect == Effect::Enriched, "a question was {:?}: {:?}", passed.effect, passed.problem);
        self.asked += 1;
        self.recalled += u32::from(is_recalled(passed.metadata));
        // If too little is recalled, nothing is measured.
        let is_enough = self.recalled * 10 >= self.asked * 8 || self.asked < 20;
        ensure!(if self.recalls { is_enough } else { self.recalled == 0 }, "{} of {}", self.recalled, self.asked);
        Ok(())
    }
}

fn is_recalled(metadata: Option<String>) -> bool {
    metadata.is_some_and(|metadata| metadata.contains("\"memory_recall\""))
}

/// A session that grows by a question and an answer of six passages at a time.
struct Talking {
    keepline: Keepline,
    pipe: Pipe,
    session: String,
    words: Words,
    answer: String,
    recalls: bool,
}

impl Talking {
    /// The same filter without recall, and with it, on so many sessions each.
    async fn both(bench: &Bench, tested: &Tested, name: &str, sessions: u64) -> Result<[Vec<Self>; 2]> {
        let mut both = [Vec::new(), Vec::new()];
        for ((_, recall), talks) in MODES.into_iter().zip(&mut both) {
            let keepline = keepline(&bench.plugin, &tested.store, filter(recall)).await?;
            for n in 0..sessions {
                let session = format!("{name}-{recall}-{n}");
                let (pipe, words, answer) = (keepline.pipe(), Words::new(5 + n), String::new());
                let recalls = recall != "off";
                talks.push(Self { keepline: keepline.clone(), pipe, session, words, answer, recalls });
            }
        }
        Ok(both)
    }
}

/// Times an answer, and what is done later.
impl Contender for Talking {
    async fn prepare(&mut self) -> Result<()> {
        let metadata = json!({"session_id": self.session}).to_string();
        let passed = self.pipe.question(&self.words.question(), &metadata).await?;
        ensure!(passed.effect != Effect::Failed, "a question failed: {:?}", passed.problem);
        self.answer = self.words.answer(6);
        Ok(())
    }

    async fn question(&mut self) -> Result<()> {
        let passed = self.pipe.answer(&self.answer, "{}").await?;
        ensure!(passed.effect == Effect::Stored, "an answer was {:?}: {:?}", passed.effect, passed.problem);
        Ok(())
    }

    async fn answer(&mut self) -> Result<()> {
        if self.recalls { index(&self.keepline, session_buckets(&self.session, None)).await } else { Ok(()) }
    }
}

const SIDES: [&str; 2] = ["answer", "deferred work"];

async fn answers(bench: &Bench, stores: &Stores) -> Result<Section> {
    let mut table = Comparison::new("Recall: an answer of six passages", "store");
    table.sides = SIDES;
    for tested in &stores.all {
        for ((mode, recall), talks) in MODES.into_iter().zip(Talking::both(bench, tested, "answers", 1).await?) {
            for talk in talks {
                table.enter(recall == "off", format!("{}, {mode}", tested.name), talk)?;
            }
        }
    }
    table.note("deferred work: all steps after one answer, off its path; with p99, 64 passages are indexed");
    table.run(bench.effort).await
}

async fn cpu_of_answers(bench: &Bench, stores: &Stores) -> Result<Section> {
    let (Some(server), Some(tested)) = (&stores.server, stores.all.last()) else { bail!("no Redis") };
    let mut connection = connect(server).await?;
    let mut table = CpuOfRedis::new(&MODES.map(|(mode, _)| mode));
    let mut both = Talking::both(bench, tested, "cpu", 16).await?;
    for round in 0..=bench.effort.rounds {
        for (place, talks) in both.iter_mut().enumerate() {
            // The first round is not counted; in each, passages are folded into the index once or twice.
            table.round(place, talks, &mut connection, 16, round > 0).await?;
        }
    }
    Ok(table.section("Recall, CPU of Redis: an answer of six passages", SIDES))
}

/// Users' memories, of which each is asked in another chat for what it said in its first.
pub struct Users {
    keepline: Keepline,
    pipe: Pipe,
    count: u64,
    random: fastrand::Rng,
    metadata: String,
    question: String,
}

impl Users {
    /// Three sentences of each user are remembered.
    pub async fn fill(keepline: &Keepline, count: u64) -> Result<()> {
        let mut pipe = keepline.pipe();
        for user in 0..count {
            let metadata = json!({"session_id": format!("chat-{user}"), "user_id": format!("user-{user}")}).to_string();
            pipe.question(&Words::new(user + 1).question(), &metadata).await?;
            let answered = pipe.answer(&Words::new(user).answer(3), "{}").await?;
            ensure!(answered.effect == Effect::Stored, "an answer was {:?}: {:?}", answered.effect, answered.problem);
            for task in answered.due.iter().filter(|task| task.name == INDEX) {
                index(keepline, task.buckets.clone()).await?;
            }
        }
        Ok(())
    }

    pub fn new(keepline: Keepline, count: u64) -> Self {
        let (pipe, random) = (keepline.pipe(), fastrand::Rng::with_seed(count));
        Self { keepline, pipe, count, random, metadata: String::new(), question: String::new() }
    }
}

impl Contender for Users {
    async fn prepare(&mut self) -> Result<()> {
        let user = self.random.u64(0..self.count);
        self.metadata = json!({"session_id": format!("next-{user}"), "user_id": format!("user-{user}")}).to_string();
        self.question = Words::new(user).answer(3).split(' ').take(8).collect::<Vec<_>>().join(" ");
        // The chat has been there before.
        self.keepline.pipe().question(&self.question, &self.metadata).await?;
        Ok(())
    }

    async fn question(&mut self) -> Result<()> {
        let passed = self.pipe.question(&self.question, &self.metadata).await?;
        ensure!(is_recalled(passed.metadata), "a user recalled nothing: {:?}", passed.effect);
        Ok(())
    }
}
