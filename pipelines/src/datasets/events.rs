//! Events of a log, newest first, and the history of the asking session.
//!
//! A log is in the order of time, so the newest that fit are the answer: no older ones are read.

use std::rc::Rc;

use indexmap::IndexSet;
use keepline_store_client::{LogRun, Span, kind};

use super::{
    DataKind,
    indexed::{Reach, hits, member_term, records},
    reader::{Ask, Asker, Bucket, ReadTask, Reply},
};
use crate::{
    run::{EventQuery, Found},
    value::Value,
    value::items::parse_instant,
};

pub(super) const EVENTS: &str = "events";
pub(super) const FACETS: &str = "facets";
/// The map from an event's id, if it was given one, to its position.
pub(super) const IDS: &str = "ids";
const HISTORY: &str = "history";
/// Events that are looked at where members or a text of the payload decide.
const SCANNED: usize = 2_000;
const BYTES: u64 = 8 << 20;

/// Where a read has its events. The instance `session` is the history of the asking one; a user has none.
pub(super) fn read(asker: &Asker, query: &EventQuery) -> Option<(Bucket, Box<dyn ReadTask>)> {
    let query = query.clone();
    match &*query.instance {
        "session" => Some(((kind::SESSION, asker.session.clone()?), Box::new(HistoryRead { query }))),
        "user" => None,
        instance => {
            let name = asker.owner.dataset_bucket(DataKind::Events, &[instance]);
            Some((
                (kind::DATASET, name),
                Box::new(EventsRead { query, positions: None, is_wide: false, is_cut: false }),
            ))
        }
    }
}

impl EventQuery {
    /// So many of the newest events are looked at.
    fn scanned(&self) -> usize {
        if self.fields.is_empty() && self.text.is_none() { self.limit } else { SCANNED.max(self.limit) }
    }

    /// Those that are wanted of events that stand oldest first.
    fn choose(&self, events: impl DoubleEndedIterator<Item = Value>) -> Vec<Value> {
        let is_recent = |event: &Value| {
            let at = event.member("timestamp").and_then(Value::as_text).and_then(parse_instant);
            self.since.is_none_or(|since| at.is_some_and(|at| at >= since))
        };
        events.rev().filter(|event| is_recent(event) && self.holds(event)).take(self.limit).collect()
    }
}

/// Events by stream and type where those are named, else the newest.
struct EventsRead {
    query: EventQuery,
    /// Where events of the streams and types stand, once that is known.
    positions: Option<Vec<Span>>,
    /// Whether the newest hits were too few, and more of them are asked for.
    is_wide: bool,
    is_cut: bool,
}

impl EventsRead {
    fn streams(&self) -> usize {
        usize::from(self.query.stream.is_some())
    }
}

/// The terms of an event's stream and type.
pub(super) fn facets(stream: Option<&str>, types: impl Iterator<Item = impl AsRef<str>>) -> Vec<u32> {
    let stream = stream.map(|stream| member_term("stream_id", &stream.into()));
    stream.into_iter().chain(types.map(|name| member_term("event_type", &name.as_ref().into()))).collect()
}

impl ReadTask for EventsRead {
    fn asks(&self) -> Vec<Ask> {
        if let Some(spans) = &self.positions {
            return vec![Ask::At { log: EVENTS, spans: spans.clone(), bytes: BYTES }];
        }
        // Types may be named twice, and a store asks for each term once; the stream's stays first.
        let terms: IndexSet<u32> = facets(self.query.stream.as_deref(), self.query.types.iter()).into_iter().collect();
        if terms.is_empty() {
            return vec![Ask::Newest { log: EVENTS, records: self.query.scanned() as u64, bytes: BYTES }];
        }
        let reach = if self.is_wide { Reach::All } else { Reach::Newest };
        vec![Ask::Search { index: FACETS, terms: terms.into_iter().collect(), reach }]
    }

