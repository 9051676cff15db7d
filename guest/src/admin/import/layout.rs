//! Lays imported messages out as records: turns, branches, ids, and results paired with their calls.

use keepline_json as json;

use crate::admin::import::chat_form::ChatConverter;
use crate::admin::import::sanitize::sanitize_record;
use crate::answer::turn_records;
use crate::contract::{Problem, StoreLimits};
use crate::entry::session_problem::SessionResult;
use crate::options::conversation::{Options, bounded};
use crate::text::ids::to_map_key;
use crate::text::json_values::parse_count;
use crate::text::quoting::python_repr;
use crate::text::timestamp;
use crate::transcript::record::{RecordKind, Role, StoredRecord, is_user_message};
use crate::transcript::thread::Branches;
use crate::transcript::turn_id::{fallback_message_key, new_turn_id};

/// Of the name of a source.
const SOURCE_BYTES: usize = 64;

/// Of a record, in JSON.
const RECORD_BYTES: usize = 2 << 20;

/// Of a piece of an import, if the store allows it.
const PIECE_RECORDS: usize = 4000;

const PIECE_BYTES: usize = 4 << 20;

/// What a position and a time begin with.
#[derive(Clone, Copy)]
pub(crate) struct ImportBase {
    /// The position that the first message gets.
    pub next: u64,
    pub micros: u64,
}

/// What a message comes after: its position, what its thread weighs, and its turn, if that is known.
pub(crate) struct PrecedingMessage {
    pub after: u64,
    pub total: u64,
    pub turn: String,
}

/// A message as it was handed in.
pub(crate) struct GivenRecord {
    /// As a record of this schema.
    text: String,
    pub number: u64,
    pub role: Role,
    has_turn: bool,
    /// The key of the message that it is said to follow.
    pub parent: Option<String>,
}

impl GivenRecord {
    /// A message becomes one record or several, or none. Their ids, and which they are, go into `ids`.
    pub(crate) fn convert_and_add(
        given: &mut Vec<Self>,
        converter: &mut ChatConverter,
        number: u64,
        text: &str,
        ids: &mut Vec<(String, usize)>,
    ) -> SessionResult<()> {
        // Its place in a file, which can have others before it.
        let number = json::member(text, "line").and_then(parse_count).unwrap_or(number);
        let unknown = || invalid_message(number, "it is not a JSON object");
        let text = json::mend_json(text).ok_or_else(unknown)?;
        for record in converter.convert_message(&text, number).ok_or_else(unknown)? {
            given.push(Self::of(given.len(), number, &record, ids)?);
        }
        Ok(())
    }

    fn of(index: usize, number: u64, text: &str, ids: &mut Vec<(String, usize)>) -> SessionResult<Self> {
        let (mut role, mut has_turn, mut id, mut parent, mut is_text) = (None, false, None, None, true);
        let string = |raw| json::decode_string(raw).filter(|text| !text.is_empty());
        let is_read = json::for_each_member(text, |key, raw| match json::decode_string(key).as_deref() {
            Some("role") => role = json::decode_string(raw),
            Some("turn") => has_turn = string(raw).is_some(),
            Some("id") => id = string(raw),
            Some("parent") => parent = string(raw),
            Some("content") => is_text = raw.starts_with(['"', '[']) || raw == "null",
            _ => {}
        });
        let parent = parent.map(|id| to_map_key(&id).into_owned());
        let mut given = Self { text: String::new(), number, role: Role::User, has_turn, parent };
        let body = text.trim_end().strip_suffix('}').filter(|_| is_read.is_some());
        let Some(body) = body else { return Err(given.invalid("it is not a JSON object")) };
        let Some(role) = role else { return Err(given.invalid("it has no role")) };
        given.role = Role::from_name(&role).ok_or_else(|| {
            let role = python_repr(&role);
            given.invalid(&["its role is ", &role, ", not user, assistant, tool, system or developer"].concat())
        })?;
        if !is_text {
            return Err(given.invalid("its content is neither a string nor an array"));
        }
        if let Some(id) = id {
            ids.push((to_map_key(&id).into_owned(), index));
        }
        // What comes last counts.
        given.text = [body, ",\"v\":1,\"weight\":0", if has_turn { "}" } else { ",\"turn\":\"-\"}" }].concat();
        Ok(given)
    }

