//! Replaces a transcript's messages, or appends to them: imports from files and other systems.
//!
//! Promises that questions get the old messages or the new ones. More than one transaction takes goes in pieces: each appends
//! records that no thread leads to, and the last makes them the transcript.

pub(crate) mod chat_form;
pub(crate) mod layout;
pub(crate) mod sanitize;

use std::borrow::Cow;
use std::ops::Range;

use crate::admin::import::chat_form::ChatConverter;
use crate::admin::import::layout::{
    GivenRecord, ImportBase, ImportLayout, ImportedCall, PieceEnd, PieceSize, PrecedingMessage, Staging,
    invalid_message,
};
use crate::admin::message_form;
use crate::admin::sessions::limit_problem;
use crate::admin::version::{TranscriptVersion, unexpected_version};
use crate::answer::insertion_point::LocatedMessage;
use crate::context::Context;
use crate::contract::transcripts::{NewMessage, TranscriptChanged};
use crate::contract::{
    Expectation, Host, LogEnd, Operation, Precondition, Problem, PutEntry, Span, Status, Transaction, codes, kind,
};
use crate::entry::directives;
use crate::entry::session_problem::{SessionResult, check_status, conflict_problem, write_problem};
use crate::options::config::{KEYS_BYTES, MAX_KEYS};
use crate::options::conversation::{Options, bounded};
use crate::recall::invalidate::{MessageFate, remove_copies};
use crate::recall::schema::PASSAGES;
use crate::recall::{invalidate, remove};
use crate::store::Outcomes;
use crate::tasks::checkpoint::expect_session_entry;
use crate::text::json_values::parse_count;
use crate::text::quoting::python_repr;
use crate::transcript::address::{TRANSCRIPT_EXTENT, TranscriptAddress, TranscriptId};
use crate::transcript::record::{RecordKind, Role, StoredRecord, is_user_message};
use crate::transcript::schema::{
    BRANCHES, BYTES, HEAD, IMPORT, MESSAGES, OWNER, RESULTS, REVISION, SESSION, SETTINGS, SUMMARY, TITLE, TITLE_OF,
    TOTAL, TRANSCRIPT, UNTITLED, format_import, parse_import, revision_number,
};
use crate::transcript::skip_counters::COUNTERS;
use crate::transcript::title;
use crate::values::message_ids;
use crate::values::message_ids::{MessageId, REQUEST_IDS, REQUESTS};
use crate::{log, store};

/// How often to begin again when others come in between.
const TRIES: u32 = 8;

/// Messages of a call; with ids, branches and whole results, pieces of its transaction, and bytes of it.
const MESSAGES_MAX: usize = 10_000;

const PIECES_MAX: usize = 19_900;

const BYTES_MAX: usize = 16 << 20;

/// What each piece counts beside its bytes.
const PIECE_BYTES: usize = 96;

/// Newest records that are looked at where messages name a turn, a parent or a call.
const OPEN_RECORDS: u64 = 2048;

/// Newest records that are looked at where messages only follow the newest one: that one may be damaged.
const TAIL_RECORDS: u64 = 8;

/// What is read of an old transcript to find the message that its title was made of.
const FIRST_BYTES: u64 = 2 << 20;

const SESSION_BYTES: u64 = 1 << 20;

