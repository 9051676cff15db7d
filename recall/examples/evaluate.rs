//! How much of the evidence for a question lies in a budget of tokens: `evaluate FILE [merge] [nohints]`.
//!
//! One conversation a line: `sessions` with `date` (`1:56 pm on 8 May, 2023`) and `turns` (`id`, `speaker`, `text`,
//! perhaps the `caption` of an image), and `questions` with the `evidence`, ids of turns. A turn is in the budget if
//! all of its passages are; `in part` counts those of which any is. `merge` makes one memory of all conversations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use keepline_recall::{
    mark::Mark,
    passages,
    query::{Hints, Query},
    rank::{Found, Limits, rank},
    select::{HEADER_TOKENS, select},
    terms,
};
use serde_json::Value;

const BUDGETS: [usize; 4] = [500, 1_000, 2_000, 4_000];

/// A memory, as a store would keep it.
#[derive(Default)]
struct Index {
    marks: Vec<u16>,
    postings: HashMap<u32, Vec<u32>>,
    /// For each position, the turn that it is of.
    turns: Vec<String>,
    /// How many passages each turn has.
    passages: HashMap<String, usize>,
}

impl Index {
    fn add(&mut self, conversation: &Value) {
        for session in list(conversation, "sessions") {
            let time = milliseconds(text(session, "date"));
            let mut first = true;
            for turn in list(session, "turns") {
                let (speaker, id) = (text(turn, "speaker"), key(conversation, text(turn, "id")));
                let mut said = text(turn, "text").to_owned();
                if let Some(caption) = turn.get("caption").and_then(Value::as_str) {
                    said.push_str(&format!(" [image: {caption}]"));
                }
                for range in passages::cut(&said) {
                    let text = &said[range];
                    let terms = terms::of(&terms::Passage { text, speaker, time });
                    let tokens = passages::tokens(&format!("{speaker}: {text}\n"));
                    let position = u32::try_from(self.marks.len()).unwrap();
                    self.marks.push(Mark::new(terms.len(), tokens, first).encode());
                    first = false;
                    terms.into_iter().for_each(|term| self.postings.entry(term).or_default().push(position));
                    self.turns.push(id.clone());
                    *self.passages.entry(id.clone()).or_default() += 1;
                }
            }
        }
    }
}

#[derive(Default)]
struct Sums {
    questions: usize,
    shares: [f64; BUDGETS.len()],
    in_part: [f64; BUDGETS.len()],
    at_ten: f64,
    times: Vec<Duration>,
}

impl Sums {
    fn ask(&mut self, index: &Index, question: &str, gold: &[String], hints: Hints) {
        let begun = Instant::now();
        let query = Query::new(question, hints);
        let of = |term| index.postings.get(term).map_or(&[][..], Vec::as_slice);
        let terms: Vec<&[u32]> = query.terms.iter().map(of).collect();
        let found = Found { first: 0, marks: &index.marks, terms: &terms };
        let candidates = rank(&query, &found, &[], Limits::default());
        let chosen = BUDGETS.map(|budget| select(&candidates, budget, HEADER_TOKENS));
        self.times.push(begun.elapsed());
        self.questions += 1;
        for ((sum, in_part), chosen) in self.shares.iter_mut().zip(&mut self.in_part).zip(&chosen) {
            let mut held: HashMap<&str, usize> = HashMap::new();
            chosen.iter().for_each(|passage| *held.entry(turn(index, passage.position)).or_default() += 1);
            let whole = |id: &&String| held.get(id.as_str()) == index.passages.get(id.as_str());
            let any = |id: &&String| held.contains_key(id.as_str());
            *in_part += gold.iter().filter(any).count() as f64 / gold.len() as f64;
            *sum += gold.iter().filter(whole).count() as f64 / gold.len() as f64;
        }
        let mut ten: Vec<&str> = Vec::new();
        for candidate in &candidates {
            let turn = turn(index, candidate.position);
            if ten.len() < 10 && !ten.contains(&turn) {
                ten.push(turn);
            }
        }
        self.at_ten += gold.iter().filter(|id| ten.contains(&id.as_str())).count() as f64 / gold.len() as f64;
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = |option: &str| arguments.iter().skip(1).any(|argument| argument == option);
    let file = arguments.first().expect("evaluate FILE [merge] [nohints]");
    let lines = std::fs::read_to_string(file).expect("the file can be read");
    let conversations: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let hints = if asked("nohints") { Hints { speaker: false, time: false } } else { Hints::default() };
    let groups: Vec<&[Value]> = if asked("merge") { vec![&conversations] } else { conversations.chunks(1).collect() };
    let mut sums = Sums::default();
    let (mut count, mut indexing) = (0, Duration::ZERO);
    for group in groups {
        let mut index = Index::default();
        let begun = Instant::now();
        group.iter().for_each(|conversation| index.add(conversation));
        indexing += begun.elapsed();
        count += index.marks.len();
        for conversation in group {
            for question in list(conversation, "questions") {
                let gold: Vec<String> = list(question, "evidence")
                    .iter()
                    .map(|id| key(conversation, id.as_str().expect("an id")))
                    .collect();
                if !gold.is_empty() {
                    sums.ask(&index, text(question, "question"), &gold, hints);
                }
            }
        }
    }
    let percent = |sum: f64| 100.0 * sum / sums.questions as f64;
    println!(
        "{count} passages, {:?} each to index; {} questions",
        indexing / count.try_into().unwrap(),
        sums.questions
    );
    for ((budget, share), in_part) in BUDGETS.iter().zip(sums.shares).zip(sums.in_part) {
        println!("{budget} tokens: {:.1} %, in part {:.1} %", percent(share), percent(in_part));
    }
    sums.times.sort_unstable();
    let times = &sums.times;
    println!("turn R@10: {:.1} %", percent(sums.at_ten));
    println!("a question: p50 {:?}, p99 {:?}", times[times.len() / 2], times[times.len() * 99 / 100]);
}

fn turn(index: &Index, position: u64) -> &str {
    &index.turns[usize::try_from(position).unwrap()]
}

fn key(conversation: &Value, id: &str) -> String {
    format!("{} {id}", text(conversation, "conversation"))
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The day of a date such as `1:56 pm on 8 May, 2023`.
fn milliseconds(date: &str) -> Option<u64> {
    let (_, day) = date.split_once(" on ")?;
    let (day, rest) = day.split_once(' ')?;
    let (month, year) = rest.split_once(", ")?;
    let wanted = (year.parse().ok()?, month, day.parse().ok()?);
    (10_000..30_000_u64).map(|days| days * 86_400_000).find(|time| {
        let day = keepline_recall::time::Day::of(*time);
        (day.year, MONTHS[usize::from(day.month) - 1], day.day) == wanted
    })
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
