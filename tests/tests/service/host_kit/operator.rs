//! Operators' calls of the kit, as requests.

use std::collections::BTreeMap;

use serde_json::{Value, json, value::RawValue};

use super::text;
use crate::server::{Reply, Server};

/// A call's record, or its problem.
type Answer = Result<Value, Value>;

/// What came of a call, in the kit's spelling.
pub fn administer(server: &Server, step: &Value) -> Value {
    let (function, given) = (text(step, "function"), &step["arguments"]);
    spelled(match function.split_once('.').unwrap() {
        ("sessions", name) => of_sessions(server, name, given),
        ("transcripts", name) => of_transcripts(server, name, given),
        ("users", name) => of_users(server, name, given),
        _ => panic!("there is no function {function}"),
    })
}

pub fn forget(server: &Server, user: &str) -> Value {
    loop {
        match came(server.delete(&format!("/users/{}", encoded(user)))) {
            Ok(forgotten) if forgotten["remaining"] != 0 => {}
            forgotten => return spelled(forgotten),
        }
    }
}

fn spelled(answer: Answer) -> Value {
    match answer {
        Ok(record) => json!({"ok": record}),
        Err(problem) => json!({"err": problem}),
    }
}

fn came(reply: Reply) -> Answer {
    if (200..300).contains(&reply.status) {
        return Ok(reply.json());
    }
    let error = &reply.json()["error"];
    // What is absent is the session; a key that is absent is no error of the kit.
    let subject = if error["code"] == "not_found" { "session" } else { error["param"].as_str().unwrap_or_default() };
    Err(json!({"code": text(error, "code").replace('_', "-"), "subject": subject, "message": error["message"]}))
}

fn encoded(text: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    text.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A query of what there is; a limit of 0 is none.
fn query(members: &[(&str, &Value)]) -> String {
    let given =
        members.iter().filter(|(name, value)| !value.is_null() && *value != "" && (*name != "limit" || **value != 0));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    given.map(|(name, value)| format!("&{name}={}", encoded(&text(value)))).collect::<String>().replacen('&', "?", 1)
}

/// A value as it was written.
fn written(reply: &Reply) -> String {
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&reply.body).unwrap();
    members["value"].get().to_owned()
}

/// A number as the kit spells it.
fn number(value: &Value) -> Value {
    let is_large = value.as_i64().is_some_and(|value| value.unsigned_abs() >= 1 << 53);
    if is_large { value.to_string().into() } else { value.clone() }
}

