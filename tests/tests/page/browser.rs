//! A Chromium without a window, which is told what to do over a pair of pipes (the DevTools protocol).

use std::{
    cell::{Cell, RefCell},
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use keepline_tests::programs::signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{server::Server, tab::Tab};

/// Only guards against hanging.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Names of the program, in different distributions.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// A browser that runs.
pub struct Browser {
    child: Child,
    /// Commands are JSON, each with a zero byte behind it.
    commands: RefCell<File>,
    messages: Receiver<Value>,
    /// What came and is no reply.
    events: RefCell<Vec<Value>>,
    last_id: Cell<u64>,
    /// Its profile, and the pipes.
    _folder: TempDir,
}

impl Browser {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (commands, replies) = (place("commands"), place("replies"));
        assert!(Command::new("mkfifo").args([&commands, &replies]).status().unwrap().success());
        // The browser reads from descriptor 3 and writes to 4.
        let script = "commands=$1 replies=$2; shift 2; exec \"$@\" 3<\"$commands\" 4>\"$replies\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", &commands, &replies, program()]);
        command.args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
        command.args(["--disable-extensions", "--disable-background-networking", "--disable-component-update"]);
        command.args(["--hide-scrollbars", "--lang=en-US", "--force-color-profile=srgb", "--disable-dev-shm-usage"]);
        command.arg(format!("--user-data-dir={}", place("profile"))).env("LANGUAGE", "en_US").env("TZ", "UTC");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let commands = fs::OpenOptions::new().write(true).open(commands).unwrap();
        let replies = BufReader::new(File::open(replies).unwrap());
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in replies.split(0).map_while(Result::ok) {
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let (commands, events) = (RefCell::new(commands), RefCell::default());
        Self { child, commands, messages, events, last_id: Cell::new(0), _folder: folder }
    }

    /// A tab with a page of that service, as large as that.
    pub fn open(&self, server: &Server, path: &str, size: (u32, u32)) -> Tab<'_> {
        let target = self.call("", "Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.call("", "Target.attachToTarget", &attach)["sessionId"].as_str().unwrap().to_owned();
        Tab::new(self, session, &format!("http://{}", server.address()), path, size)
    }

    /// Sends a command to the browser, or to a session of it, and returns its result.
    pub fn call(&self, session: &str, method: &str, params: &Value) -> Value {
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        let mut command = json!({"id": id, "method": method, "params": params});
        if !session.is_empty() {
            command["sessionId"] = session.into();
        }
        self.commands.borrow_mut().write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let message = self.messages.recv_timeout(TIMEOUT).unwrap_or_else(|error| panic!("{method}: {error}"));
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method} {params}: {message}");
                return message["result"].clone();
            }
            self.events.borrow_mut().push(message);
        }
    }

    /// What happened up to now.
    pub fn events(&self) -> Vec<Value> {
        self.events.borrow_mut().extend(self.messages.try_iter());
        self.events.borrow().clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            signal(&self.child, "-KILL");
        }
        let _ = self.child.wait();
    }
}

fn program() -> &'static str {
    let is_there =
        |name: &&str| Command::new("which").arg(name).stdout(Stdio::null()).status().is_ok_and(|it| it.success());
    PROGRAMS.into_iter().find(is_there).expect("a Chromium: apt-get install chromium")
}
