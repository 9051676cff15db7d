//! The same pair with its conversation: through LangChain's history class, through the service and through a pipe, on one Redis.

use std::{path::Path, process::Stdio};

use anyhow::{Context, Result, ensure};
use keepline_local_redis::RedisServer;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::{OverHttp, serve};
use crate::{
    Bench,
    contenders::{ANSWER, Piped, QUESTION_TEXT, answer_of},
    measure::{Comparison, Contender},
    report::Section,
    stores::{Stores, keepline},
};

/// Each conversation is in a session of its own.
const SESSIONS: u64 = 8;
/// A window of the conversation's newest 4,000 tokens.
const WITH_WINDOW: &str = r#"{"conversation": true, "max_context_tokens": 4000, "session_ttl_hours": 24}"#;

/// `python`: an interpreter that has `langchain-community` and `redis`.
pub(super) async fn measure(bench: &Bench, stores: &Stores, python: &Path) -> Result<Section> {
    let server = stores.server.as_ref().context("redis-server is not installed")?;
    let redis = stores.all.iter().find(|tested| tested.name == "Redis").context("no Redis")?;
    let keepline = keepline(&bench.plugin, &redis.store, WITH_WINDOW).await?;
    let mut table = Comparison::new("A pair with its conversation over Redis", "messages there at first");
    for messages in bench.effort.points(&[10, 100, 1_000]) {
        let mut langchain = LangChain::start(python, server, &format!("langchain-{messages}"))?;
        langchain.fill(messages / 2).await?;
        table.baseline(format!("{messages}: LangChain's RedisChatMessageHistory"), langchain)?;
        let name = format!("http-{messages}");
        Piped::new(&keepline, &name, SESSIONS).fill(messages / 2).await?;
        let http = OverHttp::to_sessions(serve(&keepline).await?, &name, SESSIONS).await?;
        table.add(format!("{messages}: service"), http)?;
        let mut piped = Piped::new(&keepline, format!("pipe-{messages}"), SESSIONS);
        piped.fill(messages / 2).await?;
        table.add(format!("{messages}: pipe"), piped)?;
    }
    table.note("LangChain reads all messages; a question of ours gets the newest 4,000 tokens; both store the pair");
    table.note("LangChain's class is called by a process in Python over a pipe, which costs some 20 µs a call");
    table.run_limited(bench.effort, 50).await
}

/// A process that passes pairs through LangChain's class.
struct LangChain {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    prefix: String,
    at: u64,
    answer: String,
}

impl LangChain {
    fn start(python: &Path, server: &RedisServer, prefix: &str) -> Result<Self> {
        let mut child = Command::new(python)
            .args(["-W", "ignore", "-c", include_str!("langchain.py"), &server.url(), QUESTION_TEXT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("can't start {}", python.display()))?;
        let input = child.stdin.take().context("no stdin")?;
        let output = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        Ok(Self { _child: child, input, output, prefix: prefix.to_owned(), at: 0, answer: answer_of(ANSWER) })
    }

    async fn fill(&mut self, pairs: u64) -> Result<()> {
        for _ in 0..pairs * SESSIONS {
            self.prepare().await?;
            self.answer().await?;
        }
        Ok(())
    }

    async fn call(&mut self, call: &str) -> Result<()> {
        self.input.write_all(call.as_bytes()).await?;
        let read = self.output.next_line().await?;
        ensure!(read.is_some(), "LangChain's process ended: has this Python langchain-community and redis?");
        Ok(())
    }
}

impl Contender for LangChain {
    async fn prepare(&mut self) -> Result<()> {
        self.at = (self.at + 1) % SESSIONS;
        Ok(())
    }

    async fn question(&mut self) -> Result<()> {
        self.call(&format!("q {}-{}\n", self.prefix, self.at)).await
    }

    async fn answer(&mut self) -> Result<()> {
        self.call(&format!("a {}-{} {}\n", self.prefix, self.at, self.answer)).await
    }
}
