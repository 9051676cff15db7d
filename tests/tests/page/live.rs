//! Events and metrics. Both are played here, so that the page is held to what it is told and to nothing else.

use serde_json::json;

use crate::{browser::Browser, data, server::Server};

/// A service whose description has both routes, with events that `push` sends and metrics that `metrics` holds.
const PLAYED: &str = r#"
    const asked = window.fetch;
    window.metrics = '';
    window.fetch = async (where, options = {}) => {
        if (where === '/openapi.json') return new Response('{"paths": {"/keepline/v1/events": {}, "/metrics": {}}}');
        if (where === '/metrics') return new Response(window.metrics);
        if (where !== '/keepline/v1/events') return asked(where, options);
        const stream = new ReadableStream({start(controller) {
            window.push = (text) => controller.enqueue(new TextEncoder().encode(text));
            window.cut = () => controller.close();
        }});
        window.lastId = options.headers['last-event-id'] ?? null;
        return new Response(stream, {headers: {'content-type': 'text/event-stream'}});
    };"#;

#[test]
#[ignore = "needs a browser: make page"]
fn events_bring_what_happens_and_a_connection_that_is_cut_is_taken_up_again() {
    let server = Server::of_conversations(&[]);
    data::parcel(&server);
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/sessions/anna-parcel", (1280, 1400));
    tab.call("Page.addScriptToEvaluateOnNewDocument", &json!({"source": PLAYED}));
    tab.reload();
    tab.until("window.push && document.querySelectorAll('.turn').length === 12");
    data::answer(&server, ("anna-parcel", Some("anna")), ("One more?", "The thirteenth."), &json!({}));
    server.post("/sessions", &json!({"id": "fresh"})).ok();
    // In pieces, with a comment between.
    tab.value("push('id: 7\\nevent: message.appended\\ndata: {\"type\":\"message.appended\",\"data\":{\"sess')");
    tab.value("push('ion\":\"anna-parcel\"}}\\n\\n: alive\\n\\nid: 8\\nevent: session.created\\ndata: {\"type\":\"session.created\",\"data\":{\"session\":\"fresh\"}}\\n\\n')");
    tab.until_text(".timeline-feed", "The thirteenth.");
    tab.until_text(".band-told", "13 turns");
    tab.until_text(".list-total", "2 sessions");
    server.post("/sessions", &json!({"id": "while-cut"})).ok();
    tab.value("cut()");
    tab.until("window.lastId === '8'");
    server.delete("/sessions/fresh").ok();
    tab.value("push('id: 9\\nevent: session.deleted\\ndata: {\"type\":\"session.deleted\",\"data\":{\"session\":\"fresh\"}}\\n\\n')");
    tab.until("!document.querySelector('.list').innerText.includes('fresh')");
    tab.until_text(".list", "while-cut");
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn the_strip_tells_the_memorys_health_and_is_quiet_when_nothing_is_known() {
    let server = Server::of_conversations(&[]);
    let browser = Browser::start();
    let tab = browser.open(&server, "/", (1280, 800));
    tab.call("Page.addScriptToEvaluateOnNewDocument", &json!({"source": PLAYED}));
    tab.reload();
    tab.until("window.push && document.querySelector('.list-total')?.innerText.includes('0 sessions')");
    assert_eq!(tab.value("document.querySelector('#health').hidden"), true);
    let metrics = "# TYPE keepline_entries counter\nkeepline_entries_total{effect=\"enriched\"} 90\n\
        keepline_entries_total{effect=\"passed\"} 3\nkeepline_entries_total{effect=\"failed\"} 2\n\
        keepline_store_wait_seconds_count 4\nkeepline_store_wait_seconds_sum 0.002\n\
        keepline_store_breaker{state=\"closed\"} 0\nkeepline_store_breaker{state=\"open\"} 1\n\
        keepline_prompt_bytes_total 2000\nkeepline_prompt_stable_bytes_total 1800\n\
        keepline_prompt_bytes_total{tenant=\"acme\"} 9000\nkeepline_prompt_stable_bytes_total{tenant=\"acme\"} 0\n";
    tab.value(&format!("void (window.metrics = {})", json!(metrics)));
    tab.until("!document.querySelector('#health').hidden");
    let strip = tab.text("#health").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(strip, "Without memory 5 Round trip 500 µs Breaker open Stable prefix 90 %");
    assert_eq!(tab.count("#health .is-bad"), 2);
    // Stores of tenants are not this one; with a tenant's key there is none but its own.
    let of_tenant = "keepline_store_wait_seconds_count{tenant=\"acme\"} 2\n\
        keepline_store_wait_seconds_sum{tenant=\"acme\"} 0.004\n\
        keepline_store_breaker{state=\"closed\",tenant=\"acme\"} 1\n";
    for (metrics, shown) in [
        (format!("{metrics}{of_tenant}"), "Without memory 5 Round trip 500 µs Breaker open Stable prefix 90 %"),
        (of_tenant.to_owned(), "Round trip 2.0 ms Breaker closed"),
    ] {
        let samples = json!(metrics);
        let facts = tab.value(&format!(
            "import('/page/views/health.js').then(({{readMetrics, healthOf}}) =>
                healthOf(readMetrics({samples})).map(([label, text]) => `${{label}} ${{text}}`).join(' '))"
        ));
        assert_eq!(facts, shown);
    }
    tab.assert_quiet();
}
