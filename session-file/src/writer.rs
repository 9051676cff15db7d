//! Writes a bucket as lines of an export, page by page.
//!
//! Memory does not grow with the bucket. The order is fixed: values by key, records by position, entries by map and
//! key. Text that is not UTF-8 is refused.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, Write},
};

use keepline::store::{BucketId, FailureCode, names::VALUES, transfer::BucketHead};
use serde_json::value::RawValue;

use crate::{
    problem::{Problem, Reason},
    schema::{
        ExportLineMembers, ExportNode, HeaderFields, ID_KEY, LineCounts, NODES, ONCE, OWNER_KEY, RECALL_PROGRESS_KEY,
        VERSION, decode_utf8, embeddable_json, is_derived,
    },
    source::SessionSource,
};

/// Keys that are read at a time.
const KEYS_PER_READ: usize = 500;

/// The approximate number of lines of a bucket.
pub fn estimate_line_count(head: &BucketHead) -> u64 {
    let entries: u64 = head.maps.iter().map(|(_, keys)| keys.len() as u64).sum();
    entries + head.logs.iter().map(|(_, length)| length).sum::<u64>()
}

/// Writes the end of a bucket.
pub fn write_end(name: &str, counts: LineCounts, out: &mut impl Write) -> Result<(), Problem> {
    let LineCounts { values, records, entries } = counts;
    let (values, records, entries) = (Some(values), Some(records), Some(entries));
    write_line(
        &ExportLineMembers { end: Some(name.into()), values, records, entries, ..ExportLineMembers::default() },
        out,
    )
}

fn write_line(line: &ExportLineMembers<'_>, out: &mut impl Write) -> Result<(), Problem> {
    serde_json::to_writer(&mut *out, line).map_err(io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}

/// Told of how many lines more were read.
pub type Progress<'s> = &'s (dyn Fn(u64) + Sync);

/// Writes buckets as lines.
pub struct BucketWriter<'s> {
    pub source: &'s dyn SessionSource,
    pub progress: Option<Progress<'s>>,
}

/// What was written of a bucket, apart from its end.
#[derive(Default)]
pub struct WrittenBucket {
    pub counts: LineCounts,
    /// The nodes that it names: bucket and ids.
    pub nodes: Vec<(String, String)>,
    /// The name of its owner's bucket.
    pub owner: Option<String>,
    /// The session's id, if it keeps one.
    pub id: Option<String>,
}

