//! What is stored is text, whatever it looks like.

use serde_json::json;

use crate::{browser::Browser, data, server::Server};

const MARKUP: &str = "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)></svg>\
                      <iframe src=\"https://example.org/frame\"></iframe><style>body{display:none}</style>\
                      <a href=\"javascript:alert(4)\">a</a><b class=\"bold\">b</b>";

#[test]
#[ignore = "needs a browser: make page"]
fn a_session_full_of_markup_and_scripts_is_inert() {
    let server = Server::of_conversations(&["--set", "recall=user"]);
    let tools = json!({"tools": [{"call_id": "c", "name": MARKUP, "arguments": {"a": MARKUP}, "output": MARKUP, "error": MARKUP}]});
    data::answer(&server, ("evil", Some("mallory")), (MARKUP, MARKUP), &tools);
    for number in 0..4 {
        let question = format!("{MARKUP} {number}");
        data::answer(&server, ("evil", Some("mallory")), (&question, &MARKUP.repeat(3)), &json!({}));
    }
    server.patch("/sessions/evil", &json!({"title": &MARKUP[..150]})).ok();
    server.put("/sessions/evil/keys/k", &json!(MARKUP)).ok();
    server.put("/users/mallory/keys/k", &json!(MARKUP)).ok();
    let memory = json!({"id": "evil", "label": MARKUP, "description": MARKUP, "inputs_scope": ["project"],
        "retrieval": {"pipeline": [{"type": "kv_get", "instance": "a", "namespace": MARKUP, "keys": ["k"]}]}});
    server.put("/definitions/memories/evil", &memory).ok();

    let browser = Browser::start();
    let tab = browser.open(&server, "/#/sessions/evil?budget=200&query=script+alert+onerror", (1280, 1600));
    tab.until("document.querySelectorAll('.turn.is-out').length > 0");
    tab.until_text(".timeline-feed", "<script>alert(1)</script>");
    tab.click(".tools summary");
    tab.until_text(".tools", "<iframe");
    tab.click(".fold[data-name=values] summary");
    tab.until_text(".fold-body", "<svg onload");
    let is_inert = || {
        let elements = "main script, main img, main svg, main iframe, main style, main .bold, a[href^=javascript]";
        assert_eq!(tab.count(elements), 0);
        assert_eq!(tab.value("getComputedStyle(document.body).display"), "flex");
    };
    is_inert();
    tab.go("#/users/mallory");
    tab.until_text("[aria-label=Values]", "<script>alert(1)</script>");
    is_inert();
    tab.go("#/definitions/memories/evil");
    tab.until_text(".row-name", "<script>alert(1)</script>");
    tab.click(".run-form .primary");
    tab.until_text(".run-result", "<style>");
    is_inert();
    // Whatever the address says.
    tab.go("#/sessions/%3Cimg%20src%3Dx%20onerror%3Dalert(5)%3E");
    tab.until_text(".session-problem", "<img src=x onerror=alert(5)>");
    is_inert();
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn the_policy_of_the_page_is_strict() {
    let server = Server::of_conversations(&[]);
    let browser = Browser::start();
    let tab = browser.open(&server, "/", (800, 600));
    let headers = tab.value(
        "fetch('/').then((reply) => ['content-security-policy', 'x-content-type-options', 'referrer-policy', 'etag', \
         'cache-control'].map((name) => reply.headers.get(name)))",
    );
    let policy = headers[0].as_str().unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe") && headers[1] == "nosniff" && headers[2] == "no-referrer", "{headers}");
    assert!(headers[3].is_string() && headers[4] == "no-cache", "{headers}");
    tab.assert_quiet();
}
