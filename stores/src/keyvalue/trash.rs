//! Parts that a bucket no longer has, until they are deleted: late enough that whoever read an older head is done with them.
//!
//! The newest are listed in the head. When they are many they move into a bin, a part that lists them, and two bins of the same
//! level and about the same time into one of the next level. So the head stays small however much is written.

use super::{
    Fault,
    bytes::{Reader, put_id, put_number},
    parts::Parts,
};

/// How long a dropped part is kept, in seconds. No call that uses a head for longer than [`CALL_SECONDS`] writes another.
pub(super) const KEPT_SECONDS: u64 = 10;
/// How long a call may take before it writes.
pub(super) const CALL_SECONDS: u64 = 5;
/// How many dropped parts are listed in the head.
const LISTED: usize = 32;
/// Fewer are not worth a call.
const DELETED_AT_ONCE: usize = 8;

/// A part that lists dropped parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bin {
    id: u64,
    /// When the first and the last of them were dropped, in seconds since 1970.
    from: u64,
    to: u64,
    level: u8,
}

#[derive(Debug, Default)]
pub(super) struct Trash {
    /// Each with the second in which it was dropped, oldest first.
    listed: Vec<(u64, u64)>,
    /// Oldest first.
    bins: Vec<Bin>,
}

impl Trash {
    pub(super) fn add(&mut self, dropped: &[u64], now_seconds: u64) {
        self.listed.extend(dropped.iter().map(|id| (*id, now_seconds)));
    }

    /// Takes out what is to be deleted now, and makes bins of what is too much: those are added to what is to be written.
    pub(super) fn collect(&mut self, parts: Parts<'_>, written: &mut Vec<(u64, Vec<u8>)>) -> Result<Vec<u64>, Fault> {
        let is_over = |at: u64| at.saturating_add(KEPT_SECONDS) <= parts.now_seconds;
        let mut deleted = Vec::new();
        let over = self.listed.iter().take_while(|(_, at)| is_over(*at)).count();
        if over >= DELETED_AT_ONCE {
            deleted.extend(self.listed.drain(..over).map(|(id, _)| id));
        }
        if let Some(bin) = self.bins.first().copied().filter(|bin| is_over(bin.to)) {
            self.bins.remove(0);
            deleted.extend(read_bin(parts, &[bin])?);
        }
        if self.listed.len() > LISTED {
            let (mut bin, mut ids) = (Bin { id: 0, from: u64::MAX, to: 0, level: 0 }, Vec::new());
            for (id, at) in self.listed.drain(..) {
                (bin.from, bin.to) = (bin.from.min(at), bin.to.max(at));
                ids.push(id);
            }
            while let Some(last) = self.bins.last().copied() {
                if last.level != bin.level || bin.to.saturating_sub(last.from) >= CALL_SECONDS {
                    break;
                }
                self.bins.pop();
                // The bin itself goes with what it lists.
                ids.extend(read_bin(parts, &[last])?);
                bin = Bin { from: last.from, level: bin.level + 1, ..bin };
            }
            bin.id = parts.take_id()?;
            self.bins.push(bin);
            written.push((bin.id, encode_bin(&ids)));
        }
        Ok(deleted)
    }

    /// All that is in it, bins included.
    pub(super) fn into_parts(self, parts: Parts<'_>) -> Result<Vec<u64>, Fault> {
        let mut all = read_bin(parts, &self.bins)?;
        all.extend(self.listed.into_iter().map(|(id, _)| id));
        Ok(all)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (mut id, mut at) = (0, 0);
        put_number(out, self.listed.len() as u64);
        for (listed, dropped_at) in &self.listed {
            put_id(out, &mut id, *listed);
            put_id(out, &mut at, *dropped_at);
        }
        put_number(out, self.bins.len() as u64);
        for bin in &self.bins {
            put_id(out, &mut id, bin.id);
            put_id(out, &mut at, bin.from);
            put_id(out, &mut at, bin.to);
            out.push(bin.level);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (mut id, mut at) = (0, 0);
        let mut trash = Self::default();
        for _ in 0..reader.count()? {
            trash.listed.push((reader.id(&mut id)?, reader.id(&mut at)?));
        }
        for _ in 0..reader.count()? {
            let id = reader.id(&mut id)?;
            let (from, to) = (reader.id(&mut at)?, reader.id(&mut at)?);
            trash.bins.push(Bin { id, from, to, level: reader.byte()? });
        }
        Some(trash)
    }
}

fn encode_bin(ids: &[u64]) -> Vec<u8> {
    let (mut out, mut before) = (Vec::new(), 0);
    put_number(&mut out, ids.len() as u64);
    ids.iter().for_each(|id| put_id(&mut out, &mut before, *id));
    out
}

/// What bins list, and the bins. One that is gone was emptied by somebody else.
fn read_bin(parts: Parts<'_>, bins: &[Bin]) -> Result<Vec<u64>, Fault> {
    let mut ids: Vec<u64> = bins.iter().map(|bin| bin.id).collect();
    if ids.is_empty() {
        return Ok(ids);
    }
    for bytes in parts.store.get_many(&parts.keys(&ids))?.into_iter().flatten() {
        let (mut reader, mut before) = (Reader::new(&bytes), 0);
        for _ in 0..reader.count().ok_or(Fault::Damaged)? {
            ids.push(reader.id(&mut before).ok_or(Fault::Damaged)?);
        }
    }
    Ok(ids)
}
