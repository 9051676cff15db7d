//! Reads buckets in pieces, for exports: from stores that are made for copies, and from any other by the operations that every
//! store has.

use std::{sync::Arc, time::SystemTime};

use async_trait::async_trait;
use keepline::store::{
    BucketId, Deadline, DescribeOperation, Description, ExistingBucket, Failure, FailureCode, GetAllOperation,
    GetOperation, Operation, Outcome, Precondition, ReadAtOperation, Receipt, Span, Status, Store, TimeToLive,
    Transaction, TransferStore, Writer,
    names::VALUES,
    part,
    transfer::{BucketHead, KeyedPart, WeighedBucket},
};
use keepline_options::bucket_names::hashed;

/// What sessions are read from.
#[async_trait]
pub trait SessionSource: Send + Sync {
    /// What a bucket is, apart from its contents. None: there is none.
    async fn head(&self, bucket: &BucketId) -> Result<Option<BucketHead>, Failure>;

    /// The texts under these keys of a map, or under the first of them; at least one. None: there is nothing under that key.
    async fn entries(&self, bucket: &BucketId, map: &[u8], keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Failure>;

    /// Some records of a log, beginning with the one that so many precede. None at the log's end.
    async fn records(&self, bucket: &BucketId, log: &[u8], before: u64) -> Result<Vec<Vec<u8>>, Failure>;

    /// What a bucket comes to: the same as long as nothing in it changes. None: there is none.
    async fn digest(&self, bucket: &BucketId) -> Result<Option<String>, Failure>;
}

#[async_trait]
impl SessionSource for Arc<dyn TransferStore> {
    async fn head(&self, bucket: &BucketId) -> Result<Option<BucketHead>, Failure> {
        TransferStore::head(&**self, bucket).await
    }

    async fn entries(&self, bucket: &BucketId, map: &[u8], keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        TransferStore::entries(&**self, bucket, KeyedPart::Map(map), keys).await
    }

    async fn records(&self, bucket: &BucketId, log: &[u8], before: u64) -> Result<Vec<Vec<u8>>, Failure> {
        TransferStore::records(&**self, bucket, log, before).await
    }

    async fn digest(&self, bucket: &BucketId) -> Result<Option<String>, Failure> {
        Ok(match self.weigh(bucket).await? {
            WeighedBucket::There(weight) => Some(weight.digest),
            WeighedBucket::Absent { .. } => None,
        })
    }
}

/// Keys of a page.
const PAGE_KEYS: u64 = 1000;
/// Bytes of the keys of a page, of the texts of a read, and of the records of one.
const PAGE_BYTES: u64 = 1 << 20;
/// The longest text that a store holds, and the longest answer.
const TEXT_BYTES: u64 = 8 << 20;
/// Records of a read.
const PAGE_RECORDS: u32 = 500;

/// Reads from any store.
#[derive(Clone, Debug)]
pub struct StoreReader {
    store: Arc<dyn Store>,
}

impl StoreReader {
    /// Of that store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// What comes of reads that count no use. None: there is no such bucket.
    async fn read(&self, bucket: &BucketId, operations: Vec<Operation>) -> Result<Option<Receipt>, Failure> {
        let transaction = Transaction {
            bucket: bucket.clone(),
            precondition: Precondition::Existing(ExistingBucket { generation: None, renew: false }),
            expectations: Vec::new(),
            operations,
        };
        let receipt = self.store.transact(Writer::new().advance(), &transaction.into(), Deadline::NEVER).await?.receipt;
        Ok(matches!(receipt.status, Status::Applied | Status::Repeated).then_some(receipt))
    }

    async fn describe(&self, bucket: &BucketId) -> Result<Option<(Receipt, Description)>, Failure> {
        let describe = Operation::Describe(DescribeOperation { parts: true });
        let Some(mut receipt) = self.read(bucket, vec![describe]).await? else { return Ok(None) };
        match receipt.outcomes.pop() {
            Some(Outcome::Described(description)) => Ok(Some((receipt, description))),
            _ => Err(unexpected()),
        }
    }

