//! `keepline health`: checks whether the store can be used, for people, scripts and orchestrators.
//!
//! Exit code 0 means that the store answered; otherwise it is 1, with the reason. No plugin is loaded and nothing is
//! changed: a missing directory is not created. The result is this process's view of the store; `keepline run
//! --metrics` serves the view of the run itself.

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use keepline::{
    config::Config,
    store::{BreakerOptions, Deadline, Failure, FailureCode, StoreGuard},
};
use serde_json::{Value, json};

use crate::{
    app::{self, error, runtime},
    args::{GlobalArguments, JsonArguments},
    operations::health::{failure_json, rounded_milliseconds},
    terminal::{self, format_duration, print_result},
};

// Paragraphs are one line each: clap breaks them where the terminal ends.
pub const HEALTH_HELP: &str = r#"The store is asked twice: once to connect, once to measure the round trip. Nothing is changed, and no directory is created; that the store can be written to is not tried. Each try may take store_timeout_ms.

With --json: {"backend":"redis","reachable":true,"connect_ms":1.204,"round_trip_ms":0.118,"breaker":"closed","problem":null}, and if it can't be reached, "problem":{"code":…,"message":…}.

Exit codes: 0 the store can be reached, 1 it can't, 2 the command line or the configuration is wrong."#;

pub fn main(global: &GlobalArguments, arguments: &JsonArguments) -> Result<ExitCode> {
    let config = app::load_config(global)?;
    let found = check_store(&config)?;
    print_result(arguments.json, &found.report_json(&config), &found.report_text(&config))?;
    Ok(if found.problem.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct HealthReport {
    problem: Option<Failure>,
    /// Time of the first check, connecting included.
    connect: Option<Duration>,
    /// Time of the second check, if there was one.
    round_trip: Option<Duration>,
    breaker: &'static str,
}

/// Checks twice: the first connects, the second takes what an entry waits for.
fn check_store(config: &Config) -> Result<HealthReport> {
    let store = match app::open_existing_store(config) {
        Ok(store) => store,
        // A directory that is locked or damaged is an answer, a wrong choice of one an error.
        Err(problem) => {
            let problem = anyhow::Error::from(problem);
            if error::exit_code(&problem) != ExitCode::FAILURE {
                return Err(problem);
            }
            let problem = Failure::new(FailureCode::Unavailable, "", error::format_with_causes(&problem));
            return Ok(HealthReport { problem: Some(problem), connect: None, round_trip: None, breaker: "closed" });
        }
    };
    let guard = StoreGuard::new(store, BreakerOptions::default());
    let limit = Duration::from_millis(config.host.store_timeout_ms);
    runtime::build_single_threaded()?.block_on(async {
        let first = guard.check(Deadline::after(limit)).await;
        let connect = Some(first.round_trip);
        if !first.is_good() {
            return Ok(HealthReport {
                problem: first.problem,
                connect,
                round_trip: None,
                breaker: first.breaker.name(),
            });
        }
        for warning in guard.store().warnings().await {
            terminal::print_warning(&warning);
        }
        let second = guard.check(Deadline::after(limit)).await;
        let round_trip = second.is_good().then_some(second.round_trip);
        Ok(HealthReport { problem: second.problem, connect, round_trip, breaker: second.breaker.name() })
    })
}

impl HealthReport {
    fn report_json(&self, config: &Config) -> Value {
        json!({
            "backend": config.host.backend,
            "store": app::store_address(config),
            "reachable": self.problem.is_none(),
            "connect_ms": self.connect.map(rounded_milliseconds),
            "round_trip_ms": self.round_trip.map(rounded_milliseconds),
            "breaker": self.breaker,
            "problem": self.problem.as_ref().map(failure_json),
        })
    }

    fn report_text(&self, config: &Config) -> String {
        let mut lines = vec![format!("{:<12}{}", "backend", config.host.backend)];
        lines.extend(app::store_address(config).map(|place| format!("{:<12}{place}", "store")));
        lines.push(match &self.problem {
            None => format!("{:<12}yes", "reachable"),
            Some(problem) => format!("{:<12}no: {} ({})", "reachable", problem.message, problem.code),
        });
        for (name, time) in [("connected", self.connect), ("round trip", self.round_trip)] {
            lines.extend(time.map(|time| format!("{name:<12}{}", format_duration(time))));
        }
        lines.push(format!("{:<12}{}", "breaker", self.breaker));
        lines.join("\n")
    }
}
