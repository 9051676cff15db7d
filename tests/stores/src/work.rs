//! The work of processes that share a directory and are killed at it, and the checks afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use keepline_stores::{Deadline, EntryState, Failure, IndexedReceipt, IndexedTransaction, Status, Store, Writer, part};

use crate::requests::*;

/// So many buckets are worked on.
const BUCKETS: u64 = 3;

/// A transaction by its identity and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Who sent it.
    pub writer: String,
    /// As its how many-th.
    pub sequence: u64,
    /// What nobody else sends: `TAG.WRITER.ROUND`.
    pub id: String,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.writer, self.sequence, self.id)
    }
}

impl FromStr for Sent {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let [writer, sequence, id] = text.split(' ').collect::<Vec<_>>().try_into().map_err(|_| ())?;
        let sequence = sequence.parse().map_err(|_| ())?;
        Ok(Self { writer: writer.to_owned(), sequence, id: id.to_owned() })
    }
}

impl Sent {
    /// The writer and the round.
    fn parts(&self) -> (String, u64) {
        let (writer, round) = self.id.rsplit_once('.').unwrap();
        (writer.to_owned(), round.parse().unwrap())
    }
}

/// The transaction, the same for the same identity: it counts, notes what it counted and marks where, once.
pub fn transaction(sent: &Sent) -> IndexedTransaction {
    let (writer, round) = sent.parts();
    let number: u64 = writer.rsplit_once('.').unwrap().1.parse().unwrap();
    expecting(
        &*bucket_name(number % BUCKETS),
        create(),
        [entry_in("messages", &sent.id, EntryState::Absent, "")],
        (
            [
                add("n", 1),
                add_in("by-writer", &writer, 1),
                append_marked("history", &[&*sent.id], &[("messages", &sent.id, 0)]),
                put("last", &sent.id),
            ],
            // One writer of each process: positions rise in an index.
            add_documents(
                &index_name(&writer),
                if number == 0 { vec![document(round, &terms(round))] } else { vec![] },
            ),
        ),
    )
}

fn index_name(writer: &str) -> String {
    format!("i{}", writer.replace('.', "-"))
}

fn terms(round: u64) -> Vec<u32> {
    let round = u32::try_from(round).unwrap();
    vec![0, 1 + round % 3 * 256, 10_000 + round]
}

fn bucket_name(number: u64) -> String {
    format!("s{number}")
}

/// Whether a transaction that is sent again was applied the first time. Either way it is now, once.
pub async fn send_again(store: &dyn Store, sent: &Sent) -> bool {
    let writer = Writer::resumed(&sent.writer, sent.sequence);
    let again = store.transact(&writer, &transaction(sent), Deadline::NEVER).await.unwrap();
    match again.receipt.status {
        Status::Repeated => true,
        Status::Applied => false,
        other => panic!("{other:?}"),
    }
}

/// The same as another's call, as when a client sends a message again: the entry of its id is all there is to tell.
pub async fn send_as_another(store: &dyn Store, sent: &Sent) -> bool {
    let receipt = store.transact(Writer::new().advance(), &transaction(sent), Deadline::NEVER).await.unwrap();
    match receipt.receipt.status {
        Status::Unmet => true,
        Status::Applied => false,
        other => panic!("{other:?}"),
    }
}

/// Ends the test unless what is stored is whole, has everything that was acknowledged, and nothing that was not sent.
/// Returns why it can't be read.
pub async fn verify(store: &dyn Store, sent: &[Sent], acknowledged: &[Sent]) -> Result<(), Failure> {
    let sent: BTreeSet<&str> = sent.iter().map(|sent| &*sent.id).collect();
    let mut stored = BTreeSet::new();
    for number in 0..BUCKETS {
        let name = bucket_name(number);
        let mut records = Vec::new();
        loop {
            let Some(page) = read_page(store, &name, records.len() as u64).await? else { break };
            if page.is_empty() {
                break;
            }
            records.extend(page);
        }
        let mut next = BTreeMap::new();
        for id in &records {
            assert!(sent.contains(&**id), "{id} was never sent");
            assert!(stored.insert(id.clone()), "{id} is there twice");
            let (writer, round) = id.rsplit_once('.').unwrap();
            let next = next.entry(writer.to_owned()).or_insert(0_u64);
            assert_eq!(round.parse::<u64>().unwrap(), *next, "the records of {writer} are in its order");
            *next += 1;
        }
        let Some(last) = records.last() else { continue };
        let values = entries(&[("last", last.clone()), ("n", records.len().to_string())]);
        let by_writer: Vec<_> = next.iter().map(|(writer, count)| (&**writer, count.to_string())).collect();
        let read = [get_all(), get_all_in("by-writer"), describe()];
        let outcomes = ask(store, &name, read).await?.expect("the bucket that was there").receipt.outcomes;
        assert_eq!(outcomes[0], values, "counted, noted and appended in one step");
        assert_eq!(outcomes[1], entries(&by_writer));
        let described = description(outcomes[2].clone());
        let messages = described.parts.iter().find(|part| part.kind == part::MAP && part.name == "messages").unwrap();
        assert_eq!(messages.count, records.len() as u64);
        let indexed = next.iter().filter(|(writer, _)| writer.ends_with(".0"));
        let indexed: BTreeMap<_, _> = indexed.map(|(writer, count)| (index_name(writer), *count)).collect();
        let told = described.parts.iter().filter(|part| part.kind == part::INDEX);
        let told = told.map(|index| (index.name.clone(), index.count));
        assert_eq!(told.collect::<BTreeMap<_, _>>(), indexed);
        for (index, documents) in indexed {
            let receipt = ask(store, &name, search(&index, &[0, 257])).await?.expect("the bucket that was there");
            let found = &receipt.found[0];
            assert_eq!(found.runs[0].marks, (0..documents).map(mark_of).collect::<Vec<_>>());
            let all: Vec<_> = (0..u32::try_from(documents).unwrap()).collect();
            assert_eq!(found.terms[0].offsets, all);
            assert!(found.terms[1].offsets.iter().copied().eq(all.into_iter().filter(|n| n % 3 == 1)));
        }
    }
    for acknowledged in acknowledged {
        assert!(stored.contains(&acknowledged.id), "{acknowledged} was acknowledged and is gone");
    }
    Ok(())
}

/// The records from a position on; none: there is no bucket.
async fn read_page(store: &dyn Store, bucket: &str, from: u64) -> Result<Option<Vec<String>>, Failure> {
    let receipt = ask(store, bucket, [read_at("history", &[(from, 5000)], ALL)]).await?;
    Ok(receipt.map(|receipt| records_of(&receipt.receipt.outcomes[0])))
}

async fn ask(store: &dyn Store, bucket: &str, work: impl Into<Work>) -> Result<Option<IndexedReceipt>, Failure> {
    let asked = crate::requests::transaction(bucket, unused(), work);
    let receipt = store.transact(Writer::new().advance(), &asked, Deadline::NEVER).await?;
    Ok((receipt.receipt.status == Status::Applied).then_some(receipt))
}
