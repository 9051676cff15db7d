//! The lines of an export, one JSON object each; `docs/export.md` describes them.
//!
//! A bucket is a header, its values, the records of its logs, the entries of its other maps, and an end that counts
//! them. A session's nodes stand before its end. Reading returns what was written, byte for byte: JSON is embedded if
//! it fits on a line, and everything else is text. Text that is not UTF-8, unknown versions and unknown members are
//! refused.

use std::{borrow::Cow, collections::BTreeMap};

use keepline::store::{
    names::{VALUES, is_bucket, is_part},
    transfer::BucketHead,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// The log of messages.
pub const TRANSCRIPT: &str = "transcript";
pub const VERSION: u64 = 1;
/// The map whose entries stand in the header: owner, title, summary.
pub const ONCE: &str = "session";
/// Of that map: the name of the owner's bucket.
pub const OWNER_KEY: &str = "owner";
/// Of that map: the session's id, if it is not the session's name.
pub const ID_KEY: &str = "id";
/// The map of a session's nodes, whose texts are the nodes' ids.
pub const NODES: &str = "nodes";
/// Derived by recall from the messages, and not exported: two logs, and the progress in [`ONCE`].
const DERIVED_LOGS: [&str; 2] = ["passages", "terms"];
pub const RECALL_PROGRESS_KEY: &str = "recalled";
/// Metadata that is not exported: of parts, which have their own members in the header; of leases; and of indexes, which are
/// derived again.
const UNEXPORTED_PREFIXES: [&str; 4] = ["log:", "map:", "lease:", "index:"];

/// A line of any kind: members of other kinds are absent.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExportLineMembers<'a> {
    /// Of a header: the form's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keepline: Option<u64>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub session: Option<Cow<'a, str>>,
    /// Of the header of a node.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub node: Option<ExportNode<'a>>,
    /// Milliseconds since 1970; absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Names of logs, with the positions of their first records; null means 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<BTreeMap<String, Option<u64>>>,
    /// Names of maps beside the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maps: Option<Vec<String>>,
    /// The entries of the map [`ONCE`]: texts as strings, JSON objects as they are.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<BTreeMap<String, &'a RawValue>>,
    /// Of a record.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub log: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Of an entry.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub map: Option<Cow<'a, str>>,
    /// Of an entry, or of a value.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub key: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub value: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub record: Option<&'a RawValue>,
    /// Of an entry; in place of a value or a record that is no JSON on one line.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'a, str>>,
    /// Of an end: the session, or the node's bucket.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub end: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
}

/// A node of a session.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct ExportNode<'a> {
    /// The name of its bucket.
    pub bucket: Cow<'a, str>,
    /// Of its app, if it has one that is not too long to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// Its own, unless that is too long to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
}

/// Reads `null` as a value.
fn even_null<'de: 'a, 'a, D: Deserializer<'de>>(raw: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(raw).map(Some)
}

/// Counts of a bucket's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Values.
    pub values: u64,
    /// Records of logs.
    pub records: u64,
    /// Entries of maps, those in the header included.
    pub entries: u64,
}

/// The text as JSON, if it can be embedded and read back unchanged.
pub fn embeddable_json(text: &str) -> Option<&RawValue> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    (raw.get() == text && !text.contains(['\n', '\r'])).then_some(raw)
}

/// A header's facts about its bucket, from the metadata of its head.
pub struct HeaderFields {
    pub metadata: BTreeMap<String, String>,
    pub logs: BTreeMap<String, Option<u64>>,
    pub maps: Vec<String>,
}

impl HeaderFields {
    pub fn from_head(head: &BucketHead) -> Result<Self, String> {
        let mut described = Self { metadata: BTreeMap::new(), logs: BTreeMap::new(), maps: Vec::new() };
        for (log, _) in &head.logs {
            described.logs.insert(decode_utf8(log, "the name of a log")?, None);
        }
        for (name, value) in &head.fields {
            let name = decode_utf8(name, "the name of a field of its metadata")?;
            let value = decode_utf8(value, &format!("the field {name} of its metadata"))?;
            if let Some(log) = name.strip_prefix("log:") {
                described.logs.insert(log.to_owned(), value.parse().ok());
            } else if let Some(map) = name.strip_prefix("map:") {
                described.maps.push(map.to_owned());
            } else if !UNEXPORTED_PREFIXES.iter().any(|told| name.starts_with(told)) {
                described.metadata.insert(name, value);
            }
        }
        described.logs.retain(|log, _| !is_derived(log));
        described.maps.sort_unstable();
        Ok(described)
    }
}

