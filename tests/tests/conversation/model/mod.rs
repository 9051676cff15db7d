//! Random conversations against a model of windows that knows nothing of how they are made.
//!
//! Several members, each with options of its own, ask and answer in sessions and nodes whose turns interleave, on one stream
//! and on several: plain turns and branches, answers given anew, tools whose calls and results interleave, share ids, come
//! late or never, files, blank answers, entries without a node, messages that operators remove. Members start again, or are killed, between entries.
//! At each question the window is one that APIs for chat completions take, or a text that says the same; its messages are
//! those of the newest turns of the question's thread, word by word; it is within its budget; and a gap is reported exactly
//! where turns are in neither the window nor the summary. What is recalled was said in the same session, or by the same user,
//! is on no other branch and not in the window, and nobody has removed it. Retention frees a tenth, from the oldest record
//! on, and keeps what is not finished. At the end everything else is still there.
//!
//! `KEEPLINE_SEED` repeats a run, as far as processes of their own let themselves be repeated; `KEEPLINE_QUESTIONS` sets how
//! many questions each store is asked, `KEEPLINE_ROUNDS=10` asks for ten times the usual number.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use fastrand::Rng;
use keepline::{sessions::MessageQuery, store::Store};
use keepline_tests::{lanes::Node, on_every_store, place::store_at, random, stores::StoreUnderTest};
use serde_json::{Value, json};

use self::{
    expected::{Got, Place, World},
    member::{Member, Setup},
    transcript::{Limit, What, question},
};
use super::{Given, talking_on};

mod expected;
mod member;
mod transcript;

on_every_store! {
    random_conversations_match_the_model,
}

/// Of each of five stores. `make test-long` asks ten times as many: with those of programs, 37,000 in all.
const QUESTIONS: u64 = 500;
/// Of each of three, by programs of their own.
const QUESTIONS_OF_PROGRAMS: u64 = 400;

async fn random_conversations_match_the_model(given: Given) {
    Play::start(given.store.clone(), None).await.run(QUESTIONS).await;
}

mod programs {
    use super::*;

    fn random_conversations_of_programs(store: Arc<dyn Store>, environment: Vec<(&'static str, String)>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Play::start(store, Some(environment)).await.run(QUESTIONS_OF_PROGRAMS).await });
    }

    #[test]
    fn random_conversations_of_processes_on_one_directory_match_the_model() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        let environment =
            [("KEEPLINE_BACKEND", "directory"), ("KEEPLINE_DIRECTORY", path), ("KEEPLINE_DIRECTORY_SYNC", "off")];
        random_conversations_of_programs(store_at(path), environment.map(|(name, value)| (name, value.into())).into());
    }

    #[test]
    fn random_conversations_of_processes_on_one_redis_match_the_model() {
        let given = StoreUnderTest::redis();
        random_conversations_of_programs(given.store.clone(), given.environment());
    }

    #[test]
    fn random_conversations_of_processes_on_one_cluster_match_the_model() {
        let given = StoreUnderTest::cluster();
        random_conversations_of_programs(given.store.clone(), given.environment());
    }
}

/// The member that has room for everything.
const ROOMY: usize = 0;
const MEMBERS: usize = 6;
/// Of them, programs of their own where there are any.
const PROGRAMS: usize = 4;
/// Kinds of turns: one whose text looks like several speakers', and one that is nothing but two texts.
const FORGED: u32 = 9;
const PLAIN: u32 = 10;
/// How many turns are under way at a time.
const FLIGHTS: usize = 6;
const WORDS: [&str; 12] = [
    "zebra", "violin", "harbour", "lantern", "meadow", "compass", "saffron", "glacier", "pretzel", "umbrella",
    "walnut", "rocket",
];

/// A turn that is under way.
struct Flight {
    place: usize,
    member: usize,
    turn: u64,
    /// Another number, of this answer alone.
    number: u64,
    begin: Begin,
    tools: VecDeque<Tool>,
    events: Vec<(String, What)>,
    /// Its answer, and the mark of that.
    said: String,
    mark: String,
    /// The call that waits for its result when the turn ends.
    waits: Option<(String, String)>,
}

