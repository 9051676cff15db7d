//! A bucket's contents as a tree of parts, sorted by key: what a transaction reads of it, and the parts that it writes.
//!
//! Nodes are never changed in the key-value store. A transaction writes those that it changes as new parts and remembers the
//! old ones as dropped; the root lies in the bucket's head, which is written last. So a transaction costs what it touches, and
//! whoever reads by an older head still finds everything that belongs to it.

use std::collections::HashMap;

use super::{
    Fault,
    bytes::Reader,
    node::{Child, INLINE_TEXT_BYTES, Key, Node, Text, cut_children, cut_entries},
    parts::Parts,
};

/// What the root may take in the head.
const ROOT_BYTES: usize = 640;
/// How many parts are read at a time where it is not known how many are needed.
const READ_AHEAD: usize = 4;

/// Keys from one up to, and without, another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub(super) from: Key,
    pub(super) to: Key,
}

impl KeyRange {
    /// One key alone.
    pub(super) fn only(key: &[u8]) -> Self {
        Self { from: key.to_vec(), to: [key, &[0]].concat() }
    }

    /// All keys: none begins with this byte.
    pub(super) fn all() -> Self {
        Self { from: Key::new(), to: vec![u8::MAX] }
    }

    fn overlaps(&self, lower: &[u8], upper: &[u8]) -> bool {
        &*self.from < upper && lower < &*self.to
    }

    fn covers(&self, lower: &[u8], upper: &[u8]) -> bool {
        &*self.from <= lower && upper <= &*self.to
    }
}

/// What is to be written for a tree that has changed.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    pub(super) written: Vec<(u64, Vec<u8>)>,
    /// Parts that no longer belong to it.
    pub(super) dropped: Vec<u64>,
}

