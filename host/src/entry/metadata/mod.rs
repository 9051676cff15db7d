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
use keepline_json::{self as json, Form};

use crate::runtime::{Fault, Owner};

/// Members that a plugin may add. A table of many takes long to make, on a thread that others need.
const MOST_ADDED: usize = 10_000;
/// Members that an object may have before it is worth a table to tell whether one is there twice.
const FEW: usize = 8;

/// Metadata, looked through once. What is no object has no owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata<'a> {
    text: &'a str,
    form: Form,
    owner: Named<'a>,
    /// The member `memory_mode`.
    mode: Option<&'a str>,
    /// Whether it names a message: its own, or the one before it.
    pub(crate) names_message: bool,
    /// Whether it has the member `memory`, the switches of one entry.
    pub(crate) has_switches: bool,
    attached: Attached,
    keys: KeyFilter,
    /// Where the value of the last member ends. 0: there is none.
    end: usize,
}

/// Where a question's metadata has what the host reads of a reply, as byte ranges of the values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attached {
    /// `memory_messages`: the window.
    pub(crate) messages: Option<Range<usize>>,
    /// `memory_model`: the model that is set for the session.
    pub(crate) model: Option<Range<usize>>,
}

impl Attached {
    fn note(&mut self, text: &str, key: &str, value: &str) {
        let begin = json::offset(text, value);
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
struct Key<'a> {
    raw: &'a str,
    has_escapes: bool,
}

impl<'a> Key<'a> {
    /// What it spells, without its quotes.
    fn name(self) -> Cow<'a, str> {
        let raw = || Cow::Borrowed(self.raw.trim_matches('"'));
        if self.has_escapes { json::string(self.raw).unwrap_or_else(raw) } else { raw() }
    }
}

impl<'a> From<&'a str> for Key<'a> {
    fn from(raw: &'a str) -> Self {
        Self { raw, has_escapes: json::has_escapes(raw) }
    }
}

/// Roughly which members there are: of 64 kinds of names, those that occur. A name whose kind does not occur is new, and
/// to know that takes no search.
#[derive(Clone, Copy, Debug, Default)]
struct KeyFilter(u64);

impl KeyFilter {
    fn note(&mut self, key: Key<'_>) {
        self.0 |= Self::kind(key);
    }

    fn may_have(self, key: Key<'_>) -> bool {
        self.0 & Self::kind(key) != 0
    }

