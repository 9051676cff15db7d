//! Many writers of one conversation: each turn is there whole, or not at all.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::future::join_all;
use keepline::{
    pipe::Effect,
    store::{Deadline, Outcome, Status, Store, Writer},
};
use keepline_tests::{
    on_every_store,
    requests::{existing, extent_of, read_newest, records_of, transaction},
};
use serde_json::{Value, json};

use super::{Given, ask, call, result, said, talking};

on_every_store! {
    no_reader_sees_half_a_turn_while_others_write,
}

const WRITERS: usize = 16;
const TURNS: usize = 12;

/// The newest turns of a session, for each the kinds of its records in their order; and how many records there are.
///
/// # Panics
/// When a turn's records do not stand together.
pub async fn turns(store: &Arc<dyn Store>, session: &str) -> (Vec<Vec<String>>, u64) {
    let look = transaction(session, existing(), [read_newest("transcript", 5000, 8 << 20)]);
    let receipt = store.transact(Writer::new().advance(), &look, Deadline::NEVER).await.unwrap().receipt;
    if receipt.status != Status::Applied {
        return (Vec::new(), 0);
    }
    let extent = extent_of(&receipt.outcomes[0]);
    let first = match &receipt.outcomes[0] {
        Outcome::Records(found) => found.runs[0].first,
        _ => extent.first,
    };
    let (mut all, mut at): (Vec<Vec<String>>, BTreeSet<String>) = Default::default();
    let mut last = String::new();
    for record in records_of(&receipt.outcomes[0]) {
        let record: Value = serde_json::from_str(&record).unwrap();
        let turn = record["turn"].as_str().unwrap().to_owned();
        let kind = record["kind"].as_str().or(record["role"].as_str()).unwrap().to_owned();
        if turn != last {
            assert!(at.insert(turn.clone()), "a turn in two places");
            all.push(Vec::new());
            last = turn;
        }
        all.last_mut().unwrap().push(kind);
    }
    if first > extent.first {
        // Of the oldest one only a part may have been read.
        all.remove(0);
    }
    (all, extent.length)
}

/// What a whole turn of [`write`] consists of.
pub const WHOLE: [&str; 6] = ["user", "tool_call", "tool_call", "tool_result", "tool_result", "assistant"];

/// A question, two calls, their results, and the answer.
pub async fn write(pipe: &mut keepline::Pipe, name: &str) {
    let metadata = r#"{"session_id":"shared"}"#;
    pipe.question(&format!("question {name}"), metadata).await.unwrap();
    for activity in [call("c1"), call("c2"), result("c2", name), result("c1", name)] {
        pipe.tool(activity);
    }
    let passed = pipe.answer(&format!("answer {name}"), "{}").await.unwrap();
    assert_eq!((passed.effect, passed.problem), (Effect::Stored, None));
}

async fn no_reader_sees_half_a_turn_while_others_write(given: Given) {
    let nodes = [talking(&given, &json!({})).await, talking(&given, &json!({})).await];
    let is_done = AtomicBool::new(false);
    let writers = (0..WRITERS).map(|number| {
        let mut pipe = nodes[number % 2].keepline.pipe();
        async move {
            for round in 0..TURNS {
                write(&mut pipe, &format!("{number}/{round}")).await;
                // A store in memory makes nobody wait: else the reader would come last.
                tokio::task::yield_now().await;
            }
        }
    });
    let writing = async {
        join_all(writers).await;
        is_done.store(true, Ordering::Relaxed);
    };
    let reading = async {
        let mut reads = 0;
        let mut seen = 0;
        while !is_done.load(Ordering::Relaxed) {
            let (turns, _) = turns(&given.store, "shared").await;
            assert!(turns.iter().all(|kinds| kinds == &WHOLE), "{turns:?}");
            assert!(turns.len() >= seen);
            seen = turns.len();
            reads += 1;
            tokio::task::yield_now().await;
        }
        reads
    };
    let ((), reads) = tokio::join!(writing, reading);
    assert!(reads > 1, "{reads}");
    assert_eq!(turns(&given.store, "shared").await.0.len(), WRITERS * TURNS);

    // Every turn is in the window once, and every process has the same one.
    let [mut one, mut other] = nodes;
    let metadata = json!({"session_id": "shared"});
    let got = ask(&mut one, "?", &metadata).await;
    assert_eq!(got, ask(&mut other, "?", &metadata).await);
    let questions: Vec<String> = said(&got).into_iter().filter(|text| text.starts_with("user: ")).collect();
    let mut different = questions.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!((questions.len(), different.len()), (WRITERS * TURNS, WRITERS * TURNS));
}
