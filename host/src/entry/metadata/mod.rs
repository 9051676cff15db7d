//! Parses an entry's metadata as far as the host needs it, in one scan, and checks the metadata that a plugin returns.
//!
//! Promises that returned metadata is one JSON object, so that nothing in it can pass for a part of what it is put
//! into, and that no reader finds another owner in it than the entry's. What makes a session is not known here.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::Range,
};

use compact_str::CompactString;
use keepline_json::{self as json, JsonForm};

use crate::runtime::{EntryOwner, PluginFault};

/// Members that a plugin may add. A table of many takes long to make, on a thread that others need.
const MOST_ADDED: usize = 10_000;
/// Members that an object may have before it is worth a table to tell whether one is there twice.
const SMALL_OBJECT_MEMBERS: usize = 8;

/// Metadata, scanned once. Metadata that is not an object has no owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryMetadata<'a> {
    text: &'a str,
    form: JsonForm,
    owner: OwnerMembers<'a>,
    /// The member `memory_mode`.
    mode: Option<&'a str>,
    /// Whether it names a message: its own, or the one before it.
    pub(crate) names_message: bool,
    /// Whether it has the member `memory`, the switches of one entry.
    pub(crate) has_switches: bool,
    attached: AttachedRanges,
    keys: KeyFilter,
    /// Where the value of the last member ends; 0 if there is no member.
    end: usize,
}

/// Where a question's metadata has what the host reads of a reply, as byte ranges of the values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AttachedRanges {
    /// `memory_messages`: the window.
    pub(crate) messages: Option<Range<usize>>,
    /// `memory_model`: the model that is set for the session.
    pub(crate) model: Option<Range<usize>>,
}

impl AttachedRanges {
    fn record_member(&mut self, text: &str, key: &str, value: &str) {
        let begin = json::offset_in(text, value);
        let range = begin..begin + value.len();
        match key {
            "memory_messages" => self.messages = Some(range),
            "memory_model" => self.model = Some(range),
            _ => {}
        }
    }
}

/// A member's name, as it stands there.
#[derive(Clone, Copy)]
struct MemberName<'a> {
    raw: &'a str,
    has_escapes: bool,
}

impl<'a> MemberName<'a> {
    /// What it spells, without its quotes.
    fn name(self) -> Cow<'a, str> {
        let raw = || Cow::Borrowed(self.raw.trim_matches('"'));
        if self.has_escapes { json::decode_string(self.raw).unwrap_or_else(raw) } else { raw() }
    }
}

impl<'a> From<&'a str> for MemberName<'a> {
    fn from(raw: &'a str) -> Self {
        Self { raw, has_escapes: json::has_escapes(raw) }
    }
}

/// Roughly which members there are: of 64 kinds of names, those that occur. A name whose kind does not occur is new, and
/// to know that takes no search.
#[derive(Clone, Copy, Debug, Default)]
struct KeyFilter(u64);

impl KeyFilter {
    fn insert_name(&mut self, key: MemberName<'_>) {
        self.0 |= Self::kind(key);
    }

    fn may_have(self, key: MemberName<'_>) -> bool {
        self.0 & Self::kind(key) != 0
    }

    /// By length and three letters. An escape spells a name in another way, so that it may be any.
    fn kind(key: MemberName<'_>) -> u64 {
        if key.has_escapes {
            return u64::MAX;
        }
        let bytes = key.raw.as_bytes();
        let byte = |at: usize| usize::from(bytes.get(at).copied().unwrap_or_default());
        let length = bytes.len();
        let mixed = length + 7 * byte(1) + 3 * byte(length / 2) + 13 * byte(length.saturating_sub(2));
        1 << (mixed % 64)
    }
}

/// The members that say whose an entry is, as they stand there. Of several of one name the last one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OwnerMembers<'a> {
    session: Option<&'a str>,
    user: Option<&'a str>,
    app: Option<&'a str>,
    node: Option<&'a str>,
}

