//! Forgets a user: deletes their sessions, nodes, values and copies, a batch per call.
//!
//! Promises that an answer in flight stores nothing for a user forgotten meanwhile: the tombstone is written first, and each
//! registration expects the tombstone that its question saw. A user who comes back during the call is kept for the next one.

use crate::admin::delete::{delete_buckets, deletion, transactions_max};
use crate::context::Context;
use crate::contract::users::UserForgotten;
use crate::contract::{
    BucketId, DeleteRequest, Entry, Expectation, Host, LogEnd, Operation, Precondition, Problem, PutEntry, Receipt,
    Status, Transaction, VALUES, codes, kind,
};
use crate::entry::session_problem::{SessionResult, write_problem};
use crate::options::config::{KEYS_BYTES, MAX_KEYS};
use crate::recall::{copies, remove};
use crate::store;
use crate::store::{EntriesOutcome, Outcomes};
use crate::text::ids::is_session;
use crate::text::timestamp;
use crate::transcript::schema::{OWNER, SESSION};
use crate::users::registry::{ACTIVITY, FORGOTTEN, NODES, SESSIONS, USER, checked_user_bucket_name};
use crate::users::{activity_log, registry};

/// What one call deletes: sessions, and nodes.
const BATCH: usize = 32;

/// Of the map of what there is once of a user: when nothing of them was left.
const ERASED: &str = "erased";

/// How often to look again at what was registered meanwhile, and at how many of that.
const TRIES: u32 = 8;

const ANEW: u64 = 1000;

const ANEW_BYTES: u64 = 1 << 20;

/// What leaves the user's lists.
struct RemovedEntries {
    sessions: Vec<Entry>,
    nodes: Vec<Entry>,
}

/// Forget a user, a batch of sessions and nodes at a time.
pub fn forget_user(context: &Context<impl Host>, user: &str) -> SessionResult<UserForgotten> {
    let name = checked_user_bucket_name(user)?;
    forget_batch(context, &name).map_err(|failure| write_problem(&name, failure))
}

fn forget_batch(context: &Context<impl Host>, name: &str) -> Result<UserForgotten, Box<Problem>> {
    let mut done = UserForgotten { sessions: 0, nodes: 0, remaining: 1 };
    let (stamp, before) = next_stamp(context, name)?;
    let page = |map| Operation::page_entries(map, "", BATCH as u64, KEYS_BYTES);
    // What the index has of them are numbers, which go in the end.
    let [passages, terms, vectors] = remove::RESET_PASSAGES;
    let tombstone = [PutEntry { key: FORGOTTEN, text: &stamp }];
    let operations = [
        Operation::put(USER, &tombstone),
        Operation::reset_map(VALUES),
        Operation::reset_log(ACTIVITY, &[]),
        passages,
        terms,
        vectors,
        page(NODES),
        page(SESSIONS),
    ];
    let expectations = [registry::expect_not_forgotten(before.as_deref())];
    let receipt = of_bucket(context, name, Precondition::create(None), &expectations, &operations)?;
    if receipt.status == Status::Unmet {
        // Somebody else has just begun: this one is called again.
        return Ok(done);
    }
    let mut outcomes = applied(receipt)?;
    for _ in 0..2 {
        outcomes.take_changed()?;
    }
    // Whatever is registered or noted from here on moves it.
    let mut next = outcomes.take_extent()?.next();
    for _ in 0..2 {
        outcomes.take_extent()?;
    }
    outcomes.take_changed()?;
    let mut gone =
        RemovedEntries { nodes: outcomes.take_entry_page()?.entries, sessions: outcomes.take_entry_page()?.entries };
    // Stores give about as many as they are asked for.
    gone.nodes.truncate(BATCH);
    gone.sessions.truncate(BATCH);
    let broken = delete_theirs(context, name, &mut gone, &mut done)?;
    for _ in 0..TRIES {
        if let Some(remaining) = unlist(context, name, &gone, &expected(&stamp, next))? {
            done.remaining = remaining;
            break;
        }
        // They came back: that stays in the lists, for the next call. Or somebody else forgets them.
        next = retain_returned_entries(context, name, &mut gone, next)?;
    }
    if let Some((session, failure)) = broken {
        let message = format!(
            "Session {session} can't be read (its {} has the wrong type), so nobody knows whose it is. Delete it, then \
                 forget the user again; their other sessions were dealt with",
            failure.subject
        );
        return Err(Box::new(Problem { message, ..*failure }));
    }
    if done.remaining == 0 {
        let tombstone = [FORGOTTEN, ERASED].map(|key| PutEntry { key, text: &stamp });
        let operations = [Operation::put(USER, &tombstone)];
        // Unless they are being forgotten again, or came back: the next call handles that.
        let receipt = of_bucket(context, name, Precondition::REPLACE, &expected(&stamp, next), &operations)?;
        done.remaining = u64::from(receipt.status == Status::Unmet);
    }
    Ok(done)
}