    /// The keys of a map, sorted.
    async fn keys(&self, bucket: &BucketId, map: &str) -> Result<Vec<Vec<u8>>, Failure> {
        let (mut keys, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = GetAllOperation {
                map_name: map.to_owned(),
                cursor: Some(cursor.clone()),
                max_entries: PAGE_KEYS,
                max_bytes: PAGE_BYTES,
                keys_only: true,
            };
            let Some(mut receipt) = self.read(bucket, vec![Operation::GetAll(page)]).await? else { break };
            let Some(Outcome::Entries(found)) = receipt.outcomes.pop() else { return Err(unexpected()) };
            let next = found.cursor().to_owned();
            keys.extend(found.entries.into_iter().map(|entry| entry.key.into_bytes()));
            if next.is_empty() || next == cursor {
                break;
            }
            cursor = next;
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }
}

#[async_trait]
impl SessionSource for StoreReader {
    async fn head(&self, bucket: &BucketId) -> Result<Option<BucketHead>, Failure> {
        let Some((receipt, description)) = self.describe(bucket).await? else { return Ok(None) };
        let mut fields = vec![("created_at".to_owned(), receipt.generation.clone().unwrap_or_default())];
        fields.push(("ttl_seconds".to_owned(), ttl_seconds(description.time_to_live)));
        if let Some(ttl) = description.time_to_live.filter(|ttl| ttl.sliding) {
            fields.push(("sliding_ms".to_owned(), ttl.milliseconds.to_string()));
        }
        let (mut maps, mut logs) = (vec![VALUES.to_owned()], Vec::new());
        for found in description.parts {
            match &*found.kind {
                part::MAP => {
                    fields.push((format!("map:{}", found.name), "1".to_owned()));
                    maps.push(found.name);
                }
                part::LOG => {
                    fields.push((format!("log:{}", found.name), found.position.to_string()));
                    if found.count > 0 {
                        logs.push((found.name.into_bytes(), found.count));
                    }
                }
                _ => {}
            }
        }
        let mut named = Vec::new();
        for map in maps {
            named.push((map.clone().into_bytes(), self.keys(bucket, &map).await?));
        }
        named.sort_unstable();
        fields.sort_unstable();
        logs.sort_unstable();
        Ok(Some(BucketHead {
            expires_at: description.expires_in.map(|left| now_of(&receipt).saturating_add(left)),
            fields: fields.into_iter().map(|(name, text)| (name.into_bytes(), text.into_bytes())).collect(),
            maps: named,
            indexes: Vec::new(),
            logs,
        }))
    }

    async fn entries(&self, bucket: &BucketId, map: &[u8], keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut asked: Vec<String> = keys.iter().map(|key| text(key)).collect();
        loop {
            let max_bytes = if asked.len() > 1 { PAGE_BYTES } else { TEXT_BYTES };
            let get = GetOperation { map_name: text(map), keys: asked.clone(), max_bytes };
            let Some(mut receipt) = self.read(bucket, vec![Operation::Get(get)]).await? else {
                return Ok(vec![None; asked.len()]);
            };
            let Some(Outcome::Entries(found)) = receipt.outcomes.pop() else { return Err(unexpected()) };
            if found.missing.as_ref().is_some_and(|missing| missing.oversize.is_some()) && asked.len() > 1 {
                asked.truncate(asked.len() / 2);
                continue;
            }
            let mut found = found.entries.into_iter().peekable();
            let texts = asked.iter().map(|key| found.next_if(|entry| entry.key == *key));
            return Ok(texts.map(|entry| Some(entry?.text.into_bytes())).collect());
        }
    }

    async fn records(&self, bucket: &BucketId, log: &[u8], before: u64) -> Result<Vec<Vec<u8>>, Failure> {
        let log = String::from_utf8_lossy(log).into_owned();
        let Some((_, description)) = self.describe(bucket).await? else { return Ok(Vec::new()) };
        let found = description.parts.into_iter().find(|found| found.kind == part::LOG && found.name == log);
        let Some(found) = found.filter(|found| before < found.count) else { return Ok(Vec::new()) };
        let span = Span { position: found.position.saturating_add(before), count: PAGE_RECORDS };
        let read = ReadAtOperation { log, spans: vec![span], max_bytes: PAGE_BYTES };
        let Some(mut receipt) = self.read(bucket, vec![Operation::ReadAt(read)]).await? else { return Ok(Vec::new()) };
        let Some(Outcome::Records(records)) = receipt.outcomes.pop() else { return Err(unexpected()) };
        Ok(records.runs.into_iter().flat_map(|run| run.records).map(String::into_bytes).collect())
    }

