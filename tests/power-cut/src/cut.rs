//! Makes the files that a power cut leaves.

use std::collections::{BTreeMap, HashMap, HashSet};

use fastrand::Rng;

use crate::{
    SECTOR,
    recording::{Change, Contents, File, Recording},
};

/// What is lost of what no sync covers, by the number of the change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// As when the process is killed.
    Nothing,
    Everything,
    /// The newest.
    From(usize),
    /// The oldest: sectors and names that changed later are there.
    Until(usize),
    /// Each sector, size and name is as after any of its changes. The higher, the more is there.
    Any {
        kept: f64,
    },
}

impl Loss {
    pub(crate) fn any(moment: usize, random: &mut Rng) -> Self {
        // Mostly near the end: what is older is synced.
        let near = |random: &mut Rng| {
            let most = 1 << random.u32(..12);
            moment - random.usize(..=moment.min(most))
        };
        match random.u8(..8) {
            0 => Self::Nothing,
            1 => Self::Everything,
            2 => Self::From(near(random)),
            3 => Self::Until(near(random)),
            _ => Self::Any { kept: random.f64() },
        }
    }
}

/// What is sure of a change at the moment of the cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// A sync covers it.
    Durable,
    /// The first sync that covered it failed: it may never be written, whatever is synced later.
    Adrift,
    Pending,
}

/// What is left of the directory.
pub(crate) fn surviving(recording: &Recording, moment: usize, loss: Loss, random: &mut Rng) -> Contents {
    let changes = recording.changes.get(..moment).unwrap_or(&recording.changes);
    let fates = fates(changes);
    let last = last_touches(changes);
    let mut names = recording.names.clone();
    let mut images: Vec<_> = recording.files.iter().map(|content| Image::new(content)).collect();
    for (at, (change, fate)) in changes.iter().zip(fates).enumerate() {
        match change {
            Change::Write { file, at: offset, data } => {
                let keep = Keep { loss, fate, at, file: *file, last: &last };
                images[*file].write(*offset, data, &keep, random);
            }
            Change::Resize { file, length } => {
                let keep = Keep { loss, fate, at, file: *file, last: &last };
                images[*file].resize(*length, &keep, random);
            }
            Change::Create { .. } | Change::Unlink { .. } | Change::Rename { .. } => {
                let is_there = match (fate, loss) {
                    (Fate::Durable, _) | (Fate::Pending, Loss::Nothing) => true,
                    (Fate::Adrift, _) => random.bool(),
                    (Fate::Pending, Loss::Everything) => false,
                    (Fate::Pending, Loss::From(first)) => at < first,
                    (Fate::Pending, Loss::Until(last)) => at >= last,
                    (Fate::Pending, Loss::Any { kept }) => random.f64() < kept,
                };
                if is_there {
                    rename(&mut names, change);
                }
            }
            Change::Sync { .. } | Change::Mark(_) => {}
        }
    }
    let garbage = matches!(loss, Loss::Any { .. } | Loss::Until(_)) && random.u8(..4) == 0;
    names.into_iter().map(|(name, file)| (name, images[file].content(garbage, random))).collect()
}

fn rename(names: &mut BTreeMap<String, File>, change: &Change) {
    match change {
        Change::Create { name, file } => _ = names.insert(name.clone(), *file),
        Change::Unlink { name } => _ = names.remove(name),
        Change::Rename { from, to } => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        _ => {}
    }
}

/// By the first sync that covers it.
fn fates(changes: &[Change]) -> Vec<Fate> {
    let mut fates = vec![Fate::Pending; changes.len()];
    // Of each file, or of the directory.
    let mut open: HashMap<Option<File>, Vec<usize>> = HashMap::new();
    for (at, change) in changes.iter().enumerate() {
        match change {
            Change::Write { file, .. } | Change::Resize { file, .. } => open.entry(Some(*file)).or_default().push(at),
            Change::Create { .. } | Change::Unlink { .. } | Change::Rename { .. } => {
                open.entry(None).or_default().push(at);
            }
            Change::Sync { file, begun, succeeds } => {
                let fate = if *succeeds { Fate::Durable } else { Fate::Adrift };
                open.entry(*file).or_default().retain(|covered| {
                    let is_covered = covered < begun;
                    if is_covered {
                        fates[*covered] = fate;
                    }
                    !is_covered
                });
            }
            Change::Mark(_) => {}
        }
    }
    fates
}