/// When they are forgotten: later than whoever did that before, whatever the clocks say, for what is expected of a
/// tombstone depends on no two being the same. And what the one before says.
fn next_stamp(context: &Context<impl Host>, name: &str) -> Result<(String, Option<String>), Box<Problem>> {
    let before = store::read_entry_text(&context.host, registry::user_bucket(name), USER, FORGOTTEN)?;
    let after = before.as_deref().and_then(timestamp::parse_micros).map_or(0, |before| before.saturating_add(1));
    Ok((timestamp::format_timestamp(context.host.now_micros().max(after)), before))
}

/// Take what is gone from the user's lists, and count what is left. None: it is not as expected.
fn unlist<'g>(
    context: &Context<impl Host>,
    name: &str,
    gone: &'g RemovedEntries,
    expectations: &[Expectation<'_>],
) -> Result<Option<u64>, Box<Problem>> {
    let keys = |entries: &'g [Entry]| entries.iter().map(|entry| &*entry.key).collect::<Vec<&str>>();
    let (nodes, sessions) = (keys(&gone.nodes), keys(&gone.sessions));
    let count = |map| Operation::page_keys(map, "", MAX_KEYS, KEYS_BYTES);
    // What was copied since the tombstone is of what is gone, too.
    let [passages, terms, vectors] = remove::RESET_PASSAGES;
    let operations = [
        Operation::remove(NODES, &nodes),
        Operation::remove(SESSIONS, &sessions),
        count(NODES),
        count(SESSIONS),
        count(VALUES),
        copies::RAISE_REVISION,
        copies::RESET_COPY_STATES,
        passages,
        terms,
        vectors,
    ];
    let receipt = of_bucket(context, name, Precondition::LOOK, expectations, &operations)?;
    if receipt.status == Status::Unmet {
        return Ok(None);
    }
    let mut outcomes = applied(receipt)?;
    for _ in 0..2 {
        outcomes.take_changed()?;
    }
    let mut remaining = 0;
    for _ in 0..3 {
        let page = outcomes.take_key_page()?;
        remaining += page.keys.len() as u64 + u64::from(!page.cursor.is_empty());
    }
    Ok(Some(remaining))
}

/// Whatever was registered since a position is not gone; where the list stands now.
fn retain_returned_entries(
    context: &Context<impl Host>,
    name: &str,
    gone: &mut RemovedEntries,
    since: u64,
) -> Result<u64, Box<Problem>> {
    let (log, end) = (ACTIVITY, LogEnd::Newest);
    let read = [Operation::read(log, end, ANEW, ANEW_BYTES)];
    let run = applied(of_bucket(context, name, Precondition::LOOK, &[], &read)?)?.take_records()?;
    let back: Vec<String> = run.records.iter().filter_map(|record| activity_log::parse_session(record)).collect();
    let is_known = run.first <= since.max(run.extent.first) && back.len() == run.records.len();
    gone.sessions.retain(|entry| is_known && !back.contains(&entry.key));
    gone.nodes.retain(|entry| is_known && !back.contains(&entry.text));
    Ok(run.extent.next())
}

