//! Routes each entry of a stream to the open turn that it belongs to.
//!
//! An entry that names a session reaches a turn of that session or none; one that names none reaches the turn of the
//! latest question. Nothing said in one session ever reaches another. Routing depends only on the entries and their
//! order, never on how their calls end, so a stream that several pipes serve routes as it does with one. Turns are
//! bounded in number and in bytes: the oldest are dropped first, and one that still waits for its answer is reported.

mod state;

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use compact_str::CompactString;
use keepline_json as json;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub use self::state::TurnState;
use super::ToolActivity;
use crate::{entry::metadata::EntryMetadata, keepline::inner::KeeplineInner, logging::LogLevel, runtime::EntryOwner};

/// The most turns of a stream.
const MAX_TURNS: usize = 10_000;
/// The most bytes of them: so many of the largest entries, and no less than this.
const MAX_ENTRIES: usize = 4;
const MIN_BYTES: usize = 64 << 20;

/// A turn of a stream: what its question and its answers share. Cheap to clone.
#[derive(Clone)]
pub struct Turn(Arc<TurnInner>);

struct TurnInner {
    /// Whom the question names; without a question, whom its first tool activity names.
    owner: Arc<EntryOwner>,
    number: u64,
    /// Whether it is in the transcript of a node.
    is_node: bool,
    kind: TurnKind,
    content: Mutex<TurnContent>,
    /// Bytes that are left after an answer that was not stored, in all of the stream.
    unstored: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum TurnKind {
    #[default]
    Usual,
    /// It was ended: its owner is all that is left of it.
    Ended,
    /// An answer to it can't be stored, because its question's owner may have been forgotten.
    Refused,
}

/// What is known of a turn before its answer.
#[derive(Default)]
pub(super) struct TurnContent {
    /// The filter's own. Empty: the question did not get that far.
    pub(super) state: String,
    pub(super) staged: StagedContent,
    /// Whether results may belong to calls that are not among the activity.
    pub(super) may_wait: bool,
    /// Whether an answer to it was stored: then so is its owner.
    is_stored: bool,
    /// Bytes that count as left over.
    unstored: usize,
}

/// What goes with the next answer, if the filter wants turns.
#[derive(Default)]
pub(super) struct StagedContent {
    pub(super) question_text: Option<String>,
    /// As counted by the caller.
    pub(super) question_tokens: Option<u32>,
    /// The model that is set for it.
    pub(super) model: Option<String>,
    pub(super) activity: Vec<ToolActivity>,
    activity_bytes: usize,
}

impl StagedContent {
    fn bytes(&self) -> usize {
        self.activity_bytes + self.question_text.as_ref().map_or(0, String::len)
    }
}

impl TurnContent {
    /// Stages what a tool did; whether there is room for it within `limit`.
    pub(super) fn stage(&mut self, mut activity: ToolActivity, limit: usize) -> bool {
        // The same call of the same tool may come twice, but not with nothing in between.
        let mut staged = self.staged.activity.iter().rev();
        let before = staged.find(|before| before.call_id == activity.call_id);
        if before.is_some_and(|before| activity.is_repeat_of(before)) {
            return true;
        }
        if before.is_none() && !self.may_wait && activity.is_result_without_call() {
            activity.arguments = Some("{}".to_owned());
        }
        let bytes = self.staged.activity_bytes.saturating_add(activity.size());
        if bytes > limit {
            return false;
        }
        self.staged.activity_bytes = bytes;
        self.staged.activity.push(activity);
        true
    }

    /// The staged question and activity are stored, or not wanted.
    pub(super) fn clear_staged(&mut self, is_stored: bool) {
        self.staged = StagedContent::default();
        self.is_stored |= is_stored;
    }
}

impl Turn {
    fn new(owner: Arc<EntryOwner>, number: u64, is_node: bool, kind: TurnKind, unstored: &Arc<AtomicUsize>) -> Self {
        let (content, unstored) = (Mutex::default(), unstored.clone());
        Self(Arc::new(TurnInner { owner, number, is_node, kind, content, unstored }))
    }

    /// Entries of turns with the same affinity have to be passed in the order of the stream. All turns of a session have
    /// the same.
    pub fn affinity(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match &self.0.owner.session {
            Some(session) => session.hash(&mut hasher),
            None => self.0.number.hash(&mut hasher),
        }
        hasher.finish()
    }

