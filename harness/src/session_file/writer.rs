//! Writes a bucket as lines of an export, page by page.
//!
//! Memory does not grow with the bucket. The order is fixed: values by key, records by position, entries by map and
//! key. What is not UTF-8 is refused.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, Write},
};

use indicatif::ProgressBar;
use keepline::store::{
    BucketId, Failure, TransferStore,
    names::VALUES,
    transfer::{Head, Keyed},
};
use serde_json::value::RawValue;

use super::schema::{Counts, Described, Line, NODES, Node, ONCE, RECALLED, VERSION, embedded, is_derived, text};

/// Keys that are asked for at a time.
const KEYS: usize = 500;

/// Why a session is not exported.
pub enum Stop {
    /// It is told, and others go on.
    Left(String),
    /// Nothing can be read or written any more.
    Failed(anyhow::Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Left(failure.message)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<serde_json::Error> for Stop {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Left(why)
    }
}

/// How many lines a bucket makes, about.
pub fn lines(head: &Head) -> u64 {
    let entries: u64 = head.maps.iter().map(|(_, keys)| keys.len() as u64).sum();
    entries + head.logs.iter().map(|(_, length)| length).sum::<u64>()
}

/// The end of a bucket.
pub fn end(name: &str, counts: Counts, out: &mut impl Write) -> Result<(), Stop> {
    let Counts { values, records, entries } = counts;
    let (values, records, entries) = (Some(values), Some(records), Some(entries));
    write(&Line { end: Some(name.into()), values, records, entries, ..Line::default() }, out)
}

fn write(line: &Line<'_>, out: &mut impl Write) -> Result<(), Stop> {
    serde_json::to_writer(&mut *out, line).map_err(|error| Stop::Failed(io::Error::from(error).into()))?;
    Ok(out.write_all(b"\n")?)
}

/// A bucket as lines.
pub struct Lines<'s> {
    pub store: &'s dyn TransferStore,
    pub bar: Option<&'s ProgressBar>,
}

impl Lines<'_> {
    /// All but the end: what there was of it, and the nodes that it names.
    pub async fn bucket(
        &self,
        id: &BucketId,
        head: &Head,
        session: &str,
        node: Option<Node<'_>>,
        out: &mut impl Write,
    ) -> Result<(Counts, Vec<(String, String)>), Stop> {
        let (mut counts, mut nodes) = (Counts::default(), Vec::new());
        let mut conversation = BTreeMap::new();
        let mut once = Vec::new();
        for (map, keys) in head.maps.iter().filter(|(map, _)| map == ONCE.as_bytes()) {
            self.entries(id, map, keys, |key, text| {
                if key != RECALLED {
                    once.push((key.to_owned(), once_of(text)?));
                }
                Ok(())
            })
            .await?;
        }
        counts.entries += once.len() as u64;
        for (key, json) in &once {
            conversation.insert(key.clone(), &**json);
        }
        let Described { metadata, logs, maps } = Described::of(head)?;
        let header = Line {
            keepline: Some(VERSION),
            session: Some(session.into()),
            node,
            expires_at: head.expires_at,
            metadata: Some(metadata),
            logs: Some(logs.clone()),
            maps: Some(maps),
            conversation: (!conversation.is_empty()).then_some(conversation),
            ..Line::default()
        };
        write(&header, out)?;
        for (map, keys) in head.maps.iter().filter(|(map, _)| map == VALUES.as_bytes()) {
            counts.values += self
                .entries(id, map, keys, |key, text| {
                    let (value, text) = embedded_or_text(text);
                    write(&Line { key: Some(key.into()), value, text, ..Line::default() }, out)
                })
                .await?;
        }
        for (log, _) in &head.logs {
            let name = text(log, "the name of a log")?;
            if is_derived(&name) {
                continue;
            }
            let first = logs.get(&name).copied().flatten().unwrap_or(0);
            let mut before = 0;
            loop {
                let records = self.store.records(id, log, before).await?;
                if records.is_empty() {
                    break;
                }
                for (position, record) in (first + before..).zip(&records) {
                    let record = text(record, &format!("record {position} of its log {name}"))?;
                    let (record, text) = embedded_or_text(&record);
                    let (log, position) = (Some(name.as_str().into()), Some(position));
                    write(&Line { log, position, record, text, ..Line::default() }, out)?;
                }
                before += records.len() as u64;
                self.told(records.len());
            }
            counts.records += before;
        }
        for (map, keys) in head.maps.iter().filter(|(map, _)| map != VALUES.as_bytes() && map != ONCE.as_bytes()) {
            let name = text(map, "the name of a map")?;
            counts.entries += self
                .entries(id, map, keys, |key, text| {
                    if name == NODES {
                        nodes.push((key.to_owned(), text.to_owned()));
                    }
                    let (map, key, text) = (Some(name.as_str().into()), Some(key.into()), Some(text.into()));
                    write(&Line { map, key, text, ..Line::default() }, out)
                })
                .await?;
        }
        Ok((counts, nodes))
    }

    /// The entries of a map, in the order of their keys. How many there are.
    async fn entries(
        &self,
        id: &BucketId,
        map: &[u8],
        keys: &[Vec<u8>],
        mut each: impl FnMut(&str, &str) -> Result<(), Stop>,
    ) -> Result<u64, Stop> {
        let (mut left, mut count) = (keys, 0);
        while !left.is_empty() {
            let asked = left.get(..KEYS).unwrap_or(left);
            let texts = self.store.entries(id, Keyed::Map(map), asked).await?;
            let answered = texts.len();
            if answered == 0 || answered > asked.len() {
                return Err(Stop::Left("the store returned an unexpected reply".to_owned()));
            }
            for (key, found) in asked.iter().zip(texts) {
                // What was evicted is not there.
                let Some(found) = found else { continue };
                let key = text(key, "a key")?;
                let found = text(&found, &format!("what is stored under {key}"))?;
                each(&key, &found)?;
                count += 1;
            }
            self.told(answered);
            left = left.get(answered..).unwrap_or_default();
        }
        Ok(count)
    }

    fn told(&self, done: usize) {
        if let Some(bar) = self.bar {
            bar.inc(done as u64);
        }
    }
}

/// A text of the header: JSON objects as they stand, everything else as a string.
fn once_of(text: &str) -> Result<Box<RawValue>, Stop> {
    match embedded(text).filter(|_| text.starts_with('{')) {
        Some(json) => Ok(json.to_owned()),
        None => Ok(serde_json::value::to_raw_value(text)?),
    }
}

fn embedded_or_text(text: &str) -> (Option<&RawValue>, Option<Cow<'_, str>>) {
    match embedded(text) {
        Some(json) => (Some(json), None),
        None => (None, Some(text.into())),
    }
}
