//! Ten thousand readers of events: what `keepline serve` holds for them, and when the last of them has an event.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader as AsyncBufReader},
    net::TcpStream,
    time::timeout,
};

use crate::{measure::Effort, report::Section, resident::resident_mib};

/// So many streams are opened at a time.
const AT_ONCE: usize = 200;
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn measure(effort: Effort) -> Result<Section> {
    let mut columns = vec!["resident MiB".to_owned()];
    columns.extend(["KiB a stream".into(), "last has an event, ms".into()]);
    let mut section = Section::new("Idle event streams of keepline serve", "streams", columns);
    for count in effort.points(&[100, 1_000, 10_000]) {
        let server = Server::start(count + 100)?;
        let before = resident_mib(server.child.id())?;
        let mut streams = Vec::new();
        while streams.len() < count {
            let opened = (0..AT_ONCE.min(count - streams.len())).map(|_| open(&server.address));
            streams.extend(try_join_all(opened).await?);
        }
        let held = resident_mib(server.child.id())?;
        let told = time_to_the_last(&server.address, &mut streams).await?;
        let each = (held - before) * 1024.0 / count as f64;
        section.row(crate::report::thousands(count as u64), vec![Some(held), Some(each), Some(told)]);
    }
    section.note("the memory store; each stream is a connection of its own; an event: an answer was stored");
    section.note("the readers share the machine's cores");
    Ok(section)
}

/// `keepline serve` with a memory store.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(connections: usize) -> Result<Self> {
        // Built into the same directory: `make bench` builds both.
        let program = std::env::current_exe()?.with_file_name("keepline");
        let mut child = Command::new(&program)
            .args(["serve", "--listen", "127.0.0.1:0", "--profile", "memory", "--set", "conversation=true"])
            .args(["--max-connections", &connections.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("can't start {}", program.display()))?;
        let mut notes = BufReader::new(child.stderr.take().context("no stderr")?).lines();
        let mut server = Self { child, address: String::new() };
        while server.address.is_empty() {
            let note = notes.next().context("keepline serve ended early")??;
            server.address = note.split("serving at http://").nth(1).unwrap_or_default().to_owned();
        }
        std::thread::spawn(move || notes.for_each(drop));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The figures are taken.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stream whose reply has begun.
async fn open(address: &str) -> Result<AsyncBufReader<TcpStream>> {
    let connected = TcpStream::connect(address).await;
    let mut connection = connected.context("can't open so many connections: `ulimit -n` has to allow more files")?;
    connection.write_all(b"GET /keepline/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
    // As little as a reader can hold: they share the machine's memory.
    let mut reader = AsyncBufReader::with_capacity(256, connection);
    let mut line = String::new();
    loop {
        line.clear();
        ensure!(timeout(PATIENCE, reader.read_line(&mut line)).await?? > 0, "a stream ended early");
        if line.trim_end().is_empty() {
            return Ok(reader);
        }
        ensure!(!line.starts_with("HTTP") || line.starts_with("HTTP/1.1 200"), "{line}");
    }
}

/// Milliseconds from an answer until each of the streams has its event.
async fn time_to_the_last(address: &str, streams: &mut [AsyncBufReader<TcpStream>]) -> Result<f64> {
    const ANSWER: &str = r#"{"text":"In Bonn.","metadata":{"session_id":"s"},"question_text":"Where?"}"#;
    let begun = Instant::now();
    let answer = async {
        let mut connection = TcpStream::connect(address).await?;
        let head = format!(
            "POST /keepline/v1/answers HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            ANSWER.len()
        );
        connection.write_all(format!("{head}{ANSWER}").as_bytes()).await?;
        let mut reply = String::new();
        connection.read_to_string(&mut reply).await?;
        ensure!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        Ok(())
    };
    let events = streams.iter_mut().map(|stream| async move {
        let mut line = String::new();
        while !line.contains("message.appended") {
            line.clear();
            ensure!(timeout(PATIENCE, stream.read_line(&mut line)).await?? > 0, "a stream ended early");
        }
        Ok(())
    });
    tokio::try_join!(answer, try_join_all(events))?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}