    /// All that its answer needs, to be brought to another process.
    pub fn export(&self) -> TurnState {
        TurnState::of(self)
    }

    pub(super) fn owner(&self) -> &Arc<EntryOwner> {
        &self.0.owner
    }

    pub(super) fn is_refused(&self) -> bool {
        self.0.kind == TurnKind::Refused
    }

    pub(super) fn edit<R>(&self, edit: impl FnOnce(&mut TurnContent) -> R) -> R {
        edit(&mut self.0.content.lock())
    }

    /// Its content, until that is dropped: then what was staged meanwhile comes after it.
    pub(super) fn take_content(&self) -> TakenContent<'_> {
        TakenContent { turn: self, content: std::mem::take(&mut *self.0.content.lock()) }
    }

    /// The metadata of an answer that names this turn's session, with what its question said of its owner, where the
    /// question did not get as far as the filter, which would know. None: they say it themselves, or there is nothing.
    pub(super) fn complete_metadata(
        &self,
        state: &str,
        metadata: &EntryMetadata<'_>,
        named: &EntryOwner,
    ) -> Option<String> {
        let TurnInner { owner, is_node, kind, .. } = &*self.0;
        if !state.is_empty() || named.session.is_none() || named.session != owner.session {
            return None;
        }
        let mut members = String::new();
        let mut add = |name: &str, named: &Option<CompactString>, own: &Option<CompactString>| {
            if let (None, Some(own)) = (named, own) {
                members.extend([",\"", name, "\":"]);
                json::push_string(&mut members, own);
            }
        };
        add("user_id", &named.user, &owner.user);
        if *is_node && *kind != TurnKind::Ended && metadata.requested_node_mode() != Some(false) {
            add("app_id", &named.app, &owner.app);
            add("node_id", &named.node, &owner.node);
            if metadata.requested_node_mode().is_none() {
                members.push_str(",\"memory_mode\":\"node\"");
            }
        }
        (!members.is_empty()).then(|| metadata.with_members(&members))
    }
}

/// See [`Turn::take_content`].
pub(super) struct TakenContent<'t> {
    turn: &'t Turn,
    content: TurnContent,
}

impl Deref for TakenContent<'_> {
    type Target = TurnContent;

    fn deref(&self) -> &TurnContent {
        &self.content
    }
}

impl DerefMut for TakenContent<'_> {
    fn deref_mut(&mut self) -> &mut TurnContent {
        &mut self.content
    }
}

impl Drop for TakenContent<'_> {
    fn drop(&mut self) {
        let TurnInner { content, unstored, .. } = &*self.turn.0;
        let mut content = content.lock();
        let later = std::mem::replace(&mut *content, std::mem::take(&mut self.content));
        content.staged.activity_bytes += later.staged.activity_bytes;
        content.staged.activity.extend(later.staged.activity);
        let bytes = content.staged.bytes();
        unstored.fetch_add(bytes, Ordering::Relaxed);
        unstored.fetch_sub(std::mem::replace(&mut content.unstored, bytes), Ordering::Relaxed);
    }
}

impl Drop for TurnInner {
    fn drop(&mut self) {
        self.unstored.fetch_sub(self.content.get_mut().unstored, Ordering::Relaxed);
    }
}

/// The open turns of one stream of entries, as [`Pipe`](super::Pipe) holds them. A program that serves one stream with
/// several pipes routes every entry here, in the order of the stream, and passes it with
/// [`Pipe::ask_in`](super::Pipe::ask_in), [`tool_in`](super::Pipe::tool_in) and [`reply_in`](super::Pipe::reply_in).
pub struct OpenTurns {
    inner: Arc<KeeplineInner>,
    /// By session. The one without a question's session has an empty name.
    sessions: HashMap<CompactString, Vec<OpenTurn>>,
    count: usize,
    /// Turns that wait for their answer.
    asked: usize,
    bytes: usize,
    unstored: Arc<AtomicUsize>,
    /// The turn of the question asked last. None: it is not known.
    last: Option<OpenTurnKey>,
    numbers: u64,
    limits: TurnLimits,
    /// Whether a turn was dropped whose user nothing else knows of.
    has_lost_owners: bool,
    has_warned: bool,
}

#[derive(Clone, Copy)]
struct TurnLimits {
    turns: usize,
    bytes: usize,
}

/// Where a turn is found: its session and its number.
type OpenTurnKey = (CompactString, u64);