/// Delete what of these is this user's: a session if it is theirs or about to be, with its nodes; a node by its own owner
/// or, without one, by that of its session, if that is there. One wait for each 16 sessions, and three at most for the
/// nodes and the deletions. What can't be read does not hold up the others: it stays in the lists, and the first of that
/// is returned.
fn delete_theirs(
    context: &Context<impl Host>,
    user: &str,
    listed: &mut RemovedEntries,
    done: &mut UserForgotten,
) -> Result<Option<(String, Box<Problem>)>, Box<Problem>> {
    let names = listed.sessions.iter().map(|entry| &*entry.key).filter(|name| is_session(name));
    let sessions: Vec<_> = names.map(BucketId::session).collect();
    let mut others: Vec<BucketId<'_>> = Vec::new();
    for entry in listed.nodes.iter().filter(|entry| is_listed_node(entry)) {
        others.push(BucketId { kind: kind::NODE, name: &entry.key });
        let session = BucketId::session(&entry.text);
        if !sessions.contains(&session) && !others.contains(&session) {
            others.push(session);
        }
    }
    let most = transactions_max(&context.host);
    let mut seen = look_each(context, &sessions, &[GET_OWNER, PAGE_NODES], READS.min(most))?;
    seen.extend(look_each(context, &others, &[GET_OWNER], most)?);
    let looked = |bucket: BucketId<'_>| {
        let found = seen.iter().find(|seen| seen.bucket == bucket).map(|seen| &seen.found);
        found.map_or(Ok(None), |found| found.as_ref().map(Option::as_ref))
    };

    let (mut requests, mut broken) = (Vec::new(), Vec::new());
    // Nodes first: whose they are, their session may know.
    for entry in listed.nodes.iter().filter(|entry| is_listed_node(entry)) {
        let bucket = BucketId { kind: kind::NODE, name: &entry.key };
        let session = BucketId::session(&entry.text);
        match looked(bucket).and_then(|node| Ok((node, looked(session)?))) {
            Err(failure) => broken.push((&entry.key, &entry.text, failure)),
            Ok((node, session)) => {
                let owner = node.and_then(|node| node.owner.as_ref()).or(session.and_then(|seen| seen.owner.as_ref()));
                if node.is_some() && owner.is_none_or(|owner| owner == user) {
                    requests.push(DeleteRequest { generation: node.and_then(FoundBucket::named), ..deletion(bucket) });
                }
            }
        }
    }
    for entry in listed.sessions.iter().filter(|entry| is_session(&entry.key)) {
        let bucket = BucketId::session(&entry.key);
        match looked(bucket) {
            Err(failure) => broken.push((&entry.key, &entry.key, failure)),
            Ok(Some(found)) if found.is_theirs(user, &entry.text) => {
                for node in found.nodes.iter().filter(|node| is_session(node)) {
                    let bucket = BucketId { kind: kind::NODE, name: node };
                    if !requests.iter().any(|request| request.bucket == bucket) {
                        requests.push(deletion(bucket));
                    }
                }
                requests.push(DeleteRequest { generation: found.named(), ..deletion(bucket) });
            }
            Ok(_) => {}
        }
    }
    for (request, was_there) in requests.iter().zip(delete_buckets(context, &requests)?) {
        let count = if request.bucket.kind == kind::NODE { &mut done.nodes } else { &mut done.sessions };
        *count += u64::from(was_there);
    }
    let first = broken.first().map(|(_, session, failure)| ((*session).clone(), (*failure).clone()));
    let broken: Vec<String> = broken.into_iter().map(|(key, ..)| key.clone()).collect();
    listed.nodes.retain(|entry| !broken.contains(&entry.key));
    listed.sessions.retain(|entry| !broken.contains(&entry.key));
    Ok(first)
}

/// `get-all` operations of one call.
const READS: usize = 16;