/// Put messages in the place of all that there are, or after them, where the transcript has to stand at `next`. How
/// many. A call that was made before, by its request id, changes nothing.
pub fn set_messages(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    messages: &[NewMessage],
    next: Option<u64>,
) -> SessionResult<TranscriptChanged> {
    let at = transcript.resolve_address()?;
    if messages.len() > MESSAGES_MAX {
        return Err(too_many(context, "messages", MESSAGES_MAX, &format!("{} messages", messages.len())));
    }
    let options = &context.config.conversation.clone().unwrap_or_default();
    let (mut given, mut ids) = (Vec::with_capacity(messages.len()), Vec::new());
    let mut converter = ChatConverter::default();
    for (number, message) in (1..).zip(messages) {
        let text = match message {
            NewMessage::Chat(chat) => Cow::Borrowed(&*chat.text),
            NewMessage::Message(message) => {
                message_form::to_json(message).map_err(|what| invalid_message(number, &what))?.into()
            }
        };
        GivenRecord::convert_and_add(&mut given, &mut converter, number, &text, &mut ids)?;
    }
    let ids = store::heap_sorted(ids);
    for pair in ids.windows(2) {
        if let [(first, _), (second, index)] = pair
            && first == second
            && let Some(given) = given.get(*index)
        {
            return Err(given.invalid(&["an earlier message has its id ", &python_repr(first), ", too"].concat()));
        }
    }
    let request = context.request_id.as_deref().and_then(MessageId::of_request);
    let tail = if given.iter().any(GivenRecord::refers_back) { OPEN_RECORDS } else { TAIL_RECORDS };
    for _ in 0..TRIES {
        let request = request.as_ref();
        let basis = import_basis(context, &at, next, tail, request)?;
        let import = TranscriptImport { context, at: &at, options, request, basis };
        let basis = &import.basis;
        if basis.is_repeated {
            return Ok(TranscriptChanged { count: given.len() as u64, next: basis.next });
        }
        let mut placed = import.place_messages((&given, &ids), None)?;
        let (status, passages) = if let Err(problem) = import.check_size(&placed, PieceEnd::default()) {
            let old = (basis.next > basis.first).then(|| (basis.next - 1, basis.total));
            let piece = PieceSize::within(context.config.limits);
            let staging = Staging { old, is_root: !basis.is_added_to && old.is_some(), piece };
            placed = import.place_messages((&given, &ids), Some(staging))?;
            if placed.pieces.is_empty() {
                return Err(problem);
            }
            import.write_in_pieces(&placed)?
        } else {
            import.write_messages(&placed, PieceEnd::default(), &[])?
        };
        match status {
            // With a request id, what came in between may be this very call.
            Status::Unmet if next.is_some() && request.is_none() => break,
            Status::Unmet => {}
            status => {
                check_status(at.session, at.bucket(), status)?;
                if next.is_none() {
                    remove::drop_orphans(&context.host, at.bucket(), passages)?;
                }
                for number in &placed.unpaired {
                    converter.notes.add("results that no call waits for are stored, but not shown to models", *number);
                }
                if let Some(told) = converter.notes.format_report() {
                    log::warn(&context.host, log::MESSAGES, &["Session ", &python_repr(at.session), ": ", &told]);
                }
                let next = basis.next + placed.records.len() as u64;
                return Ok(TranscriptChanged { count: given.len() as u64, next });
            }
        }
    }
    Err(conflict_problem(at.session))
}

fn too_many(context: &Context<impl Host>, name: &str, limit: usize, what: &str) -> Box<Problem> {
    let message =
        format!("{what} are too many for one call: it takes {limit}. Set the first, and add the others with `next`");
    limit_problem(context, name, limit as u64, message)
}

/// The transcript does not stand where the messages are to be added.
fn wrong_next(session: &str, next: u64, stands: u64) -> Box<Problem> {
    let message = format!("The transcript of session {} stands at {stands}, not at {next}", python_repr(session));
    Problem::new(codes::CONFLICT, "next", message)
}

