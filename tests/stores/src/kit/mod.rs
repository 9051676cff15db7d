//! Replays the conformance kit of `conformance/*.json`: its README tells what steps and expectations mean. What
//! a store answers otherwise than the kit asks for ends the test, with the case and the step.

mod json;
pub mod pattern;
mod race;

use std::{
    collections::HashMap,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use keepline_stores::{Deadline, IndexedReceipt, IndexedTransaction, Store, StoreInfo, Writer, limit, limits};
use parking_lot::Mutex;
use serde_json::Value;

use self::pattern::{expanded, matches, substituted, with_limits};
use crate::stores::{StoreUnderTest, new_writer};

/// The longest `advance` that is waited for where a store's clock is not ours.
const SHORT: Duration = Duration::from_secs(1);
/// How often a case is begun again that the machine was too busy for.
const TRIES: usize = 20;

/// Replays every case of a file, each on a store of its own.
pub async fn replay(topic: &str, store: impl Fn() -> StoreUnderTest) {
    let mut failed = Vec::new();
    for case in cases(topic) {
        if let Err(why) = replay_case(&case, &store).await {
            failed.push(format!("{topic}, case {}, {why}", case["name"]));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// The cases of a file.
pub fn cases(topic: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance").join(format!("{topic}.json"));
    let file: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    json::list(&file, "cases", Value::clone)
}

/// Replays a case on an empty store; one that the store need not pass holds.
///
/// # Errors
/// The step that does not hold, and what it was answered with.
pub async fn replay_case(case: &Value, store: impl Fn() -> StoreUnderTest) -> Result<(), String> {
    for _ in 0..TRIES {
        let mut replay = Replay::new(store());
        if !replay.serves(case) {
            return Ok(());
        }
        match replay.run(case).await {
            Err(Trouble::Late) => {}
            Err(Trouble::Failed(why)) => return Err(why),
            Ok(()) => return Ok(()),
        }
    }
    Err(format!("the machine was too busy {TRIES} times"))
}

/// The topics: the names of the files.
pub fn topics() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let topics = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let mut topics: Vec<_> = topics.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    topics.sort_unstable();
    topics
}

/// Why a case did not come to its end.
enum Trouble {
    /// A step does not hold.
    Failed(String),
    /// A step that had to be answered early was not: the machine is busy, and nothing is known.
    Late,
}

/// What the patterns of a case remember.
type Names = HashMap<String, Value>;

/// The writers that calls name.
#[derive(Clone, Default)]
struct Writers(Arc<Mutex<HashMap<String, Writer>>>);

impl Writers {
    /// The identity of a call: the one that it names, or else one of its own.
    fn identity(&self, call: &Value) -> Writer {
        let Some(identity) = call.get("identity") else { return new_writer() };
        let mut writer = self.0.lock().entry(json::text(identity, "writer")).or_default().clone();
        for _ in 0..json::number::<u64>(identity, "number") {
            writer.advance();
        }
        writer
    }
}

/// A case under way.
struct Replay {
    under_test: StoreUnderTest,
    names: Names,
    writers: Writers,
    /// Calls that can be repeated, with their identities.
    sent: HashMap<String, (Writer, Value)>,
    began: Instant,
}

impl Replay {
    fn new(under_test: StoreUnderTest) -> Self {
        let (names, writers, sent) = Default::default();
        Self { under_test, names, writers, sent, began: Instant::now() }
    }

    /// Whether the store has what a case needs, lacks what it must lack, and has the limits that it relies on.
    fn serves(&self, case: &Value) -> bool {
        let about = self.under_test.store.about();
        let all = |member: &str, holds: &dyn Fn(&str) -> bool| {
            let mut names = case.get(member).and_then(Value::as_array).into_iter().flatten();
            names.all(|name| holds(name.as_str().unwrap()))
        };
        all("needs", &|name| about.can(name))
            && all("lacks", &|name| !about.can(name))
            && all("limits", &|name| about.limit(name).is_none())
    }

    async fn run(&mut self, case: &Value) -> Result<(), Trouble> {
        let about = self.under_test.store.about();
        for (number, step) in json::list(case, "steps", Value::clone).into_iter().enumerate() {
            if step["call"] == "set-clock-ahead" && !self.under_test.notices_clock_jumps() {
                break;
            }
            let step = with_limits(step, &|name| limit_of(&about, name));
            self.step(expanded(step)).await.map_err(|trouble| match trouble {
                Trouble::Failed(why) => Trouble::Failed(format!("step {}: {why}", number + 1)),
                Trouble::Late => Trouble::Late,
            })?;
        }
        Ok(())
    }

    async fn step(&mut self, step: Value) -> Result<(), Trouble> {
        let milliseconds = || Duration::from_millis(json::number(&step, "milliseconds"));
        match &*json::text(&step, "call") {
            "advance" => self.advance(milliseconds()).await,
            "set-clock-ahead" => self.under_test.set_clock_ahead(milliseconds()),
            "race" => {
                let race = race::run(&step, &self.under_test.store, &self.names, &self.writers).await;
                let answers = race.map_err(Trouble::Failed)?;
                if let Some(expected) = step.get("expect") {
                    matches(expected, &answers, &mut self.names).map_err(Trouble::Failed)?;
                }
            }
            "repeat" => {
                let (writer, call) = self.sent[&json::text(&step, "step")].clone();
                self.send(&writer, &call, &step).await?;
            }
            _ => {
                let writer = self.writers.identity(&step);
                if let Some(id) = step.get("id") {
                    self.sent.insert(id.as_str().unwrap().to_owned(), (writer.clone(), step.clone()));
                }
                self.send(&writer, &step, &step).await?;
            }
        }
        Ok(())
    }

    /// Where the clock is not ours, a short time is really waited for.
    async fn advance(&self, time: Duration) {
        if self.under_test.has_clock_to_set() || time > SHORT {
            self.under_test.pass_time(time);
        } else {
            tokio::time::sleep(time).await;
        }
    }

    async fn send(&mut self, writer: &Writer, call: &Value, step: &Value) -> Result<(), Trouble> {
        let answer = answer_to(&self.under_test.store, writer, call, &self.names).await;
        let within = step.get("within").map(|_| Duration::from_millis(json::number(step, "within")));
        if !self.under_test.has_clock_to_set() && within.is_some_and(|within| self.began.elapsed() > within) {
            return Err(Trouble::Late);
        }
        matches(expectation(step), &answer, &mut self.names)
            .map_err(|why| Trouble::Failed(format!("{why}\ncall: {call}\nanswer: {answer}")))
    }
}

/// The store's limit of a name, or else the contract's.
fn limit_of(about: &StoreInfo, name: &str) -> u64 {
    about.limit(name).unwrap_or_else(|| match name {
        limit::TEXT_BYTES => limits::MAX_TEXT_BYTES,
        limit::RECORD_BYTES => limits::MAX_RECORD_BYTES,
        limit::CALL_BYTES | limit::REPLY_BYTES => limits::MAX_BYTES,
        limit::CALL_PIECES | limit::REPLY_PIECES => limits::MAX_PIECES,
        limit::REPLY_PIECES_EACH => limits::MAX_RECORDS,
        limit::READS => limits::MAX_RANGES,
        limit::VALUES => limits::MAX_VALUES,
        limit::PARTS => limits::MAX_PARTS,
        limit::TRANSACTIONS => limits::MAX_TRANSACTIONS as u64,
        limit::DOCUMENT_TERMS => limits::MAX_DOCUMENT_TERMS,
        limit::CALL_TERMS => limits::MAX_CALL_TERMS,
        limit::SEARCH_TERMS => limits::MAX_SEARCH_TERMS,
        limit::SEARCH_BYTES => limits::MAX_SEARCH_BYTES,
        limit::REMOVE_RUNS => limits::MAX_REMOVE_RUNS,
        _ => panic!("there is no limit {name}"),
    })
}

fn expectation(step: &Value) -> &Value {
    step.get("expect").unwrap_or_else(|| panic!("this step expects nothing: {step}"))
}

/// The answer of a store to a call.
async fn answer_to(store: &Arc<dyn Store>, writer: &Writer, call: &Value, names: &Names) -> Value {
    // What is expected has names that are not known yet.
    let members = call.as_object().unwrap().iter().filter(|(name, _)| !matches!(&***name, "expect" | "again"));
    let call = &substituted(members.map(|(name, member)| (name.clone(), member.clone())).collect(), names);
    match &*json::text(call, "call") {
        "transact" => {
            let transaction = json::transaction(&call["transaction"]);
            json::result(store.transact(writer, &transaction, Deadline::NEVER).await, json::told_receipt)
        }
        "transact-each" => each(store, writer, call, json::transaction, json::told_receipt).await,
        "leases.transact-each" => each(store, writer, call, json::leased_transaction, json::told_leased_receipt).await,
        "indexes.transact-each" => {
            each(store, writer, call, json::indexed_transaction, json::told_indexed_receipt).await
        }
        "list-buckets" => {
            let (kind, cursor) = (json::text(call, "kind"), json::text(call, "cursor"));
            let page = store.list_buckets(&kind, &cursor, json::number(call, "limit"), Deadline::NEVER).await;
            json::result(page, json::told_page)
        }
        "delete-each" => {
            let requests = json::list(call, "requests", json::delete_request);
            let deletions = store.delete_each(writer, &requests, Deadline::NEVER).await;
            json::attempts(deletions, "deletion", json::told_deletion)
        }
        "about" => json::told_info(store.about()),
        other => panic!("there is no call {other}"),
    }
}

/// The answer to transactions of an interface, by how they are read and how their receipts are told.
async fn each(
    store: &Arc<dyn Store>,
    writer: &Writer,
    call: &Value,
    read: fn(&Value) -> IndexedTransaction,
    told: fn(IndexedReceipt) -> Value,
) -> Value {
    let transactions = json::list(call, "transactions", read);
    json::attempts(store.transact_each(writer, &transactions, Deadline::NEVER).await, "receipt", told)
}
