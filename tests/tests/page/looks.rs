//! The page on narrow screens, in the dark, and with the eyes of those who see less.

use serde_json::json;

use crate::{browser::Browser, data, server::Server};

const ROUTES: [&str; 6] = [
    "#/sessions",
    "#/sessions/anna-parcel?budget=300&query=lamp",
    "#/users",
    "#/users/anna",
    "#/definitions",
    "#/definitions/memories/rules",
];

/// Texts whose colour is too close to what is behind them: below 4.5 to 1.
const FAINT: &str = r"(() => {
    const channels = (color) => color.match(/[\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((value) => value / 255).map((value) => value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4)
        .reduce((sum, value, at) => sum + value * [.2126, .7152, .0722][at], 0);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const color = channels(getComputedStyle(at).backgroundColor);
            if (color.length < 4 || color[3] > .9) return color;
        }
        return channels(getComputedStyle(document.body).backgroundColor);
    };
    const faint = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.closest(':disabled, .unseen, option')) continue;
        const [one, other] = [light(channels(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
        const contrast = (one + .05) / (other + .05);
        if (contrast < 4.5) faint.push(`${element.className || element.tagName}: ${contrast.toFixed(2)}`);
    }
    return [...new Set(faint)];
})()";

fn server() -> Server {
    let server = Server::of_conversations(&["--set", "recall=user"]);
    data::parcel(&server);
    data::others(&server);
    data::house_rules(&server);
    server.put("/users/anna/keys/language", &json!("German")).ok();
    server
}

#[test]
#[ignore = "needs a browser: make page"]
fn nothing_is_wider_than_a_narrow_screen() {
    let server = server();
    let browser = Browser::start();
    let tab = browser.open(&server, "/", (320, 640));
    for route in ROUTES {
        tab.go(route);
        tab.until("document.querySelector('.row, .turn, .figures, #definition')");
        std::thread::sleep(std::time::Duration::from_millis(400));
        let wide = tab.value(
            "[...document.querySelectorAll('html, body, main, .scroller, .session, .split, .split > *')].filter((at) => \
             at.scrollWidth > at.clientWidth + 1 && at.checkVisibility()).map((at) => `${at.tagName}.${at.className} ${at.scrollWidth}`)",
        );
        assert_eq!(wide, json!([]), "{route}");
        let outside = tab.value(
            "[...document.querySelectorAll('button, input, select, a, textarea')].filter((at) => at.checkVisibility() && \
             at.getBoundingClientRect().right > innerWidth + 1).map((at) => at.outerHTML.slice(0, 80))",
        );
        assert_eq!(outside, json!([]), "{route}");
    }
    // There is a way back from what is open.
    tab.go("#/sessions/anna-parcel");
    tab.until("document.querySelector('.session .back')?.checkVisibility()");
    tab.click(".session .back");
    tab.until("document.querySelector('.list')?.checkVisibility()");
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn texts_stand_out_in_the_light_and_in_the_dark() {
    let server = server();
    let browser = Browser::start();
    let tab = browser.open(&server, "/", (1280, 1400));
    for scheme in ["light", "dark"] {
        tab.prefer(scheme);
        for route in ROUTES {
            tab.go(route);
            tab.until("document.querySelector('.row')");
            std::thread::sleep(std::time::Duration::from_millis(500));
            assert_eq!(tab.value(FAINT), json!([]), "{scheme} {route}");
        }
        let paper = tab.value("getComputedStyle(document.body).backgroundColor");
        let is_dark = paper.as_str().unwrap().contains("rgb(20,");
        assert_eq!(is_dark, scheme == "dark", "{paper}");
    }
    tab.assert_quiet();
}
