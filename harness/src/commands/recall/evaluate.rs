//! `keepline recall evaluate`: measures how much of the evidence for questions is recalled, end to end: host, component
//! and store.
//!
//! The measured result is exactly what a question gets. The test sessions are deleted afterwards, also when a signal
//! ends the command.

use std::{collections::HashMap, path::PathBuf, process::ExitCode, slice, time::Duration};

use anyhow::{Context, Result, bail};
use clap::Args;
use keepline::{
    Deadline, Keepline,
    pipe::{Effect, Question},
    sessions::{chat_messages, user_bucket},
    store::kind,
};
use keepline_service::preview::has_nothing_to_search;
use serde_json::{Map, Value, json};
use tokio::{sync::Notify, time::Instant};

use super::dataset::{EvaluationQuestion, EvaluationSample, count_nonblank_characters, read_samples};
use crate::{
    app::{
        self,
        error::{self, coded_error},
        runtime,
        shutdown::ShutdownSignals,
    },
    args::{GRACE, GlobalArguments},
    deferred::{
        run_task::{EMBED_TASK, INDEX_TASK, run_task},
        scope::RecallMode,
    },
    operations::{
        buckets, health::rounded_milliseconds, recall::RECALL_MEMBER, records::array_member, users::forget_in_batches,
    },
    terminal::{self, format_count, print_json, progress_bar},
};

#[derive(Debug, Args)]
#[command(after_help = EVALUATE_HELP)]
pub struct EvaluateArguments {
    /// File of conversations, one per line
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Token budgets to measure
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', default_values_t = [500, 1000, 2000, 4000],
        value_parser = clap::value_parser!(u64).range(64..=32_768))]
    pub tokens: Vec<u64>,
    /// Ignore the speakers, dates and times that a question names (recall_hints=false)
    #[arg(long)]
    pub no_hints: bool,
    /// Put all conversations into one session; with --user, into the memory of one user
    #[arg(long)]
    pub merge: bool,
    /// Store each conversation as one user with several sessions, and ask in a new session (recall=user)
    #[arg(long)]
    pub user: bool,
}

// Paragraphs are one line each: clap breaks them where the terminal ends.
const EVALUATE_HELP: &str = r#"Each line of the file is a conversation: its sessions with their turns, and questions with the ids of the turns that hold the evidence. The date may also be like "2023-05-08T13:56:00Z":
  {"conversation":"1","sessions":[{"date":"1:56 pm on 8 May, 2023","turns":[{"id":"D1:1","speaker":"Ann","text":"I have a dog."},{"id":"D1:2","speaker":"Ben","text":"Lovely! We have only plants at home, and even those are hard to keep alive while we travel so much for work."},{"id":"D1:3","speaker":"Ann","text":"Plants are easy. Water them once a week, keep them out of the sun, and ask a neighbour when you are away."}]}],"questions":[{"question":"What pet does Ann have?","evidence":["D1:1"]}]}

Each conversation becomes a session of its own in the configured store, which is deleted at the end. It is cut and indexed as deferred work does it; then each question is asked with a window of 64 tokens. What the window shows is not recalled, and counts as missing: the last turns of a conversation are no good evidence. "whole" is the share of the evidence of which all passages are recalled, "in part" that of which any is, each as the mean over the questions; "R@10" is the share among the ten turns with the highest scores that are recalled; "used" is what the text that a question gets comes to in tokens of four bytes. Times are those of whole questions."#;

/// Messages per call.
const MESSAGES_PER_CALL: usize = 500;
/// Time limit of a call, generous because it is measured.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The smallest window, so that nearly everything has to be recalled.
const WINDOW_TOKENS: u64 = 64;
/// Approximate bytes of a token.
const TOKEN_BYTES: usize = 4;
/// Messages that count for R@10.
const TOP_RANKS: usize = 10;

/// Results for one budget. Shares are sums over the questions.
#[derive(Default)]
struct BudgetResults {
    tokens: u64,
    whole: f64,
    in_part: f64,
    at_ten: f64,
    passages: usize,
    /// Estimated tokens of the recalled texts: of all questions, and the most.
    used: usize,
    most_used: usize,
    times: Vec<Duration>,
}