pub(super) struct Tree<'a> {
    parts: Parts<'a>,
    root: Node,
    is_changed: bool,
    dropped: Vec<u64>,
    /// Texts that are parts of their own, as far as they are known.
    apart: HashMap<u64, String>,
    /// Those of them that are to be written.
    new_apart: Vec<u64>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(parts: Parts<'a>, root: Node) -> Self {
        Self { parts, root, is_changed: false, dropped: Vec::new(), apart: HashMap::new(), new_apart: Vec::new() }
    }

    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Reads what these ranges need, level by level, each in one call.
    pub(super) fn load(&mut self, ranges: &[KeyRange]) -> Result<(), Fault> {
        while self.load_some(ranges, usize::MAX, false)? {}
        Ok(())
    }

    /// Reads some of what is missing. Returns whether anything was. `to_remove`: leaves that go as a whole are left alone.
    fn load_some(&mut self, ranges: &[KeyRange], most: usize, to_remove: bool) -> Result<bool, Fault> {
        let mut ids = Vec::new();
        let all = KeyRange::all();
        find_missing(&self.root, (&all.from, &all.to), &Wanted { ranges, most, to_remove }, &mut ids);
        if ids.is_empty() {
            return Ok(false);
        }
        let mut nodes = HashMap::new();
        for (id, bytes) in ids.iter().zip(self.parts.read(&ids)?) {
            let node = Node::decode(&mut Reader::new(&bytes)).ok_or(Fault::Damaged)?;
            nodes.insert(*id, node);
        }
        attach(&mut self.root, &mut nodes);
        Ok(true)
    }

    /// The first entries of a range, at most so many.
    pub(super) fn scan(&mut self, range: &KeyRange, most: usize) -> Result<Vec<(Key, Text)>, Fault> {
        let ahead = if most == usize::MAX { usize::MAX } else { READ_AHEAD };
        loop {
            let mut found = Vec::new();
            let all = KeyRange::all();
            let is_known = collect(&self.root, (&all.from, &all.to), range, most, &mut found);
            if is_known || found.len() >= most {
                return Ok(found);
            }
            self.load_some(std::slice::from_ref(range), ahead, false)?;
        }
    }

    /// The text of a key, which may have to be [read](Self::read_text).
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<Text>, Fault> {
        Ok(self.scan(&KeyRange::only(key), 1)?.pop().map(|(_, text)| text))
    }

    /// Reads those of the texts that are parts of their own, in one call.
    pub(super) fn load_texts<'t>(&mut self, texts: impl IntoIterator<Item = &'t Text>) -> Result<(), Fault> {
        let unread = texts.into_iter().filter_map(|text| match text {
            Text::Apart { id, .. } if !self.apart.contains_key(id) => Some(*id),
            _ => None,
        });
        let unread: Vec<u64> = unread.collect();
        if unread.is_empty() {
            return Ok(());
        }
        for (id, bytes) in unread.iter().zip(self.parts.read(&unread)?) {
            self.apart.insert(*id, String::from_utf8(bytes).map_err(|_| Fault::Damaged)?);
        }
        Ok(())
    }

    /// A text that has been loaded.
    pub(super) fn read_text(&self, text: Text) -> String {
        match text {
            Text::Inline(text) => text,
            Text::Apart { id, .. } => self.apart.get(&id).cloned().unwrap_or_default(),
        }
    }

    /// Puts a text and returns how many bytes the one before had, if there was one.
    pub(super) fn put(&mut self, key: &[u8], text: &str) -> Result<Option<u64>, Fault> {
        self.load(&[KeyRange::only(key)])?;
        let new = if text.len() > INLINE_TEXT_BYTES {
            let id = self.parts.take_id()?;
            self.apart.insert(id, text.to_owned());
            self.new_apart.push(id);
            Text::Apart { id, bytes: text.len() as u64 }
        } else {
            Text::Inline(text.to_owned())
        };
        self.is_changed = true;
        let leaf = leaf_to_write(&mut self.root, key, &mut self.dropped).ok_or(Fault::Damaged)?;
        let before = match leaf.binary_search_by(|(other, _)| (**other).cmp(key)) {
            Ok(place) => leaf.get_mut(place).map(|(_, text)| std::mem::replace(text, new)),
            Err(place) => {
                leaf.insert(place, (key.to_vec(), new));
                None
            }
        };
        Ok(before.map(|before| self.drop_text(&before)))
    }

    /// Removes a text and returns how many bytes it had.
    pub(super) fn remove(&mut self, key: &[u8]) -> Result<Option<u64>, Fault> {
        if self.get(key)?.is_none() {
            return Ok(None);
        }
        self.is_changed = true;
        let leaf = leaf_to_write(&mut self.root, key, &mut self.dropped).ok_or(Fault::Damaged)?;
        let place = leaf.binary_search_by(|(other, _)| (**other).cmp(key)).map_err(|_| Fault::Damaged)?;
        let (_, before) = leaf.remove(place);
        Ok(Some(self.drop_text(&before)))
    }

    fn drop_text(&mut self, text: &Text) -> u64 {
        if let Text::Apart { id, .. } = text {
            self.dropped.push(*id);
        }
        text.bytes()
    }

    /// Removes a range. Leaves that go as a whole are not read, unless texts of theirs are parts of their own.
    pub(super) fn remove_range(&mut self, range: &KeyRange) -> Result<(), Fault> {
        while self.load_some(std::slice::from_ref(range), usize::MAX, true)? {}
        self.is_changed = true;
        let all = KeyRange::all();
        cut_out(&mut self.root, (&all.from, &all.to), range, &mut self.dropped);
        if matches!(&self.root, Node::Inner(children) if children.is_empty()) {
            self.root = Node::EMPTY;
        }
        Ok(())
    }

    /// Makes the parts that have changed, and leaves the root as it is to lie in the head. After this nothing more can be
    /// done with the tree.
    pub(super) fn flush(&mut self) -> Result<Flushed, Fault> {
        let mut flushed = Flushed { written: Vec::new(), dropped: std::mem::take(&mut self.dropped) };
        // One that was put and dropped again was never written.
        let dropped = &flushed.dropped;
        for id in self.new_apart.drain(..).filter(|id| !dropped.contains(id)) {
            let text = self.apart.remove(&id).unwrap_or_default();
            flushed.written.push((id, text.into_bytes()));
        }
        if !self.is_changed {
            return Ok(flushed);
        }
        let mut root = std::mem::replace(&mut self.root, Node::EMPTY);
        if let Node::Inner(children) = root {
            root = merge_changed_leaves(children);
        }
        let mut root = match root {
            Node::Inner(children) => match self.write_children(children, &mut flushed)? {
                children if children.is_empty() => Node::EMPTY,
                children => Node::Inner(children),
            },
            leaf => leaf,
        };
        loop {
            let mut bytes = Vec::new();
            root.encode(&mut bytes);
            if bytes.len() <= ROOT_BYTES {
                break;
            }
            let children = match root {
                Node::Leaf(entries) => self.write_leaves(Key::new(), entries, &mut flushed)?,
                Node::Inner(children) => self.write_inner(Key::new(), children, &mut flushed)?,
            };
            root = Node::Inner(children);
        }
        self.root = root;
        Ok(flushed)
    }

    pub(super) fn into_root(self) -> Node {
        self.root
    }

    /// All parts of the tree.
    pub(super) fn into_parts(mut self) -> Result<Vec<u64>, Fault> {
        self.remove_range(&KeyRange::all())?;
        Ok(self.dropped)
    }

    /// Writes the children that have changed. Neighbours that are leaves become full together.
    fn write_children(&self, children: Vec<(Key, Child)>, flushed: &mut Flushed) -> Result<Vec<(Key, Child)>, Fault> {
        let mut kept = Vec::with_capacity(children.len());
        let mut leaves: Option<(Key, Vec<(Key, Text)>)> = None;
        for (key, child) in children {
            if let Child { id: None, node: Some(Node::Leaf(mut entries)), .. } = child {
                leaves.get_or_insert_with(|| (key, Vec::new())).1.append(&mut entries);
                continue;
            }
            if let Some((key, entries)) = leaves.take() {
                kept.append(&mut self.write_leaves(key, entries, flushed)?);
            }
            match child {
                Child { id: None, node: Some(Node::Inner(inner)), .. } => {
                    let inner = self.write_children(inner, flushed)?;
                    kept.append(&mut self.write_inner(key, inner, flushed)?);
                }
                stored => kept.push((key, stored)),
            }
        }
        if let Some((key, entries)) = leaves {
            kept.append(&mut self.write_leaves(key, entries, flushed)?);
        }
        Ok(kept)
    }

    /// Writes leaves whose first one is for what is from this key on.
    fn write_leaves(
        &self,
        key: Key,
        entries: Vec<(Key, Text)>,
        flushed: &mut Flushed,
    ) -> Result<Vec<(Key, Child)>, Fault> {
        let is_growing = entries.last().is_some_and(|(key, _)| super::contents::is_record(key));
        let mut first = Some(key);
        let mut children = Vec::new();
        for piece in cut_entries(entries, is_growing) {
            let key = first.take().or_else(|| piece.first().map(|(key, _)| key.clone())).unwrap_or_default();
            children.push((key, self.write_node(&Node::Leaf(piece), flushed)?));
        }
        Ok(children)
    }

    /// Writes nodes whose first one is for what is from this key on: its first child may have more than from its own key.
    fn write_inner(
        &self,
        key: Key,
        children: Vec<(Key, Child)>,
        flushed: &mut Flushed,
    ) -> Result<Vec<(Key, Child)>, Fault> {
        let mut first = Some(key);
        let mut nodes = Vec::new();
        for piece in cut_children(children) {
            let key = first.take().or_else(|| piece.first().map(|(key, _)| key.clone())).unwrap_or_default();
            nodes.push((key, self.write_node(&Node::Inner(piece), flushed)?));
        }
        Ok(nodes)
    }

    fn write_node(&self, node: &Node, flushed: &mut Flushed) -> Result<Child, Fault> {
        let (id, mut bytes) = (self.parts.take_id()?, Vec::new());
        node.encode(&mut bytes);
        flushed.written.push((id, bytes));
        Ok(Child::stored(id, node.is_plain()))
    }
}

