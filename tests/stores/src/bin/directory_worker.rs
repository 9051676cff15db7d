//! A process that writes to a store in a directory until it is killed, or so many times. It tells what it sends before
//! it does, and what was acknowledged, a line for each.
//!
//! `directory-worker DIRECTORY SYNC TAG WRITERS ROUNDS`

use std::{
    env,
    io::{self, Write as _},
    sync::Arc,
};

use keepline_stores::{Deadline, DirectoryOptions, DirectoryStore, DirectorySync, Status, Store as _, Writer};
use keepline_stores_tests::work::{self, Sent};

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [directory, sync, tag, writers, rounds] = &arguments[..] else { panic!("five arguments: {arguments:?}") };
    let sync = match &**sync {
        "group" => DirectorySync::Group,
        "always" => DirectorySync::Always,
        "off" => DirectorySync::Off,
        other => panic!("no way to sync: {other}"),
    };
    let (writers, rounds): (u64, u64) = (writers.parse().unwrap(), rounds.parse().unwrap());
    let store = Arc::new(DirectoryStore::open(directory, DirectoryOptions { sync, ..Default::default() }).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let each = (0..writers).map(|number| {
            let (store, tag) = (store.clone(), tag.clone());
            tokio::spawn(async move {
                let mut writer = Writer::new();
                for round in 0..rounds {
                    let sequence = writer.advance().sequence();
                    let sent = Sent { writer: writer.id().to_owned(), sequence, id: format!("{tag}.{number}.{round}") };
                    tell(&format!("sent {sent}"));
                    let receipt = store.transact(&writer, &work::transaction(&sent), Deadline::NEVER).await.unwrap();
                    assert_eq!(receipt.receipt.status, Status::Applied);
                    tell(&format!("ack {sent}"));
                }
            })
        });
        for task in each.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
}

fn tell(line: &str) {
    // A line is whole or not there: it is shorter than what a pipe takes at one go.
    io::stdout().lock().write_all(format!("{line}\n").as_bytes()).unwrap();
}