    async fn digest(&self, bucket: &BucketId) -> Result<Option<String>, Failure> {
        let Some(head) = self.head(bucket).await? else { return Ok(None) };
        // The expiry of a life that slides moves with each use.
        let mut digest = hashed(&format!("{:?}{:?}{:?}", head.fields, head.maps, head.logs));
        for (map, keys) in &head.maps {
            let mut left = keys.as_slice();
            while !left.is_empty() {
                let texts = self.entries(bucket, map, left).await?;
                digest = hashed(&format!("{digest}{texts:?}"));
                left = left.get(texts.len().max(1)..).unwrap_or_default();
            }
        }
        for (log, length) in &head.logs {
            let mut before = 0;
            while before < *length {
                let records = self.records(bucket, log, before).await?;
                if records.is_empty() {
                    break;
                }
                digest = hashed(&format!("{digest}{records:?}"));
                before += records.len() as u64;
            }
        }
        Ok(Some(digest))
    }
}

/// The store's clock, or this machine's where a look is not told it.
fn now_of(receipt: &Receipt) -> u64 {
    let own = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    if receipt.now > 0 { receipt.now } else { u64::try_from(own()).unwrap_or(u64::MAX) }
}

/// As stores write it that keep it as text.
fn ttl_seconds(time_to_live: Option<TimeToLive>) -> String {
    let Some(TimeToLive { milliseconds, .. }) = time_to_live else { return "None".to_owned() };
    let fraction = format!("{:03}", milliseconds % 1000);
    let fraction = fraction.trim_end_matches('0');
    format!("{}.{}", milliseconds / 1000, if fraction.is_empty() { "0" } else { fraction })
}

fn unexpected() -> Failure {
    Failure::new(FailureCode::Other, "", "the store returned an unexpected reply")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use keepline::store::{
        AppendOperation, DirectoryOptions, DirectoryStore, Entry, NewBucket, ReplaceOldestOperation, SetOperation,
    };

    use super::*;
    use crate::export::SessionExport;

    async fn write(store: &dyn Store, precondition: Precondition, operations: Vec<Operation>) {
        let (bucket, expectations) = (BucketId::session("s"), Vec::new());
        let transaction = Transaction { bucket, precondition, expectations, operations };
        let receipt = store.transact(Writer::new().advance(), &transaction.into(), Deadline::NEVER).await.unwrap();
        assert_eq!(receipt.receipt.status, Status::Applied);
    }

    fn set(map: &str, entries: impl Iterator<Item = (String, String)>) -> Operation {
        let put = entries.map(|(key, text)| Entry { key, text }).collect();
        Operation::Set(SetOperation { map_name: map.to_owned(), reset: false, remove: Vec::new(), put })
    }

    fn append(log: &str, count: u64, length: usize) -> Operation {
        let records = (0..count).map(|number| format!("{{\"{number}\":\"{}\"}}", "x".repeat(length))).collect();
        Operation::Append(AppendOperation { log: log.to_owned(), reset: false, records, marks: Vec::new() })
    }

    #[tokio::test]
    async fn any_store_exports_what_a_store_that_can_be_copied_exports() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap());
        let time_to_live = Some(TimeToLive { milliseconds: 86_400_250, sliding: true });
        // More keys than a page has, texts of more than a read, and one of more than that alone.
        let long = |number: usize| "é".repeat(if number == 3 { 2_000_000 } else { 100_000 });
        let values = (0..2500).map(|number| (format!("k{number}"), format!("{number}")));
        let create = Precondition::CreateNew(NewBucket { time_to_live });
        write(&*store, create, vec![set("values", values), append("transcript", 1300, 10)]).await;
        let existing = || Precondition::Existing(ExistingBucket { generation: None, renew: false });
        let values = (0..12).map(|number| (format!("long{number}"), long(number)));
        let owner = [("owner".to_owned(), "anna".to_owned())].into_iter();
        write(&*store, existing(), vec![set("values", values), set("session", owner), append("gone", 3, 1)]).await;
        let oldest = |log: &str, count, records: &[&str]| {
            let records = records.iter().map(ToString::to_string).collect();
            Operation::ReplaceOldest(ReplaceOldestOperation { log: log.to_owned(), count, records })
        };
        let fewer = vec![oldest("transcript", 700, &["{}"]), oldest("gone", 3, &[]), append("history", 20, 200_000)];
        write(&*store, existing(), fewer).await;
        let export = async |source: &dyn SessionSource| {
            let mut exported = SessionExport::new(source).session("s").await.unwrap();
            let mut lines = String::new();
            exported.lines.read_to_string(&mut lines).unwrap();
            (lines, exported.owner, exported.records)
        };
        let copied: Arc<dyn TransferStore> = store.clone();
        let (lines, owner, records) = export(&copied).await;
        assert_eq!((owner.as_deref(), records, lines.lines().count()), (Some("anna"), 621, 2512 + 621 + 2));
        assert_eq!(export(&StoreReader::new(store.clone())).await, (lines, owner, records));

        let (reader, bucket) = (StoreReader::new(store.clone()), BucketId::session("s"));
        let before = reader.digest(&bucket).await.unwrap();
        assert!(before.is_some() && reader.digest(&bucket).await.unwrap() == before);
        write(&*store, existing(), vec![set("values", [("k1".to_owned(), "2".to_owned())].into_iter())]).await;
        assert_ne!(reader.digest(&bucket).await.unwrap(), before);
        assert_eq!(reader.digest(&BucketId::session("none")).await.unwrap(), None);
    }
}