fn whole(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

fn list<'a>(page: &'a Value, member: &'a str) -> Vec<&'a Value> {
    page["data"].as_array().unwrap().iter().map(|item| &item[member]).collect()
}

/// Where the next page begins.
fn next(page: &Value) -> Value {
    if page["has_more"] == true { page["last_id"].clone() } else { Value::Null }
}

fn of_sessions(server: &Server, name: &str, given: &Value) -> Answer {
    let session = given["session"].as_str().unwrap_or_default();
    let path = format!("/sessions/{}", encoded(session));
    let keys = || came(server.get(&format!("{path}/keys"))).map(|page| page["data"].clone());
    let value = || format!("{path}/keys/{}", encoded(text(given, "key")));
    Ok(match name {
        "create" => {
            came(server.post("/sessions", &json!({"id": session})))?;
            json!({"key-count": keys()?.as_array().unwrap().len()})
        }
        "resume" => {
            let state = came(server.post(&format!("{path}/resume"), &json!({})))?;
            json!({"key-count": state["key_count"], "expires-in": state["expires_in_ms"]})
        }
        "list-sessions" => {
            let page = query(&[("after", &given["cursor"]), ("limit", &given["limit"])]);
            let page = came(server.get(&format!("/sessions{page}")))?;
            json!({"sessions": list(&page, "id"), "cursor": next(&page).as_str().unwrap_or_default()})
        }
        "delete" => json!({"key-count": came(server.delete(&path))?["key_count"]}),
        "put" => json!({"existed": came(server.send("PUT", &value(), &[], text(given, "value")))?["existed"]}),
        "get" => {
            let reply = server.get(&value());
            match reply.status {
                200 => json!({"values": [{"key": given["key"], "value": written(&reply)}]}),
                _ => match came(reply) {
                    Err(problem) if problem["code"] == "key-not-found" => json!({"values": []}),
                    answer => answer?,
                },
            }
        }
        "keys" => json!({"keys": keys()?}),
        "clear" if given["key"].is_null() => json!({"keys": came(server.delete(&format!("{path}/keys")))?["keys"]}),
        "increment" => {
            let body = json!({"amount": whole(&given["amount"])});
            json!({"value": number(&came(server.post(&format!("{}/increment", value()), &body))?["value"])})
        }
        "history" => {
            let page = query(&[("after", &given["before"]), ("limit", &given["limit"])]);
            let page = came(server.get(&format!("{path}/history{page}")))?;
            let told = |record: &&Value| json!({"operation": record["op"], "key": record["key"]});
            let records: Vec<_> = list(&page, "record").iter().map(told).collect();
            let newest = page["data"][0]["position"].as_u64().unwrap();
            json!({"records": records, "next": newest + 1})
        }
        _ => panic!("there is no route for sessions.{name}"),
    })
}

fn of_transcripts(server: &Server, name: &str, given: &Value) -> Answer {
    let (named, wanted) = (&given["transcript"], &given["query"]);
    let path = format!("/sessions/{}", encoded(text(named, "session")));
    let of_node = [("node", &named["node-id"]), ("app", &named["app-id"])];
    let at = |below: &str, more: &[(&str, &Value)]| format!("{path}{below}{}", query(&[&of_node, more].concat()));
    let position = || match given["position"].as_str() {
        Some(position) => position.to_owned(),
        None => given["position"].to_string(),
    };
    Ok(match name {
        "describe" => {
            let state = came(server.get(&at("", &[])))?;
            json!({
                "title": state["title"], "settings": settings(&state), "oldest": state["oldest"],
                "next": state["next"], "answers": state["answers"],
            })
        }
        "messages" => {
            let names = [("message_id", "id"), ("branch", "thread"), ("role", "role"), ("contains", "contains")];
            let names = names.into_iter().chain([("after", "before"), ("limit", "limit")]);
            let page = at("/messages", &names.map(|(ours, theirs)| (ours, &wanted[theirs])).collect::<Vec<_>>());
            let page = came(server.get(&page))?;
            let told = |found: &Value| json!({"position": found["position"], "text": found["message"].to_string()});
            let messages: Vec<_> = page["data"].as_array().unwrap().iter().rev().map(told).collect();
            let older = next(&page).as_str().map(|older| older.parse::<u64>().unwrap());
            json!({"messages": messages, "older": older})
        }
        "content" => {
            let part = [("offset", &given["offset"]), ("limit", &given["limit"])];
            let content = came(server.get(&at(&format!("/messages/{}/text", position()), &part)))?;
            json!({"text": content["text"], "length": content["length"]})
        }
        "find-lines" => {
            let names =
                [("text", "text"), ("ignore_case", "ignore-case"), ("context", "context"), ("from", "from-line")];
            let names = names.into_iter().chain([("limit", "limit")]);
            let part = names.map(|(ours, theirs)| (ours, &wanted[theirs])).collect::<Vec<_>>();
            let found = came(server.get(&at(&format!("/messages/{}/lines", position()), &part)))?;
            let lines = found["lines"].as_array().unwrap().iter();
            let told =
                lines.map(|line| json!({"number": line["number"], "is-match": line["is_match"], "text": line["text"]}));
            json!({"lines": told.collect::<Vec<_>>()})
        }
        "rewrite" => {
            let body = json!({"content": given["content"]});
            json!({"count": came(server.patch(&at(&format!("/messages/{}", position()), &[]), &body))?["count"]})
        }
        "set-title" => {
            json!({"title": came(server.patch(&at("", &[]), &json!({"title": given["title"]})))?["title"]})
        }
        "set-settings" => {
            let members = given["settings"].as_object().unwrap();
            let wanted = members.iter().map(|(name, value)| (name.replace('-', "_"), value.clone())).collect();
            settings(&came(server.patch(&at("", &[]), &json!({"settings": Value::Object(wanted)})))?)
        }
        _ => panic!("there is no route for transcripts.{name}"),
    })
}

fn settings(state: &Value) -> Value {
    let members = state["settings"].as_object().unwrap().iter();
    members.map(|(name, value)| (name.replace('_', "-"), value.clone())).collect()
}

fn of_users(server: &Server, name: &str, given: &Value) -> Answer {
    let path = format!("/users/{}", encoded(text(given, "user")));
    let value = || format!("{path}/keys/{}", encoded(text(given, "key")));
    Ok(match name {
        "values" if given["key"].is_null() => {
            let page = came(server.get(&format!("{path}/keys")))?;
            let told = |found: &Value| json!({"key": found["key"], "value": found["value"].to_string()});
            json!({"values": page["data"].as_array().unwrap().iter().map(told).collect::<Vec<_>>()})
        }
        "put" => match given["value"].as_str() {
            Some(text) => json!({"existed": came(server.send("PUT", &value(), &[], text))?["existed"]}),
            None => json!({"existed": came(server.delete(&value()))?["deleted"]}),
        },
        "list-sessions" => {
            let page = query(&[("after", &given["before"]), ("limit", &given["limit"])]);
            let page = came(server.get(&format!("{path}/sessions{page}")))?;
            let told = |found: &Value| json!({"session": found["id"], "records": found["messages"]});
            let sessions: Vec<_> = page["data"].as_array().unwrap().iter().map(told).collect();
            json!({"sessions": sessions, "older": next(&page)})
        }
        _ => panic!("there is no route for users.{name}"),
    })
}
