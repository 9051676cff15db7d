//! Definitions: edited, checked, saved and run.

use serde_json::json;

use crate::{browser::Browser, data, server::Server};

#[test]
#[ignore = "needs a browser: make page"]
fn a_definition_with_a_fault_shows_it_and_is_not_saved_and_one_without_is_saved_and_runs() {
    let server = Server::start(&["--profile", "memory"]);
    data::house_rules(&server);
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/definitions/memories/rules", (1280, 1200));
    let text = "document.querySelector('#definition').value";
    let save_disabled = "[...document.querySelectorAll('.editor-bar .primary')][0].disabled";
    tab.until(&format!("{text}.includes('House rules')"));
    let good = tab.value(text).as_str().unwrap().to_owned();
    tab.type_into("#definition", &good.replace("kv_get", "kv_got"));
    tab.until_text(".findings .is-error", "retrieval.pipeline[0].type");
    assert_eq!(tab.value(save_disabled), true);
    assert_eq!(tab.value("document.querySelector('#definition').getAttribute('aria-invalid')"), "true");
    tab.type_into("#definition", "{");
    tab.until_text(".findings .is-error", "not JSON");
    assert_eq!(tab.value(save_disabled), true);
    tab.type_into("#definition", &good.replace("House rules", "Rules of the house"));
    tab.until(&format!("!{save_disabled}"));
    assert_eq!(tab.count(".findings .is-error"), 0);
    tab.click(".editor-bar .primary");
    tab.until_text(".editor-state", "Saved as revision 2");
    assert_eq!(server.get("/definitions/memories/rules").ok()["definition"]["label"], "Rules of the house");
    tab.click(".run-form .primary");
    tab.until_text(".run-text", "Four spaces.");
    tab.until_text(".step.is-done .step-size", "1 item");
    // Somebody else saves meanwhile: their change is not lost.
    server.patch("/definitions/memories/rules", &json!({"label": "Theirs"})).ok();
    tab.type_into("#definition", &good.replace("House rules", "Mine"));
    tab.until(&format!("!{save_disabled}"));
    tab.click(".editor-bar .primary");
    tab.until_text(".problem", "Somebody saved it meanwhile");
    assert_eq!(server.get("/definitions/memories/rules").ok()["definition"]["label"], "Theirs");
    tab.click(".problem .button");
    tab.until(&format!("{text}.includes('Theirs')"));
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn a_new_definition_is_written_as_yaml() {
    let server = Server::start(&["--profile", "memory"]);
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/definitions/memories", (1280, 1000));
    tab.until("document.querySelector('#definition')?.value.includes('new-memory')");
    tab.value("(() => { const form = document.querySelector('[aria-label=\"Written as\"]'); form.value = 'yaml'; form.dispatchEvent(new Event('change')); })()");
    let yaml = "id: tone\nlabel: Tone\ninputs_scope: [project]\nretrieval:\n  pipeline:\n    - {type: kv_get, instance: a, namespace: b, keys: [c]}\n";
    tab.type_into("#definition", yaml);
    tab.until("!document.querySelector('.editor-bar .primary').disabled");
    tab.click(".editor-bar .primary");
    tab.until("location.hash === '#/definitions/memories/tone'");
    tab.until_text(".row", "Tone");
    assert_eq!(server.get("/definitions/memories/tone").ok()["revision"], 1);
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn unsaved_changes_survive_leaving_and_reloading_until_they_are_discarded() {
    let server = Server::start(&["--profile", "memory"]);
    data::house_rules(&server);
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/definitions/memories/rules", (1280, 1200));
    let text = "document.querySelector('#definition')?.value ?? ''";
    let go = |to: &str| drop(tab.value(&format!("location.hash = '{to}'")));
    tab.until(&format!("{text}.includes('House rules')"));
    let good = tab.value(text).as_str().unwrap().to_owned();
    tab.type_into("#definition", &good.replace("House rules", "Half done"));
    go("#/definitions");
    tab.until("!document.querySelector('#definition')");
    go("#/definitions/memories/rules");
    tab.until(&format!("{text}.includes('Half done')"));
    tab.reload();
    tab.until(&format!("{text}.includes('Half done')"));
    tab.until_text(".editor-state", "revision 1, changed");
    // Somebody else saves meanwhile: what was begun before does not overwrite it.
    server.patch("/definitions/memories/rules", &json!({"label": "Theirs"})).ok();
    tab.reload();
    tab.until("document.querySelector('.editor-bar .primary')?.disabled === false");
    tab.click(".editor-bar .primary");
    tab.until_text(".problem", "Somebody saved it meanwhile");
    tab.value("[...document.querySelectorAll('.editor-bar .button')].find((it) => it.textContent.startsWith('Discard')).click()");
    tab.until(&format!("{text}.includes('Theirs')"));
    tab.reload();
    tab.until(&format!("{text}.includes('Theirs')"));
    assert_eq!(tab.value("sessionStorage.length"), 0);
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn a_rule_engine_shows_which_of_its_rules_hold() {
    let server = Server::start(&["--profile", "memory"]);
    let rule = |id: &str, value: &str| {
        json!({"id": id, "when": [{"field": "input.text", "operator": "contains", "value": value}],
            "then": {"add_memories": ["rules"]}})
    };
    let engine = json!({"id": "when", "name": "When", "rules": [rule("one", "test"), rule("two", "deploy")]});
    server.put("/definitions/rule-engines/when", &engine).ok();
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/definitions/rule-engines/when", (1280, 1200));
    tab.until("document.querySelector('#evaluate-query')?.offsetParent");
    tab.type_into("#evaluate-query", "How do I test this?");
    tab.click(".run-form .primary");
    tab.until_text(".evaluated", "rules");
    let told = "[...document.querySelectorAll('.step .step-size')].map((it) => it.textContent)";
    assert_eq!(tab.value(told), json!(["holds", "does not hold"]));
    tab.type_into("#evaluate-variables", "{");
    tab.click(".run-form .primary");
    tab.until_text(".run-result", "The other variables are not JSON");
    tab.assert_quiet();
}
