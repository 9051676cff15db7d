//! Writes an object, member by member.

use crate::{push_number, push_string};

/// An object that is being written. A member without a value is left out.
#[derive(Debug)]
pub struct ObjectWriter {
    out: String,
    has_members: bool,
}

impl ObjectWriter {
    /// An object that is expected to have so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut out = String::with_capacity(bytes);
        out.push('{');
        Self { out, has_members: false }
    }

    /// Begins a member: its value is to be appended.
    pub fn member(&mut self, name: &str) -> &mut String {
        self.out.push_str(if self.has_members { "," } else { "" });
        self.has_members = true;
        push_string(&mut self.out, name);
        self.out.push(':');
        &mut self.out
    }

    /// A member that is a text.
    pub fn text(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            push_string(self.member(name), text);
        }
    }

    /// A member whose value is JSON already.
    pub fn json(&mut self, name: &str, json: Option<&str>) {
        if let Some(json) = json {
            self.member(name).push_str(json);
        }
    }

    /// A member that is a count.
    pub fn count(&mut self, name: &str, count: Option<u64>) {
        if let Some(count) = count {
            push_number(self.member(name), count);
        }
    }

    /// A member that is an object.
    pub fn object(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.member(name).push('{');
        self.has_members = false;
        write(self);
        self.out.push('}');
        self.has_members = true;
    }

    /// The object, as JSON.
    pub fn finish(mut self) -> String {
        self.out.push('}');
        self.out
    }
}