    fn take(&mut self, replies: Vec<Reply>) -> Option<Found> {
        let runs = match replies.into_iter().next()? {
            Reply::Search(found) => {
                let streams = self.streams();
                let has_types = !self.query.types.is_empty();
                let is_wanted = |terms: &[usize]| {
                    let (of_stream, of_types) = (terms.contains(&0), terms.iter().any(|term| *term >= streams));
                    (streams == 0 || of_stream) && (!has_types || of_types)
                };
                let hits = hits(&found);
                let wanted = hits.iter().filter(|(_, terms)| is_wanted(terms)).map(|(position, _)| *position);
                let positions: Vec<_> = wanted.rev().take(self.query.scanned()).collect();
                self.is_cut = found.from_position > 0 && positions.len() < self.query.scanned();
                if self.is_cut && !self.is_wide {
                    self.is_wide = true;
                    return None;
                }
                if positions.is_empty() {
                    return Some(Found { items: Some(Rc::default()), is_cut: self.is_cut, bytes: 0 });
                }
                // Newest first: what is too much is left out at the end.
                self.positions =
                    Some(positions.iter().map(|position| Span { position: *position, count: 1 }).collect());
                return None;
            }
            Reply::At(mut runs) => {
                let asked = self.positions.as_ref().map_or(0, Vec::len);
                self.is_cut |= runs.iter().map(|run| run.records.len()).sum::<usize>() < asked;
                runs.reverse();
                runs
            }
            Reply::Newest(run) => {
                self.is_cut = is_cut(&run, self.query.scanned());
                vec![run]
            }
            Reply::Entries(_) | Reply::All(_) | Reply::Keys(_) => Vec::new(),
        };
        let (events, bytes) = parsed(runs);
        let items = self.query.choose(events.into_iter());
        // Older ones would not have been wanted.
        let is_cut = self.is_cut && items.len() < self.query.limit;
        Some(Found { items: Some(Rc::new(items)), bytes, is_cut })
    }
}

/// Whether a log has older records than those that were looked at, though no more were asked for than there are.
fn is_cut(run: &LogRun, asked: usize) -> bool {
    (run.records.len() as u64) < run.extent.length && (run.records.len() < asked || asked >= SCANNED)
}

fn parsed(runs: Vec<LogRun>) -> (Vec<Value>, usize) {
    let mut bytes = 0;
    let events = records(runs).map(|(_, event, length)| {
        bytes += length;
        event
    });
    (events.collect(), bytes)
}

/// The session's history as events: the operation is the type.
struct HistoryRead {
    query: EventQuery,
}

impl ReadTask for HistoryRead {
    fn asks(&self) -> Vec<Ask> {
        vec![Ask::Newest { log: HISTORY, records: SCANNED as u64, bytes: BYTES }]
    }

    fn take(&mut self, replies: Vec<Reply>) -> Option<Found> {
        let Some(Reply::Newest(run)) = replies.into_iter().next() else { return Some(Found::default()) };
        let is_cut = is_cut(&run, SCANNED);
        let (records, bytes) = parsed(vec![run]);
        let event = |record: Value| {
            let timestamp = match record.member("timestamp")? {
                Value::Number(seconds) => instant_text(seconds.as_f64()?),
                // Other programs write them as texts, too.
                Value::Text(text) => text.parse().map_or_else(|_| text.to_string(), instant_text),
                _ => return None,
            };
            let mut payload = record.as_object()?.clone();
            payload.shift_remove("timestamp");
            Some(Value::object([
                ("stream_id", Value::from("session")),
                ("event_type", record.member("op")?.clone()),
                ("timestamp", Value::from(timestamp)),
                ("payload", Value::from(payload)),
            ]))
        };
        let events: Vec<_> = records.into_iter().filter_map(event).collect();
        let items = self.query.choose(events.into_iter());
        let is_cut = is_cut && items.len() < self.query.limit;
        Some(Found { items: Some(Rc::new(items)), bytes, is_cut })
    }
}

/// Seconds since 1970 as RFC 3339.
#[expect(clippy::cast_possible_truncation, reason = "a time out of range is none")]
fn instant_text(seconds: f64) -> String {
    let time = jiff::Timestamp::from_millisecond((seconds * 1000.0) as i64);
    time.map(|time| time.to_string()).unwrap_or_default()
}