struct OpenTurn {
    turn: Turn,
    stage: TurnStage,
    /// Whether its question may continue an earlier turn, whose calls are not known here.
    may_continue: bool,
    question_bytes: usize,
    tool_bytes: usize,
    /// Calls, and whether they wait for a result. Those that don't are forgotten with the next answer.
    calls: HashMap<String, bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TurnStage {
    /// It waits for its answer.
    Asked,
    /// There was an answer. More may follow.
    Answered,
    /// The conversation was ended.
    Ended,
}

impl OpenTurn {
    fn new(turn: Turn, stage: TurnStage) -> Self {
        Self { turn, stage, may_continue: false, question_bytes: 0, tool_bytes: 0, calls: HashMap::new() }
    }

    fn bytes(&self) -> usize {
        self.question_bytes + self.tool_bytes
    }

    /// Whether what names this owner may belong to it, in a session that is known to be the same.
    fn may_take(&self, owner: &EntryOwner, is_of_node: Option<bool>) -> bool {
        let TurnInner { owner: own, is_node, .. } = &*self.turn.0;
        if is_of_node.is_some_and(|is_of_node| is_of_node != *is_node) {
            return false;
        }
        let agree = |named: &Option<CompactString>, own: &Option<CompactString>| named.is_none() || named == own;
        (own.user.is_none() || agree(&owner.user, &own.user))
            && (!is_node || (agree(&owner.app, &own.app) && agree(&owner.node, &own.node)))
    }
}

/// The turn or session that an entry names.
enum NamedTurn {
    /// The newest turn of its session that it may belong to.
    Turn(OpenTurnKey),
    /// A session without such a turn.
    Session,
    /// It names something that no session can be called.
    Unusable,
    /// It names no session.
    Nothing,
}

impl OpenTurns {
    pub(crate) fn new(inner: Arc<KeeplineInner>) -> Self {
        let bytes = inner.max_entry_bytes.saturating_mul(MAX_ENTRIES).max(MIN_BYTES);
        Self {
            inner,
            sessions: HashMap::new(),
            count: 0,
            asked: 0,
            bytes: 0,
            unstored: Arc::default(),
            last: None,
            numbers: 0,
            limits: TurnLimits { turns: MAX_TURNS, bytes },
            has_lost_owners: false,
            has_warned: false,
        }
    }

    /// A question of so many bytes begins a turn, in the place of an earlier one of the same transcript and user.
    pub fn question(&mut self, metadata: &str, bytes: usize) -> Turn {
        let metadata = EntryMetadata::parse(metadata);
        self.begin_turn(&metadata, Arc::new(metadata.owner()), bytes, metadata.names_message)
    }

    pub(super) fn begin_turn(
        &mut self,
        metadata: &EntryMetadata<'_>,
        owner: Arc<EntryOwner>,
        bytes: usize,
        may_continue: bool,
    ) -> Turn {
        let key = self.insert(metadata, owner, TurnStage::Asked);
        let question_bytes = if self.inner.pool.wants_turns() { bytes } else { 0 };
        self.bytes += question_bytes;
        let turn = self.get(&key).map(|open| {
            (open.may_continue, open.question_bytes) = (may_continue, question_bytes);
            open.turn.clone()
        });
        self.last = Some(key);
        self.make_room();
        turn.unwrap_or_else(|| self.detached(EntryOwner::default(), TurnKind::Usual))
    }

    /// The turn that an answer belongs to: one of the session that it names, else that of the question asked last. Where
    /// there is none, a turn of its own.
    pub fn answer(&mut self, metadata: &str) -> Turn {
        let metadata = EntryMetadata::parse(metadata);
        self.answer_of(&metadata, &metadata.owner())
    }

    pub(super) fn answer_of(&mut self, metadata: &EntryMetadata<'_>, owner: &EntryOwner) -> Turn {
        let key = match self.find_named_turn(metadata, owner) {
            NamedTurn::Turn(key) => Some(key),
            NamedTurn::Nothing => {
                self.warn_of_others();
                self.last.clone()
            }
            NamedTurn::Session | NamedTurn::Unusable => None,
        };
        match key.and_then(|key| self.mark_answered(&key)) {
            Some(turn) => turn,
            None => {
                let is_refused = self.has_lost_owners && owner.session.is_some() && owner.user.is_none();
                self.detached(owner.clone(), if is_refused { TurnKind::Refused } else { TurnKind::Usual })
            }
        }
    }

