//! A tab: what is on it, what somebody does with it, and what it must not do.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{browser::Browser, png};

/// Only guards against hanging.
const TIMEOUT: Duration = Duration::from_secs(40);

pub struct Tab<'a> {
    browser: &'a Browser,
    session: String,
    origin: String,
}

impl<'a> Tab<'a> {
    pub fn new(browser: &'a Browser, session: String, origin: &str, path: &str, size: (u32, u32)) -> Self {
        let tab = Self { browser, session, origin: origin.to_owned() };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), &json!({}));
        }
        tab.resize(size);
        tab.load("Page.navigate", &json!({"url": format!("{origin}{path}")}));
        tab.until("document.readyState === 'complete' && document.querySelector('#main > *') !== null");
        tab
    }

    /// Loads the page anew, as its user may.
    pub fn reload(&self) {
        self.load("Page.reload", &json!({}));
    }

    /// Sends a command that loads a page, and waits until it is there. What is asked meanwhile would be asked of the page
    /// before, or of none.
    fn load(&self, method: &str, params: &Value) {
        let of_tab = |event: &Value, method: &str| event["sessionId"] == self.session && event["method"] == method;
        let before = self.browser.events().len();
        self.call(method, params);
        let end = Instant::now() + TIMEOUT;
        loop {
            let events = self.browser.events();
            let mut since = events.iter().skip(before);
            let is_own = |event: &Value| {
                let frame = &event["params"]["frame"];
                frame["parentId"].is_null() && frame["url"].as_str().is_some_and(|url| url.starts_with(&self.origin))
            };
            if since.any(|event| of_tab(event, "Page.frameNavigated") && is_own(event))
                && since.any(|event| of_tab(event, "Page.loadEventFired"))
            {
                return;
            }
            assert!(Instant::now() < end, "{method}: the page is never loaded");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn call(&self, method: &str, params: &Value) -> Value {
        self.browser.call(&self.session, method, params)
    }

    pub fn resize(&self, (width, height): (u32, u32)) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// `light` or `dark`.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// What an expression comes to.
    pub fn value(&self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", &params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    pub fn text(&self, selector: &str) -> String {
        let found = self.value(&format!("document.querySelector({})?.innerText ?? null", json!(selector)));
        found.as_str().unwrap_or_else(|| panic!("there is no {selector}")).to_owned()
    }

    pub fn count(&self, selector: &str) -> u64 {
        self.value(&format!("document.querySelectorAll({}).length", json!(selector))).as_u64().unwrap()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn until(&self, expression: &str) {
        let end = Instant::now() + TIMEOUT;
        while self.value(&format!("Boolean({expression})")) != true {
            if Instant::now() > end {
                let shown = self.value("document.body.innerText");
                panic!("it never came to {expression}; the page shows {shown}");
            }
            thread::sleep(Duration::from_millis(40));
        }
    }

    /// Waits until a part of the page has a text.
    #[track_caller]
    pub fn until_text(&self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.until(&format!("document.querySelector({selector})?.innerText.includes({text})"));
    }

    pub fn go(&self, hash: &str) {
        self.value(&format!("void (location.hash = {})", json!(hash)));
    }

    pub fn click(&self, selector: &str) {
        let selector = json!(selector);
        self.until(&format!("document.querySelector({selector})"));
        self.value(&format!("void document.querySelector({selector}).click()"));
    }

    /// Puts a text in place of what a field holds, as if it was typed.
    pub fn type_into(&self, selector: &str, text: &str) {
        let selector = json!(selector);
        self.value(&format!(
            "(() => {{ const field = document.querySelector({selector}); field.focus(); field.select(); }})()"
        ));
        if text.is_empty() {
            self.press("Delete");
        } else {
            self.call("Input.insertText", &json!({"text": text}));
        }
    }

    /// Presses a key, by its name or by what it writes.
    pub fn press(&self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "Delete" => 46,
            _ => 0,
        };
        let mut down = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if code == 0 {
            down["text"] = key.into();
        } else if key == "Enter" {
            down["text"] = "\r".into();
        }
        self.call("Input.dispatchKeyEvent", &down);
        self.call("Input.dispatchKeyEvent", &json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}));
    }

    /// The element with the focus, in a few words.
    pub fn focused(&self) -> String {
        let words = "(() => { const at = document.activeElement; return `${at.tagName.toLowerCase()}.${at.className} \
                     ${at.getAttribute('aria-label') ?? at.id} ${at.innerText?.slice(0, 40) ?? ''}`; })()";
        self.value(words).as_str().unwrap().to_owned()
    }

    /// A picture of what is in sight.
    pub fn picture(&self, path: &std::path::Path) {
        let taken = self.call("Page.captureScreenshot", &json!({"format": "png", "optimizeForSpeed": false}));
        let bytes = png::from_base64(taken["data"].as_str().unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// That the page complained of nothing, broke no policy, opened no dialog, and asked nobody but its service.
    #[track_caller]
    pub fn assert_quiet(&self) {
        for event in self.browser.events() {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" | "Page.javascriptDialogOpening" => panic!("{params}"),
                "Runtime.consoleAPICalled" => {
                    assert!(
                        params["type"] != "error" && params["type"] != "warning" && params["type"] != "assert",
                        "{params}"
                    );
                }
                // A reply that is an error, which the page shows.
                "Log.entryAdded" if params["entry"]["source"] == "network" => {}
                "Log.entryAdded" => {
                    let level = &params["entry"]["level"];
                    assert!(level != "error" && level != "warning", "{params}");
                }
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str().unwrap();
                    let is_own = url.strip_prefix(&self.origin).is_some_and(|rest| rest.starts_with('/'));
                    assert!(is_own || url.starts_with("data:"), "{url}");
                }
                _ => {}
            }
        }
    }
}
