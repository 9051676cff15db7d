//! A bucket's head: the one value that is written again and again. It says what the bucket is and which parts it has.

use std::collections::BTreeMap;

use super::{
    bytes::{Reader, put_id, put_number, put_text},
    node::Node,
    trash::Trash,
};
use crate::{LogExtent, TimeToLive, bucket::Expiry};

/// What each head begins with: the layout, and its version.
const MAGIC: &[u8] = b"KL\x01";

/// Where a map stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MapState {
    pub(super) entries: u64,
    /// Of keys and texts together.
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Head {
    pub(super) generation: u64,
    /// Milliseconds since 1970.
    pub(super) created_at: u64,
    /// The latest time in any answer to a write, in milliseconds.
    pub(super) latest: u64,
    pub(super) expiry: Expiry,
    /// None of them empty.
    pub(super) maps: BTreeMap<String, MapState>,
    /// One that was emptied stays, because its positions go on.
    pub(super) logs: BTreeMap<String, LogExtent>,
    pub(super) trash: Trash,
    pub(super) root: Node,
}

impl Head {
    /// That of an empty bucket that begins now.
    pub(super) fn new(generation: u64, now_ms: u64, time_to_live: Option<TimeToLive>) -> Self {
        Self {
            generation,
            created_at: now_ms,
            latest: now_ms,
            expiry: Expiry::new(time_to_live, now_ms),
            maps: BTreeMap::new(),
            logs: BTreeMap::new(),
            trash: Trash::default(),
            root: Node::EMPTY,
        }
    }

    /// The name of this generation.
    pub(super) fn generation_name(&self) -> String {
        format!("{:x}", self.generation)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_id(&mut out, &mut 0, self.generation);
        put_number(&mut out, self.created_at);
        put_number(&mut out, self.latest.saturating_sub(self.created_at));
        match self.expiry {
            Expiry { time_to_live: Some(TimeToLive { milliseconds, sliding }), at: Some(at) } => {
                out.push(if sliding { 2 } else { 1 });
                put_number(&mut out, milliseconds);
                put_number(&mut out, at);
            }
            _ => out.push(0),
        }
        put_number(&mut out, self.maps.len() as u64);
        for (name, MapState { entries, bytes }) in &self.maps {
            put_text(&mut out, name.as_bytes());
            put_number(&mut out, *entries);
            put_number(&mut out, *bytes);
        }
        put_number(&mut out, self.logs.len() as u64);
        for (name, LogExtent { first, length }) in &self.logs {
            put_text(&mut out, name.as_bytes());
            put_number(&mut out, *first);
            put_number(&mut out, *length);
        }
        self.trash.encode(&mut out);
        self.root.encode(&mut out);
        out
    }

    /// None: these bytes are no head of this layout.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes.strip_prefix(MAGIC)?);
        let generation = reader.id(&mut 0)?;
        let created_at = reader.number()?;
        let latest = created_at.saturating_add(reader.number()?);
        let expiry = match reader.byte()? {
            0 => Expiry { time_to_live: None, at: None },
            form @ (1 | 2) => Expiry {
                time_to_live: Some(TimeToLive { milliseconds: reader.number()?, sliding: form == 2 }),
                at: Some(reader.number()?),
            },
            _ => return None,
        };
        let mut maps = BTreeMap::new();
        for _ in 0..reader.count()? {
            maps.insert(reader.text()?, MapState { entries: reader.number()?, bytes: reader.number()? });
        }
        let mut logs = BTreeMap::new();
        for _ in 0..reader.count()? {
            logs.insert(reader.text()?, LogExtent { first: reader.number()?, length: reader.number()? });
        }
        let trash = Trash::decode(&mut reader)?;
        let root = Node::decode(&mut reader)?;
        reader.is_done().then_some(Self { generation, created_at, latest, expiry, maps, logs, trash, root })
    }
}
