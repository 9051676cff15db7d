//! The README's pictures, in the folder that PICTURES names.

use std::{env, fs, path::Path};

use serde_json::json;

use crate::{browser::Browser, data, server::Server};

const WIDE: (u32, u32) = (1040, 680);
/// Of each.
const MOST_BYTES: u64 = 150 * 1024;

#[test]
#[ignore = "needs a browser: make page"]
fn pictures_are_taken() {
    let folder = env::var("PICTURES").unwrap_or_else(|_| "target/pictures".into());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let server = Server::of_conversations(&["--set", "recall=user"]);
    data::others(&server);
    data::parcel(&server);
    data::house_rules(&server);
    server.put("/users/anna/keys/language", &json!("German")).ok();
    server.put("/users/anna/keys/address", &json!({"city": "Leipzig", "zip": "04229"})).ok();
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/sessions/anna-parcel?budget=330", WIDE);
    let shots = [
        ("session", "light", "#/sessions/anna-parcel?budget=330", ".turn.is-out", WIDE),
        (
            "recall-dark",
            "dark",
            "#/sessions/anna-parcel?budget=330&query=Who+has+the+brass+lamp%3F",
            ".passage",
            (1000, 620),
        ),
        ("definition", "light", "#/definitions/memories/rules", "#definition", WIDE),
        ("user", "light", "#/users/anna", ".figures", WIDE),
        ("narrow", "light", "#/sessions/anna-parcel?budget=330", ".turn.is-out", (360, 740)),
    ];
    for (name, scheme, route, shown, size) in shots {
        tab.resize(size);
        tab.prefer(scheme);
        tab.go("#/users");
        tab.go(route);
        tab.until(&format!("document.querySelector({})", json!(shown)));
        if name == "definition" {
            tab.until("document.querySelector('#definition').value.includes('House')");
            tab.click(".run-form .primary");
            tab.until_text(".run-text", "Four spaces");
            tab.value("document.querySelector('.run').scrollIntoView({block: 'end'})");
        }
        std::thread::sleep(std::time::Duration::from_millis(900));
        if shown == ".turn.is-out" {
            // Where the band begins is what the picture is of.
            tab.value("document.querySelector('.turn.is-first').scrollIntoView({block: 'center'})");
            std::thread::sleep(std::time::Duration::from_millis(400));
        }
        let path = folder.join(format!("{name}.png"));
        tab.picture(&path);
        let size = fs::metadata(&path).unwrap().len();
        assert!(size < MOST_BYTES, "{name}: {size} bytes");
    }
    tab.assert_quiet();
}
