//! What each operation does to a bucket, and answers.

use keepline_filter::contract::VALUES;
use keepline_filter::contract::bindings::keepline::memory::key_value::{EntryResult as Entry, *};

use super::{Bucket, Fake};

/// As many from the front as the limits allow, but at least one.
fn fitting(records: &[String], max_records: u64, max_bytes: u64) -> &[String] {
    let mut bytes = 0;
    let count = records
        .iter()
        .take(usize::try_from(max_records.min(10_000)).unwrap())
        .take_while(|record| {
            let is_first = bytes == 0;
            bytes += record.len() as u64;
            is_first || bytes <= max_bytes
        })
        .count();
    &records[..count]
}

pub(super) fn extent(first: u64, records: &[String]) -> LogExtent {
    LogExtent { first, length: records.len() as u64 }
}

fn changed(count: usize) -> Outcome {
    Outcome::Changed(EntryCount { count: count as u64 })
}

impl Fake {
    fn is_wrong(&self, map: &str, key: &str) -> bool {
        self.wrong.borrow().contains(if map == VALUES { key } else { map })
    }

    fn entries<'a>(&self, map: &str, found: impl Iterator<Item = (&'a String, &'a Vec<u8>)>) -> FoundEntries {
        let mut all = FoundEntries::default();
        for (key, value) in found {
            match String::from_utf8(value.clone()) {
                Ok(text) if !self.is_wrong(map, key) => all.entries.push(Entry { key: key.clone(), text }),
                _ => all.unreadable.push(key.clone()),
            }
        }
        all
    }

    pub(super) fn apply(&self, bucket: &mut Bucket, operation: &Operation<'_>) -> Result<Outcome, Failure> {
        Ok(match *operation {
            Operation::Get(GetOperation { map_name: map, keys, max_bytes }) => {
                let all = bucket.map(map);
                let found = self.entries(map, keys.iter().filter_map(|key| all.get_key_value(*key)));
                let bytes = found.entries.iter().map(|entry| entry.text.len() as u64).sum();
                if bytes > max_bytes {
                    return Ok(Outcome::Oversize(Size { bytes, entries: keys.len() as u64 }));
                }
                Outcome::Entries(found)
            }
            Operation::GetAll(GetAllOperation { map_name: map, max_entries, max_bytes }) => {
                let all = bucket.map(map);
                let entries = all.len() as u64;
                let bytes = all.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
                if entries > max_entries || bytes > max_bytes {
                    return Ok(Outcome::Oversize(Size { bytes, entries }));
                }
                Outcome::Entries(self.entries(map, all.iter()))
            }
            Operation::Page(PageOperation { map_name: map, cursor, max_entries, .. }) => {
                let at: usize = cursor.parse().unwrap_or(0);
                let all = bucket.map(map);
                let keys: Vec<_> =
                    all.keys().skip(at).take(self.page.get().min(max_entries as usize)).cloned().collect();
                let end = at + keys.len();
                let cursor = if end < all.len() { end.to_string() } else { String::new() };
                // In no particular order.
                let entries = keys.into_iter().rev().map(|key| Entry { key, text: String::new() }).collect();
                Outcome::Page(EntryPage { entries, unreadable: Vec::new(), cursor })
            }
            Operation::Increment(IncrementOperation { map_name: map, key, amount }) => {
                let old = match bucket.map(map).get(key) {
                    None => 0,
                    Some(value) => std::str::from_utf8(value)
                        .ok()
                        .and_then(|text| text.parse::<i64>().ok())
                        .ok_or_else(|| Self::failure(FailureCode::NotACounter, key))?,
                };
                let new = old.checked_add(amount).ok_or_else(|| Self::failure(FailureCode::CounterOverflow, key))?;
                bucket.map(map).insert(key.into(), new.to_string().into());
                Outcome::Counter(CounterValue { value: new })
            }
            Operation::Remove(RemoveOperation { map_name: map, keys }) => {
                changed(keys.iter().filter(|key| bucket.map(map).remove(**key).is_some()).count())
            }
            Operation::Put(PutOperation { map_name: map, entries }) => {
                let all = bucket.map(map);
                let new = entries.iter().filter(|entry| all.insert(entry.key.into(), entry.text.into()).is_none());
                changed(new.count())
            }
            Operation::ResetMap(ResetMapOperation { map_name: map, entries }) => {
                let entries = entries.iter().map(|entry| (entry.key.into(), entry.text.into())).collect();
                changed(std::mem::replace(bucket.map(map), entries).len())
            }
            Operation::Append(AppendOperation { log, records, marks }) => {
                let (first, all) = bucket.logs.entry(log.into()).or_default();
                let next = *first + all.len() as u64;
                all.extend(records.iter().map(|&record| record.to_owned()));
                let extent = extent(*first, all);
                for mark in marks {
                    let position = next + u64::from(mark.record_index);
                    bucket.map(mark.map_name).insert(mark.key.into(), position.to_string().into());
                }
                Outcome::Extent(extent)
            }
            Operation::Read(ReadOperation { log, end, max_records, max_bytes }) => {
                let (first, mut all) = bucket.log(log);
                let extent = extent(first, &all);
                let records = match end {
                    LogEnd::Oldest => fitting(&all, max_records, max_bytes).to_vec(),
                    LogEnd::Newest => {
                        all.reverse();
                        fitting(&all, max_records, max_bytes).iter().rev().cloned().collect()
                    }
                };
                let first = match end {
                    LogEnd::Oldest if !records.is_empty() => first,
                    _ => extent.next() - records.len() as u64,
                };
                Outcome::Records(LogRecords { extent, first, records })
            }
            Operation::ReadAt(ReadAtOperation { log, spans, max_bytes }) => {
                let (first, all) = bucket.log(log);
                let extent = extent(first, &all);
                let (mut runs, mut bytes, mut is_full) = (Vec::new(), 0, false);
                for span in spans {
                    let mut run = SpanRecords { first: extent.next(), records: Vec::new() };
                    for position in span.position..span.position + u64::from(span.count) {
                        let Some(record) = position.checked_sub(first).and_then(|at| all.get(at as usize)) else {
                            continue;
                        };
                        let is_one = runs.is_empty() && run.records.is_empty();
                        is_full |= bytes + record.len() as u64 > max_bytes && !is_one;
                        if is_full {
                            break;
                        }
                        bytes += record.len() as u64;
                        if run.records.is_empty() {
                            run.first = position;
                        }
                        run.records.push(record.clone());
                    }
                    if !run.records.is_empty() {
                        runs.push(run);
                    }
                }
                Outcome::Spans(LogSpans { extent, spans: runs })
            }
            Operation::Lease(LeaseOperation { lease, holder, milliseconds }) => {
                let until = self.millis() + milliseconds;
                let holds = bucket.leases.get(lease).filter(|(_, until)| *until > self.millis());
                let is_free = holds.is_none_or(|(by, _)| by == holder);
                if is_free && milliseconds > 0 {
                    bucket.leases.insert(lease.into(), (holder.into(), until));
                } else if is_free {
                    bucket.leases.remove(lease);
                }
                Outcome::Lease(LeaseState { held: is_free && milliseconds > 0, holder: String::new(), expires_in: 0 })
            }
            Operation::Overflow(OverflowOperation { log, limit, keep, max_records, max_bytes }) => {
                let (first, all) = bucket.log(log);
                let extent = extent(first, &all);
                let mut records = Vec::new();
                if all.len() as u64 > limit {
                    let surplus = all.len().saturating_sub(keep as usize);
                    records = fitting(&all[..surplus], max_records, max_bytes).to_vec();
                }
                if records.is_empty() {
                    Outcome::Extent(extent)
                } else {
                    Outcome::Records(LogRecords { extent, first, records })
                }
            }
            Operation::ReplaceOldest(ReplaceOldestOperation { log, count, records }) => {
                let (first, all) = bucket.logs.entry(log.into()).or_default();
                let count = all.len().min(count as usize);
                assert!(records.len() <= count, "more records than are replaced");
                all.splice(..count, records.iter().map(|&record| record.to_owned()));
                *first += (count - records.len()) as u64;
                Outcome::Extent(extent(*first, all))
            }
            Operation::Rewrite(RewriteOperation { log, records }) => {
                let (first, all) = bucket.logs.entry(log.into()).or_default();
                for PositionedRecord { position, text } in records {
                    let at = position.checked_sub(*first).and_then(|at| all.get_mut(at as usize));
                    *at.ok_or_else(|| Self::failure(FailureCode::Invalid, log))? = (*text).to_owned();
                }
                Outcome::Extent(extent(*first, all))
            }
            Operation::ResetLog(ResetLogOperation { log, records, .. }) => {
                let (first, all) = bucket.logs.entry(log.into()).or_default();
                let old = std::mem::replace(all, records.iter().map(|&record| record.to_owned()).collect());
                *first += old.len() as u64;
                Outcome::Extent(extent(*first, all))
            }
            Operation::Post(PostOperation { documents: &[], index }) => Outcome::Indexed(bucket.index(index).extent()),
            Operation::Post(PostOperation { index, documents }) => {
                let posted = bucket.indexes.entry(index.into()).or_default().post(documents);
                Outcome::Indexed(posted.ok_or_else(|| Self::failure(FailureCode::Invalid, index))?)
            }
            Operation::Unpost(UnpostOperation { index, positions }) => {
                let index = bucket.indexes.get_mut(index);
                Outcome::Indexed(index.map_or(IndexExtent { next: 0, documents: 0 }, |index| index.unpost(positions)))
            }
            Operation::Match(MatchOperation { index, terms, newest, max_bytes }) => {
                Outcome::Matches(bucket.index(index).matches(terms, newest, max_bytes))
            }
            Operation::Describe(_) => Outcome::Described(Description {
                expires_in: bucket.expires_at.map(|at| at - self.millis()),
                values: bucket.map(VALUES).len() as u64,
                time_to_live: bucket.time_to_live,
                maps: Vec::new(),
                logs: bucket
                    .logs
                    .iter()
                    .map(|(log, (first, all))| LogDescription { log: log.clone(), extent: extent(*first, all) })
                    .collect(),
                indexes: Vec::new(),
            }),
        })
    }
}
