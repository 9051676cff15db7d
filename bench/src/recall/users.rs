//! A question to its user's memory, by how many other users there are.

use std::time::Instant;

use anyhow::{Result, ensure};
use fastrand::Rng;
use hdrhistogram::Histogram;
use keepline::{Keepline, Pipe, Plugin, pipe::Effect};
use serde_json::json;

use super::{Effort, INDEX, filter, index, words::Words};
use crate::{
    measure::{histogram, micros, nanos},
    report::Section,
    stores::{Tested, keepline},
};

/// Each with a turn of some passages in one chat.
const USERS: [usize; 3] = [100, 10_000, 100_000];
const PASSAGES: usize = 3;

pub(super) fn section() -> Section {
    let columns = ["question: p50 µs", "p99 µs", "×, p50", "making the memory of one more: µs"];
    let mut section = Section::new("Recall: a question to its user's memory, by users", &columns);
    section.heading = "store, users".into();
    section.note(format!("each has a chat of a question and {PASSAGES} sentences, and asks for them in another one"));
    section.note("×: compared with the fewest users; making: a question, an answer and its deferred work");
    section
}

pub(super) async fn measure(plugin: &Plugin, tested: &Tested, effort: Effort, section: &mut Section) -> Result<()> {
    let filling = keepline(plugin, &tested.unsafely, filter("user")).await?;
    let asking = keepline(plugin, &tested.store, filter("user")).await?;
    let (mut made, mut fewest) = (0, None);
    for users in USERS.into_iter().filter(|users| *users <= effort.max_users) {
        let (begun, before) = (Instant::now(), made);
        let mut pipe = filling.pipe();
        while made < users {
            remember(&filling, &mut pipe, made).await?;
            made += 1;
        }
        let each = begun.elapsed().as_secs_f64() * 1e6 / (made - before) as f64;
        let times = ask(&asking, users, effort).await?;
        let p50 = micros(&times, 0.5);
        let ratio = p50 / *fewest.get_or_insert(p50);
        section.row(format!("{}, {users}", tested.name), &[p50, micros(&times, 0.99), ratio, each].map(Some));
    }
    Ok(())
}

/// What a user says, and asks for later.
fn answer_to(user: usize) -> String {
    Words::new(user as u64).answer(PASSAGES)
}

async fn remember(keepline: &Keepline, pipe: &mut Pipe, user: usize) -> Result<()> {
    let metadata = json!({"session_id": format!("chat-{user}"), "user_id": format!("user-{user}")}).to_string();
    let question = Words::new(user as u64 + 1).question();
    pipe.question(&question, &metadata).await?;
    let answered = pipe.answer(&answer_to(user), "{}").await?;
    ensure!(answered.effect == Effect::Stored, "an answer was {:?}: {:?}", answered.effect, answered.problem);
    for task in answered.due.iter().filter(|task| task.name == INDEX) {
        index(keepline, &task.subject).await?;
    }
    Ok(())
}

/// Nanoseconds of questions of users in turn, each in a chat that has been there before.
async fn ask(keepline: &Keepline, users: usize, effort: Effort) -> Result<Histogram<u64>> {
    let mut times = histogram()?;
    let (mut pipe, mut random) = (keepline.pipe(), Rng::with_seed(users as u64));
    for _ in 0..effort.rounds * effort.questions {
        let user = random.usize(..users);
        let metadata = json!({"session_id": format!("next-{user}"), "user_id": format!("user-{user}")}).to_string();
        let question = answer_to(user).split(' ').take(8).collect::<Vec<_>>().join(" ");
        pipe.question(&question, &metadata).await?;
        let begun = Instant::now();
        let passed = pipe.question(&question, &metadata).await?;
        times.saturating_record(nanos(begun.elapsed()));
        let is_recalled = passed.metadata.is_some_and(|told| told.contains("\"memory_recall\""));
        ensure!(is_recalled, "user {user} of {users} recalled nothing: {:?}", passed.effect);
    }
    Ok(times)
}
