//! How sockets end.

use std::time::Duration;

use keepline_pipelines::value::Value;
use keepline_service::{KeyFile, KeyRecord, KeyRing, KeySecret, Scope};
use tokio_tungstenite::tungstenite::Message;

use crate::{sockets::Socket, world::World};

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_ends_with_the_service() {
    let mut world = World::build(&[]).await;
    let mut socket = Socket::open(world.address, "/ws", &[]).await.unwrap();
    world.stop();
    assert_eq!(socket.closed().await, Some(1001));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_ends_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::new(folder.path().join("keys"));
    let record = KeyRecord::new(&KeySecret::from_text("secret"), &[Scope::Read]).unwrap();
    file.add(record.clone()).unwrap();
    let ring = KeyRing::of_file(KeyFile::new(file.path())).unwrap();
    let world = World::build_with(&[], |options| options.keys = ring).await;
    let key = [("x-api-key".to_owned(), "secret".to_owned())];
    let mut socket = Socket::open(world.address, "/codebolt", &key).await.unwrap();
    assert!(socket.rest(Duration::from_millis(100)).await.is_empty());
    assert!(file.remove(&record.id).unwrap());
    assert_eq!(socket.closed().await, Some(1001));
    assert_eq!(Socket::open(world.address, "/codebolt", &key).await.err(), Some(401));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_no_text_ends_its_socket() {
    let world = World::build(&[]).await;
    let mut socket = Socket::open(world.address, "/ws", &[]).await.unwrap();
    socket.send_message(Message::Binary(vec![1].into())).await;
    assert_eq!(socket.closed().await, Some(1003));
}

/// Far more than the system keeps for a connection, in replies.
const REQUESTS: usize = 3000;
/// How long a connection waits for its reader, and longer.
const WRITE_TIMEOUT: Duration = Duration::from_millis(600);
const SLEEP: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_is_dropped() {
    let world = World::build_with(&[], |options| options.write_timeout = WRITE_TIMEOUT).await;
    let mut socket = Socket::open(world.address, "/ws", &[]).await.unwrap();
    let mut other = Socket::open(world.address, "/ws", &[]).await.unwrap();
    let request = r#"{"type":"persistentMemory.getStepSpecs"}"#;
    for _ in 0..REQUESTS {
        socket.send(request.to_owned()).await;
    }
    tokio::time::sleep(SLEEP).await;
    assert!(socket.closed().await.is_some());
    // Others are served.
    other.send(request.to_owned()).await;
    let reply = Value::parse(r#"{"success":true}"#).unwrap();
    assert!(other.receive(&reply).await.is_some());
}