    /// Whether its place depends on more than the newest record before it.
    pub(crate) fn refers_back(&self) -> bool {
        self.has_turn || self.parent.is_some() || self.role == Role::Tool
    }

    pub(crate) fn invalid(&self, what: &str) -> Box<Problem> {
        invalid_message(self.number, what)
    }
}

pub(crate) fn invalid_message(number: u64, what: &str) -> Box<Problem> {
    let message = ["Message ", &*number.to_string(), ": ", what].concat();
    Box::new(Problem { limit: number, ..*Problem::invalid("message", message) })
}

/// Messages as they are to be stored.
#[derive(Default)]
pub(crate) struct ImportLayout<'a> {
    pub records: Vec<String>,
    pub spots: Vec<PlacedMessage>,
    /// Ids of all messages, sorted, and which they are.
    pub ids: &'a [(String, usize)],
    /// Keys of the messages placed so far, and which they are.
    pub keys: Vec<(String, usize)>,
    /// Positions where branches begin.
    pub branches: Vec<(String, String)>,
    /// Whole results.
    pub results: Vec<(String, String)>,
    /// Calls that were made, of an earlier piece those of its end as well.
    pub calls: Vec<ImportedCall>,
    /// Results without a call, or whose call already has one.
    pub unpaired: Vec<u64>,
    /// Turns that have begun, sorted.
    pub turns: Vec<String>,
    /// The messages come after those that there are.
    pub is_added_to: bool,
    /// The newest is an answer.
    pub is_answered: bool,
    /// What a user said first, and which message it is.
    pub first: Option<(usize, String)>,
    /// The key of the newest.
    pub head: Option<String>,
    /// Which spots the messages handed in have: pauses have some, too.
    pub places: Vec<usize>,
    /// The spot of the newest message.
    pub newest: Option<usize>,
    /// How the messages go into the log beside what is there; none: in one transaction.
    pub staging: Option<Staging>,
    /// Where pieces end.
    pub pieces: Vec<PieceEnd>,
    /// Bytes of the piece that has not ended.
    pub piece_bytes: usize,
}

/// How messages are written in several transactions: until the last, the newest record is a pause, from where threads go on
/// with what was there before.
#[derive(Clone, Copy)]
pub(crate) struct Staging {
    /// The newest record that was there before, and what its thread weighs.
    pub old: Option<(u64, u64)>,
    /// Whether the first message goes on from nothing.
    pub is_root: bool,
    /// What a piece holds.
    pub piece: PieceSize,
}

/// Records of a piece of an import, and their bytes; up to twice as many where no turn begins.
#[derive(Clone, Copy)]
pub(crate) struct PieceSize {
    records: usize,
    bytes: usize,
}

impl PieceSize {
    /// As calls of the store allow. A record may come with a branch and a whole result.
    pub(crate) fn within(limits: StoreLimits) -> Self {
        Self {
            records: bounded(PIECE_RECORDS, limits.call_pieces / 8),
            bytes: bounded(PIECE_BYTES, limits.call_bytes / 4),
        }
    }
}

/// How much is written with a piece and those before it.
#[derive(Clone, Copy, Default)]
pub(crate) struct PieceEnd {
    pub records: usize,
    pub branches: usize,
    pub results: usize,
}

/// A call of a tool.
pub(crate) struct ImportedCall {
    pub turn: String,
    pub id: String,
    pub has_result: bool,
}

impl ImportedCall {
    pub(crate) fn of(turn: &str, id: &str) -> Self {
        Self { turn: turn.to_owned(), id: id.to_owned(), has_result: false }
    }
}

/// What is known of a message that is placed.
pub(crate) struct PlacedMessage {
    /// What the thread weighs that ends with it.
    pub total: u64,
    turn: String,
    /// The message that its key leads to: of a question the end of its turn, as long as nothing in that has an id.
    pub end: usize,
    /// The one whose key leads to the end of its turn.
    question: Option<usize>,
}

impl PlacedMessage {
    pub(crate) fn as_preceding(&self, after: u64) -> PrecedingMessage {
        PrecedingMessage { after, total: self.total, turn: self.turn.clone() }
    }
}

