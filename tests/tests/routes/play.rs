//! Plays the exchanges of a case in order, and compares.

use std::{collections::HashMap, fs, time::Duration};

use keepline_pipelines::value::Value;

use crate::{
    case_data::{list, maybe, text},
    client::{Reply, Request, send},
    described::Described,
    folder,
    matcher::mismatch,
    named::Named,
    sockets::Socket,
    world::World,
};

/// Plays a case, and panics where it does not hold.
pub fn play(name: &str) {
    let file = folder().join("cases").join(format!("{name}.json"));
    let case = Value::parse(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(text(&case, "name"), name);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::build(list(&case, "setup")).await;
        let request = Request { method: "GET", path: "/openapi.json", headers: Vec::new(), body: None };
        let document = send(world.address, &request).await.body;
        let described = Described::new(&serde_json::from_str(&document).unwrap());
        let mut player = Player { world, described, named: Named::default(), sockets: HashMap::new() };
        for (number, exchange) in list(&case, "exchanges").iter().enumerate() {
            if let Err(difference) = player.exchange(exchange).await {
                panic!("{name}, exchange {number}: {difference}\n{}", exchange.to_json());
            }
        }
        player.world.stop();
    });
    runtime.shutdown_background();
}

struct Player {
    world: World,
    /// What the service says of itself.
    described: Described,
    named: Named,
    sockets: HashMap<String, Socket>,
}

impl Player {
    async fn exchange(&mut self, exchange: &Value) -> Result<(), String> {
        let on = maybe(exchange, "on").unwrap_or("ws").to_owned();
        let member = |name: &str| exchange.member(name);
        if let Some(request) = member("send") {
            let reply = self.send(&self.named.fill(request)).await;
            return match member("receive") {
                Some(expected) => self.compare(expected, &reply),
                None => Ok(()),
            };
        }
        if let Some(open) = member("ws_open") {
            return self.open(on, &self.named.fill(open)).await;
        }
        let named = &mut self.named;
        let socket = self.sockets.get_mut(&on).ok_or("there is no such socket")?;
        if let Some(frame) = member("ws_send") {
            socket.send(named.fill(frame).to_json()).await;
        } else if let Some(raw) = member("ws_send_raw") {
            socket.send(raw.as_text().unwrap().to_owned()).await;
        } else if let Some(expected) = member("ws_receive") {
            let expected = named.fill(expected);
            let found = socket.receive(&expected).await.ok_or("no such frame came")?;
            differs(&expected, Some(&found))?;
            named.capture(&expected, &found);
        } else if let Some(nothing) = member("ws_nothing") {
            let time = nothing.member("ms").and_then(Value::as_whole).unwrap();
            let rest = socket.rest(Duration::from_millis(time)).await;
            if let Some(first) = rest.first() {
                return Err(format!("{} frames are left: {}", rest.len(), first.to_json()));
            }
        } else if let Some(closed) = member("ws_closed") {
            let code = closed.member("code").and_then(Value::as_whole);
            let found = socket.closed().await.map(u64::from);
            if code != found {
                return Err(format!("closed with {found:?}"));
            }
        } else {
            return Err("no such exchange".to_owned());
        }
        Ok(())
    }

    async fn open(&mut self, on: String, open: &Value) -> Result<(), String> {
        let status = open.member("status").and_then(Value::as_whole).unwrap_or(101);
        let headers = headers_of(open);
        let opened = Socket::open(self.world.address, &text(open, "path"), &headers).await;
        let found = opened.as_ref().map_or_else(|status| u64::from(*status), |_| 101);
        if let Ok(socket) = opened {
            self.sockets.insert(on, socket);
        }
        if status == found { Ok(()) } else { Err(format!("the upgrade was answered with {found}")) }
    }

    async fn send(&self, request: &Value) -> Reply {
        let mut headers = headers_of(request);
        let has_type = request.member("headers").is_some_and(|headers| headers.member("content-type").is_some());
        let body = match (request.member("raw"), request.member("body")) {
            (Some(raw), _) => Some(raw.as_text().unwrap().to_owned()),
            (None, Some(body)) => {
                if !has_type {
                    headers.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                Some(padded(body, request.member("pad").and_then(Value::as_whole)))
            }
            (None, None) => None,
        };
        let (method, path) = (text(request, "method"), text(request, "path"));
        let reply = send(self.world.address, &Request { method: &method, path: &path, headers, body }).await;
        if reply.headers.get("content-type").is_some_and(|kind| kind == "application/json") {
            self.described.check(&method, &path, reply.status, &serde_json::from_str(&reply.body).unwrap());
        }
        reply
    }

    /// Status, body, and then headers, which may have what the body names.
    fn compare(&mut self, expected: &Value, reply: &Reply) -> Result<(), String> {
        let status = expected.member("status").and_then(Value::as_whole);
        if status.is_some_and(|status| status != u64::from(reply.status)) {
            let start: String = reply.body.chars().take(600).collect();
            return Err(format!("status {}: {start}", reply.status));
        }
        if let Some(body) = expected.member("body") {
            let (body, found) = (self.named.fill(body), reply.json());
            differs(&body, found.as_ref())?;
            self.named.capture(&body, found.as_ref().unwrap_or(&Value::Null));
        }
        if let Some(headers) = expected.member("headers") {
            let headers = self.named.fill(headers);
            let found = reply.headers.iter().map(|(name, value)| (name.as_str(), Value::from(&**value)));
            let found = Value::object(found);
            differs(&headers, Some(&found)).map_err(|difference| format!("headers: {difference}"))?;
            self.named.capture(&headers, &found);
        }
        Ok(())
    }
}

fn differs(expected: &Value, found: Option<&Value>) -> Result<(), String> {
    mismatch(expected, found).map_or(Ok(()), Err)
}

/// Those that are null are none.
fn headers_of(request: &Value) -> Vec<(String, String)> {
    let headers = request.member("headers").and_then(Value::as_object).cloned().unwrap_or_default();
    headers.iter().filter_map(|(name, value)| Some((name.to_string(), value.as_text()?.to_owned()))).collect()
}

/// A body with a member `padding` of so many `x`.
fn padded(body: &Value, pad: Option<u64>) -> String {
    let Some(pad) = pad else { return body.to_json() };
    let mut members = body.as_object().unwrap().clone();
    members.insert("padding".into(), "x".repeat(pad.try_into().unwrap()).into());
    Value::from(members).to_json()
}
