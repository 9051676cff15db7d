//! What a host does for its entries: turns, reports, deferred work, and another instance after one that ended.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use wasmtime::Result;
use wasmtime::component::Val;

use crate::bindings::Problem;
use crate::bindings::lanes::{AnswerEntry, QuestionEntry, Task, ToolActivity, TurnQuestion};
use crate::bindings::needs::{CompletionNeed, MissingResult, Need, NeedResult, Outcome, VectorsNeed};
use crate::bindings::tasks::Job;
use crate::filter::{Arguments, Filter};
use crate::turns::{Names, Turn, Turns};

const MAX_STEPS: usize = 1_000;
const MODEL_MILLISECONDS: u64 = 60_000;

/// Makes an instance that is not configured yet.
pub type Instantiate = Box<dyn Fn() -> Result<Box<dyn Filter>>>;

/// Who does what deferred work needs.
#[allow(missing_docs)]
pub trait Model {
    fn complete(&mut self, need: &CompletionNeed) -> Outcome;
    fn embed(&mut self, need: &VectorsNeed) -> Outcome;
}

/// No model.
pub struct NoModel;

impl Model for NoModel {
    fn complete(&mut self, _: &CompletionNeed) -> Outcome {
        missing()
    }
    fn embed(&mut self, _: &VectorsNeed) -> Outcome {
        missing()
    }
}

/// There is nobody to ask.
pub fn missing() -> Outcome {
    Outcome::Missing(MissingResult { message: "This host has no model for it".into() })
}

/// A host of one stream of entries.
pub struct Host {
    instantiate: Instantiate,
    options: String,
    filter: Option<Box<dyn Filter>>,
    wants_turns: bool,
    turns: Turns,
    due: VecDeque<Task>,
    ignored: HashSet<(String, String)>,
    /// What to tell the operator.
    pub reports: Vec<Problem>,
    /// How long an entry may take.
    pub time: Duration,
}

impl Host {
    /// A host whose filter has these options, a JSON object. It keeps at most `max_turns`.
    pub fn new(instantiate: Instantiate, options: &str, time: Duration, max_turns: usize) -> Result<Self> {
        let mut host = Self {
            instantiate,
            options: options.into(),
            filter: None,
            wants_turns: false,
            turns: Turns::new(max_turns),
            due: VecDeque::new(),
            ignored: HashSet::new(),
            reports: Vec::new(),
            time,
        };
        let mut filter = (host.instantiate)()?;
        let configured = filter.configure(&host.options, time)??;
        host.turns.by_node =
            configured.options.iter().any(|option| option.name == "memory_mode" && option.value == "\"node\"");
        host.wants_turns = configured.wants.iter().any(|want| want == "turns");
        host.reports = configured.warnings;
        host.filter = Some(filter);
        Ok(host)
    }

    /// Pass a question. Returns the metadata to send on, and the error that the entry has become.
    pub fn question(&mut self, text: &str, metadata: &str) -> (String, Option<Problem>) {
        let names = Names::read(metadata);
        let entry = QuestionEntry {
            text: text.into(),
            metadata: metadata.into(),
            message_id: None,
            tokens: None,
            vector: None,
            extras: None,
        };
        let reply = self.call(|filter, time| filter.question(&entry, time));
        let turn = match &reply {
            Some(reply) => Some(reply.turn.clone()).filter(|turn| !turn.is_empty()),
            None => names.session.is_some().then(String::new),
        };
        self.turns.end_last();
        if let Some(turn) = turn
            && self.turns.ask(Turn::new(names, turn, entry.text))
        {
            self.report_turns();
        }
        let Some(reply) = reply else { return (metadata.into(), None) };
        self.plan(reply.due);
        let error = reply.problem.clone().filter(|problem| problem.code == "no-node");
        self.report_reply(&reply.effect, reply.problem);
        (reply.metadata.unwrap_or_else(|| metadata.into()), error)
    }