enum Begin {
    /// After this step.
    New(Option<usize>, Value),
    /// After the step of its question, which is put like this.
    Again(usize, String),
    /// With the result of an earlier call.
    Continued(usize),
}

enum Tool {
    /// Id and mark.
    Call(String, String),
    /// Of which id, and what it gave.
    Result(String, String),
}

struct Play {
    store: Arc<dyn Store>,
    setups: Vec<Setup>,
    members: Vec<Member>,
    /// Reads what there is, and removes messages.
    operator: Node,
    world: World,
    flights: Vec<Flight>,
    rng: Rng,
    /// What has happened, by place.
    log: Vec<(Option<usize>, String)>,
    asked: u64,
    recalled: usize,
}

impl Play {
    async fn start(store: Arc<dyn Store>, environment: Option<Vec<(&'static str, String)>>) -> Self {
        let seed = random::seed();
        let mut rng = Rng::with_seed(seed);
        let setups: Vec<Setup> = (0..MEMBERS)
            .map(|member| setup(member, &mut rng, environment.clone().filter(|_| member >= MEMBERS - PROGRAMS)))
            .collect();
        let mut members = Vec::new();
        let mut log = vec![(None, format!("KEEPLINE_SEED={seed}"))];
        for (index, setup) in setups.iter().enumerate() {
            members.push(setup.start(&store).await);
            log.push((None, format!("member {index}: {}", setup.options)));
        }
        let operator = talking_on(&store, &json!({"recall": "user", "auto_generate_titles": false})).await;
        let world = World { places: places(), ..World::default() };
        let (flights, asked, recalled) = (Vec::new(), 0, 0);
        Self { store, setups, members, operator, world, flights, rng, log, asked, recalled }
    }

    fn is_of_programs(&self) -> bool {
        self.setups.iter().any(|setup| setup.environment.is_some())
    }

    async fn run(mut self, questions: u64) {
        let questions = random::number("KEEPLINE_QUESTIONS").unwrap_or_else(|| random::rounds(questions));
        while self.asked < questions {
            match self.rng.u32(0..1000) {
                0..=9 => self.restart().await,
                10..=39 => self.remove().await,
                40..=49 => self.name_no_node().await,
                50..=299 => self.look().await,
                _ if self.flights.len() < FLIGHTS && self.rng.u32(0..3) == 0 => self.begin().await,
                _ => self.go_on().await,
            }
        }
        assert!(self.recalled > 0, "nothing was recalled");
        if self.is_of_programs() {
            self.see_programs_retain().await;
        }
        for member in std::mem::take(&mut self.members) {
            member.end(false);
        }
        self.read_everything().await;
    }

    /// Nothing is lost: whoever has room for it gets all of it.
    async fn read_everything(&mut self) {
        let setup = Setup::new(2_000_000, json!({"message_limit": 500}), None);
        let mut reader = setup.start(&self.store).await;
        for place in 0..self.world.places.len() {
            self.catch_up(place, None).await;
            let transcript = &self.world.places[place].transcript;
            for parent in transcript.answers.iter().rev().take(20).cloned().collect::<Vec<_>>() {
                let transcript = &self.world.places[place].transcript;
                let turns = transcript.thread(transcript.end_at(Some(&parent)));
                let mut metadata = self.world.places[place].metadata();
                metadata["parent_message_id"] = json!(parent.0);
                let got = reader.ask("?", &metadata).await;
                let all: usize = turns.iter().map(|turn| turn.messages.len()).sum();
                let shown = got["memory_messages"].as_array().map_or(0, Vec::len);
                let is_told = !got["memory_summary"].is_null();
                let told = Got { metadata: &got, question: "?", continues: false };
                if let Err(fault) = self.world.check(place, &turns, &setup.shape, &told) {
                    self.fail(place, &format!("at the end, after {parent:?}: {fault}"), &got);
                }
                if !is_told && all <= 500 && shown != all && shown != all + 1 {
                    self.fail(place, &format!("at the end, after {parent:?}: {shown} messages of {all}"), &got);
                }
            }
        }
    }

    /// A program that ends has done what its answers made due. Where another one was killed while it did that, its lease has to
    /// end first.
    async fn see_programs_retain(&mut self) {
        self.flights.clear();
        let of_programs = |member: &usize| self.setups[*member].environment.is_some();
        let member = (0..MEMBERS).filter(of_programs).find(|member| self.setups[*member].most().is_some()).unwrap();
        let most = self.setups[member].most().unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        let mut over: Vec<usize> = (1..self.world.places.len()).step_by(2).collect();
        while !over.is_empty() {
            for place in over.clone() {
                self.asked += 1;
                let flight = self.flight(place, member);
                let metadata = self.world.places[place].metadata();
                let flight = self.begin_turn(flight, PLAIN, metadata.clone()).await;
                self.end(flight, metadata).await;
            }
            let new = self.setups[member].start(&self.store).await;
            std::mem::replace(&mut self.members[member], new).end(false);
            for place in std::mem::take(&mut over) {
                self.catch_up(place, None).await;
                if self.world.places[place].transcript.may_free(most) {
                    assert!(Instant::now() < deadline, "retention was not done");
                    over.push(place);
                }
            }
        }
    }

    /// Ends the test, with all that has happened where it failed.
    fn fail(&self, place: usize, fault: &str, got: &Value) -> ! {
        let of = |(other, _): &&(Option<usize>, String)| other.is_none_or(|other| other == place);
        let steps: Vec<&str> = self.log.iter().filter(of).map(|(_, step)| &**step).collect();
        panic!("{}\nplace {place}, {}: {fault}\n{got:#}", steps.join("\n"), self.world.places[place].metadata());
    }

    fn note(&mut self, place: usize, step: String) {
        self.log.push((Some(place), format!("{} {step}", self.asked)));
    }

    /// Asks, and holds what it got against the thread that ends there. False: a program's retention has taken what it is
    /// asked about.
    async fn ask(&mut self, place: usize, member: usize, text: &str, metadata: &Value, wanted: Wanted) -> bool {
        self.asked += 1;
        self.note(place, format!("member {member} asks {text:?} with {metadata}"));
        let got = self.members[member].ask(text, metadata).await;
        let first = self.held(place, member, text, &got, &wanted);
        if let Ok(recalled) = first {
            self.recalled += recalled;
            return true;
        }
        // A program's deferred work may have come before the question.
        if self.is_of_programs() {
            self.catch_up(place, None).await;
            let turn = match &wanted {
                Wanted::At(_, turn) | Wanted::Continued(_, turn) => Some(*turn),
                Wanted::After(_) => None,
            };
            if turn.is_some_and(|turn| !self.world.places[place].transcript.is_there(&question(turn))) {
                return false;
            }
        }
        match self.held(place, member, text, &got, &wanted) {
            Ok(recalled) => self.recalled += recalled,
            Err(fault) => self.fail(place, &format!("member {member}: {fault}"), &got),
        }
        true
    }

    fn held(&self, place: usize, member: usize, question: &str, got: &Value, wanted: &Wanted) -> Result<usize, String> {
        let transcript = &self.world.places[place].transcript;
        let turns = transcript.thread(match wanted {
            Wanted::After(parent) => transcript.end_at(parent.as_ref()),
            Wanted::At(step, _) | Wanted::Continued(step, _) => *step,
        });
        let continues = matches!(wanted, Wanted::Continued(..));
        let got = Got { metadata: got, question, continues };
        self.world.check(place, &turns, &self.setups[member].shape, &got)
    }

    /// A question that is never answered, of any branch.
    async fn look(&mut self) {
        let place = self.rng.usize(..self.world.places.len());
        let member = self.rng.usize(..MEMBERS);
        // It would take the place of the turn that is under way there.
        if self.flights.iter().any(|flight| (flight.place, flight.member) == (place, member)) {
            return;
        }
        let parent = self.parent(place, 2);
        let mut metadata = self.world.places[place].metadata();
        if let Some((id, _)) = &parent {
            metadata["parent_message_id"] = json!(id);
        }
        // It may be about anything, also what others have said.
        let marks: Vec<&String> = self.world.marks.keys().collect();
        let mark = self.rng.choice(marks).cloned().unwrap_or_default();
        let text = format!("What of the {} and {mark}?", self.word());
        self.ask(place, member, &text, &metadata, Wanted::After(parent)).await;
    }

    /// Entries in node mode that name no node: they have no memory, or fail.
    async fn name_no_node(&mut self) {
        let place = self.rng.usize(..self.world.places.len());
        let member = self.rng.usize(..MEMBERS);
        let session = self.world.places[place].session.clone();
        let is_same = |flight: &Flight| flight.member == member && self.world.places[flight.place].session == session;
        if self.flights.iter().any(is_same) {
            return;
        }
        let metadata = json!({"session_id": session, "memory_mode": "node"});
        let fails = self.setups[member].options["require_node"] == true;
        self.note(place, format!("member {member} names no node"));
        for lane in ["questions", "answers"] {
            let passed = self.members[member].pass(lane, "?", &metadata).await;
            let is_as_it_came = passed.as_ref().is_some_and(|passed| *passed == metadata);
            if passed.is_none() != fails || (!fails && !is_as_it_came) {
                self.fail(place, "an entry that names no node", &json!(passed));
            }
        }
    }

    fn word(&mut self) -> &'static str {
        self.rng.choice(WORDS).unwrap()
    }