    /// The turn that a tool's activity belongs to: one of the session that it names; else the only open one that has the
    /// call of a result; else that of the question asked last. None: that is ambiguous, which is reported, or the filter wants no turns.
    pub fn tool(&mut self, activity: &ToolActivity, metadata: &str) -> Option<Turn> {
        if !self.inner.pool.wants_turns() {
            return None;
        }
        let metadata = EntryMetadata::parse(metadata);
        let key = match self.find_named_turn(&metadata, &metadata.owner()) {
            NamedTurn::Turn(key) => Ok(key),
            // The turn of an answer whose question passes elsewhere.
            NamedTurn::Session => Ok(self.insert(&metadata, Arc::new(metadata.owner()), TurnStage::Asked)),
            NamedTurn::Unusable => Err("its session_id is not the id of a session"),
            NamedTurn::Nothing => self.unnamed(activity),
        };
        let key = match key {
            Ok(key) => key,
            Err(why) => {
                self.log_session_warning(&format!("activity of a tool is not kept: {why}"));
                return None;
            }
        };
        let limit = self.inner.max_entry_bytes;
        let open = self.get(&key)?;
        let turn = open.turn.clone();
        let bytes = open.tool_bytes.saturating_add(activity.size());
        // What is beyond the limit is not staged, either.
        if bytes <= limit {
            let added = bytes - std::mem::replace(&mut open.tool_bytes, bytes);
            open.calls.insert(activity.call_id.clone(), !activity.has_result());
            self.bytes += added;
            self.make_room();
        }
        Some(turn)
    }

    /// What follows has nothing to do with the turns before: of all sessions, or of the one that the metadata name.
    pub fn open(&mut self, metadata: &str) {
        let metadata = EntryMetadata::parse(metadata);
        let owner = metadata.owner();
        if metadata.has_unusable_session() {
            return self.end_last();
        }
        let Some(session) = &owner.session else {
            let sessions: Vec<CompactString> = self.sessions.keys().cloned().collect();
            sessions.iter().for_each(|session| self.end_turns(session, |_| true));
            return self.end_last();
        };
        let is_of_node = metadata.requested_node_mode();
        let names_node = owner.node.is_some() || owner.app.is_some();
        self.end_turns(session, |open| open.may_take(&owner, is_of_node) && (!names_node || open.turn.0.is_node));
    }

    /// There was an entry that could not be read. It may have been a question, so entries that name no session belong to no
    /// turn until the next one.
    pub fn end_last(&mut self) {
        self.last = None;
    }

    /// Ends those turns of a session: nothing is left of them but whom they belong to, unless that is stored.
    fn end_turns(&mut self, session: &CompactString, ends: impl Fn(&OpenTurn) -> bool) {
        let numbers = self.sessions.get(session).into_iter().flatten().filter(|open| ends(open));
        let numbers: Vec<u64> = numbers.map(|open| open.turn.0.number).collect();
        for number in numbers {
            let key = (session.clone(), number);
            if self.last.as_ref() == Some(&key) {
                self.last = None;
            }
            let Some(ended) = self.remove(&key).filter(|ended| self.alone_knows_owner(&ended.turn)) else { continue };
            let TurnInner { owner, is_node, .. } = &*ended.turn.0;
            let turn = Turn::new(owner.clone(), number, *is_node, TurnKind::Ended, &self.unstored);
            self.push(session.clone(), turn, TurnStage::Ended);
        }
    }

    fn find_named_turn(&self, metadata: &EntryMetadata<'_>, owner: &EntryOwner) -> NamedTurn {
        if metadata.has_unusable_session() {
            return NamedTurn::Unusable;
        }
        let Some(session) = &owner.session else { return NamedTurn::Nothing };
        let is_of_node = metadata.requested_node_mode();
        let turns = self.sessions.get(session).into_iter().flatten();
        let is_by_node = self.inner.pool.is_by_node();
        let rank = |open: &&OpenTurn| {
            let TurnInner { is_node, number, .. } = *open.turn.0;
            let waits = open.stage == TurnStage::Asked;
            // What names a node means that one's turn, if there is one: where nodes are but labels there is none. What names
            // none means, of turns that wait for an answer, that of the transcript which is meant where none is named.
            if owner.node.is_some() {
                (is_node, false, number)
            } else {
                (waits, waits && is_node == is_by_node, number)
            }
        };
        match turns.filter(|open| open.may_take(owner, is_of_node)).max_by_key(rank) {
            Some(open) => NamedTurn::Turn((session.clone(), open.turn.0.number)),
            None => NamedTurn::Session,
        }
    }