const GET_OWNER: Operation<'static> = Operation::get(SESSION, &OWNER, 256);

const PAGE_NODES: Operation<'static> = Operation::page_keys(NODES, "", MAX_KEYS, KEYS_BYTES);

/// A bucket that was looked at, if it is there.
struct SeenBucket<'a> {
    bucket: BucketId<'a>,
    /// Its failure can only be `wrong-type`.
    found: Result<Option<FoundBucket>, Box<Problem>>,
}

/// Whose a bucket is.
struct FoundBucket {
    generation: String,
    owner: Option<String>,
    is_owner_unreadable: bool,
    /// Of a session.
    nodes: Vec<String>,
}

impl FoundBucket {
    fn of(receipt: Receipt) -> Result<Option<Self>, Box<Problem>> {
        if !receipt.is_applied() {
            return Ok(None);
        }
        let has_nodes = receipt.outcomes.len() > 1;
        let mut outcomes = Outcomes::of(receipt);
        let (owner, is_owner_unreadable) = match outcomes.take_entries()? {
            EntriesOutcome::Entries(found) => {
                (found.entries.into_iter().next().map(|entry| entry.text), !found.unreadable.is_empty())
            }
            EntriesOutcome::Oversize(_) => (None, true),
        };
        let nodes = if has_nodes { outcomes.take_key_page()?.keys } else { Vec::new() };
        Ok(Some(Self { generation: outcomes.generation, owner, is_owner_unreadable, nodes }))
    }

    /// Its generation, if the store named one.
    fn named(&self) -> Option<&str> {
        Some(&*self.generation).filter(|generation| !generation.is_empty())
    }

    /// Whether it is this user's session, or about to be: their list has this entry of it.
    fn is_theirs(&self, user: &str, entry: &str) -> bool {
        match &self.owner {
            Some(owner) => owner == user,
            None => !self.is_owner_unreadable && activity_log::entry_has_generation(entry, &self.generation),
        }
    }
}

fn look_each<'a>(
    context: &Context<impl Host>,
    buckets: &[BucketId<'a>],
    operations: &[Operation<'_>],
    most: usize,
) -> Result<Vec<SeenBucket<'a>>, Box<Problem>> {
    let mut seen = Vec::with_capacity(buckets.len());
    for batch in buckets.chunks(most) {
        let mut looks = Vec::with_capacity(batch.len());
        for &bucket in batch {
            let precondition = Precondition::LOOK;
            looks.push(Transaction { bucket, precondition, expectations: &[], operations }.into());
        }
        for (bucket, reply) in batch.iter().zip(store::transact_each(&context.host, &looks)) {
            let found = match reply.and_then(|reply| FoundBucket::of(reply.receipt)) {
                Err(failure) if failure.code != codes::WRONG_TYPE => return Err(failure),
                found => found,
            };
            seen.push(SeenBucket { bucket: *bucket, found });
        }
    }
    Ok(seen)
}

/// Whether a node, and its session, have names.
fn is_listed_node(entry: &Entry) -> bool {
    is_session(&entry.key) && is_session(&entry.text)
}

fn of_bucket(
    context: &Context<impl Host>,
    name: &str,
    precondition: Precondition<'_>,
    expectations: &[Expectation<'_>],
    operations: &[Operation<'_>],
) -> Result<Receipt, Box<Problem>> {
    store::transact(
        &context.host,
        &Transaction { bucket: registry::user_bucket(name), precondition, expectations, operations },
    )
}

fn applied(receipt: Receipt) -> Result<Outcomes, Box<Problem>> {
    if receipt.is_applied() { Ok(Outcomes::of(receipt)) } else { Err(Problem::out_of_turn()) }
}

/// No other call has begun to forget them since, and nothing was registered or noted.
fn expected(stamp: &str, next: u64) -> [Expectation<'_>; 2] {
    [Expectation::equal(USER, FORGOTTEN, stamp), Expectation::log(ACTIVITY, None, Some(next))]
}