    /// By length and three letters. An escape spells a name in another way, so that it may be any.
    fn kind(key: Key<'_>) -> u64 {
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
struct Named<'a> {
    session: Option<&'a str>,
    user: Option<&'a str>,
    app: Option<&'a str>,
    node: Option<&'a str>,
}

impl<'a> Named<'a> {
    fn note(&mut self, key: Key<'a>, value: &'a str) {
        let place = match key.raw {
            "\"session_id\"" => &mut self.session,
            "\"user_id\"" => &mut self.user,
            "\"app_id\"" => &mut self.app,
            "\"node_id\"" => &mut self.node,
            _ if !key.has_escapes => return,
            _ => match json::string(key.raw).as_deref() {
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

impl<'a> Metadata<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        let (mut owner, mut keys, mut last) = (Named::default(), KeyFilter::default(), None);
        let (mut mode, mut names_message, mut has_switches) = (None, false, false);
        let mut attached = Attached::default();
        let form = json::object(text, |key, value| {
            let key = Key::from(key);
            owner.note(key, value);
            match key.name().as_ref() {
                "memory_mode" => mode = Some(value),
                "message_id" | "parent_message_id" => names_message |= value.starts_with('"'),
                "memory" => has_switches = true,
                name => attached.note(text, name, value),
            }
            keys.note(key);
            last = Some(value);
        });
        let end = last.map_or(0, |value| json::offset(text, value) + value.len());
        match form {
            Some(form) => Self { text, form, owner, mode, names_message, has_switches, attached, keys, end },
            None => Self { text, ..Self::default() },
        }
    }

    /// Whether it asks for the transcript of a node, or for that of the session. None: it leaves that open.
    pub(crate) fn is_of_node(&self) -> Option<bool> {
        match json::string(self.mode?).as_deref() {
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
    fn continued<'b>(&self, returned: &'b str) -> Option<Read<'b>>
    where
        'a: 'b,
    {
        let own = self.text.get(..self.end).filter(|own| !own.is_empty())?;
        if !returned.starts_with(own) {
            return None;
        }
        let (mut owner, mut keys): (Named<'b>, Keys<'b>) = (self.owner, Keys::default());
        let mut attached = self.attached.clone();
        let form = json::rest_of_object(returned, self.end, |key, value| {
            let key = Key::from(key);
            owner.note(key, value);
            keys.note(key);
            keys.may_repeat |= self.keys.may_have(key);
            attached.note(returned, &key.name(), value);
        })?;
        Some(Read { form, owner, may_repeat: keys.may_repeat, attached })
    }

    pub(crate) fn owner(&self) -> Owner {
        let Named { session, user, app, node } = self.owner;
        Owner { session: name(session), user: name(user), app: name(app), node: name(node), ..Owner::default() }
    }

    /// Whether these may be sent on in place of the entry's own: one JSON object that is at most so much longer, takes
    /// no liberty with the grammar that the entry's does not take, has no member twice that the entry's has not, and
    /// names the same owner.
    ///
    /// # Errors
    /// When they may not: then the plugin is at fault.
    pub(crate) fn accept(&self, returned: &str, most_added: usize) -> Result<Attached, Fault> {
        let most = self.text.len().saturating_add(most_added);
        if returned.len() > most {
            return Err(Fault::of(format!("its metadata is {} bytes long, over {most}", returned.len())));
        }
        let Some(read) = self.continued(returned).or_else(|| whole(returned)) else {
            return Err(Fault::of("its metadata is not one JSON object".into()));
        };
        if !read.form.is_within(self.form) {
            let liberties = "NaN or Infinity, a line break, a byte order mark, half a surrogate pair, a number of more than \
                             100 characters, or more than 125 levels";
            return Err(Fault::of(format!("its metadata holds what the entry's does not: {liberties}")));
        }
        if read.owner != self.owner {
            let names = "session_id, user_id, app_id or node_id";
            return Err(Fault::of(format!("its metadata changes whose entry it is: {names}")));
        }
        if read.may_repeat && repeats(self.text, returned)? {
            return Err(Fault::of("its metadata has a member twice".into()));
        }
        Ok(read.attached)
    }
}

/// What one scan of returned metadata finds.
struct Read<'a> {
    form: Form,
    owner: Named<'a>,
    /// Whether a member may be there twice.
    may_repeat: bool,
    attached: Attached,
}

fn whole(text: &str) -> Option<Read<'_>> {
    let (mut owner, mut keys, mut attached) = (Named::default(), Keys::default(), Attached::default());
    let form = json::object(text, |key, value| {
        let key = Key::from(key);
        owner.note(key, value);
        keys.note(key);
        attached.note(text, &key.name(), value);
    })?;
    Some(Read { form, owner, may_repeat: keys.may_repeat, attached })
}

/// Whether Python treats a JSON value that is no string as false: then it names no session.
fn is_falsy(raw: &str) -> bool {
    match raw.as_bytes() {
        b"null" | b"false" => true,
        [b'[', inner @ .., b']'] | [b'{', inner @ .., b'}'] => inner.iter().all(u8::is_ascii_whitespace),
        _ => json::number(raw) == Some(0.0),
    }
}

/// The text that a value spells, unless it is empty.
fn name(raw: Option<&str>) -> Option<CompactString> {
    json::string(raw?).filter(|name| !name.is_empty()).map(CompactString::from)
}

/// The first few keys of an object, and whether a closer look is needed to tell that none is there twice.
#[derive(Clone, Copy, Debug, Default)]
struct Keys<'a> {
    first: [&'a str; FEW],
    count: usize,
    may_repeat: bool,
}

impl<'a> Keys<'a> {
    fn note(&mut self, key: Key<'a>) {
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
fn repeats(own: &str, returned: &str) -> Result<bool, Fault> {
    let count = |text: &str| {
        let mut count = 0_usize;
        let _ = json::members(text, |_, _| count += 1);
        count
    };
    if count(returned) > count(own).saturating_add(MOST_ADDED) {
        return Err(Fault::of(format!("its metadata has more than {MOST_ADDED} members more than the entry's")));
    }
    let mut names = HashSet::new();
    let mut repeated: HashMap<Cow<'_, str>, usize> = HashMap::new();
    let read = json::members(returned, |key, _| {
        let name = json::string(key).unwrap_or(Cow::Borrowed(key));
        if !names.insert(name.clone()) {
            *repeated.entry(name).or_insert(1) += 1;
        }
    });
    if read.is_none() || repeated.is_empty() {
        return Ok(read.is_none());
    }
    let counted = json::members(own, |key, _| {
        if let Some(count) = json::string(key).and_then(|name| repeated.get_mut(&*name)) {
            *count = count.saturating_sub(1);
        }
    });
    Ok(counted.is_none() || repeated.values().any(|more| *more > 0))
}

#[cfg(test)]
mod tests;
