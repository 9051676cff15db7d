//! Messages of a plugin that pose as the host's, or that bury them.

use keepline::logging::is_printable;

use super::*;

/// What would end a line, drive a terminal, or turn what comes after it.
const TRICKS: &str =
    "a\\nerror: forged [keepline.store]\\r\\u001b[2J\\u009b\\u2028\\u2029\\u202e\\u2066\\u200b\\ufeff\\ue000";

#[test]
fn a_plugins_log_lines_carry_its_name_and_forge_no_others() {
    let run = |arguments: &[&str], text: &str| {
        let line = format!("{{\"lane\":\"questions\",\"text\":\"{text}\",\"metadata\":{{\"session_id\":\"s1\"}}}}\n");
        let ended = hostile(arguments).input(line).run();
        let lines: Vec<_> = reports(&ended.stderr).into_iter().map(str::to_owned).collect();
        assert!(!lines.is_empty());
        for told in &lines {
            let known = ["error: ", "warning: ", "info: ", "debug: "];
            assert!(
                known.iter().any(|label| told.starts_with(label)) && !told.starts_with("error: forged"),
                "{told:?}"
            );
            assert!(told.chars().all(is_printable) && told.len() < 5000, "{told:?}");
        }
        lines
    };
    let lines = run(&["-v", "run"], &format!("log-raw {TRICKS}"));
    assert!(lines.iter().any(
        |told| told.starts_with("info: [plugin: a\\n") && told.contains("] a\\nerror: forged [keepline.store]\\r")
    ));
    let lines = run(&["run"], "log-errors keepline.plugin");
    assert_eq!(lines, vec!["error: [plugin: keepline.plugin] not the host's own"; 3]);
    // A row of a terminal of 80 columns would begin with the forged words.
    let gap = format!("log-raw a{}error: forged [keepline.store]", " ".repeat(3000));
    let lines = run(&["-v", "run"], &gap);
    assert!(lines.iter().any(|told| told.contains("] a   error: forged [keepline.store]")), "{lines:?}");
    assert!(lines.iter().all(|told| !told.contains("    ")), "{lines:?}");
    // Nothing is displayed for these.
    for invisible in
        ["\u{3164}", "\u{115f}", "\u{1160}", "\u{ffa0}", "\u{34f}", "\u{17b4}", "\u{180b}", "\u{fe0f}", "\u{e0100}"]
    {
        let lines = run(&["-v", "run"], &format!("log-raw a{invisible}b"));
        assert!(lines.iter().all(|told| !told.contains(invisible)), "{lines:?}");
    }
    // Of what it says went wrong with an entry the caller is told.
    let lines = run(&["--set", "on_store_error=fail", "run"], "problem 50");
    assert!(lines[0].starts_with("error: line 1: \\u{1b}[2J\\n"), "{lines:?}");
}

#[tokio::test]
async fn warnings_and_debug_lines_of_a_plugin_are_rate_limited() {
    let plugin = Plugin::from_bytes(HOSTILE, &sandbox()).unwrap();
    let log = Arc::new(KeptLog::default());
    let mut options = Options::default();
    options.log = log.clone();
    let keepline = Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await.unwrap();
    let started = Instant::now();
    for _ in 0..40 {
        keepline.pipe().question("log-debug 4096", METADATA).await.unwrap();
        keepline.pipe().question("log-warnings 64", METADATA).await.unwrap();
    }
    // A machine may take more than one period for that.
    let periods = usize::try_from(started.elapsed().as_secs() / 10 + 2).unwrap();
    let lines = log.lines();
    let of = |urgent: bool| lines.iter().filter(move |line| (line.level >= LogLevel::Warn) == urgent);
    let bytes: usize = of(false).map(|line| line.context.len() + line.message.len()).sum();
    assert!(bytes > 500_000 && bytes < periods * (1 << 20), "{bytes}");
    assert!((3..=periods * 33 * 3).contains(&of(true).count()), "{}", of(true).count());
    assert!(lines.iter().all(|line| line.context.starts_with("plugin: ") && line.message.len() < 4200));
}
