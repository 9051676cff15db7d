//! Carries out the reads of runs, round by round: the store calls of a round are one wait.

use keepline_store_client::{
    BucketId, Entry, FoundDocuments, Host, IndexStep, IndexedReceipt, IndexedTransaction, LogEnd, LogRun, Operation,
    Precondition, Problem, Span, Transaction,
    bindings::keepline::store::indexes::SearchStep,
    checked::{self, EntriesOutcome, Outcomes},
    codes,
};

use super::{Owner, documents, events, graph, indexed::Reach, values};
use crate::run::{Found, Known, Read};

/// Reads of a call that are no single entries: the store's limit.
const READS: usize = 16;
/// Keys of a small map.
const KEYS: u64 = 1_000;
/// Bytes of entries that one operation asks for at most.
const ENTRY_BYTES: u64 = 4 << 20;

/// Who asks, as the host knows it, and whose data sets are read.
#[derive(Clone, Debug)]
pub struct Asker {
    pub owner: Owner,
    /// The bucket of the asking session.
    pub session: Option<String>,
    /// The bucket of the asking user.
    pub user: Option<String>,
}

/// What a read asks of its bucket in one round.
pub(super) enum Ask {
    /// Entries of a map by key.
    Entries { map: &'static str, keys: Vec<String> },
    /// All entries of a map, unless it has more.
    All { map: &'static str, entries: u64 },
    /// Keys of a map that has few.
    Keys { map: &'static str },
    /// The newest records of a log.
    Newest { log: &'static str, records: u64, bytes: u64 },
    /// Records at ascending positions.
    At { log: &'static str, spans: Vec<Span>, bytes: u64 },
    /// Terms of an index, each once.
    Search { index: &'static str, terms: Vec<u32>, reach: Reach },
}

/// What a bucket answers to an [`Ask`].
pub(super) enum Reply {
    Entries(Vec<Entry>),
    /// None: there are more than were asked for.
    All(Option<Vec<Entry>>),
    Keys(Vec<String>),
    Newest(LogRun),
    At(Vec<LogRun>),
    Search(FoundDocuments),
}

/// A read under way.
pub(super) trait ReadTask {
    /// What it wants to know next, if its bucket is there.
    fn asks(&self) -> Vec<Ask>;

    /// Take the replies, one for each ask. None: it has more to ask.
    fn take(&mut self, replies: Vec<Reply>) -> Option<Found>;
}

/// The kind and name of a bucket.
pub(super) type Bucket = (&'static str, String);

/// A read in its bucket.
struct Task {
    read: Read,
    bucket: Bucket,
    work: Box<dyn ReadTask>,
}

/// Tasks on one bucket, with what each asks.
struct Group {
    bucket: Bucket,
    tasks: Vec<(Task, Vec<Ask>)>,
}

/// Reads under way for the runs of one request.
pub struct Reader<'a, H> {
    host: &'a H,
    asker: &'a Asker,
    tasks: Vec<Task>,
    /// Waits for the store so far.
    pub waits: u32,
}

impl Group {
    fn asks(&self) -> Vec<&Ask> {
        self.tasks.iter().flat_map(|(_, asks)| asks).collect()
    }
}

impl<'a, H: Host> Reader<'a, H> {
    pub fn new(host: &'a H, asker: &'a Asker) -> Self {
        Self { host, asker, tasks: Vec::new(), waits: 0 }
    }

    /// Carry out the next round of what is wanted, and add what is complete to what is known. A read that needs more rounds
    /// stays under way while it is wanted.
    ///
    /// # Errors
    /// The store's problem.
    pub fn advance(&mut self, wanted: &[Read], known: &mut Known) -> Result<(), Box<Problem>> {
        self.tasks.retain(|task| wanted.contains(&task.read));
        for read in wanted {
            if self.tasks.iter().any(|task| task.read == *read) {
                continue;
            }
            match start(read, self.asker) {
                Some((bucket, work)) => self.tasks.push(Task { read: read.clone(), bucket, work }),
                None => known.add_read(read.clone(), Found::default()),
            }
        }
        let transactions = usize::try_from(self.host.store_profile().limits.transactions).unwrap_or(usize::MAX);
        for call in calls(std::mem::take(&mut self.tasks), transactions) {
            self.waits += 1;
            for (task, found) in carry_out(self.host, call)? {
                match found {
                    Some(found) => known.add_read(task.read, found),
                    None => self.tasks.push(task),
                }
            }
        }
        Ok(())
    }
}

/// Where a read has its data, and what it does there. None: there is no such place.
fn start(read: &Read, asker: &Asker) -> Option<(Bucket, Box<dyn ReadTask>)> {
    match read {
        Read::Values { instance, namespace, keys } => values::read(asker, instance, namespace, keys),
        Read::Events(query) => events::read(asker, query),
        Read::Documents(query) => documents::read(asker, query),
        Read::View { id } => Some(graph::read_entries(asker, graph::VIEWS, std::slice::from_ref(id))),
        Read::Nodes { ids } => Some(graph::read_entries(asker, graph::NODES, ids)),
        Read::Edges { nodes, direction } => Some(graph::read_entries(asker, graph::edges(*direction), nodes)),
        Read::MatchingNodes { members } => Some(graph::read_matching(asker, members)),
    }
}

/// Tasks in as few calls as the store allows, each bucket once in a call.
fn calls(tasks: Vec<Task>, transactions: usize) -> Vec<Vec<Group>> {
    let mut calls: Vec<Vec<Group>> = Vec::new();
    let mut reads = READS;
    for task in tasks {
        let asks = task.work.asks();
        let counted = asks.iter().filter(|ask| !matches!(ask, Ask::Entries { .. })).count();
        let known = calls.last().is_some_and(|call| call.iter().any(|group| group.bucket == task.bucket));
        let has_room = known || calls.last().is_some_and(|call| call.len() < transactions);
        if reads + counted > READS || !has_room {
            calls.push(Vec::new());
            reads = 0;
        }
        reads += counted;
        let Some(call) = calls.last_mut() else { continue };
        match call.iter_mut().find(|group| group.bucket == task.bucket) {
            Some(group) => group.tasks.push((task, asks)),
            None => call.push(Group { bucket: task.bucket.clone(), tasks: vec![(task, asks)] }),
        }
    }
    calls
}

/// Ask the store once. What each task has found; none: it has more to ask.
fn carry_out(host: &impl Host, call: Vec<Group>) -> Result<Vec<(Task, Option<Found>)>, Box<Problem>> {
    let receipts = {
        let keys: Vec<Vec<Vec<&str>>> =
            call.iter().map(|group| group.asks().into_iter().map(keys_of).collect()).collect();
        let parts: Vec<(Vec<Operation<'_>>, Vec<IndexStep<'_>>)> =
            call.iter().zip(&keys).map(|(group, keys)| operations(&group.asks(), keys)).collect();
        if parts.iter().any(|(_, steps)| !steps.is_empty()) {
            require_indexes(host)?;
        }
        let transactions: Vec<_> = call
            .iter()
            .zip(&parts)
            .map(|(Group { bucket: (kind, name), .. }, (operations, steps))| {
                let (bucket, precondition) = (BucketId { kind, name }, Precondition::LOOK);
                let transaction = Transaction { bucket, precondition, expectations: &[], operations };
                IndexedTransaction { lease: None, transaction, steps }
            })
            .collect();
        checked::transact_each(host, &transactions)
    };
    let mut done = Vec::new();
    for (group, receipt) in call.into_iter().zip(receipts) {
        let receipt = receipt?;
        if !receipt.receipt.is_applied() {
            done.extend(group.tasks.into_iter().map(|(task, _)| (task, Some(Found::default()))));
            continue;
        }
        for (mut task, replies) in replies(group, receipt)? {
            let found = task.work.take(replies);
            done.push((task, found));
        }
    }
    Ok(done)
}

/// # Errors
/// `unsupported`: the store has no indexes.
pub(super) fn require_indexes(host: &impl Host) -> Result<(), Box<Problem>> {
    if host.store_profile().indexes {
        return Ok(());
    }
    let message = "the store lacks indexes, which documents, graphs' nodes, and events by stream or type need";
    Err(Problem::new(codes::UNSUPPORTED, "indexes", message))
}

fn keys_of(ask: &Ask) -> Vec<&str> {
    match ask {
        Ask::Entries { keys, .. } => keys.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

fn operations<'a>(asks: &[&'a Ask], keys: &'a [Vec<&'a str>]) -> (Vec<Operation<'a>>, Vec<IndexStep<'a>>) {
    let (mut operations, mut steps) = (Vec::new(), Vec::new());
    for (ask, keys) in asks.iter().zip(keys) {
        match ask {
            Ask::Entries { map, .. } => operations.push(Operation::get_some(map, keys, ENTRY_BYTES)),
            Ask::All { map, entries } => operations.push(Operation::get_all(map, *entries, ENTRY_BYTES)),
            Ask::Keys { map } => operations.push(Operation::page_keys(map, "", KEYS, ENTRY_BYTES)),
            Ask::Newest { log, records, bytes } => {
                operations.push(Operation::read(log, LogEnd::Newest, *records, *bytes));
            }
            Ask::At { log, spans, bytes } => operations.push(Operation::read_at(log, spans, *bytes)),
            Ask::Search { index, terms, reach } => {
                let (newest, max_bytes) = (reach.positions(), reach.bytes());
                steps.push(IndexStep::Search(SearchStep { index, terms, newest, around: 0, max_bytes }));
            }
        }
    }
    (operations, steps)
}

/// Each task of a bucket with the replies to what it asked.
fn replies(group: Group, receipt: IndexedReceipt) -> Result<Vec<(Task, Vec<Reply>)>, Box<Problem>> {
    let mut outcomes = Outcomes::of_indexed(receipt);
    let mut answered = Vec::new();
    for (task, asks) in group.tasks {
        let mut replies = Vec::new();
        for ask in asks {
            replies.push(match ask {
                Ask::Entries { map, .. } => match outcomes.take_entries()? {
                    EntriesOutcome::Entries(found) => Reply::Entries(found.entries),
                    EntriesOutcome::Oversize(size) => {
                        let what = format!("{} bytes of {map} are over the limit of {ENTRY_BYTES}", size.bytes);
                        return Err(Box::new(Problem { limit: ENTRY_BYTES, ..*Problem::new(codes::LIMIT, map, what) }));
                    }
                },
                Ask::All { .. } => Reply::All(match outcomes.take_entries()? {
                    EntriesOutcome::Entries(found) => Some(found.entries),
                    EntriesOutcome::Oversize(_) => None,
                }),
                Ask::Keys { .. } => Reply::Keys(outcomes.take_key_page()?.keys),
                Ask::Newest { .. } => Reply::Newest(outcomes.take_records()?),
                Ask::At { .. } => Reply::At(outcomes.take_spans()?),
                Ask::Search { .. } => Reply::Search(outcomes.take_found()?),
            });
        }
        answered.push((task, replies));
    }
    Ok(answered)
}