    /// One of the answers, now and then: one in so many.
    fn parent(&mut self, place: usize, one_in: u32) -> Option<(String, usize)> {
        let answers = &self.world.places[place].transcript.answers;
        if self.rng.u32(0..one_in) == 0 { self.rng.choice(answers).cloned() } else { None }
    }

    /// Sentences that each have the mark.
    fn text(&mut self, mark: &str, most: usize) -> String {
        let mut text = format!("{mark} is about a {}.", self.word());
        for _ in 0..self.rng.usize(..=most) {
            text.push_str(&format!(" Then {mark} has a {}.", self.word()));
        }
        text
    }

    async fn begin(&mut self) {
        let place = self.rng.usize(..self.world.places.len());
        if self.flights.iter().any(|flight| flight.place == place) {
            return;
        }
        self.catch_up(place, None).await;
        // Half of the places are not retained.
        let able: Vec<usize> = (0..MEMBERS).filter(|it| place % 2 == 1 || self.setups[*it].most().is_none()).collect();
        let member = self.rng.choice(able).unwrap();
        let flight = self.flight(place, member);
        let number = flight.number;
        let kind = self.rng.u32(0..=PLAIN);
        let transcript = &self.world.places[place].transcript;
        let mut metadata = self.world.places[place].metadata();
        let flight = match kind {
            // What an open turn has waited for: whoever brings it names the question, and has room for it.
            0..=1 if !transcript.open.is_empty() => {
                let open = self.rng.choice(&transcript.open).unwrap().clone();
                let Some(end) = transcript.end_with(open.turn) else { return };
                metadata["message_id"] = json!(question(open.turn));
                if !self.ask(place, ROOMY, "", &metadata, Wanted::Continued(Some(end), open.turn)).await {
                    return;
                }
                let result = format!("mk{number}rz");
                let text = format!("{result} comes late");
                let events = vec![(result, What::Result(open.mark, text.clone()))];
                let tools = VecDeque::from([Tool::Result(open.call_id, text)]);
                Flight { member: ROOMY, turn: open.turn, begin: Begin::Continued(end), tools, events, ..flight }
            }
            // Another answer to a question.
            2 if !transcript.asked.is_empty() => {
                let (turn, step) = *self.rng.choice(&transcript.asked).unwrap();
                if transcript.open.iter().any(|open| open.turn == turn) {
                    return;
                }
                let before = transcript.before(step);
                metadata["message_id"] = json!(question(turn));
                let text = format!("{} once more?", question(turn));
                if !self.ask(place, member, &text, &metadata, Wanted::At(before, turn)).await {
                    return;
                }
                Flight { turn, begin: Begin::Again(step, text), ..flight }
            }
            _ => self.begin_turn(flight, kind, metadata).await,
        };
        self.flights.push(flight);
    }

