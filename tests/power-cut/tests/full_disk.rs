//! A full disk: what is there can be read and deleted, and when there is room again, the store goes on. On a small disk of
//! the kernel's where it allows that, and on one that is simulated everywhere.

#![cfg(target_os = "linux")]

use std::{
    env,
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::Command,
    time::Duration,
};

use keepline_power_cut::Disk;
use keepline_stores::{
    AppendOperation, BucketId, Deadline, DeleteRequest, DirectoryOptions, DirectoryStore, Entry, ExistingBucket,
    FailureCode, NewBucket, Operation, Precondition, Receipt, SetOperation, Status, Store as _, Transaction, Writer,
    directory, names::VALUES,
};
use tempfile::TempDir;

/// Where the kernel's disk is mounted, for the process that runs on it.
const MOUNTED: &str = "KEEPLINE_SMALL_DISK";
const SESSIONS: usize = 12;
const MIB: u64 = 1 << 20;

fn session(name: &str) -> BucketId {
    BucketId::session(name)
}

fn options() -> DirectoryOptions {
    DirectoryOptions { timeout: Duration::from_secs(60), ..DirectoryOptions::default() }
}

fn open(path: &Path) -> DirectoryStore {
    DirectoryStore::open(path, options()).unwrap()
}

async fn send(
    store: &DirectoryStore,
    name: &str,
    precondition: Precondition,
    operations: Vec<Operation>,
) -> Result<Receipt, FailureCode> {
    let transaction = Transaction { bucket: session(name), precondition, expectations: vec![], operations };
    let sent = store.transact(Writer::new().advance(), &transaction.into(), Deadline::NEVER).await;
    sent.map(|receipt| receipt.receipt).map_err(|failure| failure.code)
}

/// As an answer is stored, with 100 kB.
async fn write(store: &DirectoryStore, name: &str) -> Result<Receipt, FailureCode> {
    let put = vec![Entry { key: "last_answer".into(), text: "x".repeat(50_000) }];
    let records = vec!["x".repeat(50_000)];
    let operations = vec![
        Operation::Set(SetOperation { map_name: VALUES.into(), reset: false, remove: vec![], put }),
        Operation::Append(AppendOperation { log: "answers".into(), reset: false, records, marks: vec![] }),
    ];
    send(store, name, Precondition::Create(NewBucket { time_to_live: None }), operations).await
}

async fn is_there(store: &DirectoryStore, name: &str) -> bool {
    let precondition = Precondition::Existing(ExistingBucket { generation: None, renew: false });
    send(store, name, precondition, vec![]).await.unwrap().status == Status::Applied
}

async fn delete(store: &DirectoryStore, name: &str) -> Status {
    let request = DeleteRequest { bucket: session(name), generation: None, max_keys: 0 };
    store.delete(Writer::new().advance(), &request, Deadline::NEVER).await.unwrap().status
}

/// `fill` leaves no room on the disk, `clear` takes that back.
async fn a_full_disk_has_a_way_out(path: &Path, fill: impl Fn(), clear: impl Fn()) {
    let store = open(path);
    for n in 0..SESSIONS {
        for _ in 0..8 {
            write(&store, &format!("s{n}")).await.unwrap();
        }
    }
    let reserve = path.join("keepline.reserve");
    let has_reserve = || fs::metadata(&reserve).is_ok_and(|file| file.len() == 8 * MIB);
    assert!(has_reserve());
    fill();
    let mut stored = 0;
    while write(&store, "s0").await.is_ok() {
        // What is left of the log's file is no room on the disk.
        stored += 1;
        assert!(stored < 1000, "it is never full");
    }
    assert_eq!(write(&store, "new").await, Err(FailureCode::Full));
    assert!(has_reserve(), "the reserve is not for what is new");
    // Everything can be read, and deleted; what is new goes on being refused until there is room.
    for n in 0..SESSIONS {
        assert!(is_there(&store, &format!("s{n}")).await);
    }
    for n in 0..SESSIONS / 2 {
        assert_eq!(delete(&store, &format!("s{n}")).await, Status::Applied);
        assert!(!is_there(&store, &format!("s{n}")).await);
    }
    // What was deleted makes room for the reserve, and then for more.
    for round in 0.. {
        if write(&store, "new").await.is_ok() {
            break;
        }
        assert!(round < 6000, "a minute passed, and what was deleted made no room");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(has_reserve());
    drop(store);

    // A store that was closed is opened, and looked after, without any room.
    fill();
    assert_eq!(directory::check(path, &options()).unwrap().problems, [""; 0]);
    let store = open(path);
    assert!(is_there(&store, "new").await && is_there(&store, "s11").await);
    assert_eq!(delete(&store, "s6").await, Status::Applied);
    drop(store);
    fill();
    directory::compact(path, &options(), |_, _| {}).unwrap();
    fill();
    directory::repair(path, &options()).unwrap();
    let store = open(path);
    for name in ["new", "s7", "s8", "s9", "s10", "s11"] {
        assert_eq!(delete(&store, name).await, Status::Applied);
    }
    clear();
    for round in 0.. {
        if write(&store, "last").await.is_ok() {
            break;
        }
        assert!(round < 6000, "a minute passed, and there is room");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(store);
    assert!(has_reserve());
    assert_eq!(directory::check(path, &options()).unwrap().problems, [""; 0]);
}

fn used(path: &Path) -> u64 {
    fs::read_dir(path).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

#[tokio::test]
async fn a_store_recovers_from_a_simulated_full_disk() {
    let directory = TempDir::new().unwrap();
    let disk = Disk::record(directory.path()).unwrap();
    let fill = || disk.set_capacity(Some(used(directory.path())));
    a_full_disk_has_a_way_out(directory.path(), fill, || disk.set_capacity(None)).await;
    disk.stop();
}

/// A command in a namespace of its own, with a small disk.
fn on_small_disk(mounted: &Path, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount -t tmpfs -o size=48m none \"$0\" && exec \"$@\"").arg(mounted).arg(program).args(arguments);
    command.env(MOUNTED, mounted);
    command
}

#[test]
fn a_store_recovers_from_a_real_full_disk() {
    let mounted = TempDir::new().unwrap();
    let allows = |mut command: Command| command.status().is_ok_and(|status| status.success());
    if !allows(on_small_disk(mounted.path(), Path::new("true"), &[])) {
        println!("no small disk: this system allows no mounts in a user namespace; the simulated disk has to do");
        return;
    }
    let this = env::current_exe().unwrap();
    let test = ["--exact", "on_the_small_disk", "--ignored", "--nocapture"];
    assert!(allows(on_small_disk(mounted.path(), &this, &test)), "see above");
}

#[tokio::test]
#[ignore = "for a process of its own, on a disk of its own"]
async fn on_the_small_disk() {
    let mounted = env::var_os(MOUNTED).expect("the directory of the disk");
    let (path, filler) = (Path::new(&mounted).join("store"), Path::new(&mounted).join("filler"));
    let fill = || {
        let mut file = File::options().create(true).append(true).open(&filler).unwrap();
        for size in [64 << 10, 512, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    };
    a_full_disk_has_a_way_out(&path, fill, || fs::remove_file(&filler).unwrap()).await;
}