/// `next`: where messages are added; of the newest records before them, `tail` matter.
fn import_basis(
    context: &Context<impl Host>,
    at: &TranscriptAddress<'_>,
    next: Option<u64>,
    tail: u64,
    request: Option<&MessageId<'_>>,
) -> SessionResult<ImportBasis> {
    let request_key = request.map(MessageId::key);
    let keys = [HEAD, TITLE, TITLE_OF, UNTITLED, TOTAL, REVISION, OWNER, IMPORT, SETTINGS];
    let operations = [
        TRANSCRIPT_EXTENT,
        Operation::get_some(SESSION, &keys, SESSION_BYTES),
        // What a title was made of; where messages are added, the calls that may still have no result.
        match next {
            None => Operation::read(TRANSCRIPT, LogEnd::Oldest, 8, FIRST_BYTES),
            Some(_) => Operation::read(TRANSCRIPT, LogEnd::Newest, tail, FIRST_BYTES),
        },
        Operation::get_some(REQUESTS, request_key.as_slice(), 64),
    ];
    let operations = operations.get(..if request.is_some() { 4 } else { 3 }).unwrap_or(&operations);
    let (bucket, precondition) = (at.bucket(), Precondition::LOOK);
    let look = Transaction { bucket, precondition, expectations: &[], operations };
    let receipt = store::transact(&context.host, &look)?;
    let mut basis = ImportBasis::default();
    if receipt.is_applied() {
        let mut outcomes = Outcomes::of(receipt);
        basis.life.clone_from(&outcomes.generation);
        let extent = outcomes.take_records()?.extent;
        (basis.first, basis.next) = (extent.first, extent.next());
        let mut once = outcomes.take_entries_by_key()?;
        if context.expected_version.is_some() {
            basis.version = TranscriptVersion::of(&basis.life, basis.next, once.entries()).name();
        }
        (basis.head, basis.title, basis.revision) = (once.take(HEAD), once.take(TITLE), once.take(REVISION));
        basis.settings = once.take(SETTINGS);
        let (of, is_settled) = (once.take(TITLE_OF), once.take(UNTITLED).as_deref() == Some(title::SETTLED));
        basis.owner = once.take(OWNER).filter(|_| at.node.is_none());
        basis.total = once.take(TOTAL).as_deref().and_then(parse_count).unwrap_or(0);
        basis.hidden = once.take(IMPORT).as_deref().map(parse_import).unwrap_or_default();
        let left = basis.hidden.last().filter(|last| next.is_some() && last.end == basis.next);
        basis.interrupted = left.map(|last| last.start);
        let mut read = outcomes.take_records()?.records;
        basis.is_repeated = request.is_some() && !outcomes.take_readable_entries()?.is_empty();
        if let Some(begin) = basis.interrupted {
            let position = begin.saturating_sub(tail).max(basis.first);
            let span = [Span { position, count: u32::try_from(begin - position).unwrap_or(0) }];
            let before = [Operation::read_at(TRANSCRIPT, &span, FIRST_BYTES)];
            let found = store::read_bucket(&context.host, bucket, Precondition::life(&basis.life), &before)?;
            read = found.map(|mut outcomes| outcomes.take_records()).transpose()?.unwrap_or_default().records;
        }
        if next.is_some() {
            basis.read_open(&read);
        }
        let mut said = read.iter().filter_map(|text| StoredRecord::parse(text)).filter(is_user_message);
        let first = said.next();
        basis.has_title_of_its_own = basis.title.as_deref().is_some_and(|title| {
            let origin = title::TitleOrigin::parse(of.as_deref(), title);
            let is_of = |record: &StoredRecord<'_>| origin.is_of(title, record, is_settled);
            !matches!(origin, title::TitleOrigin::Message(_)) && !first.as_ref().is_some_and(is_of)
        });
    } else if bucket.kind == kind::SESSION || next.is_some() {
        // A node's transcript is made by what is written to it.
        check_status(at.session, bucket, receipt.status)?;
    }
    basis.is_added_to = next.is_some();
    if !basis.is_repeated && context.expected_version.as_ref().is_some_and(|expected| *expected != basis.version) {
        return Err(unexpected_version());
    }
    match next {
        _ if basis.is_repeated => Ok(basis),
        // A call that was interrupted is made again from its beginning.
        Some(next) if basis.interrupted == Some(next) => Ok(basis),
        Some(next) if next != basis.next => Err(wrong_next(at.session, next, basis.next)),
        _ => Ok(basis),
    }
}

/// Messages on their way into a transcript.
struct TranscriptImport<'a, H> {
    context: &'a Context<H>,
    at: &'a TranscriptAddress<'a>,
    options: &'a Options,
    request: Option<&'a MessageId<'a>>,
    basis: ImportBasis,
}