impl<'a> OwnerMembers<'a> {
    fn record_member(&mut self, key: MemberName<'a>, value: &'a str) {
        let place = match key.raw {
            "\"session_id\"" => &mut self.session,
            "\"user_id\"" => &mut self.user,
            "\"app_id\"" => &mut self.app,
            "\"node_id\"" => &mut self.node,
            _ if !key.has_escapes => return,
            _ => match json::decode_string(key.raw).as_deref() {
                Some("session_id") => &mut self.session,
                Some("user_id") => &mut self.user,
                Some("app_id") => &mut self.app,
                Some("node_id") => &mut self.node,
                _ => return,
            },
        };
        *place = Some(value);
    }
}

impl<'a> EntryMetadata<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        let (mut owner, mut keys, mut last) = (OwnerMembers::default(), KeyFilter::default(), None);
        let (mut mode, mut names_message, mut has_switches) = (None, false, false);
        let mut attached = AttachedRanges::default();
        let form = json::scan_object(text, |key, value| {
            let key = MemberName::from(key);
            owner.record_member(key, value);
            match key.name().as_ref() {
                "memory_mode" => mode = Some(value),
                "message_id" | "parent_message_id" => names_message |= value.starts_with('"'),
                "memory" => has_switches = true,
                name => attached.record_member(text, name, value),
            }
            keys.insert_name(key);
            last = Some(value);
        });
        let end = last.map_or(0, |value| json::offset_in(text, value) + value.len());
        match form {
            Some(form) => Self { text, form, owner, mode, names_message, has_switches, attached, keys, end },
            None => Self { text, ..Self::default() },
        }
    }

    /// Whether it asks for the transcript of a node, or for that of the session. None: it leaves that open.
    pub(crate) fn requested_node_mode(&self) -> Option<bool> {
        match json::decode_string(self.mode?).as_deref() {
            Some("node") => Some(true),
            Some("conversation") => Some(false),
            _ => None,
        }
    }

    /// Whether its `session_id` is something that no session is called, such as a number.
    pub(crate) fn has_unusable_session(&self) -> bool {
        self.owner.session.is_some_and(|raw| !raw.starts_with('"') && !is_falsy(raw))
    }

    /// The metadata with more members at the end: raw, each with a comma before it. The object must have a member already.
    pub(crate) fn with_members(&self, members: &str) -> String {
        let (own, tail) = self.text.split_at_checked(self.end).unwrap_or((self.text, ""));
        [own, members, tail].concat()
    }

    /// What is returned, if it begins with these members byte for byte, as a filter leaves them: then there is only the
    /// rest to be looked at.
    fn scan_appended_members<'b>(&self, returned: &'b str) -> Option<ScannedMetadata<'b>>
    where
        'a: 'b,
    {
        let own = self.text.get(..self.end).filter(|own| !own.is_empty())?;
        if !returned.starts_with(own) {
            return None;
        }
        let (mut owner, mut keys): (OwnerMembers<'b>, Keys<'b>) = (self.owner, Keys::default());
        let mut attached = self.attached.clone();
        let form = json::rest_of_object(returned, self.end, |key, value| {
            let key = MemberName::from(key);
            owner.record_member(key, value);
            keys.record_name(key);
            keys.may_repeat |= self.keys.may_have(key);
            attached.record_member(returned, &key.name(), value);
        })?;
        Some(ScannedMetadata { form, owner, may_repeat: keys.may_repeat, attached })
    }

    pub(crate) fn owner(&self) -> EntryOwner {
        let OwnerMembers { session, user, app, node } = self.owner;
        EntryOwner {
            session: non_empty_string(session),
            user: non_empty_string(user),
            app: non_empty_string(app),
            node: non_empty_string(node),
            ..EntryOwner::default()
        }
    }

    /// Whether these may be sent on in place of the entry's own: one JSON object that is at most so much longer, takes
    /// no liberty with the grammar that the entry's does not take, has no member twice that the entry's has not, and
    /// names the same owner.
    ///
    /// # Errors
    /// When they may not: then the plugin is at fault.
    pub(crate) fn check_returned(&self, returned: &str, most_added: usize) -> Result<AttachedRanges, PluginFault> {
        let most = self.text.len().saturating_add(most_added);
        if returned.len() > most {
            return Err(PluginFault::from_reason(format!(
                "its metadata is {} bytes long, over {most}",
                returned.len()
            )));
        }
        let Some(read) = self.scan_appended_members(returned).or_else(|| scan_whole_object(returned)) else {
            return Err(PluginFault::from_reason("its metadata is not one JSON object".into()));
        };
        if !read.form.is_within(self.form) {
            let liberties = "NaN or Infinity, a line break, a byte order mark, half a surrogate pair, a number of more than \
                             100 characters, or more than 125 levels";
            return Err(PluginFault::from_reason(format!("its metadata holds what the entry's does not: {liberties}")));
        }
        if read.owner != self.owner {
            let names = "session_id, user_id, app_id or node_id";
            return Err(PluginFault::from_reason(format!("its metadata changes whose entry it is: {names}")));
        }
        if read.may_repeat && has_new_duplicates(self.text, returned)? {
            return Err(PluginFault::from_reason("its metadata has a member twice".into()));
        }
        Ok(read.attached)
    }
}