/// A root all of whose leaves have changed is a leaf again: it may have become small.
fn merge_changed_leaves(children: Vec<(Key, Child)>) -> Node {
    let is_changed_leaf = |child: &Child| child.id.is_none() && matches!(child.node, Some(Node::Leaf(_)));
    if !children.iter().all(|(_, child)| is_changed_leaf(child)) {
        return Node::Inner(children);
    }
    let entries = children.into_iter().filter_map(|(_, child)| match child.node {
        Some(Node::Leaf(entries)) => Some(entries),
        _ => None,
    });
    Node::Leaf(entries.flatten().collect())
}

/// What is to be read.
struct Wanted<'a> {
    ranges: &'a [KeyRange],
    most: usize,
    to_remove: bool,
}

impl Wanted<'_> {
    fn includes(&self, (lower, upper): (&[u8], &[u8]), child: &Child) -> bool {
        self.ranges.iter().any(|range| {
            range.overlaps(lower, upper) && !(self.to_remove && child.is_plain && range.covers(lower, upper))
        })
    }
}

type Bounds<'a> = (&'a [u8], &'a [u8]);

/// Children with the keys that they have: all that are between those of the node, which lie between these.
fn bounded<'n>(
    children: &'n [(Key, Child)],
    (lower, upper): Bounds<'n>,
) -> impl Iterator<Item = (Bounds<'n>, &'n Child)> {
    let ends = children.iter().skip(1).map(|(key, _)| &**key).chain([upper]);
    let starts = [lower].into_iter().chain(children.iter().skip(1).map(|(key, _)| &**key));
    starts.zip(ends).zip(children.iter().map(|(_, child)| child))
}

