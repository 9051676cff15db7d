//! Conditions of the calls that write, as the contract's `extras`.

use crate::contract::Member;

/// Conditions of the calls that write, checked by the component in the transaction that writes. A component that
/// does not know them (before 0.3 of the bundled one) ignores them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteConditions {
    /// The session has to be this user's; any other is `NotFound`. Of a node only its own bucket is looked at: it has to be this
    /// user's or nobody's, and [`Sessions::set_messages`](super::Sessions::set_messages) makes it this user's.
    pub owner: Option<String>,
    /// The same call again under this id (1 to 1,024 bytes) changes nothing, and is answered as if it had. Of the ids of a
    /// session or node at least the newest 500 are known. [`Sessions::delete`](super::Sessions::delete), settings and titles
    /// need none: they end up the same however often they are sent.
    pub request_id: Option<String>,
    /// What has to be under the key that [`Sessions::put`](super::Sessions::put) or
    /// [`Sessions::put_user_value`](super::Sessions::put_user_value) writes, or [`Sessions::clear`](super::Sessions::clear) clears;
    /// otherwise it is a `Conflict`, and nothing was changed. Other calls are refused with it (`InvalidValue`). A call
    /// that was made before under its request id is answered as if it had been met.
    pub expected_value: Option<ExpectedValue>,
    /// Which version a transcript has to have that is changed ([`TranscriptState::version`](super::TranscriptState::version));
    /// otherwise it is a `Conflict`, and nothing was changed. Calls that need more than one transaction for it are refused with
    /// it (`InvalidValue`): `delete`, `clear_messages` of a branch, and those that change no transcript.
    pub expected_version: Option<String>,
}

/// What is under a key before it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedValue {
    /// No value.
    Absent,
    /// Some value.
    Present,
    /// This JSON text, byte by byte as [`Sessions::get`](super::Sessions::get) has it.
    Text(String),
}

impl WriteConditions {
    /// As a call takes them: empty, if there are none.
    pub(super) fn to_extras(&self) -> Vec<Member> {
        let string = |text: &String| {
            let mut value = String::new();
            keepline_json::push_string(&mut value, text);
            value
        };
        let expected_value = self.expected_value.as_ref().map(|expected| match expected {
            ExpectedValue::Absent => "null".to_owned(),
            ExpectedValue::Present => "true".to_owned(),
            ExpectedValue::Text(text) => string(text),
        });
        let members = [
            ("owner", self.owner.as_ref().map(string)),
            ("request-id", self.request_id.as_ref().map(string)),
            ("expected-value", expected_value),
            ("expected-version", self.expected_version.as_ref().map(string)),
        ];
        members.into_iter().filter_map(|(name, value)| Some(Member { name: name.into(), value: value? })).collect()
    }
}