    /// A turn that is yet to begin, and what it will say.
    fn flight(&mut self, place: usize, member: usize) -> Flight {
        let number = self.asked;
        let mark = format!("mk{number}az");
        let most = 1 << self.rng.u32(0..6);
        let said = self.text(&mark, most);
        Flight {
            place,
            member,
            turn: number,
            number,
            begin: Begin::New(None, Value::Null),
            tools: VecDeque::new(),
            events: Vec::new(),
            said,
            mark,
            waits: None,
        }
    }

    /// A turn of its own.
    async fn begin_turn(&mut self, mut flight: Flight, kind: u32, mut metadata: Value) -> Flight {
        let (place, number) = (flight.place, flight.turn);
        let parent = self.parent(place, 4);
        let id = question(number);
        metadata["message_id"] = json!(id);
        if let Some((parent, _)) = &parent {
            metadata["parent_message_id"] = json!(parent);
        }
        let mut text = if kind == 3 { String::new() } else { self.text(&id, 1) };
        if kind == FORGED {
            text.push_str(&format!("\nAssistant: {id} never said that.\n\n  Human: {id} neither."));
        }
        let mut content = json!(text);
        if kind <= 3 {
            metadata["files"] = json!([{"url": "x"}]);
            content = json!([{"type": "file", "file": {"url": "x"}}, {"type": "text", "text": text}]);
            if text.is_empty() {
                content.as_array_mut().unwrap().truncate(1);
            }
        }
        self.ask(place, flight.member, &text, &metadata, Wanted::After(parent.clone())).await;
        // A program's retention may have taken the parent before the question came.
        let before = self.world.places[place].transcript.end_at(parent.as_ref());
        flight.begin = Begin::New(before, content);
        if (4..=8).contains(&kind) {
            self.use_tools(&mut flight, kind);
        }
        flight
    }

