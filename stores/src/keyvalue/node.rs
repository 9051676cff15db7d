//! Nodes of the tree that a bucket is: what they are as bytes, and where they are cut.

use super::bytes::{Reader, put_id, put_number, put_text};

/// What a node takes before it is cut in two.
pub(super) const NODE_BYTES: usize = 8 << 10;
/// The longest text that lies in a node; a longer one is a part of its own, so that its neighbours are not written with it.
pub(super) const INLINE_TEXT_BYTES: usize = 4 << 10;
/// About what an entry takes beside its key and its text.
const ENTRY_BYTES: usize = 6;

const LEAF: u8 = 0;
const INNER: u8 = 1;

pub(super) type Key = Vec<u8>;

/// The text of an entry or a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    Inline(String),
    /// A part of its own.
    Apart {
        id: u64,
        bytes: u64,
    },
}

impl Text {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Inline(text) => text.len() as u64,
            Self::Apart { bytes, .. } => *bytes,
        }
    }
}

/// A node, sorted by key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Node {
    Leaf(Vec<(Key, Text)>),
    /// Each child has what is from its key up to the next one's; the first one also what is before its key.
    Inner(Vec<(Key, Child)>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Child {
    /// None: it has changed, and is to be written.
    pub(super) id: Option<u64>,
    /// Whether it is a leaf all of whose texts lie in it: it need not be read to be dropped.
    pub(super) is_plain: bool,
    /// None: it has not been read.
    pub(super) node: Option<Node>,
}

impl Child {
    pub(super) fn stored(id: u64, is_plain: bool) -> Self {
        Self { id: Some(id), is_plain, node: None }
    }
}

impl Node {
    pub(super) const EMPTY: Self = Self::Leaf(Vec::new());

    pub(super) fn is_plain(&self) -> bool {
        match self {
            Self::Leaf(entries) => entries.iter().all(|(_, text)| matches!(text, Text::Inline(_))),
            Self::Inner(_) => false,
        }
    }

    /// Appends the node. Its children have been written.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (mut key, mut id): (&[u8], u64) = (&[], 0);
        match self {
            Self::Leaf(entries) => {
                out.push(LEAF);
                put_number(out, entries.len() as u64);
                for (next, text) in entries {
                    put_key(out, &mut key, next, matches!(text, Text::Apart { .. }));
                    match text {
                        Text::Inline(text) => put_text(out, text.as_bytes()),
                        Text::Apart { id: apart, bytes } => {
                            put_id(out, &mut id, *apart);
                            put_number(out, *bytes);
                        }
                    }
                }
            }
            Self::Inner(children) => {
                out.push(INNER);
                put_number(out, children.len() as u64);
                for (next, child) in children {
                    put_key(out, &mut key, next, child.is_plain);
                    put_id(out, &mut id, child.id.unwrap_or_default());
                }
            }
        }
    }

    /// None: these bytes are not what they should be.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let form = reader.byte()?;
        let (count, mut key, mut id) = (reader.count()?, Key::new(), 0);
        if form == LEAF {
            let mut entries = Vec::with_capacity(count);
            for _ in 0..count {
                let text = if take_key(reader, &mut key)? {
                    Text::Apart { id: reader.id(&mut id)?, bytes: reader.number()? }
                } else {
                    Text::Inline(reader.text()?)
                };
                entries.push((key.clone(), text));
            }
            return Some(Self::Leaf(entries));
        }
        let mut children = Vec::with_capacity(count);
        for _ in 0..count {
            let is_plain = take_key(reader, &mut key)?;
            children.push((key.clone(), Child::stored(reader.id(&mut id)?, is_plain)));
        }
        (form == INNER).then_some(Self::Inner(children))
    }
}

/// Appends a key, without what it has in common with the one before, and a flag.
fn put_key<'a>(out: &mut Vec<u8>, before: &mut &'a [u8], key: &'a [u8], flag: bool) {
    let shared = before.iter().zip(key).take_while(|(one, other)| one == other).count();
    put_number(out, (shared as u64) << 1 | u64::from(flag));
    put_text(out, key.get(shared..).unwrap_or_default());
    *before = key;
}

fn take_key(reader: &mut Reader<'_>, key: &mut Key) -> Option<bool> {
    let coded = reader.number()?;
    let shared = usize::try_from(coded >> 1).ok().filter(|shared| *shared <= key.len())?;
    key.truncate(shared);
    let length = usize::try_from(reader.number()?).ok()?;
    key.extend_from_slice(reader.bytes(length)?);
    Some(coded & 1 == 1)
}

/// Cuts entries so that each piece is at most a node long: into full ones where they end with the records of a log, which
/// grows at its end; otherwise into pieces of about the same length.
pub(super) fn cut_entries(entries: Vec<(Key, Text)>, is_growing: bool) -> Vec<Vec<(Key, Text)>> {
    let length = |(key, text): &(Key, Text)| match text {
        Text::Inline(text) => key.len() + text.len() + ENTRY_BYTES,
        Text::Apart { .. } => key.len() + 3 * ENTRY_BYTES,
    };
    cut(entries, length, is_growing)
}

/// Cuts the children of a node into those of several.
pub(super) fn cut_children(children: Vec<(Key, Child)>) -> Vec<Vec<(Key, Child)>> {
    cut(children, |(key, _)| key.len() + 2 * ENTRY_BYTES, true)
}

fn cut<T>(all: Vec<T>, length: impl Fn(&T) -> usize, is_growing: bool) -> Vec<Vec<T>> {
    let total: usize = all.iter().map(&length).sum();
    let most = if is_growing { NODE_BYTES } else { total.div_ceil(total.div_ceil(NODE_BYTES).max(1)) };
    let (mut pieces, mut piece, mut bytes) = (Vec::new(), Vec::new(), 0);
    for one in all {
        let more = length(&one);
        if bytes + more > most && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            bytes = 0;
        }
        bytes += more;
        piece.push(one);
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(node: &Node) -> Node {
        let mut bytes = Vec::new();
        node.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        let node = Node::decode(&mut reader).unwrap();
        assert!(reader.is_done());
        node
    }

    #[test]
    fn nodes_are_read_as_they_were_written() {
        let key = |text: &str| text.as_bytes().to_vec();
        let leaf = Node::Leaf(vec![
            (key("mvalues\0a"), Text::Inline("é".into())),
            (key("mvalues\0ab"), Text::Apart { id: 9 << 32, bytes: 5000 }),
            (key("mvalues\0b"), Text::Inline(String::new())),
        ]);
        assert_eq!(again(&leaf), leaf);
        assert!(!leaf.is_plain() && Node::EMPTY.is_plain());
        let inner = Node::Inner(vec![(key("a"), Child::stored(7, true)), (key("ab"), Child::stored(3, false))]);
        assert_eq!(again(&inner), inner);
    }

    #[test]
    fn a_growing_log_fills_its_nodes_and_a_map_is_halved() {
        let entries = || (0..20_u8).map(|place| (vec![place], Text::Inline("x".repeat(600)))).collect::<Vec<_>>();
        let lengths = |is_growing| cut_entries(entries(), is_growing).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(true), [13, 7]);
        assert_eq!(lengths(false), [10, 10]);
    }
}
