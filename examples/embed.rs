//! A host of one's own: an HTTP service that answers questions, with a memory for each session.
//!
//! ```console
//! $ cargo run --example embed -- 127.0.0.1:8080
//! $ curl localhost:8080/v1/turn -d '{"session_id": "anna", "question": "Where is my parcel?"}'
//! ```
//!
//! One plugin and one Keepline a process, one pipe a request. The store and all other fields come from the
//! environment, as for the harness (`KEEPLINE_PROFILE=redis`). `kill -HUP` goes on with what is in the file of
//! `KEEPLINE_PLUGIN` by then, while requests are served; SIGTERM finishes those that were accepted.

use std::{env, fmt::Write, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    routing::{get, post},
};
use keepline::{
    Keepline, Plugin,
    config::{Config, Sources},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

#[derive(Deserialize)]
struct Turn {
    /// Whoever knows it reads the session's memory: a real service takes it from its own authentication.
    session_id: String,
    question: String,
}

const MAX_BODY: usize = 1 << 20;

async fn turn(State(keepline): State<Keepline>, body: Bytes) -> Result<Json<Value>, StatusCode> {
    let turn: Turn = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    // A pipe costs little and holds one conversation at a time: as many as there are requests.
    let mut pipe = keepline.pipe();
    let plain = json!({"session_id": turn.session_id}).to_string();
    let asked = pipe.question(&turn.question, &plain).await;
    // None: as they came. An error is to be had with `on_store_error: "fail"` alone.
    let metadata = asked.as_ref().ok().and_then(|asked| asked.metadata.as_deref()).unwrap_or(&plain);
    let answer = model(&turn.question, metadata).await;
    // The pipe carries which session the question was of, and which generation of it was seen.
    let answered = pipe.answer(&answer, "{}").await;
    // Why the memory had no part in this, if so. The answer is there all the same.
    let problem = [asked, answered].into_iter().find_map(|passed| match passed {
        Ok(passed) => passed.problem.map(|problem| problem.message),
        Err(error) => Some(error.message),
    });
    Ok(Json(json!({"answer": answer, "forgotten": problem})))
}

/// Stands for the model: slow, and it knows of a conversation what it is told.
async fn model(question: &str, metadata: &str) -> String {
    tokio::time::sleep(Duration::from_millis(200)).await;
    let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
    let memory = metadata.get("memory_context");
    match memory.and_then(|memory| Some((memory.get("answer_count")?, memory.get("last_answer")?))) {
        Some((count, last)) => format!("{question} After {count} answers, of which the last was {last}"),
        None => format!("{question} This is the first time that you ask"),
    }
}

/// For a scraper, as Prometheus reads it.
async fn metrics(State(keepline): State<Keepline>) -> String {
    let counters = keepline.counters();
    let mut text = String::new();
    for (effect, count) in counters.effects() {
        _ = writeln!(text, "keepline_entries_total{{effect=\"{effect}\"}} {count}");
    }
    _ = writeln!(text, "keepline_faults_total {}\nkeepline_busy_total {}", counters.faults, counters.busy);
    text
}

/// The component in the file of `KEEPLINE_PLUGIN`, or the bundled one.
fn plugin(config: &Config) -> anyhow::Result<Plugin> {
    Ok(match env::var_os("KEEPLINE_PLUGIN") {
        Some(file) => Plugin::from_file(file, &config.sandbox())?,
        None => Plugin::bundled(&config.sandbox())?,
    })
}

async fn replace_plugin(keepline: &Keepline, config: &Config) -> anyhow::Result<()> {
    let config = config.clone();
    // To compile takes a while; requests are served meanwhile.
    let plugin = tokio::task::spawn_blocking(move || plugin(&config)).await??;
    Ok(keepline.replace_plugin(plugin).await?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let config = Config::resolve(Sources::default().with_environment(env::vars_os())?)?;
    let keepline = Keepline::new(plugin(&config)?, config.store()?, config.options()).await?;

    let (mut hangup, mut terminate) = (signal(SignalKind::hangup())?, signal(SignalKind::terminate())?);
    let listener = TcpListener::bind(env::args().nth(1).unwrap_or("127.0.0.1:8080".into())).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let routes = Router::new().route("/v1/turn", post(turn)).route("/metrics", get(metrics));
    let router = routes.layer(DefaultBodyLimit::max(MAX_BODY)).with_state(keepline.clone());
    let stop = watch::Sender::new(false);
    let mut stopping = stop.subscribe();
    let server = axum::serve(listener, router)
        .with_graceful_shutdown(async move { drop(stopping.wait_for(|stopping| *stopping).await) });
    let mut server = tokio::spawn(server.into_future());
    loop {
        tokio::select! {
            ended = &mut server => break ended??,
            // No new connections; the requests that were accepted are answered.
            _ = terminate.recv() => drop(stop.send_replace(true)),
            _ = hangup.recv() => match replace_plugin(&keepline, &config).await {
                Ok(()) => println!("the plugin was replaced"),
                Err(error) => println!("the plugin was not replaced: {error:#}"),
            },
        }
    }
    let unfinished = keepline.shutdown(Duration::from_secs(5)).await;
    println!("ended; {unfinished} calls were not finished");
    Ok(())
}