/// Whether a log is derived from the messages, and not exported.
pub fn is_derived(log: &str) -> bool {
    DERIVED_LOGS.contains(&log)
}

pub fn decode_utf8(bytes: &[u8], what: &str) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| format!("{what} is not UTF-8; `keepline migrate` copies it"))
}

/// A line of an export.
#[derive(Debug)]
pub enum ExportLine<'a> {
    /// A session or a node begins.
    Header(BucketHeader<'a>),
    /// A value.
    #[allow(missing_docs, reason = "its name says it")]
    Value { key: Cow<'a, str>, text: Cow<'a, str> },
    /// A record of a log.
    #[allow(missing_docs, reason = "its name says it")]
    Record { log: Cow<'a, str>, position: u64, text: Cow<'a, str> },
    /// An entry of a map.
    #[allow(missing_docs, reason = "its name says it")]
    Entry { map: Cow<'a, str>, key: Cow<'a, str>, text: Cow<'a, str> },
    /// A session or a node ends.
    #[allow(missing_docs, reason = "its name says it")]
    End { name: Cow<'a, str>, counts: LineCounts },
}

/// What a session or a node begins with.
#[derive(Debug)]
pub struct BucketHeader<'a> {
    /// The name of the session's bucket.
    pub session: Cow<'a, str>,
    /// None: the session itself.
    pub node: Option<ExportNode<'a>>,
    /// What the bucket is, apart from its contents.
    pub head: BucketHead,
    /// Owner, title, summary and what else there is once of it.
    pub conversation: Vec<(String, String)>,
}

impl BucketHeader<'_> {
    /// What there is once of it, under this key.
    pub fn once(&self, key: &str) -> Option<&str> {
        self.conversation.iter().find(|(name, _)| name == key).map(|(_, text)| text.as_str())
    }
}

impl<'a> ExportLine<'a> {
    /// Parses a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_line(line: &'a str) -> Result<Self, String> {
        let read: ExportLineMembers<'a> = serde_json::from_str(line).map_err(|error| {
            // serde_json names a line of the JSON, which is always the first one.
            let told = error.to_string();
            let told = told.rsplit_once(" at line ").map_or(&*told, |(what, _)| what);
            if error.is_data() { told.to_owned() } else { format!("it is not JSON: {told}") }
        })?;
        let missing = |what: &str| format!("it has no \"{what}\"");
        match read {
            ExportLineMembers { keepline: Some(VERSION), .. } => BucketHeader::from_members(read).map(Self::Header),
            ExportLineMembers { keepline: Some(other), .. } => {
                Err(format!("it is version {other} of this format; only version {VERSION} can be read"))
            }
            ExportLineMembers {
                end: Some(name),
                values: Some(values),
                records: Some(records),
                entries: Some(entries),
                ..
            } => Ok(Self::End { name, counts: LineCounts { values, records, entries } }),
            ExportLineMembers { end: Some(_), .. } => {
                Err("an end has \"values\", \"records\" and \"entries\"".to_owned())
            }
            ExportLineMembers { log: Some(log), position, record, text, .. } => {
                let position = position.ok_or_else(|| missing("position"))?;
                Ok(Self::Record { log, position, text: json_or_text(record, text).ok_or_else(|| missing("record"))? })
            }
            ExportLineMembers { map: Some(map), key, text, .. } => {
                if [VALUES, ONCE].contains(&&*map) {
                    return Err(format!("entries of the map {map} are not written like that"));
                }
                let (key, text) = (key.ok_or_else(|| missing("key"))?, text.ok_or_else(|| missing("text"))?);
                Ok(Self::Entry { map, key, text })
            }
            ExportLineMembers { key: Some(key), value, text, .. } => {
                Ok(Self::Value { key, text: json_or_text(value, text).ok_or_else(|| missing("value"))? })
            }
            _ => Err("it is neither a header (\"keepline\") nor a value (\"key\"), a record (\"log\"), an entry \
                      (\"map\") or an end (\"end\")"
                .to_owned()),
        }
    }
}

fn json_or_text<'a>(json: Option<&'a RawValue>, text: Option<Cow<'a, str>>) -> Option<Cow<'a, str>> {
    json.map(|raw| raw.get().into()).or(text)
}