fn find_missing(node: &Node, bounds: Bounds<'_>, wanted: &Wanted<'_>, ids: &mut Vec<u64>) {
    let Node::Inner(children) = node else { return };
    for (bounds, child) in bounded(children, bounds) {
        if ids.len() >= wanted.most {
            return;
        }
        if !wanted.includes(bounds, child) {
            continue;
        }
        match (&child.node, child.id) {
            (Some(node), _) => find_missing(node, bounds, wanted, ids),
            (None, Some(id)) => ids.push(id),
            (None, None) => {}
        }
    }
}

/// Puts nodes that were read into their places.
fn attach(node: &mut Node, nodes: &mut HashMap<u64, Node>) {
    let Node::Inner(children) = node else { return };
    for (_, child) in children {
        match &mut child.node {
            Some(node) => attach(node, nodes),
            none => *none = child.id.and_then(|id| nodes.remove(&id)),
        }
    }
}

/// Collects entries of a range, as far as they have been read. Returns whether all were seen.
fn collect(node: &Node, bounds: Bounds<'_>, range: &KeyRange, most: usize, found: &mut Vec<(Key, Text)>) -> bool {
    match node {
        Node::Leaf(entries) => {
            let from = entries.partition_point(|(key, _)| *key < range.from);
            for (key, text) in entries.iter().skip(from).take_while(|(key, _)| *key < range.to) {
                if found.len() >= most {
                    return false;
                }
                found.push((key.clone(), text.clone()));
            }
            true
        }
        Node::Inner(children) => bounded(children, bounds)
            .filter(|((lower, upper), _)| range.overlaps(lower, upper))
            .all(|(bounds, child)| child.node.as_ref().is_some_and(|node| collect(node, bounds, range, most, found))),
    }
}

/// The leaf that a key belongs to, which has been read. All on the way there will be written again.
fn leaf_to_write<'n>(node: &'n mut Node, key: &[u8], dropped: &mut Vec<u64>) -> Option<&'n mut Vec<(Key, Text)>> {
    match node {
        Node::Leaf(entries) => Some(entries),
        Node::Inner(children) => {
            let place = children.partition_point(|(from, _)| &**from <= key).saturating_sub(1);
            let (_, child) = children.get_mut(place)?;
            dropped.extend(child.id.take());
            leaf_to_write(child.node.as_mut()?, key, dropped)
        }
    }
}

/// Removes a range of which everything was read that is not dropped as it is.
fn cut_out(node: &mut Node, bounds: Bounds<'_>, range: &KeyRange, dropped: &mut Vec<u64>) {
    match node {
        Node::Leaf(entries) => entries.retain(|(key, text)| {
            let is_removed = (&range.from..&range.to).contains(&key);
            if let Text::Apart { id, .. } = text
                && is_removed
            {
                dropped.push(*id);
            }
            !is_removed
        }),
        Node::Inner(children) => {
            let places: Vec<(Key, Key)> =
                bounded(children, bounds).map(|((lower, upper), _)| (lower.to_vec(), upper.to_vec())).collect();
            let mut places = places.into_iter();
            children.retain_mut(|(_, child)| {
                let Some((lower, upper)) = places.next().filter(|(lower, upper)| range.overlaps(lower, upper)) else {
                    return true;
                };
                dropped.extend(child.id.take());
                if let Some(node) = &mut child.node {
                    cut_out(node, (&lower, &upper), range, dropped);
                }
                !range.covers(&lower, &upper)
            });
        }
    }
}