/// The last change of each sector.
fn last_touches(changes: &[Change]) -> HashMap<(File, usize), usize> {
    let mut last = HashMap::new();
    for (at, change) in changes.iter().enumerate() {
        if let Change::Write { file, at: offset, data } = change {
            sectors(*offset as usize, data.len()).for_each(|sector| _ = last.insert((*file, sector), at));
        }
    }
    last
}

fn sectors(offset: usize, length: usize) -> std::ops::Range<usize> {
    offset / SECTOR..(offset + length).div_ceil(SECTOR)
}

/// Whether parts of one change survive.
struct Keep<'a> {
    loss: Loss,
    fate: Fate,
    at: usize,
    file: File,
    last: &'a HashMap<(File, usize), usize>,
}

impl Keep<'_> {
    /// A sector, or the file's size. What was not written of it once holds back what came later: the kernel has one
    /// copy of each and writes it as it is.
    fn part(&self, sector: Option<usize>, held_back: bool, random: &mut Rng) -> bool {
        match (self.fate, self.loss) {
            (Fate::Durable, _) | (Fate::Pending, Loss::Nothing) => true,
            (Fate::Adrift, _) => random.bool(),
            (Fate::Pending, Loss::Everything) => false,
            (Fate::Pending, Loss::From(first)) => self.at < first,
            (Fate::Pending, Loss::Until(oldest)) => match sector {
                Some(sector) => self.last.get(&(self.file, sector)).is_some_and(|last| *last >= oldest),
                None => !held_back && random.bool(),
            },
            (Fate::Pending, Loss::Any { kept }) => !held_back && random.f64() < kept,
        }
    }

    fn may_tear(&self) -> bool {
        matches!((self.fate, self.loss), (Fate::Pending, Loss::Any { .. } | Loss::From(_)))
    }
}

/// A file as it is on the disk.
struct Image {
    content: Vec<u8>,
    size: usize,
    /// What the size was when it last was sure: beyond it nothing has ever been there.
    sure: usize,
    written: HashSet<usize>,
    held_back: HashSet<usize>,
    size_held_back: bool,
}

impl Image {
    fn new(content: &[u8]) -> Self {
        let none = HashSet::new();
        let size = content.len();
        Self {
            content: content.to_vec(),
            size,
            sure: size,
            written: none.clone(),
            held_back: none,
            size_held_back: false,
        }
    }

    fn write(&mut self, offset: u64, data: &[u8], keep: &Keep<'_>, random: &mut Rng) {
        let offset = offset as usize;
        let end = offset + data.len();
        if self.content.len() < end {
            self.content.resize(end, 0);
        }
        for sector in sectors(offset, data.len()) {
            let (mut from, mut to) = (offset.max(sector * SECTOR), end.min((sector + 1) * SECTOR));
            let is_held_back = self.held_back.contains(&sector);
            if !keep.part(Some(sector), is_held_back, random) {
                self.held_back.insert(sector);
                if is_held_back || !keep.may_tear() || random.u8(..8) > 0 {
                    continue;
                }
                // Torn: it is half there.
                let middle = random.usize(from..to);
                if random.bool() { to = middle } else { from = middle }
            }
            self.written.insert(sector);
            self.content[from..to].copy_from_slice(&data[from - offset..to - offset]);
        }
        if end > self.size {
            self.grow_or_shrink(end, keep, random);
        }
    }

    fn resize(&mut self, length: u64, keep: &Keep<'_>, random: &mut Rng) {
        if self.grow_or_shrink(length as usize, keep, random) {
            self.content.truncate(length as usize);
        }
    }

    fn grow_or_shrink(&mut self, size: usize, keep: &Keep<'_>, random: &mut Rng) -> bool {
        let is_kept = keep.part(None, self.size_held_back, random);
        if is_kept {
            self.size = size;
        } else {
            self.size_held_back = true;
        }
        if keep.fate == Fate::Durable {
            self.sure = self.size;
        }
        is_kept
    }

    fn content(&self, garbage: bool, random: &mut Rng) -> Vec<u8> {
        let mut content = self.content.clone();
        content.resize(self.size, 0);
        for (sector, bytes) in content.chunks_mut(SECTOR).enumerate() {
            if garbage && sector >= self.sure.div_ceil(SECTOR) && !self.written.contains(&sector) {
                random.fill(bytes);
            }
        }
        content
    }
}
