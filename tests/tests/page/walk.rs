//! The page by the keyboard alone, and with a key.

use serde_json::json;

use crate::{browser::Browser, data, server::Server};

/// Answers 401 to whoever does not send this key; before anything of the page runs.
const GUARD: &str = r"
    const asked = window.fetch;
    window.refused = 0;
    window.fetch = (where, options = {}) => {
        const isGuarded = String(where).startsWith('/keepline/');
        if (!isGuarded || options.headers?.authorization === 'Bearer open sesame') return asked(where, options);
        window.refused += 1;
        return Promise.resolve(new Response(JSON.stringify({error: {message: 'a key is needed', code: 'unauthorized'}}), {status: 401}));
    };";

#[test]
#[ignore = "needs a browser: make page"]
fn everything_is_reached_by_the_keyboard() {
    let server = Server::of_conversations(&[]);
    data::parcel(&server);
    data::others(&server);
    data::house_rules(&server);
    let browser = Browser::start();
    let tab = browser.open(&server, "/", (1280, 820));
    tab.until_text(".list-total", "7 sessions");
    tab.press("?");
    tab.until("document.querySelector('#help-dialog').open");
    tab.press("Escape");
    tab.until("!document.querySelector('#help-dialog').open");
    tab.press("/");
    tab.until("document.activeElement.id === 'session-search'");
    tab.call("Input.insertText", &json!({"text": "lamps"}));
    tab.until_text(".list-total", "1 of 7");
    tab.press("ArrowDown");
    tab.until("document.activeElement.classList.contains('row')");
    let outline = tab.value("getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(outline, "solid", "the focus is seen");
    tab.press("Enter");
    tab.until("location.hash === '#/sessions/anna-parcel'");
    tab.until("document.querySelectorAll('.turn.is-sent').length > 0");
    tab.press("b");
    tab.until("document.activeElement.classList.contains('budget-slider')");
    for _ in 0..40 {
        tab.press("ArrowRight");
    }
    tab.until("document.querySelectorAll('.turn.is-out').length > 0");
    // On to the turns: one of them is a stop, and arrows go on from it.
    for _ in 0..6 {
        if tab.value("document.activeElement.classList.contains('turn')") == true {
            break;
        }
        tab.press("Tab");
    }
    assert!(tab.focused().contains("turn"), "{}", tab.focused());
    let position = "Number(document.activeElement.dataset.position)";
    let before = tab.value(position).as_u64().unwrap();
    tab.press("ArrowUp");
    assert!(tab.value(position).as_u64().unwrap() < before);
    tab.press("Home");
    tab.until(&format!("{position} === 0"));
    tab.press("End");
    tab.until(&format!("{position} > 20"));
    tab.press("q");
    tab.until("document.activeElement.id === 'query'");
    tab.press("Escape");
    tab.until("document.activeElement.classList.contains('row')");
    tab.press("2");
    tab.until("location.hash === '#/users'");
    tab.until_text(".list-total", "users");
    tab.press("3");
    tab.until("location.hash === '#/definitions'");
    tab.until_text(".row", "House rules");
    tab.press("/");
    tab.press("ArrowDown");
    tab.press("Enter");
    tab.until("document.querySelector('#definition')?.value.includes('House rules')");
    // Each control has a name, and each landmark is there.
    let nameless = tab.value(
        "[...document.querySelectorAll('input, select, textarea, button, a')].filter((at) => at.checkVisibility() && \
         !(at.labels?.length || at.getAttribute('aria-label') || at.innerText?.trim())).map((at) => at.outerHTML)",
    );
    assert_eq!(nameless, json!([]));
    for landmark in ["header", "nav[aria-label]", "main", "[role=status][aria-live]"] {
        assert!(tab.count(landmark) > 0, "{landmark}");
    }
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn a_key_is_asked_for_once_and_kept_for_the_tab() {
    let server = Server::of_conversations(&[]);
    data::others(&server);
    let browser = Browser::start();
    let tab = browser.open(&server, "/", (1280, 820));
    tab.call("Page.addScriptToEvaluateOnNewDocument", &json!({"source": GUARD}));
    tab.reload();
    tab.until("window.refused > 0 && document.querySelector('#key-dialog').open");
    tab.until("document.activeElement.id === 'key'");
    // Who closes the dialog is left alone, until they try again.
    tab.press("Escape");
    tab.until_text(".problems", "needs a key");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(tab.value("document.querySelector('#key-dialog').open"), false);
    tab.click(".problems .button");
    tab.until("document.querySelector('#key-dialog').open");
    tab.type_into("#key", "wrong");
    tab.press("Enter");
    tab.until("document.querySelector('#key-dialog').open && !document.querySelector('#key-refused').hidden");
    tab.type_into("#key", "open sesame");
    tab.press("Enter");
    tab.until_text(".list-total", "6 sessions");
    assert_eq!(tab.value("document.querySelector('#key-dialog').open"), false);
    tab.reload();
    tab.until_text(".list-total", "6 sessions");
    assert_eq!(tab.value("window.refused"), 0);
    tab.assert_quiet();
}