impl BucketWriter<'_> {
    /// Writes all lines but the end.
    pub async fn write_bucket(
        &self,
        id: &BucketId,
        head: &BucketHead,
        session: &str,
        node: Option<ExportNode<'_>>,
        out: &mut (impl Write + Send),
    ) -> Result<WrittenBucket, Problem> {
        let mut written = WrittenBucket::default();
        let (mut counts, mut nodes) = (LineCounts::default(), Vec::new());
        let mut conversation = BTreeMap::new();
        let mut once = Vec::new();
        for (map, keys) in head.maps.iter().filter(|(map, _)| map == ONCE.as_bytes()) {
            self.for_each_entry(id, map, keys, |key, text| {
                match key {
                    OWNER_KEY => written.owner = Some(text.to_owned()),
                    ID_KEY => written.id = Some(text.to_owned()),
                    _ => {}
                }
                if key != RECALL_PROGRESS_KEY {
                    once.push((key.to_owned(), object_or_string(text)?));
                }
                Ok(())
            })
            .await?;
        }
        counts.entries += once.len() as u64;
        for (key, json) in &once {
            conversation.insert(key.clone(), &**json);
        }
        let HeaderFields { metadata, logs, maps } = HeaderFields::from_head(head)?;
        let header = ExportLineMembers {
            keepline: Some(VERSION),
            session: Some(session.into()),
            node,
            expires_at: head.expires_at,
            metadata: Some(metadata),
            logs: Some(logs.clone()),
            maps: Some(maps),
            conversation: (!conversation.is_empty()).then_some(conversation),
            ..ExportLineMembers::default()
        };
        write_line(&header, out)?;
        for (map, keys) in head.maps.iter().filter(|(map, _)| map == VALUES.as_bytes()) {
            counts.values += self
                .for_each_entry(id, map, keys, |key, text| {
                    let (value, text) = embedded_or_text(text);
                    write_line(
                        &ExportLineMembers { key: Some(key.into()), value, text, ..ExportLineMembers::default() },
                        out,
                    )
                })
                .await?;
        }
        for (log, _) in &head.logs {
            let name = decode_utf8(log, "the name of a log")?;
            if is_derived(&name) {
                continue;
            }
            let first = logs.get(&name).copied().flatten().unwrap_or(0);
            let mut before = 0;
            loop {
                let records = self.source.records(id, log, before).await?;
                if records.is_empty() {
                    break;
                }
                for (position, record) in (first + before..).zip(&records) {
                    let record = decode_utf8(record, &format!("record {position} of its log {name}"))?;
                    let (record, text) = embedded_or_text(&record);
                    let (log, position) = (Some(name.as_str().into()), Some(position));
                    write_line(
                        &ExportLineMembers { log, position, record, text, ..ExportLineMembers::default() },
                        out,
                    )?;
                }
                before += records.len() as u64;
                self.advance(records.len());
            }
            counts.records += before;
        }
        for (map, keys) in head.maps.iter().filter(|(map, _)| map != VALUES.as_bytes() && map != ONCE.as_bytes()) {
            let name = decode_utf8(map, "the name of a map")?;
            counts.entries += self
                .for_each_entry(id, map, keys, |key, text| {
                    if name == NODES {
                        nodes.push((key.to_owned(), text.to_owned()));
                    }
                    let (map, key, text) = (Some(name.as_str().into()), Some(key.into()), Some(text.into()));
                    write_line(&ExportLineMembers { map, key, text, ..ExportLineMembers::default() }, out)
                })
                .await?;
        }
        Ok(WrittenBucket { counts, nodes, ..written })
    }

    /// Passes the entries of a map to `each`, in the order of `keys`. Returns their number.
    async fn for_each_entry(
        &self,
        id: &BucketId,
        map: &[u8],
        keys: &[Vec<u8>],
        mut each: impl FnMut(&str, &str) -> Result<(), Problem> + Send,
    ) -> Result<u64, Problem> {
        let (mut left, mut count) = (keys, 0);
        while !left.is_empty() {
            let asked = left.get(..KEYS_PER_READ).unwrap_or(left);
            let texts = self.source.entries(id, map, asked).await?;
            let answered = texts.len();
            if answered == 0 || answered > asked.len() {
                return Err(Problem::Left(
                    Reason::Store(FailureCode::Other),
                    "the store returned an unexpected reply".to_owned(),
                ));
            }
            for (key, found) in asked.iter().zip(texts) {
                // Evicted since its key was listed.
                let Some(found) = found else { continue };
                let key = decode_utf8(key, "a key")?;
                let found = decode_utf8(&found, &format!("what is stored under {key}"))?;
                each(&key, &found)?;
                count += 1;
            }
            self.advance(answered);
            left = left.get(answered..).unwrap_or_default();
        }
        Ok(count)
    }

    fn advance(&self, done: usize) {
        if let Some(progress) = self.progress {
            progress(done as u64);
        }
    }
}

/// A text for the header: a JSON object as it is, anything else as a string.
fn object_or_string(text: &str) -> Result<Box<RawValue>, Problem> {
    match embeddable_json(text).filter(|_| text.starts_with('{')) {
        Some(json) => Ok(json.to_owned()),
        None => Ok(serde_json::value::to_raw_value(text).map_err(io::Error::from)?),
    }
}

fn embedded_or_text(text: &str) -> (Option<&RawValue>, Option<Cow<'_, str>>) {
    match embeddable_json(text) {
        Some(json) => (Some(json), None),
        None => (None, Some(text.into())),
    }
}