impl<H: Host> TranscriptImport<'_, H> {
    fn precondition(&self) -> Precondition<'_> {
        if self.context.expected_version.is_some() {
            return Precondition::existing(Some(&*self.basis.life).filter(|life| !life.is_empty()));
        }
        if self.at.node.is_some() { directives::node_precondition(self.options) } else { Precondition::ANY }
    }

    /// Lays the messages out behind what there is.
    fn place_messages<'i>(
        &self,
        (given, ids): (&[GivenRecord], &'i [(String, usize)]),
        staging: Option<Staging>,
    ) -> SessionResult<ImportLayout<'i>> {
        let Self { context, options, basis, .. } = self;
        let base = ImportBase { next: basis.next, micros: context.host.now_micros() };
        let mut placed = ImportLayout { ids, is_added_to: basis.is_added_to, staging, ..ImportLayout::default() };
        placed.calls.extend(basis.calls.iter().map(|(turn, id)| ImportedCall::of(turn, id)));
        placed.turns = store::heap_sorted(basis.turns.clone());
        placed.is_answered = basis.is_answered;
        for given in given {
            placed.end_piece_before(base, given);
            let follows = self.follow(&placed, given)?;
            placed.place_message(options, base, given, follows)?;
        }
        Ok(placed)
    }

    /// What another message comes after; none: it is the first.
    fn follow(&self, placed: &ImportLayout<'_>, given: &GivenRecord) -> SessionResult<Option<PrecedingMessage>> {
        let Self { context, at, basis, .. } = self;
        let at_spot = |index: usize| Some(placed.spots.get(index)?.as_preceding(basis.next + index as u64));
        let newest = match placed.newest {
            Some(index) => at_spot(index),
            None if basis.is_added_to && basis.next > 0 => {
                let turn = basis.turns.last().cloned().unwrap_or_default();
                Some(PrecedingMessage { after: basis.next - 1, total: basis.total, turn })
            }
            None => None,
        };
        let Some(parent) = given.parent.as_deref() else { return Ok(newest) };
        if let Ok(found) = placed.ids.binary_search_by(|(id, _)| (**id).cmp(parent)) {
            let index = placed.ids.get(found).and_then(|(_, given)| placed.places.get(*given).copied());
            // Who asks next follows the whole turn.
            let end = index.map(|index| match given.role {
                Role::User => placed.spots.get(index).map_or(index, |spot| spot.end),
                _ => index,
            });
            if let Some(preceding) = end.and_then(at_spot) {
                return Ok(Some(preceding));
            }
        } else if basis.is_added_to {
            if placed.newest.is_none() && basis.head.as_deref() == Some(parent) {
                return Ok(newest);
            }
            let (bucket, precondition) = (at.bucket(), Precondition::LOOK);
            let look = Transaction { bucket, precondition, expectations: &[], operations: &[] };
            if let Some(found) = LocatedMessage::find_by_key(&context.host, &look, parent)? {
                let turn = found.question_turn(None).map(|asked| asked.turn).unwrap_or_default();
                return Ok(Some(PrecedingMessage { after: found.position, total: found.thread_weight(), turn }));
            }
        }
        Err(given.invalid(&["its parent ", &python_repr(parent), " is not the id of an earlier message"].concat()))
    }

    /// Whether what is left to be written after these pieces fits one transaction.
    fn check_size(&self, placed: &ImportLayout<'_>, written: PieceEnd) -> SessionResult<()> {
        let records = placed.records.get(written.records..).unwrap_or_default();
        let results = placed.results.get(written.results..).unwrap_or_default();
        // Ids that are added in one transaction are expected not to be there.
        let keys = placed.keys.len() * if self.basis.is_added_to && written.records == 0 { 2 } else { 1 };
        let pieces = records.len() + results.len() + placed.branches.len() + keys;
        let texts = records.iter().chain(results.iter().flat_map(|(key, text)| [key, text]));
        let texts = texts.chain(placed.keys.iter().map(|(key, _)| key));
        let texts = texts.chain(placed.branches.iter().flat_map(|(key, text)| [key, text]));
        let bytes = texts.map(String::len).sum::<usize>() + (pieces + 64) * PIECE_BYTES + placed.keys.len() * 8;
        let limits = self.context.config.limits;
        let (max_pieces, max_bytes) =
            (bounded(PIECES_MAX, limits.call_pieces - 100), bounded(BYTES_MAX, limits.call_bytes));
        if pieces > max_pieces {
            let what = format!("{pieces} records, ids, branches and whole results");
            return Err(too_many(self.context, "call-pieces", max_pieces, &what));
        }
        if bytes > max_bytes {
            return Err(too_many(self.context, "call-bytes", max_bytes, &format!("{bytes} bytes")));
        }
        Ok(())
    }

    /// Writes messages in several transactions. Until the last of them, threads lead to what was there before; what an
    /// interrupted call has left is a branch that nothing leads to, and is dropped when messages are set again.
    fn write_in_pieces(&self, placed: &ImportLayout<'_>) -> SessionResult<(Status, u64)> {
        let written = placed.pieces.last().copied().unwrap_or_default();
        self.check_size(placed, written)?;
        let old_results = if self.basis.is_added_to { Vec::new() } else { self.result_keys()? };
        if self.basis.is_added_to && self.has_known_id(placed)? {
            return Ok((Status::Unmet, 0));
        }
        let mut from = PieceEnd::default();
        for piece in &placed.pieces {
            match self.write_piece(placed, (from, *piece))? {
                Status::Applied | Status::Repeated => from = *piece,
                other => return Ok((other, 0)),
            }
        }
        let (status, passages) = self.write_messages(placed, from, &old_results)?;
        if matches!(status, Status::Applied | Status::Repeated) && !self.basis.is_added_to {
            self.drop_old_records(self.basis.next)?;
        }
        Ok((status, passages))
    }

    fn write_piece(&self, placed: &ImportLayout<'_>, (from, to): (PieceEnd, PieceEnd)) -> SessionResult<Status> {
        let Self { context, at, basis, .. } = self;
        let records = placed.records.get(from.records..to.records).unwrap_or_default();
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        let branches = pairs(placed.branches.get(from.branches..to.branches).unwrap_or_default());
        let results = pairs(placed.results.get(from.results..to.results).unwrap_or_default());
        let mut hidden = basis.hidden.clone();
        match hidden.last_mut().filter(|last| last.end == basis.next) {
            Some(last) => last.end = basis.next + to.records as u64,
            None => hidden.push(basis.next..basis.next + to.records as u64),
        }
        let under_way = format_import(&hidden);
        let marker = [PutEntry { key: IMPORT, text: &under_way }];
        let operations = [
            Operation::append(TRANSCRIPT, &records, &[]),
            Operation::put(BRANCHES, &branches),
            Operation::put(RESULTS, &results),
            Operation::put(SESSION, &marker),
        ];
        let expectations = [
            Expectation::log(TRANSCRIPT, None, Some(basis.next + from.records as u64)),
            expect_session_entry(REVISION, basis.revision.as_deref()),
        ];
        let (bucket, precondition) = (at.bucket(), self.precondition());
        let transaction = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
        Ok(store::transact(&context.host, &transaction)?.status)
    }

    /// The keys of all whole results.
    fn result_keys(&self) -> SessionResult<Vec<String>> {
        let (mut keys, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = [Operation::page_keys(RESULTS, &cursor, MAX_KEYS, KEYS_BYTES)];
            let found =
                store::read_bucket(&self.context.host, self.at.bucket(), Precondition::life(&self.basis.life), &page)?;
            let Some(mut outcomes) = found else { return Ok(keys) };
            let page = outcomes.take_key_page()?;
            keys.extend(page.keys);
            cursor = page.cursor;
            if cursor.is_empty() {
                return Ok(keys);
            }
        }
    }

    /// Whether a message that is to be added has the id of one that is there.
    fn has_known_id(&self, placed: &ImportLayout<'_>) -> SessionResult<bool> {
        let keys: Vec<&str> = placed.keys.iter().map(|(key, _)| &**key).collect();
        let get = [Operation::get_some(MESSAGES, &keys, BYTES_MAX as u64)];
        let found =
            store::read_bucket(&self.context.host, self.at.bucket(), Precondition::life(&self.basis.life), &get)?;
        found.map_or(Ok(false), |mut outcomes| outcomes.take_readable_entries().map(|known| !known.is_empty()))
    }

    /// Drops the records before a position: nothing leads to them any more.
    fn drop_old_records(&self, kept: u64) -> SessionResult<()> {
        const MOST: u64 = 10_000;
        let mut before = None;
        loop {
            let look = [TRANSCRIPT_EXTENT];
            let found = store::read_bucket(&self.context.host, self.at.bucket(), Precondition::LOOK, &look)?;
            let Some(first) =
                found.map(|mut outcomes| outcomes.take_records()).transpose()?.map(|run| run.extent.first)
            else {
                return Ok(());
            };
            let count = kept.saturating_sub(first).min(MOST);
            // A store where nothing was dropped does not do what it says.
            if count == 0 || before.replace(first) == Some(first) {
                return Ok(());
            }
            let (bucket, precondition) = (self.at.bucket(), Precondition::LOOK);
            let expectations = [Expectation::log(TRANSCRIPT, Some(first), None)];
            let operations = [Operation::replace_oldest(TRANSCRIPT, count, &[])];
            let dropped = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
            store::transact(&self.context.host, &dropped)?;
        }
    }

    /// Writes what the pieces before have not: the last transaction, or the only one. Returns what became of it, and where the
    /// passages begin then if there may be more of them in the index.
    fn write_messages(
        &self,
        placed: &ImportLayout<'_>,
        written: PieceEnd,
        old_results: &[String],
    ) -> SessionResult<(Status, u64)> {
        let Self { context, at, options, basis, .. } = self;
        let is_added = basis.is_added_to;
        let is_staged = written.records > 0;
        let records: Vec<&str> =
            placed.records.get(written.records..).unwrap_or_default().iter().map(String::as_str).collect();
        let mut keys = Vec::with_capacity(placed.keys.len());
        for (key, index) in &placed.keys {
            let end = placed.spots.get(*index).map_or(*index, |spot| spot.end);
            keys.push((key.clone(), (basis.next + end as u64).to_string()));
        }
        let bytes: usize = placed.records.iter().map(String::len).sum();

        let fate = if is_added { MessageFate::Changed(&[]) } else { MessageFate::Replaced };
        let owner = basis.owner.as_deref();
        remove_copies(context, at.session, &basis.life, owner, revision_number(basis.revision.as_deref()), fate)?;
        let before = if is_added { basis.total } else { 0 };
        let total = placed.spots.last().map_or(before, |spot| spot.total).to_string();
        let stored = bytes.to_string();
        let first = placed
            .first
            .as_ref()
            .map(|(_, text)| &**text)
            .filter(|_| options.auto_generate_titles && options.title_from_first_message);
        let named = first.map(|text| title::title_from_message(text, options.title_max_length));
        let key = placed.first.as_ref().and_then(|(first, _)| placed.keys.iter().find(|(_, index)| index == first));
        let of = named.as_deref().zip(key).map(|(title, (key, _))| title::format_origin(key, title));
        let mut once = vec![PutEntry { key: TOTAL, text: &total }];
        let owner = context.owner.as_deref().filter(|_| at.node.is_some());
        once.extend(owner.map(|text| PutEntry { key: OWNER, text }));
        let mut gone = vec![SUMMARY];
        match placed.head.as_deref() {
            Some(head) => once.push(PutEntry { key: HEAD, text: head }),
            None if !is_added => gone.push(HEAD),
            None => {}
        }
        if !is_added {
            gone.push(invalidate::INDEX_CURSOR_KEY);
            gone.extend(COUNTERS);
            once.push(PutEntry { key: BYTES, text: &stored });
            match named.as_deref() {
                Some(title) if !basis.has_title_of_its_own => once.push(PutEntry { key: TITLE, text: title }),
                None if !basis.has_title_of_its_own => gone.extend([TITLE, UNTITLED]),
                _ => {}
            }
            match of.as_deref() {
                _ if basis.has_title_of_its_own => {}
                Some(of) => once.push(PutEntry { key: TITLE_OF, text: of }),
                None => gone.push(TITLE_OF),
            }
        }
        let hidden = self.records_left_hidden(is_staged);
        if hidden.is_empty() {
            gone.push(IMPORT);
        } else {
            once.push(PutEntry { key: IMPORT, text: &hidden });
        }
        let append = if is_added || is_staged {
            Operation::append(TRANSCRIPT, &records, &[])
        } else {
            Operation::reset_log(TRANSCRIPT, &records)
        };
        let mut operations = vec![
            append,
            Operation::put(SESSION, &once),
            Operation::remove(SESSION, &gone),
            Operation::add(SESSION, REVISION, 1),
        ];
        let messages = pairs(&keys);
        // Threads of what was there end with it.
        let branches =
            if is_added { placed.branches.get(written.branches..).unwrap_or_default() } else { &placed.branches };
        let branches = pairs(branches);
        let results = pairs(placed.results.get(written.results..).unwrap_or_default());
        let old_results: Vec<&str> = old_results.iter().map(String::as_str).collect();
        let amount = i64::try_from(bytes).unwrap_or(0);
        if is_added {
            let all = [(MESSAGES, &messages), (BRANCHES, &branches), (RESULTS, &results)];
            operations.extend(all.map(|(map, entries)| Operation::put(map, entries)));
            operations.push(Operation::add(SESSION, BYTES, amount));
        } else {
            operations
                .extend([Operation::replace_map(MESSAGES, &messages), Operation::replace_map(BRANCHES, &branches)]);
            if is_staged {
                operations.extend([Operation::remove(RESULTS, &old_results), Operation::put(RESULTS, &results)]);
            } else {
                operations.push(Operation::replace_map(RESULTS, &results));
            }
            operations.extend(remove::RESET_PASSAGES);
        }
        let mut expectations = vec![
            Expectation::log(TRANSCRIPT, None, Some(basis.next + written.records as u64)),
            expect_session_entry(REVISION, basis.revision.as_deref()),
            expect_session_entry(TITLE, basis.title.as_deref()),
        ];
        // The rest of a version stands above, and in the precondition.
        if context.expected_version.is_some() {
            expectations.push(expect_session_entry(SETTINGS, basis.settings.as_deref()));
        }
        let new = keys.iter().filter(|_| is_added && !is_staged);
        expectations.extend(new.map(|(key, _)| Expectation::absent(MESSAGES, key)));
        self.commit(expectations, operations)
    }

    /// Applies the transaction that makes the messages the transcript, once for a request.
    fn commit(
        &self,
        expectations: Vec<Expectation<'_>>,
        operations: Vec<Operation<'_>>,
    ) -> SessionResult<(Status, u64)> {
        let Self { context, at, request, .. } = self;
        let (id_record, id_mark) = (request.map(MessageId::record), request.map(MessageId::mark));
        // They live as long as the shortest of what they name.
        let (mut expectations, mut operations) = (expectations, operations);
        if let Some(request) = request {
            expectations.push(request.is_new());
            let limits = context.config.limits;
            request.push_operations(&mut operations, id_record.as_slice(), id_mark.as_slice(), limits);
        }
        let (bucket, precondition) = (at.bucket(), self.precondition());
        let transaction = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
        let receipt = store::transact(&context.host, &transaction);
        let receipt = receipt.map_err(|failure| write_problem(at.session, failure))?;
        let passages = store::appended_extent(&transaction, &receipt, PASSAGES).map_or(0, |extent| extent.first);
        if receipt.is_applied() {
            message_ids::forget_surplus_ids(&context.host, REQUEST_IDS, &transaction, &receipt);
        }
        Ok((receipt.status, passages))
    }

    /// What stays hidden after the last transaction: what an interrupted call has left, or the old records until they are dropped.
    fn records_left_hidden(&self, is_staged: bool) -> String {
        match (self.basis.is_added_to, is_staged) {
            (true, _) => format_import(&self.basis.hidden),
            (false, true) => format_import(std::slice::from_ref(&(self.basis.first..self.basis.next))),
            (false, false) => String::new(),
        }
    }
}

