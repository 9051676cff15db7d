//! Memory over HTTP: a pair beside a bare server of the same crates that answers a constant, and beside the library's own;
//! many readers of events; and a pair beside LangChain's.

mod langchain;
mod streams;

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use axum::{Router, body::Bytes, routing::post};
use keepline::{
    Keepline, Pipelines,
    maintenance::{Maintenance, MaintenanceOptions, NoModel},
    store::Store,
};
use keepline_service::{Backend, Service, ServiceOptions, TenantName};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream},
    net::{TcpListener, TcpStream},
    runtime::Handle,
};

use crate::{
    Bench,
    contenders::{ANSWER, Piped, QUESTION_TEXT, SESSIONS, Turns, answer_of},
    measure::{Comparison, Contender},
    report::Section,
    stores::{A_DAY, Stores, keepline},
};

/// What the bare server answers.
const CONSTANT: &str =
    r#"{"object":"question","effect":"enriched","metadata":{},"attached":1,"problem":null,"turn":""}"#;

/// Of each store: over HTTP, and through a pipe.
pub async fn measure(bench: &Bench) -> Result<Vec<Section>> {
    let stores = Stores::open(&bench.disk)?;
    let mut table = Comparison::new("A pair over HTTP, one connection kept alive", "");
    table.baseline("bare server, constant", OverHttp::connect(bare_server().await?).await?)?;
    for tested in &stores.all {
        let keepline = keepline(&bench.plugin, &tested.store, A_DAY).await?;
        let address = serve(&keepline).await?;
        table.add(format!("service, {}", tested.name), OverHttp::connect(address).await?)?;
        table.add(format!("pipe, {}", tested.name), Piped::new(&keepline, "pipe", SESSIONS))?;
    }
    table.note("client, server and Redis share the machine's cores; the client writes requests by hand");
    let mut sections = vec![table.run(bench.effort).await?, streams::measure(bench.effort).await?];
    match &bench.langchain {
        Some(python) => sections.push(langchain::measure(bench, &stores, python).await?),
        None => eprintln!("note: LangChain is not measured without --langchain"),
    }
    Ok(sections)
}

/// A server of the same crates that reads each body and answers a constant.
async fn bare_server() -> Result<SocketAddr> {
    let constant = |_: Bytes| async { CONSTANT };
    let routes =
        Router::new().route("/keepline/v1/questions", post(constant)).route("/keepline/v1/answers", post(constant));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(address)
}

async fn serve(keepline: &Keepline) -> Result<SocketAddr> {
    let backend = OneStore { keepline: keepline.clone() };
    let service = Service::bind(([127, 0, 0, 1], 0).into(), Arc::new(backend), ServiceOptions::default()).await?;
    let address = service.address()?;
    tokio::spawn(service.serve(std::future::pending()));
    Ok(address)
}

/// One store, without tenants and pipelines.
struct OneStore {
    keepline: Keepline,
}

#[async_trait]
impl Backend for OneStore {
    fn keepline(&self) -> &Keepline {
        &self.keepline
    }

    async fn open_store(&self, _: &TenantName) -> Result<Arc<dyn Store>> {
        bail!("the benchmark has no tenants")
    }

    fn open_maintenance(&self, keepline: &Keepline) -> Result<Maintenance> {
        Ok(Maintenance::new(keepline.clone(), Arc::new(NoModel), MaintenanceOptions::default(), Handle::current()))
    }

    async fn load_pipelines(&self) -> Result<Pipelines> {
        bail!("the benchmark has no pipelines")
    }
}

/// A client that keeps one connection.
struct OverHttp {
    connection: BufStream<TcpStream>,
    turns: Turns,
    answer: String,
    line: String,
    body: Vec<u8>,
}

impl OverHttp {
    async fn connect(address: SocketAddr) -> Result<Self> {
        Self::to_sessions(address, "http", SESSIONS).await
    }

    /// Goes through so many sessions whose ids begin so.
    async fn to_sessions(address: SocketAddr, prefix: &str, sessions: u64) -> Result<Self> {
        let connection = TcpStream::connect(address).await?;
        connection.set_nodelay(true)?;
        let (turns, answer) = (Turns::new(prefix, sessions), answer_of(ANSWER));
        Ok(Self { connection: BufStream::new(connection), turns, answer, line: String::new(), body: Vec::new() })
    }

    /// Sends a body, and reads the reply.
    async fn send(&mut self, lane: &str, body: &str) -> Result<()> {
        let head =
            format!("POST /keepline/v1/{lane} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
        self.connection.write_all(head.as_bytes()).await?;
        self.connection.write_all(body.as_bytes()).await?;
        self.connection.flush().await?;
        let (mut length, mut is_first) = (0, true);
        loop {
            self.line.clear();
            self.connection.read_line(&mut self.line).await?;
            let line = self.line.trim_end();
            if std::mem::take(&mut is_first) {
                ensure!(line.starts_with("HTTP/1.1 200"), "{line}");
            }
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().context("a length")?;
            }
        }
        self.body.resize(length, 0);
        self.connection.read_exact(&mut self.body).await?;
        ensure!(!self.body.is_empty(), "the reply is empty");
        Ok(())
    }
}

impl Contender for OverHttp {
    async fn prepare(&mut self) -> Result<()> {
        self.turns.advance();
        Ok(())
    }

    async fn question(&mut self) -> Result<()> {
        let body = format!(r#"{{"text":"{QUESTION_TEXT}","metadata":{}}}"#, self.turns.metadata);
        self.send("questions", &body).await
    }

    async fn answer(&mut self) -> Result<()> {
        let body = format!(r#"{{"text":"{}","metadata":{}}}"#, self.answer, self.turns.metadata);
        self.send("answers", &body).await
    }
}
