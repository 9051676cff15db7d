//! What is left of a record whose message was removed.
//!
//! Promises that nothing of what was said is left, and that threads stay as they are: the record keeps its place and its
//! weight. A tool's result keeps the id of its call as well, since a turn whose call has no result waits for one.

use super::super::tokens;
use super::{Kind, Record, Tool};

impl Record<'_> {
    /// Take out what was said: what is left keeps its place in threads.
    pub fn remove(&mut self) {
        let mut left = Self::new("", self.role, "".into(), "0");
        (left.turn, left.at, left.weight) = (self.turn.clone(), self.at.clone(), self.weight);
        (left.id, left.parent) = (self.id.take(), self.parent.take());
        (left.begins, left.total, left.after) = (self.begins, self.total, self.after);
        left.kind = Kind::Other;
        if let Some(Tool { call_id, .. }) = self.tool.take().filter(|_| self.kind == Kind::ToolResult) {
            // It is shown, as an empty one, and counts no more than that.
            (left.kind, left.tokens) = (Kind::ToolResult, Some(tokens::MESSAGE + tokens::of(&call_id)));
            left.tool = Some(Tool { call_id, ..Tool::default() });
        }
        *self = left;
    }

    /// Whether it was removed. A result that never had anything to be removed counts as such.
    pub fn is_removed(&self) -> bool {
        let is_bare = match &self.tool {
            Some(tool) if self.kind == Kind::ToolResult => {
                let has_details = self.files.is_some() || self.model.is_some() || self.metadata.is_some();
                tool.name.is_empty() && tool.error.is_none() && !has_details
            }
            _ => self.kind == Kind::Other,
        };
        is_bare && self.content.is_empty() && self.parts.is_none() && self.raw.is_none()
    }
}