impl ImportLayout<'_> {
    pub(crate) fn place_message(
        &mut self,
        options: &Options,
        base: ImportBase,
        given: &GivenRecord,
        follows: Option<PrecedingMessage>,
    ) -> SessionResult<()> {
        let Some(mut record) = StoredRecord::parse(&given.text) else {
            return Err(given.invalid("it is not a message"));
        };
        record.role = given.role;
        record.kind = match (record.role, &record.tool, record.kind) {
            (Role::Tool, _, _) => RecordKind::ToolResult,
            (Role::System | Role::Developer, _, _) => RecordKind::Instruction,
            (Role::Assistant, Some(tool), _) if tool.arguments.is_some() => RecordKind::ToolCall,
            (_, _, RecordKind::Other) => RecordKind::Other,
            _ => RecordKind::Message,
        };
        let index = self.spots.len();
        self.places.push(index);
        self.newest = Some(index);
        let position = base.next + index as u64;
        let before = follows.as_ref().map_or(0, |follows| follows.total);
        // The first of a branch. One that goes on from itself goes on from nothing.
        let root = self.staging.filter(|staging| staging.is_root).map(|_| position);
        record.after = match &follows {
            Some(follows) => Some(follows.after).filter(|after| after + 1 != position),
            None => root,
        };
        if let Some(after) = record.after {
            self.branches.push((position.to_string(), Branches::write_entry(after, before)));
        }

        // A turn begins with what a user says, or where the message says so. A result belongs to the turn of its call, and an
        // instruction that follows an answer to none before it.
        let of_other = follows.map(|follows| follows.turn).filter(|turn| !turn.is_empty());
        let of_call = self.pair(given, &record, of_other.as_deref())?;
        let begins = is_user_message(&record) || (record.kind == RecordKind::Instruction && self.is_answered);
        let turn = match (&of_other, of_call) {
            _ if given.has_turn => to_map_key(&record.turn).into_owned(),
            (_, Some(turn)) => turn,
            (Some(turn), None) if !begins => turn.clone(),
            _ => new_turn_id(base.micros, position, &record.content),
        };
        record.is_apart &= self.is_answered && record.kind == RecordKind::ToolCall;
        self.is_answered = record.role == Role::Assistant && record.kind == RecordKind::Message;
        if record.kind == RecordKind::ToolCall {
            let id = record.tool.as_ref().map(|tool| tool.call_id.to_string()).unwrap_or_default();
            self.calls.push(ImportedCall::of(&turn, &id));
        }
        record.begins = of_other.as_ref() != Some(&turn);
        match self.turns.binary_search(&turn) {
            Ok(_) => record.begins = false,
            Err(at) => self.turns.insert(at, turn.clone()),
        }
        record.total = record.begins.then_some(before);
        record.turn = turn.clone().into();
        record.parent = given.parent.as_deref().map(Into::into);
        let source = record.source.take().filter(|source| !source.is_empty()).unwrap_or("import".into());
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if source.len() > SOURCE_BYTES || !source.bytes().all(is_name) {
            return Err(given.invalid("its source is not 1 to 64 letters, digits, hyphens, underscores and dots"));
        }
        let is_low = source == "import" || record.trust.as_deref() == Some("low");
        record.trust = is_low.then_some("low".into());
        record.source = Some(source);
        if record.at == "0" {
            record.at = timestamp::format_timestamp(base.micros).into();
        }
        if let Some(whole) = sanitize_record(options, &mut record).map_err(|what| given.invalid(what))? {
            let key = to_map_key(&[&*turn, "/", &*position.to_string()].concat()).into_owned();
            if let Some(tool) = &mut record.tool {
                tool.whole = Some(key.clone().into());
            }
            self.piece_bytes += whole.len();
            self.results.push((key, whole));
        }
        if self.first.is_none() && is_user_message(&record) {
            self.first = Some((index, record.content.to_string()));
        }
        let question = self.name(&mut record, index, position);
        let record = turn_records::weigh_record(record);
        let total = before.saturating_add(record.weight);
        self.spots.push(PlacedMessage { total, turn, end: index, question });
        let text = record.write();
        if text.len() > RECORD_BYTES {
            return Err(given.invalid("it is longer than 2 MiB"));
        }
        self.piece_bytes += text.len();
        self.records.push(text);
        Ok(())
    }

    /// Ends a piece before this message, if it is long enough: if possible, between two turns.
    pub(crate) fn end_piece_before(&mut self, base: ImportBase, given: &GivenRecord) {
        let Some(staging) = self.staging else { return };
        let count = self.records.len() - self.pieces.last().map_or(0, |piece| piece.records);
        let limit = if given.role == Role::User { 1 } else { 2 };
        let PieceSize { records, bytes } = staging.piece;
        if count < limit * records && self.piece_bytes < limit * bytes {
            return;
        }
        let position = base.next + self.spots.len() as u64;
        let (after, total) = staging.old.unwrap_or((position, 0));
        let turn = new_turn_id(base.micros, position, "");
        let at = timestamp::format_timestamp(base.micros);
        let mut pause = StoredRecord::new(&turn, Role::Assistant, "".into(), &at);
        (pause.kind, pause.begins) = (RecordKind::Other, true);
        (pause.after, pause.total) = (Some(after), Some(total));
        self.branches.push((position.to_string(), Branches::write_entry(after, total)));
        self.records.push(pause.write());
        self.spots.push(PlacedMessage { total, turn, end: self.spots.len(), question: None });
        let (records, branches, results) = (self.records.len(), self.branches.len(), self.results.len());
        self.pieces.push(PieceEnd { records, branches, results });
        self.piece_bytes = 0;
    }

    /// Notes where the message is found. The one whose key leads to the end of its turn, so far.
    fn name(&mut self, record: &mut StoredRecord<'_>, index: usize, position: u64) -> Option<usize> {
        let own = record.id.take().filter(|id| !id.is_empty()).map(|id| to_map_key(&id).into_owned());
        let last = self.spots.last().filter(|spot| record.after.is_none() && spot.turn == record.turn);
        let question = last.and_then(|spot| spot.question);
        let is_question = record.begins && (is_user_message(record) || own.is_none());
        let has_id = own.is_some();
        let key = match (own, question) {
            (Some(id), _) => id,
            (None, _) if is_question => fallback_message_key(&record.turn),
            (None, Some(question)) => {
                if let Some(spot) = self.spots.get_mut(question) {
                    spot.end = index;
                }
                return Some(question);
            }
            // Another branch of a turn, which has no name.
            (None, None) => [&*fallback_message_key(&record.turn), "-", &*position.to_string()].concat(),
        };
        // With an answer that has an id, a question is found where it stands.
        if let (false, Some(question)) = (is_question, question)
            && let Some(spot) = self.spots.get_mut(question)
        {
            spot.end = question;
        }
        if has_id || is_user_message(record) {
            record.id = Some(key.clone().into());
        }
        self.head = Some(key.clone());
        self.keys.push((key, index));
        is_question.then_some(index)
    }

    /// The turn of the call whose result it is: the oldest call of that id in this turn that has none, or the newest one
    /// of an earlier turn.
    fn pair(
        &mut self,
        given: &GivenRecord,
        record: &StoredRecord<'_>,
        turn: Option<&str>,
    ) -> SessionResult<Option<String>> {
        if !matches!(record.kind, RecordKind::ToolCall | RecordKind::ToolResult) {
            return Ok(None);
        }
        let call = record.tool.as_ref().map(|tool| &*tool.call_id).filter(|call| !call.is_empty());
        let Some(id) = call else { return Err(given.invalid("it has no tool.call_id")) };
        if record.kind == RecordKind::ToolCall {
            return Ok(None);
        }
        let is_open = |call: &ImportedCall| call.id == id && !call.has_result;
        let own = given.has_turn.then_some(&*record.turn).or(turn);
        let found = self.calls.iter().position(|call| is_open(call) && own == Some(&*call.turn));
        let found = found.or_else(|| self.calls.iter().rposition(is_open));
        match found.and_then(|index| self.calls.get_mut(index)) {
            Some(call) => {
                call.has_result = true;
                Ok(Some(call.turn.clone()))
            }
            None => {
                // Of an earlier piece, only the newest calls are known.
                if !self.is_added_to {
                    self.unpaired.push(given.number);
                }
                Ok(None)
            }
        }
    }
}