pub fn main(global: &GlobalArguments, arguments: &EvaluateArguments, json: bool) -> Result<ExitCode> {
    let samples = read_samples(&arguments.file, arguments.merge)?;
    note_dataset_mistakes(&samples);
    let config = app::load_config(global)?;
    let plugin = app::load_plugin(global, &config)?;
    let runtime = runtime::build_single_threaded()?;
    let done = runtime.block_on(async {
        let store = config.store()?;
        let mut budgets = arguments.tokens.clone();
        budgets.sort_unstable();
        budgets.dedup();
        let mut all = Vec::with_capacity(budgets.len());
        for tokens in budgets {
            let mut options = app::keepline_options(&config)?;
            let has_vectors = options.embedder.is_some();
            options.filter = evaluation_options(&options.filter, tokens, arguments, has_vectors)?;
            let keepline = Keepline::new(plugin.clone(), store.clone(), options).await?;
            all.push((keepline, BudgetResults { tokens, ..BudgetResults::default() }));
        }
        let asked: usize = samples.iter().map(|sample| sample.asked.len()).sum();
        let bar = progress_bar((asked * all.len()) as u64);
        let name = format!("recall-evaluation-{:08x}", fastrand::u32(..));
        let (shutdown, is_told) = (ShutdownSignals::listen(GRACE)?, Notify::new());
        // Any of them can fill, embed and delete.
        let keepline = all.first().map(|(keepline, _)| keepline.clone()).context("there are no budgets")?;
        let measured = async {
            for (number, sample) in samples.iter().enumerate() {
                let place = TestSessions { name: format!("{name}-{number}"), is_user: arguments.user };
                // Not interrupted by a signal: sessions that are being created could not be deleted.
                let measured = match place.create_empty(&keepline, sample).await {
                    Ok(()) => tokio::select! {
                        measured = measure_sample(&keepline, &place, sample, &mut all, || bar.inc(1)) => Some(measured),
                        () = is_told.notified() => None,
                    },
                    Err(error) => Some(Err(error)),
                };
                let deleted = place.delete(&keepline).await;
                let deleted = deleted.with_context(|| format!("{} can't be deleted", place.name));
                match measured {
                    Some(Ok(())) => deleted?,
                    Some(Err(first)) => {
                        // The first error is the cause; the other may be a consequence.
                        if let Err(left) = deleted {
                            terminal::print_warning(&error::format_with_causes(&left));
                        }
                        return Err(first);
                    }
                    None => {
                        deleted?;
                        return Err(interruption_error("its test sessions were deleted".to_owned()));
                    }
                }
            }
            Ok(())
        };
        let measured = tokio::select! {
            measured = measured => measured,
            () = shutdown.wait_until_grace_ends(|_| is_told.notify_one()) => Err(interruption_error(format!("sessions {name}-* may be left"))),
        };
        bar.finish_and_clear();
        measured?;
        let sessions = samples.iter().map(|sample| sample.session_count(arguments.user)).sum();
        print_results(&samples, sessions, all.into_iter().map(|(_, sums)| sums).collect(), json)
    });
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}

/// Notes probable mistakes in the file.
fn note_dataset_mistakes(samples: &[EvaluationSample]) {
    let unknown: Vec<&String> = samples.iter().flat_map(|sample| &sample.unknown).collect();
    let repeated: Vec<&String> = samples.iter().flat_map(|sample| &sample.repeated).collect();
    for (ids, what, counts) in [
        (unknown, "evidence ids that no turn of their conversation has", "they count as not recalled"),
        (repeated, "turn ids that occur more than once in a conversation", "the last turn counts"),
    ] {
        if let Some(first) = ids.first() {
            terminal::print_note(&format!("{what}: {}, for example {first}; {counts}", ids.len()));
        }
    }
}

fn interruption_error(what: String) -> anyhow::Error {
    coded_error("interrupted", format!("interrupted: {what}"))
}

/// The configured options, with those that the measurement sets.
fn evaluation_options(
    configured: &str,
    tokens: u64,
    arguments: &EvaluateArguments,
    has_vectors: bool,
) -> Result<String> {
    let recall = if arguments.user { "user" } else { "session" };
    let mut options: Map<String, Value> = serde_json::from_str(configured)?;
    let measured = json!({
        "conversation": true, "recall": recall, "recall_tokens": tokens, "recall_hints": !arguments.no_hints,
        "max_context_tokens": WINDOW_TOKENS, "memory_mode": "conversation", "recall_exclude": [], "max_message_length": 0,
        "max_session_messages": 0, "max_session_bytes": 0, "redact": [], "session_ttl_hours": 24,
        "recall_ttl_hours": 0, "recall_life": "user",
    });
    options.extend(measured.as_object().cloned().unwrap_or_default());
    options.entry("recall_vectors").or_insert(has_vectors.into());
    Ok(Value::from(options).to_string())
}

/// The test sessions of a sample: one, or several of a user.
struct TestSessions {
    name: String,
    is_user: bool,
}

impl TestSessions {
    fn session_name(&self, number: usize) -> String {
        if self.is_user { format!("{}-{number}", self.name) } else { self.name.clone() }
    }