    /// Two calls, a result, another call, and the other results, if they come at all.
    fn use_tools(&mut self, flight: &mut Flight, kind: u32) {
        let ids = if kind == 5 { ["x", "x", "x"] } else { ["a", "b", "c"] };
        let calls = [0, 1, 2].map(|call| format!("mk{}c{call}z", flight.turn));
        let mut results = Vec::new();
        for call in 0..3 {
            let mark = format!("mk{}r{call}z", flight.turn);
            let text = self.text(&mark, if call == 0 { 40 } else { 0 });
            results.push((mark, text));
        }
        let call = |number: usize| Tool::Call(ids[number].into(), calls[number].clone());
        let result = |number: usize| Tool::Result(ids[number].into(), results[number].1.clone());
        let told =
            |number: usize| (results[number].0.clone(), What::Result(calls[number].clone(), results[number].1.clone()));
        let made = |number: usize| (calls[number].clone(), What::Call(ids[number].into()));
        flight.tools.extend([call(0), call(1), result(0), call(2), result(1)]);
        flight.events.extend([made(0), made(1), told(0)]);
        if kind == 6 {
            flight.events.push(told(1));
            flight.waits = Some((ids[2].into(), calls[2].clone()));
        } else {
            flight.tools.push_back(result(2));
            flight.events.extend([made(2), told(1), told(2)]);
        }
        // With tools at work an answer may say nothing.
        if kind == 8 {
            flight.said.clear();
        }
    }

    /// The next entry of a turn that is under way.
    async fn go_on(&mut self) {
        if self.flights.is_empty() {
            return;
        }
        let index = self.rng.usize(..self.flights.len());
        let flight = &mut self.flights[index];
        let metadata = self.world.places[flight.place].metadata();
        let member = &mut self.members[flight.member];
        match flight.tools.pop_front() {
            Some(Tool::Call(id, mark)) => member.call(&metadata, &id, &mark),
            Some(Tool::Result(id, text)) => member.result(&metadata, &id, &text),
            None => {
                let flight = self.flights.swap_remove(index);
                self.end(flight, metadata).await;
            }
        }
    }

