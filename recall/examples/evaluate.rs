//! How much of the evidence reaches the model: `evaluate FILE [merge] [nohints]`.
//!
//! FILE holds a conversation a line, with sessions, turns and questions that name the turns of their evidence. Each
//! question is asked of its conversation, or of all in one memory (`merge`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use keepline_recall::{
    IndexMatches, PassageDocument, PassageQuery, QueryHints, count_tokens, cut_passages, rank_documents,
    select_passages,
};
use serde_json::Value;

const BUDGETS: [u32; 4] = [500, 1_000, 2_000, 4_000];
const HEADER: u32 = 8;

/// An index as a store has it, and which turn each of its positions is of.
#[derive(Default)]
struct Memory {
    marks: Vec<u16>,
    terms: BTreeMap<u32, Vec<u32>>,
    turns: Vec<String>,
    now: u64,
}

struct Question {
    memory: usize,
    text: String,
    evidence: Vec<String>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let Some(file) = arguments.first() else {
        eprintln!("evaluate FILE [merge] [nohints]");
        std::process::exit(2);
    };
    let hints = if has("nohints") { QueryHints { speaker: false, time: false } } else { QueryHints::default() };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{file}: {error}");
            std::process::exit(1);
        }
    };
    let mut memories: Vec<Memory> = Vec::new();
    let mut questions = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let conversation: Value = serde_json::from_str(line).unwrap_or_default();
        if memories.is_empty() || !has("merge") {
            memories.push(Memory::default());
        }
        let memory = memories.len() - 1;
        let name = string(conversation.get("conversation"));
        if let Some(memory) = memories.last_mut() {
            memory.add(name, &conversation);
        }
        for question in list(conversation.get("questions")) {
            let evidence = list(question.get("evidence"))
                .iter()
                .map(|id| format!("{name}/{}", id.as_str().unwrap_or_default()))
                .collect();
            questions.push(Question { memory, text: string(question.get("question")).to_owned(), evidence });
        }
    }
    report(&memories, &questions, hints);
}

fn string(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl Memory {
    fn add(&mut self, name: &str, conversation: &Value) {
        for session in list(conversation.get("sessions")) {
            let time = time(string(session.get("date")));
            self.now = self.now.max(time);
            let mut first = true;
            for turn in list(session.get("turns")) {
                let speaker = string(turn.get("speaker"));
                let mut text = string(turn.get("text")).to_owned();
                if let Some(caption) = turn.get("caption").and_then(Value::as_str) {
                    text = format!("{text} [image: {caption}]");
                }
                for passage in cut_passages(&text) {
                    let tokens = count_tokens(&format!("{speaker}: {passage}\n"));
                    let posting = PassageDocument { text: passage, speaker, time, first, tokens }.to_posting();
                    let offset = self.marks.len() as u32;
                    for term in posting.terms {
                        self.terms.entry(term).or_default().push(offset);
                    }
                    self.marks.push(posting.mark);
                    self.turns.push(format!("{name}/{}", string(turn.get("id"))));
                    first = false;
                }
            }
        }
    }
}

/// Milliseconds since 1970 of a time such as "1:56 pm on 8 May, 2023"; by the day.
fn time(text: &str) -> u64 {
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let [.., day, month, year] = words.as_slice() else { return 0 };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| month.starts_with(name)).unwrap_or(0) as u64;
    let (day, year): (u64, u64) = (day.parse().unwrap_or(1), year.parse().unwrap_or(1970));
    let years = |year: u64| year * 365 + year / 4 - year / 100 + year / 400;
    let leap = u64::from(year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)));
    let lengths = [31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days = years(year - 1) - years(1969) + lengths.iter().take(month as usize).sum::<u64>() + day - 1;
    days * 86_400_000 + 43_200_000
}

fn report(memories: &[Memory], questions: &[Question], hints: QueryHints) {
    let mut shares = [0.0; BUDGETS.len()];
    let mut at_ten = 0.0;
    let mut took: Vec<Duration> = Vec::new();
    for question in questions {
        let Some(memory) = memories.get(question.memory) else { continue };
        let query = PassageQuery::new(&question.text, memory.now, hints);
        let empty = Vec::new();
        let rows: Vec<&Vec<u32>> = query.rows.iter().map(|row| memory.terms.get(&row.term).unwrap_or(&empty)).collect();
        let begun = Instant::now();
        let candidates = rank_documents(&query, IndexMatches { first: 0, marks: &memory.marks, rows: &rows }, &[], 512);
        took.push(begun.elapsed());
        let turns = |positions: &mut dyn Iterator<Item = u64>| -> Vec<&String> {
            positions.filter_map(|position| memory.turns.get(position as usize)).collect()
        };
        // Of a turn with several passages, all that were indexed have to be there.
        for (share, budget) in shares.iter_mut().zip(BUDGETS) {
            let shown = turns(&mut select_passages(&candidates, budget, HEADER).iter().map(|taken| taken.position));
            let whole = |id: &String| {
                let wanted = memory.turns.iter().filter(|turn| *turn == id).count();
                if wanted == 0 { 0.0 } else { shown.iter().filter(|turn| **turn == id).count() as f64 / wanted as f64 }
            };
            *share += question.evidence.iter().map(whole).sum::<f64>() / question.evidence.len().max(1) as f64;
        }
        let mut best: Vec<&String> = Vec::new();
        for turn in turns(&mut candidates.iter().map(|candidate| candidate.position)) {
            if best.len() < 10 && !best.contains(&turn) {
                best.push(turn);
            }
        }
        let found = question.evidence.iter().filter(|id| best.contains(id)).count();
        at_ten += found as f64 / question.evidence.len().max(1) as f64;
    }
    let count = questions.len().max(1) as f64;
    took.sort();
    let documents: usize = memories.iter().map(|memory| memory.marks.len()).sum();
    let postings: usize = memories.iter().flat_map(|memory| memory.terms.values()).map(Vec::len).sum();
    println!(
        "{} questions, {documents} passages, {:.1} terms each",
        questions.len(),
        postings as f64 / documents as f64
    );
    for (share, budget) in shares.iter().zip(BUDGETS) {
        println!("{budget:>5} tokens: {:.1} %", share / count * 100.0);
    }
    println!("turn R@10: {:.1} %", at_ten / count * 100.0);
    let middle = took.get(took.len() / 2).copied().unwrap_or_default();
    let high = took.get(took.len() * 99 / 100).copied().unwrap_or_default();
    println!("rank: p50 {middle:?}, p99 {high:?}");
}