    /// The turn of activity that names no session.
    fn unnamed(&mut self, activity: &ToolActivity) -> Result<OpenTurnKey, &'static str> {
        let Some(last) = self.last.clone() else {
            return Err("it names no session, and no question came before it");
        };
        let is_result_only = activity.arguments.is_none();
        if is_result_only {
            let turns = self.sessions.iter().flat_map(|(session, turns)| turns.iter().map(move |open| (session, open)));
            let mut with_call = turns.filter(|(_, open)| open.calls.contains_key(&activity.call_id));
            match (with_call.next(), with_call.next()) {
                (Some((session, only)), None) => return Ok((session.clone(), only.turn.0.number)),
                (Some(_), Some(_)) => {
                    return Err("it names no session, and several open turns have a call with its call_id");
                }
                _ => {}
            }
        }
        let is_known = !is_result_only || activity.is_result_without_call();
        let of_last = self.get(&last).map(|open| (open.may_continue, usize::from(open.stage == TurnStage::Asked)));
        let (may_continue, own) = of_last.unwrap_or_default();
        let mut others = self.sessions.values().flatten().filter(|open| open.turn.0.number != last.1);
        if is_known || may_continue || (self.asked == own && others.all(|open| open.calls.is_empty())) {
            return Ok(last);
        }
        Err("it names no session, and no open turn has a call with its call_id")
    }

    fn warn_of_others(&mut self) {
        let Some((session, number)) = self.last.clone().filter(|(session, _)| !self.has_warned && !session.is_empty())
        else {
            return;
        };
        let Some(open) = self.get(&(session.clone(), number)) else { return };
        let (own, user) = (usize::from(open.stage == TurnStage::Asked), open.turn.0.owner.user.clone());
        if self.asked <= own {
            return;
        }
        let others = self.sessions.iter().filter(|(name, _)| !name.is_empty() && **name != session);
        let is_other =
            |open: &OpenTurn| open.stage == TurnStage::Asked && (user.is_none() || open.turn.0.owner.user != user);
        if others.flat_map(|(_, turns)| turns).any(is_other) {
            self.has_warned = true;
            self.log_session_warning(&format!(
                "an answer without a session_id goes to session '{session}', which asked last, while turns of other users \
                 are open: name the session in every answer (reported once)"
            ));
        }
    }

    /// A turn of the transcript and the user that these metadata name, in the place of an earlier one.
    fn insert(&mut self, metadata: &EntryMetadata<'_>, owner: Arc<EntryOwner>, stage: TurnStage) -> OpenTurnKey {
        let is_node = metadata.requested_node_mode().unwrap_or_else(|| self.inner.pool.is_by_node());
        let session = owner.session.clone().unwrap_or_default();
        let is_same = |open: &&mut OpenTurn| {
            let TurnInner { owner: own, is_node: is_own_node, .. } = &*open.turn.0;
            *is_own_node == is_node
                && own.user == owner.user
                && (!is_node || (own.app == owner.app && own.node == owner.node))
        };
        self.numbers += 1;
        let turn = Turn::new(owner.clone(), self.numbers, is_node, TurnKind::Usual, &self.unstored);
        let replaced = self.sessions.get_mut(&session).and_then(|turns| turns.iter_mut().find(is_same));
        match replaced {
            Some(open) => {
                let old = std::mem::replace(open, OpenTurn::new(turn, stage));
                self.asked += usize::from(stage == TurnStage::Asked);
                self.uncount_turn(&old);
            }
            None => self.push(session.clone(), turn, stage),
        }
        (session, self.numbers)
    }

    fn push(&mut self, session: CompactString, turn: Turn, stage: TurnStage) {
        self.sessions.entry(session).or_default().push(OpenTurn::new(turn, stage));
        self.count += 1;
        self.asked += usize::from(stage == TurnStage::Asked);
    }

    fn get(&mut self, (session, number): &OpenTurnKey) -> Option<&mut OpenTurn> {
        self.sessions.get_mut(session)?.iter_mut().find(|open| open.turn.0.number == *number)
    }