fn pairs<T: AsRef<str>>(entries: &[(String, T)]) -> Vec<PutEntry<'_>> {
    entries.iter().map(|(key, text)| PutEntry { key, text: text.as_ref() }).collect()
}

/// The transcript as it is.
#[derive(Default)]
struct ImportBasis {
    first: u64,
    next: u64,
    /// What interrupted calls have left; and where that begins to which messages are added, if nothing was written since.
    hidden: Vec<Range<u64>>,
    interrupted: Option<u64>,
    total: u64,
    head: Option<String>,
    title: Option<String>,
    /// It was not made of the first message.
    has_title_of_its_own: bool,
    revision: Option<String>,
    settings: Option<String>,
    /// What stands for it.
    version: String,
    owner: Option<String>,
    life: String,
    /// The messages come after those that there are.
    is_added_to: bool,
    /// This call was made before.
    is_repeated: bool,
    /// Of the newest records: turns, and the calls without a result, with their turns.
    turns: Vec<String>,
    calls: Vec<(String, String)>,
    /// The newest is an answer.
    is_answered: bool,
}

impl ImportBasis {
    fn read_open(&mut self, records: &[String]) {
        for record in records.iter().filter_map(|text| StoredRecord::parse(text)) {
            if self.turns.last().is_none_or(|turn| *turn != record.turn) {
                self.turns.push(record.turn.to_string());
            }
            self.is_answered = record.kind == RecordKind::Message && record.role == Role::Assistant;
            let Some(tool) = &record.tool else { continue };
            let found = self.calls.iter().position(|(turn, id)| *turn == record.turn && *id == tool.call_id);
            match (record.kind, found) {
                (RecordKind::ToolCall, _) => self.calls.push((record.turn.to_string(), tool.call_id.to_string())),
                (RecordKind::ToolResult, Some(index)) => drop(self.calls.remove(index)),
                _ => {}
            }
        }
    }
}