impl<'a> BucketHeader<'a> {
    fn from_members(line: ExportLineMembers<'a>) -> Result<Self, String> {
        let ExportLineMembers { session, node, expires_at, metadata, logs, maps, conversation, .. } = line;
        let session = session.ok_or("a header has a \"session\"")?;
        let (logs, maps) = (logs.unwrap_or_default(), maps.unwrap_or_default());
        let name = node.as_ref().map_or(&session, |node| &node.bucket);
        if !is_bucket(name) || !is_bucket(&session) {
            return Err(format!(
                "{:?} can't be the name of a session; allowed are 1 to 128 letters, digits, hyphens and underscores",
                if is_bucket(&session) { name } else { &session }
            ));
        }
        if let Some(part) = logs.keys().chain(&maps).find(|part| !is_part(part) || *part == VALUES) {
            return Err(format!(
                "{part:?} can't be the name of a log or a map; allowed are 1 to 32 lower-case letters, digits and hyphens"
            ));
        }
        let mut fields: BTreeMap<String, String> = metadata.unwrap_or_default();
        if let Some(field) = fields.keys().find(|field| UNEXPORTED_PREFIXES.iter().any(|told| field.starts_with(told)))
        {
            return Err(format!("the metadata has the field {field:?}, which belongs in \"logs\" and \"maps\""));
        }
        let firsts = logs.iter().filter_map(|(log, first)| Some((format!("log:{log}"), (*first)?.to_string())));
        fields.extend(firsts);
        fields.extend(maps.iter().map(|map| (format!("map:{map}"), "1".to_owned())));
        let mut once = Vec::new();
        for (key, raw) in conversation.unwrap_or_default() {
            let text = if raw.get().starts_with('"') {
                serde_json::from_str(raw.get()).map_err(|error| error.to_string())?
            } else {
                raw.get().to_owned()
            };
            once.push((key, text));
        }
        if !once.is_empty() && !maps.iter().any(|map| map == ONCE) {
            return Err(format!("a header with a \"conversation\" has {ONCE:?} among its \"maps\""));
        }
        let bytes = |text: String| text.into_bytes();
        let head = BucketHead {
            expires_at,
            fields: fields.into_iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            maps: maps.into_iter().map(|map| (bytes(map), Vec::new())).collect(),
            indexes: Vec::new(),
            logs: logs.into_keys().map(|log| (bytes(log), 0)).collect(),
        };
        Ok(Self { session, node, head, conversation: once })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_on_one_line_is_embedded_and_nothing_else() {
        for text in ["null", "1e400", "{\"a\":1,\"a\":2.50}", "\"\\ud800\"", "[ ]", "{ \"a\" :\t1 }"] {
            assert_eq!(embeddable_json(text).map(RawValue::get), Some(text));
        }
        for text in ["", " 1", "1 ", "[1,\n2]", "{\r}", "NaN", "plain", "{"] {
            assert!(embeddable_json(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn an_invalid_line_is_refused_with_the_reason() {
        for (line, told) in [
            ("", "it is not JSON: EOF"),
            ("[]", "neither a header"),
            ("{}", "neither a header"),
            ("{\"keepline\":2,\"session\":\"a\"}", "version 2"),
            ("{\"keepline\":1}", "a header has a \"session\""),
            ("{\"keepline\":1,\"session\":\"a b\"}", "can't be the name of a session"),
            ("{\"keepline\":1,\"session\":\"a\",\"node\":{\"bucket\":\"\"}}", "can't be the name of a session"),
            ("{\"keepline\":1,\"session\":\"a\",\"maps\":[\"values\"]}", "can't be the name of a log or a map"),
            ("{\"keepline\":1,\"session\":\"a\",\"logs\":{\"A\":0}}", "can't be the name of a log or a map"),
            (
                "{\"keepline\":1,\"session\":\"a\",\"metadata\":{\"map:x\":\"1\"}}",
                "which belongs in \"logs\" and \"maps\"",
            ),
            ("{\"keepline\":1,\"session\":\"a\",\"conversation\":{\"title\":\"x\"}}", "among its \"maps\""),
            ("{\"log\":\"transcript\",\"record\":{}}", "no \"position\""),
            ("{\"log\":\"transcript\",\"position\":1}", "no \"record\""),
            ("{\"map\":\"session\",\"key\":\"owner\",\"text\":\"eve\"}", "not written like that"),
            ("{\"key\":\"k\"}", "no \"value\""),
            ("{\"end\":\"a\",\"values\":1}", "an end has"),
            ("{\"key\":\"k\",\"value\":1,\"other\":2}", "unknown field `other`"),
            ("{\"key\":\"k\",\"value\":NaN}", "it is not JSON: expected value"),
        ] {
            let error = ExportLine::parse_line(line).map(drop).unwrap_err();
            assert!(error.contains(told) && !error.contains("at line"), "{line}: {error}");
        }
    }
}