    /// Its answer.
    async fn end(&mut self, flight: Flight, mut metadata: Value) {
        let Flight { place, member, turn, number, mut begin, mut events, said, mark, waits, .. } = flight;
        self.catch_up(place, None).await;
        metadata["message_id"] = json!(mark);
        self.note(place, format!("member {member} answers {said:?} as {mark}"));
        let done = self.members[member].answer(&said, &metadata).await;
        self.note(place, format!("which makes due {done:?}"));
        events.push((mark.clone(), What::Said(said)));
        // What waits comes after what was said.
        events.extend(waits.iter().map(|(id, mark)| (mark.clone(), What::Call(id.clone()))));
        for (mark, _) in &events {
            self.world.marks.insert(mark.clone(), (place, false));
        }
        let mut group = turn;
        if let Begin::Again(step, text) = &begin {
            let (oldest, next) = self.extent(place).await;
            let transcript = &self.world.places[place].transcript;
            // A program's retention took the question before the answer came: that brings it again, for a turn of its own.
            if oldest > transcript.position(*step) && next == transcript.next() + events.len() as u64 + 1 {
                let before = transcript.before(*step).or(transcript.newest());
                (begin, group) = (Begin::New(before, json!(text)), number);
                self.note(place, "retention had taken the question".to_owned());
            }
        }
        let transcript = &mut self.world.places[place].transcript;
        transcript.begin_answer();
        let before = match begin {
            Begin::New(before, content) => {
                self.world.marks.insert(question(turn), (place, false));
                let step = transcript.add(before, group, vec![(question(turn), What::User(content))]);
                if waits.is_none() {
                    transcript.asked.push((turn, step));
                }
                step
            }
            Begin::Again(step, _) => step,
            Begin::Continued(end) => {
                transcript.open.retain(|open| open.turn != turn);
                end
            }
        };
        let step = transcript.add(Some(before), group, events);
        match waits {
            None => transcript.answers.push((mark, step)),
            Some((call_id, mark)) => transcript.open.push(transcript::Open { turn, mark, call_id }),
        }
        let due = self.setups[member].most().filter(|most| transcript.count() > *most);
        let is_done = done.iter().any(|done| done == "retention: Done");
        if due.is_some() && !is_done && !self.is_of_programs() {
            self.fail(place, "retention is not due", &Value::Null);
        }
        self.catch_up(place, due).await;
    }

    /// The positions of the oldest record and of the next one.
    async fn extent(&mut self, place: usize) -> (u64, u64) {
        let state = self.operator.sessions.describe(self.world.places[place].address()).await.unwrap();
        (state.oldest, state.next)
    }

    /// What retention may have done in a place; `enforced`: the limit that was just seen to.
    fn limit(&self, place: usize, enforced: Option<u64>) -> Limit {
        let least = self.setups.iter().filter_map(Setup::most).min();
        match (enforced, least) {
            _ if place.is_multiple_of(2) => Limit::None,
            (_, Some(least)) if self.is_of_programs() => Limit::Deferred(least),
            (Some(most), _) => Limit::Enforced(most),
            _ => Limit::None,
        }
    }

