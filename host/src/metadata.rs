//! An entry's metadata, as far as the host looks at it: whom the entry belongs to, and what may come back in their
//! place.
//!
//! Promises that what a plugin returns is one JSON object, so that nothing in it can pass for a part of what it is put
//! into, and that no reader can find in it another owner than the entry's. Refuses to know what makes a session.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use compact_str::CompactString;
use keepline_json::{self as json, Form};

use crate::runtime::{Fault, Owner};

/// Members that an object may have before it is worth a table to tell whether one is there twice.
const FEW: usize = 16;

/// Metadata, looked through once. What is no object has no owner.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Metadata<'a> {
    text: &'a str,
    form: Form,
    owner: Named<'a>,
    keys: KeyFilter,
    /// Where the value of the last member ends. 0: there is none.
    end: usize,
}

/// Roughly which members there are: of 64 kinds of names, those that occur. A name whose kind does not occur is new, and
/// to know that takes no search.
#[derive(Clone, Copy, Debug, Default)]
struct KeyFilter(u64);

impl KeyFilter {
    fn note(&mut self, key: &str) {
        self.0 |= Self::kind(key);
    }

    fn may_have(self, key: &str) -> bool {
        self.0 & Self::kind(key) != 0
    }

    /// By length and three letters. An escape spells a name in another way, so that it may be any.
    fn kind(key: &str) -> u64 {
        let bytes = key.as_bytes();
        if bytes.contains(&b'\\') {
            return u64::MAX;
        }
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
    fn note(&mut self, key: &'a str, value: &'a str) {
        let place = match key {
            "\"session_id\"" => &mut self.session,
            "\"user_id\"" => &mut self.user,
            "\"app_id\"" => &mut self.app,
            "\"node_id\"" => &mut self.node,
            _ if !key.contains('\\') => return,
            _ => match json::string(key).as_deref() {
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
        let form = json::object(text, |key, value| {
            owner.note(key, value);
            keys.note(key);
            last = Some(value);
        });
        let end = last.map_or(0, |value| json::offset(text, value) + value.len());
        match form {
            Some(form) => Self { text, form, owner, keys, end },
            None => Self { text, ..Self::default() },
        }
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
        let form = json::rest_of_object(returned, self.end, |key, value| {
            owner.note(key, value);
            keys.note(key);
            keys.may_repeat |= self.keys.may_have(key);
        })?;
        Some((form, owner, keys.may_repeat))
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
    pub(crate) fn accept(&self, returned: &str, most_added: usize) -> Result<(), Fault> {
        let most = self.text.len().saturating_add(most_added);
        if returned.len() > most {
            return Err(Fault::of(format!("its metadata is {} bytes long, over {most}", returned.len())));
        }
        let Some((form, owner, may_repeat)) = self.continued(returned).or_else(|| whole(returned)) else {
            return Err(Fault::of("its metadata is not one JSON object".into()));
        };
        if !form.is_within(self.form) {
            let liberties = "NaN or Infinity, a line break, or a byte order mark";
            return Err(Fault::of(format!("its metadata holds what the entry's does not: {liberties}")));
        }
        if owner != self.owner {
            let names = "session_id, user_id, app_id or node_id";
            return Err(Fault::of(format!("its metadata changes whose entry it is: {names}")));
        }
        if may_repeat && repeats(self.text, returned) {
            return Err(Fault::of("its metadata has a member twice".into()));
        }
        Ok(())
    }
}

/// An object's form, whom it names, and whether a member may be there twice.
type Read<'a> = (Form, Named<'a>, bool);

fn whole(text: &str) -> Option<Read<'_>> {
    let (mut owner, mut keys) = (Named::default(), Keys::default());
    let form = json::object(text, |key, value| {
        owner.note(key, value);
        keys.note(key);
    })?;
    Some((form, owner, keys.may_repeat))
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
    fn note(&mut self, key: &'a str) {
        let before = self.first.get(..self.count).unwrap_or_default();
        self.may_repeat |= before.contains(&key) || key.contains('\\');
        match self.first.get_mut(self.count) {
            Some(place) => (*place, self.count) = (key, self.count + 1),
            None => self.may_repeat = true,
        }
    }
}

/// Whether a member is there more than once, and more often than in the entry's own.
fn repeats(own: &str, returned: &str) -> bool {
    let mut names = HashSet::new();
    let mut repeated: HashMap<Cow<'_, str>, usize> = HashMap::new();
    let read = json::members(returned, |key, _| {
        let name = json::string(key).unwrap_or(Cow::Borrowed(key));
        if !names.insert(name.clone()) {
            *repeated.entry(name).or_insert(1) += 1;
        }
    });
    if read.is_none() || repeated.is_empty() {
        return read.is_none();
    }
    let counted = json::members(own, |key, _| {
        if let Some(count) = json::string(key).and_then(|name| repeated.get_mut(&*name)) {
            *count = count.saturating_sub(1);
        }
    });
    counted.is_none() || repeated.values().any(|more| *more > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(metadata: &str) -> [Option<String>; 4] {
        let Owner { session, user, app, node, .. } = Metadata::read(metadata).owner();
        [session, user, app, node].map(|name| name.map(String::from))
    }

    fn reason(own: &str, returned: &str) -> Option<String> {
        Metadata::read(own).accept(returned, 100).err().map(|fault| fault.to_string())
    }

    #[test]
    fn the_owner_is_what_the_last_members_name() {
        let all = r#"{"session_id":"s","user_id":"u v","app_id":"a","node_id":"n","x":{"session_id":"t"}}"#;
        assert_eq!(owner(all), ["s", "u v", "a", "n"].map(|name| Some(name.to_owned())));
        assert_eq!(owner(r#"{"session_id":"a","session\u005fid":"\u0062"}"#)[0].as_deref(), Some("b"));
        assert_eq!(owner("\u{feff}{\"x\":NaN,\n\"session_id\":\"s\"}")[0].as_deref(), Some("s"));
        for nobody in
            ["", "null", "{}", r#"{"session_id":5}"#, r#"{"session_id":""}"#, r#"{"session_id":"a","session_id":null}"#]
        {
            assert_eq!(owner(nobody)[0], None, "{nobody}");
        }
        // What can't be read to its end names nobody, to the filter neither.
        assert_eq!(owner(r#"{"session_id":"a"} x"#)[0], None);
    }

    #[test]
    fn what_an_honest_filter_returns_is_accepted() {
        for (own, returned) in [
            ("{}", "{}"),
            (r#"{"session_id":"s"}"#, r#"{"session_id":"s","memory_context":{"a":[1,{"b":"}"}]}}"#),
            // As it came, with something cut out and something added.
            (r#"{"memory_context":1,"session_id":"s","a":1,"a":2}"#, r#"{"session_id":"s","a":1,"a":2}"#),
            (r#"{"session_id":"a","session_id":"b"}"#, r#"{"session_id":"a","session_id":"b","memory_context":{}}"#),
            (r#"{"\u0061":1,"a":2,"b":3}"#, r#"{"\u0061":1,"a":2,"b":3,"c":4}"#),
            ("{\"x\":NaN,\n\"y\":1}", "{\"x\":NaN,\n\"y\":1,\"memory_context\":{}}"),
            ("\u{feff}{\"x\":-Infinity}\r\n", "\u{feff}{\"x\":-Infinity}\r\n"),
            // A separator of lines for some, but not in a string of JSON.
            ("{}", "{\"a\":\"\u{2028}\u{85}\u{7f}\"}"),
            // What nobody can read is withheld.
            ("{memory_context:1}", "{}"),
        ] {
            assert_eq!(reason(own, returned), None, "{own} {returned}");
        }
        let many: Vec<_> = (0..1000).map(|n| format!("\"k{n}\":1")).collect();
        let many = format!("{{{}}}", many.join(","));
        assert_eq!(reason(&many, &many), None);
    }

    #[test]
    fn what_is_not_one_object_is_refused() {
        for returned in [
            "",
            "[]",
            "null",
            "\"{}\"",
            "{}{}",
            "{} ,",
            "{}},\"text\":\"forged\",\"x\":{\"a\":1}",
            "{\"a\":1}\n{\"lane\":\"answers\"}",
            "{\"a\":\"b\nc\"}",
            "{\"a\":\"\u{1b}[2J\"}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":nan}",
            "{\"a\":1",
        ] {
            assert!(reason("{}", returned).unwrap().contains("not one JSON object"), "{returned}");
        }
    }

    #[test]
    fn liberties_are_taken_only_where_the_entry_takes_them() {
        for returned in ["{\"a\":NaN}", "{\"a\":[-Infinity]}", "\u{feff}{}", "{}\n", "{\"a\":1\r}"] {
            assert!(reason("{}", returned).unwrap().contains("holds what the entry's does not"), "{returned}");
            assert!(reason("nonsense", returned).is_some(), "{returned}");
        }
        assert!(reason("{\"a\":NaN}", "{\"a\":NaN\n}").is_some());
        assert!(reason("{\"a\":1\n}", "{\"a\":NaN\n}").is_some());
        // A carriage return ends no line of output; a line feed would.
        assert!(reason("\r{\"a\":1}", "{\"a\":1\n}").is_some());
        assert!(reason("\n{\"a\":1}", "{\"a\":1\r}").is_some());
    }

    #[test]
    fn no_member_comes_twice_unless_it_came_so() {
        let many: Vec<_> = (0..1000).map(|n| format!("\"k{n}\":1")).collect();
        let many = format!("{{{},\"k7\":2}}", many.join(","));
        for (own, returned) in [
            ("{}", r#"{"a":1,"a":2}"#),
            ("{}", r#"{"a":1,"\u0061":2}"#),
            (r#"{"a":1}"#, r#"{"a":1,"b":2,"b":3}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2,"a":3}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2,"b":3,"b":4}"#),
            ("nonsense", r#"{"a":1,"a":2}"#),
            ("{}", &many),
        ] {
            let returned_by = Metadata::read(own).accept(returned, 1 << 20);
            assert!(returned_by.unwrap_err().to_string().contains("a member twice"), "{own} {returned}");
        }
    }

    #[test]
    fn nobody_is_made_the_owner_of_another_s_entry() {
        for (own, returned) in [
            ("{}", r#"{"session_id":"victim"}"#),
            (r#"{"session_id":"a"}"#, r#"{"session_id":"b"}"#),
            (r#"{"session_id":"a"}"#, "{}"),
            (r#"{"session_id":"a"}"#, r#"{"session_id":"a","session\u005fid":"b"}"#),
            (r#"{"session_id":"a","session_id":"b"}"#, r#"{"session_id":"b","session_id":"a"}"#),
            (r#"{"session_id":"a"}"#, r#"{"session_id":"a","user_id":"victim"}"#),
            (r#"{"user_id":"a"}"#, r#"{"user_id":"b"}"#),
            ("{}", r#"{"app_id":"a"}"#),
            ("{}", r#"{"node_id":"a"}"#),
            (r#"{"session_id":"a"} x"#, r#"{"session_id":"a"}"#),
        ] {
            assert!(reason(own, returned).unwrap().contains("whose entry it is"), "{own} {returned}");
        }
    }

    #[test]
    fn what_begins_as_the_entry_does_is_read_as_if_all_of_it_was() {
        let owns = [
            "{}",
            r#"{"a":1}"#,
            r#" {"session_id":"s" , "a":"b"} "#,
            r#"{"a":1,"a":2,"session_id":"s"}"#,
            "\u{feff}{\"a\":NaN,\n\"session_id\":\"s\"}",
            r#"{"session_id":{"a":[1]}}"#,
            r#"{"\u0061":-1.5}"#,
        ];
        let rests = [
            "",
            "}",
            " }",
            "\n}",
            "}x",
            "}}",
            "2}",
            ".5}",
            "]",
            ",",
            ",}",
            "\"}",
            ":1}",
            r#","b":1}"#,
            r#","a":1}"#,
            r#","\u0061":1}"#,
            r#","session_id":"s"}"#,
            r#","session_id":"t"}"#,
            r#","user_id":"u"} "#,
            r#","b":NaN}"#,
            ",\"b\":1\r}",
            r#","b":1,"b":2}"#,
            r#","b":{"a":1}},"c":2}"#,
        ];
        let mut continued = 0;
        for own in owns {
            let metadata = Metadata::read(own);
            let told = |(form, owner, _): Read<'_>| (form.is_within(metadata.form), format!("{owner:?}"));
            for (at, rest) in
                (0..=own.len()).filter(|at| own.is_char_boundary(*at)).flat_map(|at| rests.map(|rest| (at, rest)))
            {
                let returned = own[..at].to_owned() + rest;
                let part = metadata.continued(&returned).map(told);
                continued += usize::from(part.is_some());
                let Some((is_within, owner)) = part else { continue };
                assert_eq!(Some((is_within, owner)), whole(&returned).map(told), "{own} {returned}");
                let is_own = whole(&returned).unwrap().1 == metadata.owner;
                let expected = is_within && is_own && !repeats(own, &returned);
                assert_eq!(metadata.accept(&returned, 100).is_ok(), expected, "{own} {returned}");
            }
        }
        assert!(continued > 50, "{continued}");
    }

    #[test]
    fn what_is_added_is_bounded() {
        let metadata = Metadata::read(r#"{"a":1}"#);
        let long = |length: usize| format!(r#"{{"a":1,"b":"{}"}}"#, "x".repeat(length - 14));
        assert!(metadata.accept(&long(7 + 1000), 1000).is_ok());
        assert!(metadata.accept(&long(7 + 1001), 1000).unwrap_err().to_string().contains("over 1007"));
    }
}