/// What one scan of returned metadata finds.
struct ScannedMetadata<'a> {
    form: JsonForm,
    owner: OwnerMembers<'a>,
    /// Whether a member may be there twice.
    may_repeat: bool,
    attached: AttachedRanges,
}

fn scan_whole_object(text: &str) -> Option<ScannedMetadata<'_>> {
    let (mut owner, mut keys, mut attached) = (OwnerMembers::default(), Keys::default(), AttachedRanges::default());
    let form = json::scan_object(text, |key, value| {
        let key = MemberName::from(key);
        owner.record_member(key, value);
        keys.record_name(key);
        attached.record_member(text, &key.name(), value);
    })?;
    Some(ScannedMetadata { form, owner, may_repeat: keys.may_repeat, attached })
}

/// Whether Python treats a JSON value that is no string as false: then it names no session.
fn is_falsy(raw: &str) -> bool {
    match raw.as_bytes() {
        b"null" | b"false" => true,
        [b'[', inner @ .., b']'] | [b'{', inner @ .., b'}'] => inner.iter().all(u8::is_ascii_whitespace),
        _ => json::parse_number(raw) == Some(0.0),
    }
}

/// The text that a value spells, unless it is empty.
fn non_empty_string(raw: Option<&str>) -> Option<CompactString> {
    json::decode_string(raw?).filter(|name| !name.is_empty()).map(CompactString::from)
}

/// The first few keys of an object, and whether a closer look is needed to tell that none is there twice.
#[derive(Clone, Copy, Debug, Default)]
struct Keys<'a> {
    first: [&'a str; SMALL_OBJECT_MEMBERS],
    count: usize,
    may_repeat: bool,
}

impl<'a> Keys<'a> {
    fn record_name(&mut self, key: MemberName<'a>) {
        let before = self.first.get(..self.count).unwrap_or_default();
        self.may_repeat |= before.contains(&key.raw) || key.has_escapes;
        match self.first.get_mut(self.count) {
            Some(place) => (*place, self.count) = (key.raw, self.count + 1),
            None => self.may_repeat = true,
        }
    }
}

/// Whether a member is there more than once, and more often than in the entry's own.
///
/// # Errors
/// When so many are added that to compare them all would take too long.
fn has_new_duplicates(own: &str, returned: &str) -> Result<bool, PluginFault> {
    let count = |text: &str| {
        let mut count = 0_usize;
        let _ = json::for_each_member(text, |_, _| count += 1);
        count
    };
    if count(returned) > count(own).saturating_add(MOST_ADDED) {
        return Err(PluginFault::from_reason(format!(
            "its metadata has more than {MOST_ADDED} members more than the entry's"
        )));
    }
    let mut names = HashSet::new();
    let mut repeated: HashMap<Cow<'_, str>, usize> = HashMap::new();
    let read = json::for_each_member(returned, |key, _| {
        let name = json::decode_string(key).unwrap_or(Cow::Borrowed(key));
        if !names.insert(name.clone()) {
            *repeated.entry(name).or_insert(1) += 1;
        }
    });
    if read.is_none() || repeated.is_empty() {
        return Ok(read.is_none());
    }
    let counted = json::for_each_member(own, |key, _| {
        if let Some(count) = json::decode_string(key).and_then(|name| repeated.get_mut(&*name)) {
            *count = count.saturating_sub(1);
        }
    });
    Ok(counted.is_none() || repeated.values().any(|more| *more > 0))
}

#[cfg(test)]
mod tests;