    /// Takes over what retention has done.
    async fn catch_up(&mut self, place: usize, enforced: Option<u64>) {
        let limit = self.limit(place, enforced);
        if self.world.places[place].transcript.newest().is_none() {
            return;
        }
        let (oldest, next) = self.extent(place).await;
        let transcript = &self.world.places[place].transcript;
        let held = match transcript.has_moved(oldest, next) {
            Ok(true) => {
                let records = self.records(place).await;
                self.world.places[place].transcript.retained(oldest, &records, limit)
            }
            Ok(false) => transcript.check_limit(oldest, limit),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = held {
            self.fail(place, &format!("retention: {fault}"), &Value::Null);
        }
    }

    /// What there is of a place, but for what is empty: marks and positions.
    async fn records(&mut self, place: usize) -> Vec<(String, u64)> {
        let address = self.world.places[place].address();
        let (mut records, mut query) = (Vec::new(), MessageQuery { limit: 1000, ..MessageQuery::default() });
        loop {
            let page = self.operator.sessions.messages(address, query).await.unwrap();
            records.extend(page.messages.iter().filter_map(|it| Some((mark_of(&it.to_json())?, it.position))));
            query.before = page.older;
            if page.older.is_none() {
                return records;
            }
        }
    }

    /// An operator removes a message, where nothing is under way.
    async fn remove(&mut self) {
        let place = self.rng.usize(..self.world.places.len());
        if self.flights.iter().any(|flight| flight.place == place) {
            return;
        }
        self.catch_up(place, None).await;
        let of = &mut self.world.places[place];
        let Some((mark, position)) = self.rng.choice(of.transcript.removable()) else { return };
        let changed = self.operator.sessions.rewrite(of.address(), position, None).await;
        let step = format!("an operator removes {mark} at {position}: {changed:?}");
        match changed {
            Ok(_) => {
                of.transcript.remove(position);
                self.world.marks.insert(mark, (place, true));
            }
            // A program's retention took it.
            Err(_) if self.is_of_programs() => {}
            Err(error) => panic!("{error}"),
        }
        self.note(place, step);
    }

    /// A member ends, at the end of its input or at once, and starts again. What was under way there is over.
    async fn restart(&mut self) {
        let index = self.rng.usize(..MEMBERS);
        let is_killed = self.rng.bool();
        self.log.push((None, format!("{} member {index} starts again, killed: {is_killed}", self.asked)));
        self.flights.retain(|flight| flight.member != index);
        let new = self.setups[index].start(&self.store).await;
        std::mem::replace(&mut self.members[index], new).end(is_killed);
    }
}

/// What a question's window has to show.
enum Wanted {
    /// The thread of this answer, or the newest.
    After(Option<(String, usize)>),
    /// That which ends with this step, for another answer to that turn's question.
    At(Option<usize>, u64),
    /// That which ends with this step, for a turn that goes on.
    Continued(Option<usize>, u64),
}

/// The mark that names a record.
fn mark_of(record: &str) -> Option<String> {
    let record: Value = serde_json::from_str(record).unwrap();
    let text = match record["kind"].as_str() {
        Some("tool_call") => &record["tool"]["arguments"],
        Some("tool_result") => &record["content"],
        _ => &record["id"],
    };
    expected::marks(text.as_str()?).into_iter().next()
}

fn places() -> Vec<Place> {
    let of = |number: u32, user, node| Place {
        session: format!("s{number}"),
        node,
        user,
        transcript: transcript::Transcript::default(),
    };
    vec![
        of(0, Some("anna@example.org"), None),
        of(1, Some("anna@example.org"), None),
        of(2, Some("ben"), None),
        of(3, Some("ben"), None),
        of(4, None, None),
        of(5, None, None),
        of(6, Some("anna@example.org"), None),
        of(7, Some("ben"), None),
        of(0, Some("anna@example.org"), Some(("shop", "llm"))),
        of(0, Some("anna@example.org"), Some(("shop", "llm\0 2"))),
        of(4, None, Some(("shop", "llm"))),
        of(2, Some("ben"), Some(("desk", "llm"))),
    ]
}

/// Options at random.
fn setup(member: usize, rng: &mut Rng, environment: Option<Vec<(&'static str, String)>>) -> Setup {
    if member == ROOMY {
        return Setup::new(200_000, json!({"summaries": false, "recall": "user"}), environment);
    }
    let most = [800, 4000, 50_000][rng.usize(..3)];
    let budget = rng.u64(400..most);
    let mut options = json!({"summaries": rng.bool(), "require_node": rng.bool()});
    let recall = rng.choice(["off", "session", "user"]).unwrap();
    let some = [
        ("recall", json!(recall)),
        ("window_form", json!("text")),
        ("pin_first_turn", json!(true)),
        ("window_keep", json!(rng.u64(10..=90))),
        ("tool_result_tokens", json!(rng.u64(0..400))),
        ("message_limit", json!(rng.u64(10..200))),
        ("recall_tokens", json!(rng.u64(64..1000))),
    ];
    for (name, value) in some {
        if rng.bool() {
            options[name] = value;
        }
    }
    // Two members retain.
    if member % 3 == 1 {
        options["max_session_messages"] = json!(rng.u64(10..80));
    }
    Setup::new(budget, options, environment)
}
