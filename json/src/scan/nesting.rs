//! The nesting of a value, in a bit for each level.

/// What is still open around a value: objects and arrays, a bit for each. The innermost 64 of them at most need no
/// memory of their own.
#[derive(Default)]
pub(super) struct Nesting {
    depth: usize,
    /// The innermost in the lowest bit.
    near: u64,
    far: Vec<u64>,
}

impl Nesting {
    pub(super) fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.far.push(self.near);
        }
        self.near = self.near << 1 | u64::from(is_object);
        self.depth += 1;
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn pop(&mut self) {
        self.near >>= 1;
        self.depth = self.depth.saturating_sub(1);
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.near = self.far.pop().unwrap_or(0);
        }
    }

    pub(super) fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.near & 1 == 1)
    }
}