    /// Creates all of its sessions, empty. Those of a user are registered with the user, so that they are deleted with the
    /// rest, whatever ends the filling.
    async fn create_empty(&self, keepline: &Keepline, sample: &EvaluationSample) -> Result<()> {
        let mut sessions = keepline.sessions().by(Deadline::NEVER);
        for number in 0..sample.session_count(self.is_user) {
            let session = self.session_name(number);
            sessions.create(&session).await?;
            if self.is_user {
                sessions.register((&*session).into(), Some(&self.name)).await?;
            }
        }
        Ok(())
    }

    async fn fill_and_index(&self, keepline: &Keepline, sample: &EvaluationSample) -> Result<()> {
        if !self.is_user {
            return fill_session(keepline, &self.name, None, &sample.messages).await;
        }
        let owner = user_bucket(&self.name);
        for (number, messages) in sample.messages_by_session().enumerate() {
            fill_session(keepline, &self.session_name(number), Some(&owner), messages).await?;
        }
        Ok(())
    }

    /// Metadata of a question; for a user, it is asked in a new session.
    fn question_metadata(&self) -> String {
        let switches = json!({"look": true});
        match self.is_user {
            true => json!({"session_id": format!("{}-asks", self.name), "user_id": self.name, "memory": switches}),
            false => json!({"session_id": self.name, "memory": switches}),
        }
        .to_string()
    }

    /// The index of the message that a passage is from.
    fn message_index(&self, sample: &EvaluationSample, passage: &Value) -> Option<usize> {
        let position = usize::try_from(passage.get("position")?.as_u64()?).ok()?;
        if !self.is_user {
            return Some(position);
        }
        let (_, number) = passage.get("session")?.as_str()?.rsplit_once('-')?;
        sample.sessions.get(number.parse::<usize>().ok()?)?.checked_add(position)
    }

    async fn delete(&self, keepline: &Keepline) -> Result<()> {
        let mut sessions = keepline.sessions().by(Deadline::after(CALL_TIMEOUT));
        if !self.is_user {
            sessions.delete(&self.name).await?;
            return Ok(());
        }
        forget_in_batches(&mut sessions, &self.name).await?;
        // The tombstone, too: this user stores nothing any more.
        buckets::delete_bucket_if_exists(keepline.store(), kind::USER, &user_bucket(&self.name)).await?;
        Ok(())
    }
}

/// Fills a session, of this owner if any, and indexes it.
async fn fill_session(keepline: &Keepline, session: &str, owner: Option<&str>, messages: &[String]) -> Result<()> {
    let mut sessions = keepline.sessions().by(Deadline::NEVER);
    let mut next = 0;
    for piece in messages.chunks(MESSAGES_PER_CALL) {
        let after = Some(next).filter(|next| *next > 0);
        next += sessions.set_messages(session.into(), &chat_messages(piece), after).await?.count;
    }
    // Without an owner, the task works on the session alone.
    let buckets = RecallMode::User.task_buckets(session, owner)?;
    if !run_task(keepline, &buckets, INDEX_TASK, || ()).await? {
        bail!("the session was deleted by somebody else");
    }
    if keepline.wants_vectors() {
        run_task(keepline, &buckets, EMBED_TASK, || ()).await?;
    }
    Ok(())
}

/// Fills the test sessions, and asks all questions.
async fn measure_sample(
    keepline: &Keepline,
    at: &TestSessions,
    sample: &EvaluationSample,
    all: &mut [(Keepline, BudgetResults)],
    mut told: impl FnMut(),
) -> Result<()> {
    at.fill_and_index(keepline, sample).await?;
    let metadata = at.question_metadata();
    for asked in &sample.asked {
        // Before the question's time is measured.
        let vector = match keepline.wants_vectors() {
            true => keepline.embed(slice::from_ref(&asked.question)).await?.and_then(|mut made| made.pop()),
            false => None,
        };
        let is_in_vain = at.is_user && has_nothing_to_search(&asked.question, vector.as_ref());
        for (keepline, sums) in &mut *all {
            if is_in_vain {
                sums.add_question(at, sample, asked, &Value::Null);
                told();
                continue;
            }
            let (text, vector) = (&*asked.question, vector.as_ref());
            let question = Question { text, metadata: &metadata, vector, ..Question::default() };
            let mut pipe = keepline.pipe();
            let begun = Instant::now();
            let passed = pipe.ask(question, Some(Deadline::after(CALL_TIMEOUT))).await?;
            sums.times.push(begun.elapsed());
            if passed.effect == Effect::Failed {
                let problem = passed.problem.map(|problem| problem.message);
                bail!("a question failed: {}", problem.unwrap_or_default());
            }
            let got: Value = serde_json::from_str(passed.metadata.as_deref().unwrap_or("{}"))?;
            sums.add_question(at, sample, asked, got.get(RECALL_MEMBER).unwrap_or(&Value::Null));
            told();
        }
    }
    Ok(())
}

