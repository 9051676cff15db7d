//! The list of sessions.

use std::fmt::Write as _;

use serde_json::json;

use crate::{browser::Browser, data, server::Server};

const SIZE: (u32, u32) = (1280, 820);

#[test]
#[ignore = "needs a browser: make page"]
fn the_list_is_searched_and_filtered_as_one_types() {
    let server = Server::of_conversations(&[]);
    data::parcel(&server);
    data::others(&server);
    let browser = Browser::start();
    let tab = browser.open(&server, "/", SIZE);
    tab.until_text(".list-total", "7 sessions");
    tab.type_into("#session-search", "lamps");
    tab.until_text(".list-total", "1 of 7 sessions");
    assert_eq!(tab.count(".row"), 1);
    assert!(tab.text(".row").contains("anna") && tab.text(".row mark") == "lamps");
    // The last line counts as well, once it has been in sight.
    tab.type_into("#session-search", "");
    tab.until("[...document.querySelectorAll('.row-line')].every((line) => line.textContent)");
    tab.type_into("#session-search", "dining ben");
    tab.until_text(".list-total", "0 of 7 sessions");
    tab.type_into("#session-search", "dining mara");
    tab.until_text(".list-total", "1 of 7 sessions");
    tab.type_into("#session-search", "");
    tab.value("(() => { const kind = document.querySelector('[aria-label=\"Which sessions\"]'); kind.value = 'unowned'; kind.dispatchEvent(new Event('change')); })()");
    tab.until_text(".list-total", "1 of 7 sessions");
    tab.until_text(".row", "Flaky test on CI");
    // Someone begins another one meanwhile.
    server.post("/sessions", &json!({"id": "new-one"})).ok();
    tab.until_text(".list-total", "2 of 8 sessions");
    server.delete("/sessions/new-one").ok();
    tab.until_text(".list-total", "1 of 7 sessions");
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn thousands_of_sessions_are_a_few_rows() {
    const SESSIONS: usize = 3000;
    let server = Server::of_conversations(&["--set", "memory_max_sessions=5000"]);
    let mut lines = String::new();
    for number in 0..SESSIONS {
        let entry = json!({"text": format!("answer {number}"), "question_text": "?", "metadata": {"session_id": format!("s{number:05}")}});
        writeln!(lines, "{entry}").unwrap();
    }
    let sent = server.send("POST", "/answers", &[("content-type", "application/x-ndjson")], &lines);
    assert_eq!(sent.status, 200);
    let browser = Browser::start();
    let tab = browser.open(&server, "/", SIZE);
    tab.until_text(".list-total", "3,000 sessions");
    assert!(tab.count(".row") < 40, "{}", tab.count(".row"));
    tab.value("void (document.querySelector('.list').scrollTop = 1e9)");
    tab.until("document.querySelector('.row-place:last-child')?.getAttribute('aria-posinset') === '3000'");
    assert!(tab.count(".row") < 40);
    tab.type_into("#session-search", "s02999");
    tab.until_text(".list-total", "1 of 3,000 sessions");
    tab.assert_quiet();
}