    /// Pass an answer, which goes on as it came.
    pub fn answer(&mut self, text: &str, metadata: &str, status: Option<&str>) {
        let names = Names::read(metadata);
        let mut entry = AnswerEntry {
            text: text.into(),
            metadata: metadata.into(),
            turn: String::new(),
            message_id: None,
            question: TurnQuestion { text: String::new(), tokens: None },
            tools: Vec::new(),
            status: status.map(Into::into),
            tokens: None,
            details: None,
            extras: None,
        };
        if let Some(turn) = self.turns.of_answer(&names) {
            entry.turn = turn.turn.clone();
            entry.tools = turn.tools.clone();
            entry.question.text = turn.question.clone().filter(|_| self.wants_turns).unwrap_or_default();
            if turn.turn.is_empty() && names.session.is_some() {
                // The filter has not seen the question: the answer says whose session it is. Its own members count.
                entry.metadata = metadata.replacen('{', &format!("{{{}", turn.names.members), 1);
            }
        }
        let Some(reply) = self.call(|filter, time| filter.answer(&entry, time)) else { return };
        let is_stored =
            !["passed", "ignored", "foreign", "limited", "failed", "skipped", "ended"].contains(&&*reply.effect);
        if let Some(turn) = self.turns.of_answer(&names).filter(|_| is_stored) {
            turn.question = None;
            turn.tools.clear();
        }
        self.plan(reply.due);
        self.report_reply(&reply.effect, reply.problem);
    }

    /// A tool was called, or gave its result.
    pub fn tool(&mut self, activity: ToolActivity, metadata: &str) {
        if !self.wants_turns {
            return;
        }
        match self.turns.tool(Names::read(metadata), activity) {
            None => self.reports.push(Problem::new("tool", "", 0, "It is unknown whose turn a tool was used in")),
            Some(true) => self.report_turns(),
            Some(false) => {}
        }
    }

    /// A new conversation begins: of the session that the metadata name, or of all.
    pub fn open(&mut self, metadata: &str) {
        self.turns.open(&Names::read(metadata));
    }

    /// An entry could not be read. It may have been a question.
    pub fn unreadable(&mut self) {
        self.turns.end_last();
        self.reports.push(Problem::new("entry", "", 0, "An entry could not be read"));
    }

    /// Do what has become due, to its end. Call it when the entry has gone on.
    pub fn work(&mut self, model: &mut dyn Model) {
        while let Some(task) = self.due.pop_front() {
            let holder = format!("{:016x}", RandomState::new().build_hasher().finish());
            let mut job = Job { task, holder, lease_milliseconds: MODEL_MILLISECONDS, results: Vec::new() };
            for _ in 0..MAX_STEPS {
                let Some(progress) = self.call(|filter, time| filter.advance(&job, time)) else { break };
                self.reports.extend(progress.problem);
                job.task = progress.task;
                job.results = match &*progress.step {
                    "needs" => progress.needs.iter().map(|need| fulfil(need, model)).collect(),
                    "again" => Vec::new(),
                    _ => break,
                };
            }
        }
    }

    /// An operator's call. None: the instance ended at it.
    pub fn administer(&mut self, function: &str, arguments: &Arguments<'_>) -> Option<Val> {
        self.call(|filter, time| filter.administer(function, arguments, time))
    }

    /// Call the filter, within the entry's time. Replace an instance that has ended.
    fn call<T>(&mut self, call: impl FnOnce(&mut dyn Filter, Duration) -> Result<T>) -> Option<T> {
        let start = Instant::now();
        let filter = self.filter.take().map_or_else(|| self.another(), Ok);
        let result =
            filter.and_then(|mut filter| Ok((call(&mut *filter, self.time.saturating_sub(start.elapsed()))?, filter)));
        let Ok((reply, filter)) = result else {
            self.reports.push(Problem::new("instance", "", 0, "An instance of the filter ended and is replaced"));
            return None;
        };
        self.filter = Some(filter);
        Some(reply)
    }

    fn another(&self) -> Result<Box<dyn Filter>> {
        let mut filter = (self.instantiate)()?;
        filter.configure(&self.options, self.time)??;
        Ok(filter)
    }

    /// Of tasks of the same name and subject the newest is enough.
    fn plan(&mut self, due: Vec<Task>) {
        for task in due {
            let subject = |task: &Task| task.buckets.first().map(|bucket| (bucket.kind.clone(), bucket.name.clone()));
            self.due.retain(|old| old.name != task.name || subject(old) != subject(&task));
            self.due.push_back(task);
        }
    }

    fn report_reply(&mut self, effect: &str, problem: Option<Problem>) {
        let is_new = |problem: &Problem| {
            effect != "ignored" || self.ignored.insert((problem.code.clone(), problem.subject.clone()))
        };
        self.reports.extend(problem.filter(is_new));
    }

    fn report_turns(&mut self) {
        self.reports.push(Problem::new("turns", "", 0, "A question that waited for its answer was dropped"));
    }
}

fn fulfil(need: &Need, model: &mut dyn Model) -> NeedResult {
    match need {
        Need::Completion(need) => NeedResult { id: need.id, outcome: model.complete(need) },
        Need::Vectors(need) => NeedResult { id: need.id, outcome: model.embed(need) },
        Need::Call(need) => NeedResult { id: need.id, outcome: missing() },
    }
}