impl BudgetResults {
    fn add_question(
        &mut self,
        at: &TestSessions,
        sample: &EvaluationSample,
        asked: &EvaluationQuestion,
        recalled: &Value,
    ) {
        let passages = array_member(recalled, "passages");
        self.passages += passages.len();
        let used = recalled.get("text").and_then(Value::as_str).map_or(0, str::len).div_ceil(TOKEN_BYTES);
        self.used += used;
        self.most_used = self.most_used.max(used);
        // Characters that were recalled of each message.
        let mut found: HashMap<usize, usize> = HashMap::new();
        let mut ranked: Vec<(f64, usize)> = Vec::with_capacity(passages.len());
        for passage in passages {
            let Some(place) = at.message_index(sample, passage) else { continue };
            let text = passage.get("text").and_then(Value::as_str).unwrap_or_default();
            *found.entry(place).or_default() += count_nonblank_characters(text);
            ranked.push((passage.get("score").and_then(Value::as_f64).unwrap_or(0.0), place));
        }
        ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let mut first: Vec<usize> = Vec::new();
        for (_, place) in ranked {
            if !first.contains(&place) {
                first.push(place);
            }
        }
        first.truncate(TOP_RANKS);
        let is_whole = |place: &usize| found.get(place).is_some_and(|size| sample.sizes.get(*place) == Some(size));
        self.whole += asked.evidence_share(is_whole);
        self.in_part += asked.evidence_share(|place| found.contains_key(place));
        self.at_ten += asked.evidence_share(|place| first.contains(place));
    }

    /// A percentile of the times, in milliseconds.
    fn time_percentile(&self, percent: usize) -> f64 {
        let at = (self.times.len() * percent / 100).min(self.times.len().saturating_sub(1));
        rounded_milliseconds(self.times.get(at).copied().unwrap_or_default())
    }
}

impl EvaluationQuestion {
    /// The share of the evidence that is there.
    fn evidence_share(&self, is_there: impl Fn(&usize) -> bool) -> f64 {
        let count = self.evidence.iter().filter(|place| is_there(place)).count();
        ratio(count, self.evidence.len() + self.missing)
    }
}

fn ratio(part: usize, all: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts of a file's questions")]
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

fn print_results(samples: &[EvaluationSample], sessions: usize, mut all: Vec<BudgetResults>, json: bool) -> Result<()> {
    all.iter_mut().for_each(|sums| sums.times.sort_unstable());
    let count = |of: fn(&EvaluationSample) -> usize| -> usize { samples.iter().map(of).sum() };
    let (messages, questions) = (count(|sample| sample.messages.len()), count(|sample| sample.asked.len()));
    #[allow(clippy::cast_precision_loss, reason = "a count of questions")]
    let percent = |sum: f64| (1000.0 * sum / questions.max(1) as f64).round() / 10.0;
    if json {
        let budget = |sums: &BudgetResults| {
            json!({
                "tokens": sums.tokens, "whole_percent": percent(sums.whole), "in_part_percent": percent(sums.in_part),
                "recall_at_10_percent": percent(sums.at_ten), "passages": ratio(sums.passages, questions),
                "used_tokens": ratio(sums.used, questions), "most_used_tokens": sums.most_used, "p50_ms": sums.time_percentile(50), "p99_ms": sums.time_percentile(99),
            })
        };
        let told = json!({
            "sessions": sessions, "messages": messages, "questions": questions,
            "budgets": all.iter().map(budget).collect::<Vec<_>>(),
        });
        return print_json(&told);
    }
    let row = |sums: &BudgetResults| {
        [
            sums.tokens.to_string(),
            format!("{:.1}", percent(sums.whole)),
            format!("{:.1}", percent(sums.in_part)),
            format!("{:.1}", percent(sums.at_ten)),
            format!("{:.1}", ratio(sums.passages, questions)),
            format!("{:.0}", ratio(sums.used, questions)),
            format!("{:.2}", sums.time_percentile(50)),
            format!("{:.2}", sums.time_percentile(99)),
        ]
    };
    terminal::print_table(
        ["Tokens", "Whole %", "In part %", "R@10 %", "Passages", "Used", "p50 ms", "p99 ms"],
        all.iter().map(row).collect(),
    )?;
    let counts = [
        format_count(questions as u64, "question", "questions"),
        format_count(messages as u64, "message", "messages"),
        format_count(sessions as u64, "session", "sessions"),
    ];
    terminal::print_note(&counts.join(", "));
    Ok(())
}
