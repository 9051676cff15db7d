//! Reads events from the store.

use std::sync::Arc;

use super::{EventLogInner, announcer::LOG, call_deadline};
use crate::store::{
    ExistingBucket, Failure, FailureCode, LogRecords, Operation, Outcome, Precondition, ReadAtOperation, Span, Status,
    Transaction, Writer,
};

/// The most events of a page, and their bytes beyond the first.
const EVENTS: u32 = 1_000;
const BYTES: u64 = 1 << 20;

/// Events that follow one another.
#[derive(Debug)]
pub(super) struct EventPage {
    /// The life of the log. None: there is no log.
    pub(super) generation: Option<Arc<str>>,
    /// The position of the oldest event that there is.
    pub(super) oldest: u64,
    /// The position after the newest.
    pub(super) end: u64,
    /// From the position that was asked for, or the oldest, on.
    pub(super) events: Vec<Arc<str>>,
}

impl EventPage {
    /// From a position on.
    pub(super) async fn read(log: &EventLogInner, from: u64) -> Result<Self, Failure> {
        Self::read_spans(log, vec![Span { position: from, count: EVENTS }]).await
    }

    /// Where the log begins and ends.
    pub(super) async fn read_extent(log: &EventLogInner) -> Result<Self, Failure> {
        Self::read_spans(log, Vec::new()).await
    }

    async fn read_spans(log: &EventLogInner, spans: Vec<Span>) -> Result<Self, Failure> {
        let read = ReadAtOperation { log: LOG.to_owned(), spans, max_bytes: BYTES };
        let transaction = Transaction {
            bucket: log.bucket.clone(),
            precondition: Precondition::Existing(ExistingBucket { generation: None, renew: true }),
            expectations: Vec::new(),
            operations: vec![Operation::ReadAt(read)],
        };
        let receipt = log.store.transact(Writer::new().advance(), &transaction.into(), call_deadline()).await?.receipt;
        if matches!(receipt.status, Status::Absent | Status::Expired) {
            return Ok(Self { generation: None, oldest: 0, end: 0, events: Vec::new() });
        }
        let (Some(generation), Some(Outcome::Records(LogRecords { extent, runs }))) =
            (receipt.generation, receipt.outcomes.into_iter().next())
        else {
            return Err(Failure::new(FailureCode::Other, "", "the store's answer to a read of events has no records"));
        };
        Ok(Self {
            generation: Some(generation.into()),
            oldest: extent.first,
            end: extent.first + extent.length,
            events: runs.into_iter().flat_map(|run| run.records).map(Arc::from).collect(),
        })
    }
}
