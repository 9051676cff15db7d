//! Two transfers of one bucket at once, and deletions in the middle of one: whatever falls between two steps, the bucket is
//! whole on one side, and no transfer reports more than it knows.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use futures::future::BoxFuture;

use super::*;

type Interlude = BoxFuture<'static, ()>;

/// Counts the calls of a transfer, and has something else done before one of them.
struct Turns {
    calls: AtomicU64,
    before: u64,
    interlude: Mutex<Option<Interlude>>,
}

impl Turns {
    fn new(before: u64, interlude: Interlude) -> Arc<Self> {
        Arc::new(Self { calls: AtomicU64::new(0), before, interlude: Mutex::new(Some(interlude)) })
    }

    fn has_come(&self) -> bool {
        self.interlude.lock().unwrap().is_none()
    }
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turns").field("before", &self.before).finish_non_exhaustive()
    }
}

/// Both stores of a transfer count as one.
#[derive(Debug)]
struct Counted(Arc<Turns>);

#[async_trait]
impl Intercept for Counted {
    async fn before_transfer(&self) {
        if self.0.calls.fetch_add(1, Ordering::SeqCst) == self.0.before {
            let interlude = self.0.interlude.lock().unwrap().take();
            interlude.unwrap().await;
        }
    }
}

/// Both stores of a transfer, interrupted before one of its calls.
fn interrupted(transfer: &Transfer, turns: &Arc<Turns>) -> Transfer {
    let interrupted = |store: &Arc<dyn TransferStore>| -> Arc<dyn TransferStore> {
        Arc::new(Intercepted::with_transfers(store.clone(), Counted(turns.clone())))
    };
    Transfer { from: interrupted(&transfer.from), to: interrupted(&transfer.to), overwrite: transfer.overwrite }
}

/// What `migrate --delete` does with a bucket.
async fn moved(transfer: &Transfer, id: &BucketId) -> (Transferred, Option<RemovalOutcome>) {
    let transferred = transfer.copy_bucket(id).await.unwrap();
    let removed = match transferred {
        Transferred::Copied { .. } | Transferred::AlreadyThere { .. } => Some(transfer.remove(id).await.unwrap()),
        _ => None,
    };
    (transferred, removed)
}

fn small(id: &BucketId) -> IndexedTransaction {
    let operations = [put("a", "1"), put_in("notes", &[("x", "1")]), append("turns", &["1", "2"])];
    transaction(id, create(), operations)
}

async fn told(store: &dyn TransferStore, id: &BucketId) -> Option<(Option<String>, Vec<Outcome>)> {
    let all = [get_all(), get_all_in("notes"), read_all("turns")];
    let receipt = ask(store, &transaction(id, unused(), all)).await;
    (receipt.status == Status::Applied).then_some((receipt.generation, receipt.outcomes))
}

async fn delete(store: &dyn TransferStore, id: &BucketId) {
    store.delete(Writer::new().advance(), &deletion_of(id), Deadline::NEVER).await.unwrap();
}

/// Stores of each kind in pairs, and what keeps them.
struct Pairs {
    _servers: [RedisServer; 2],
    _places: [TempDir; 2],
    all: [(Arc<dyn TransferStore>, Arc<dyn TransferStore>); 3],
}

fn pairs() -> Pairs {
    let servers = [(); 2].map(|()| RedisServer::start().unwrap());
    let places = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [redis_a, redis_b] = servers.each_ref().map(redis);
    let [directory_a, directory_b] = places.each_ref().map(|place| in_directory(place.path()));
    let all = [(redis_a.clone(), redis_b), (directory_a.clone(), directory_b), (redis_a, directory_a)];
    Pairs { _servers: servers, _places: places, all }
}

#[tokio::test]
async fn two_simultaneous_moves_of_a_bucket_lose_nothing_and_agree() {
    let (pairs, id) = (pairs(), session("s"));
    for (from, to) in &pairs.all {
        for (ours, theirs) in [(false, false), (true, false), (false, true), (true, true)] {
            for before in 0.. {
                delete(&**from, &id).await;
                delete(&**to, &id).await;
                ask(&**from, &small(&id)).await;
                let was = told(&**from, &id).await;
                let (ours, theirs) = (between(from, to, ours), between(from, to, theirs));
                let interlude = {
                    let id = id.clone();
                    async move { _ = moved(&theirs, &id).await }
                };
                let turns = Turns::new(before, Box::pin(interlude));
                let outcome = moved(&interrupted(&ours, &turns), &id).await;
                assert_eq!(told(&**to, &id).await, was, "before {before}: {outcome:?}");
                assert_eq!(told(&**from, &id).await, None, "before {before}: {outcome:?}");
                assert!(
                    !matches!(outcome, (Transferred::Conflict | Transferred::Changing | Transferred::Deleted, _)),
                    "before {before}: {outcome:?}"
                );
                if !turns.has_come() {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_transfer_does_not_overwrite_what_another_one_copied_later() {
    let (pairs, id) = (pairs(), session("s"));
    for (from, to) in &pairs.all {
        for before in 0.. {
            delete(&**from, &id).await;
            delete(&**to, &id).await;
            ask(&**from, &small(&id)).await;
            let transfer = between(from, to, true);
            let interlude = {
                let (id, transfer) = (id.clone(), transfer.clone());
                async move {
                    ask(&*transfer.from, &transaction(&id, unused(), [put("later", "1"), append("turns", &["3"])]))
                        .await;
                    moved(&transfer, &id).await;
                }
            };
            let turns = Turns::new(before, Box::pin(interlude));
            let outcome = moved(&interrupted(&transfer, &turns), &id).await;
            if !turns.has_come() {
                break;
            }
            let sides = [told(&**from, &id).await, told(&**to, &id).await];
            let is_whole = |side: &Option<(Option<String>, Vec<Outcome>)>| {
                side.as_ref().is_some_and(|(_, outcomes)| format!("{outcomes:?}").contains("later"))
            };
            // It moved before the write came: that one found nothing to write to.
            let is_early = outcome.1 == Some(RemovalOutcome::Done) && sides[0].is_none();
            assert!(is_early || sides.iter().any(is_whole), "before {before}: {outcome:?}, {sides:?}");
        }
    }
}

#[tokio::test]
async fn a_deletion_during_a_transfer_leaves_no_partial_copy_and_is_reported() {
    let (pairs, id) = (pairs(), session("s"));
    for (from, to) in &pairs.all {
        for before in 0.. {
            delete(&**from, &id).await;
            delete(&**to, &id).await;
            ask(&**from, &small(&id)).await;
            let was = told(&**from, &id).await;
            let transfer = between(from, to, false);
            let interlude = {
                let (id, from) = (id.clone(), from.clone());
                async move { delete(&*from, &id).await }
            };
            let turns = Turns::new(before, Box::pin(interlude));
            let outcome = moved(&interrupted(&transfer, &turns), &id).await;
            if !turns.has_come() {
                break;
            }
            match (outcome, told(&**to, &id).await) {
                ((Transferred::Gone, None), None) => {}
                (
                    (Transferred::Deleted, None)
                    | (Transferred::Copied { .. }, Some(RemovalOutcome::Deleted | RemovalOutcome::Done)),
                    copy,
                ) => {
                    assert_eq!(copy, was, "before {before}: {outcome:?}");
                }
                (outcome, copy) => panic!("before {before}: {outcome:?}, {copy:?}"),
            }
        }
    }
}