    fn remove(&mut self, key: &OpenTurnKey) -> Option<OpenTurn> {
        let turns = self.sessions.get_mut(&key.0)?;
        let at = turns.iter().position(|open| open.turn.0.number == key.1)?;
        let open = turns.swap_remove(at);
        if turns.is_empty() {
            self.sessions.remove(&key.0);
        }
        self.count -= 1;
        self.uncount_turn(&open);
        Some(open)
    }

    /// What a turn counts for that is no longer there.
    fn uncount_turn(&mut self, open: &OpenTurn) {
        self.asked -= usize::from(open.stage == TurnStage::Asked);
        self.bytes = self.bytes.saturating_sub(open.bytes());
    }

    /// The turn, which is answered from now on: its staged content goes with the answer, and only calls without a result
    /// are left.
    fn mark_answered(&mut self, key: &OpenTurnKey) -> Option<Turn> {
        let open = self.get(key)?;
        let turn = open.turn.clone();
        let was_asked = open.stage == TurnStage::Asked;
        open.stage = if turn.0.kind == TurnKind::Ended { TurnStage::Ended } else { TurnStage::Answered };
        let bytes = open.bytes();
        (open.question_bytes, open.tool_bytes) = (0, 0);
        open.calls.retain(|_, is_pending| *is_pending);
        self.asked -= usize::from(was_asked);
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(turn)
    }

    /// A turn that no other entry belongs to.
    fn detached(&mut self, owner: EntryOwner, kind: TurnKind) -> Turn {
        self.numbers += 1;
        Turn::new(owner.into(), self.numbers, false, kind, &self.unstored)
    }

    fn is_over_limits(&self) -> bool {
        self.count > self.limits.turns
            || self.bytes.saturating_add(self.unstored.load(Ordering::Relaxed)) > self.limits.bytes
    }

    /// Drops the oldest turns while there are too many, answered ones first, and never the one asked last.
    fn make_room(&mut self) {
        while self.is_over_limits() {
            let oldest = self.oldest_turns();
            if oldest.is_empty() {
                return;
            }
            oldest.iter().for_each(|key| self.drop_turn(key));
        }
    }

    /// What goes first. Some of the answered ones at once, so that not every question has to look for the oldest; where only
    /// bytes are short, those that hold any.
    fn oldest_turns(&self) -> Vec<OpenTurnKey> {
        let is_full = self.count > self.limits.turns;
        let mut answered: Vec<(u64, &CompactString)> = Vec::new();
        let mut asked: Option<(u64, &CompactString)> = None;
        for (session, turns) in &self.sessions {
            for open in turns {
                let found = (open.turn.0.number, session);
                if self.last.as_ref().is_some_and(|(_, last)| *last == found.0) {
                    continue;
                }
                if open.stage == TurnStage::Asked {
                    asked = Some(asked.map_or(found, |oldest| oldest.min(found)));
                } else if is_full || open.turn.edit(|content| content.unstored > 0) {
                    answered.push(found);
                }
            }
        }
        answered.sort_unstable();
        answered.truncate((answered.len() / 8).max(1));
        if answered.is_empty() {
            answered.extend(asked);
        }
        answered.into_iter().map(|(number, session)| (session.clone(), number)).collect()
    }

    fn drop_turn(&mut self, key: &OpenTurnKey) {
        let Some(open) = self.remove(key) else { return };
        self.has_lost_owners |= self.alone_knows_owner(&open.turn);
        if open.stage == TurnStage::Asked {
            let TurnLimits { turns, bytes } = self.limits;
            let message = format!(
                "the turn of session '{}' was dropped while it waited for its answer, which will lack its question: a \
                 stream holds at most {turns} turns, and {bytes} bytes of them",
                key.0
            );
            self.inner.log().log_from_host(LogLevel::Warn, "keepline.limit", &message);
        }
    }

    /// Whether the session may get an answer whose user nothing but this turn knows: then the next one to ask would own it.
    fn alone_knows_owner(&self, turn: &Turn) -> bool {
        let owner = turn.owner();
        let is_named = owner.session.is_some() && owner.user.is_some();
        is_named && self.inner.pool.wants_turns() && !turn.edit(|content| content.is_stored)
    }

    fn log_session_warning(&self, message: &str) {
        self.inner.log().log_from_host(LogLevel::Warn, "keepline.session", message);
    }

    #[cfg(test)]
    pub(super) fn last_turn(&mut self) -> Option<Turn> {
        let last = self.last.clone()?;
        self.get(&last).map(|open| open.turn.clone())
    }
}

#[cfg(test)]
mod tests;
