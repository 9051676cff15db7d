//! Log messages of a plugin: their size, number and characters.

use super::*;

#[tokio::test]
async fn a_plugin_that_floods_the_log_is_cut_short() {
    let cell = Cell::hostile().await;
    cell.ask("log-lines 1000000").await;
    assert_eq!(cell.log.of("plugin: flood").len(), 64);
    let before = cell.log.lines().len();
    cell.ask("log-warnings 100000").await;
    assert!(cell.log.lines().len() - before <= 64 + 1);
    cell.stops("loop-over-log", "computed for longer").await;
    assert!(cell.log.of("plugin: loop").len() <= 64);
}

#[tokio::test]
async fn a_flood_of_log_lines_does_not_hide_that_a_plugin_was_stopped() {
    let cell = Cell::hostile().await;
    cell.ask("log-errors keepline.plugin").await;
    cell.ask("log-warnings 64").await;
    cell.ask("log-errors ").await;
    cell.stops("trap", "gave up").await;
}

#[tokio::test]
async fn an_overlong_log_line_is_cut_and_one_over_the_limit_stops_its_plugin() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let cell = Cell::of(HOSTILE, &sandbox).await;
    assert_eq!(cell.ask("log-long-line 10000000").await.effect, Effect::Passed);
    assert!(cell.log.of("plugin: long")[0].message.len() <= 4096);
    cell.stops("log-long-line 50000000", "").await;
}

#[tokio::test]
async fn log_lines_of_a_plugin_contain_no_control_characters() {
    let cell = Cell::hostile().await;
    cell.ask("log-raw \u{1b}[2J\nfake line\r\u{7}\u{9b}x").await;
    let lines = cell.log.lines();
    assert_eq!(lines.len(), 1);
    assert!(!lines[0].message.chars().any(char::is_control) && !lines[0].context.chars().any(char::is_control));
}
