//! Indexes in Redis over a way that is cut at random: each call counts once, wherever its connection was cut.

use std::collections::BTreeMap;

use fastrand::Rng;
use futures::future::join_all;
use keepline_stores::{Deadline, RedisOptions, RedisStore, Status, Store as _, Writer};
use keepline_stores_tests::{
    proxy::{Cut, Proxy},
    random,
    requests::*,
    servers,
};

const WRITERS: u64 = 8;
const CUTS: u64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_cut_connections_index_and_remove_everything_exactly_once() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let seed = random::seed();
    let options = RedisOptions { store_timeout: std::time::Duration::from_secs(30), ..servers::options(proxy.port()) };
    let store = RedisStore::new(options).unwrap();
    let direct = RedisStore::new(servers::options(server.port())).unwrap();
    proxy.cut_at_random(Some(4), seed);
    let writers = (0..WRITERS).map(|number| {
        let (store, proxy) = (&store, &proxy);
        async move {
            let (mut writer, mut rng) = (Writer::new(), Rng::with_seed(seed ^ number));
            let (index, mut next, mut there) = (format!("i{number}"), 0_u64, BTreeMap::new());
            while proxy.cuts() < CUTS {
                let step = if rng.u32(0..3) > 0 || there.is_empty() {
                    let first = next;
                    next += rng.u64(1..40);
                    let documents: Vec<_> = (first..next).map(|n| document(n, &[3, 100 + rng.u32(0..500)])).collect();
                    there.extend(documents.iter().map(|document| (document.position, document.terms.clone())));
                    add_documents(&index, documents)
                } else {
                    let first = rng.u64(0..next);
                    let gone: Vec<_> = (first..(first + 20).min(next)).collect();
                    gone.iter().for_each(|position| _ = there.remove(position));
                    remove_documents(&index, gone)
                };
                let asked = transaction("b", create(), step);
                let receipt = store.transact(writer.advance(), &asked, Deadline::NEVER).await.unwrap();
                let status = receipt.receipt.status;
                assert!(matches!(status, Status::Applied | Status::Repeated), "{status:?}");
                let occurrences = there.values().map(Vec::len).sum::<usize>();
                assert_eq!(receipt.found, [indexed(next, there.len() as u64, occurrences as u64)]);
            }
            (index, next, there)
        }
    });
    let done = join_all(writers).await;
    proxy.cut_at_random(None, 0);
    for cut in Cut::ALL {
        assert!(proxy.cuts_of(cut) > CUTS / 8, "{cut:?}: {}", proxy.cuts_of(cut));
    }
    for (index, next, there) in done {
        let terms: Vec<_> = [3].into_iter().chain(100..300).collect();
        let asked: Work = (search(&index, &terms), read_marks(&index, 0, u32::MAX)).into();
        let asked = transaction("b", existing(), asked);
        let receipt = direct.transact(Writer::new().advance(), &asked, Deadline::NEVER).await.unwrap();
        let [found, marked] = receipt.found.try_into().unwrap();
        assert_eq!((found.extent.next, found.from_position), (next, 0));
        let marks = (0..next).map(|position| if there.contains_key(&position) { mark_of(position) } else { 0 });
        assert!(marked.runs[0].marks.iter().copied().eq(marks));
        for (term, told) in terms.iter().zip(&found.terms) {
            let expected = there.iter().filter(|(_, terms)| terms.contains(term)).map(|(at, _)| *at);
            assert!(told.offsets.iter().map(|offset| u64::from(*offset)).eq(expected), "{term}");
        }
    }
}
