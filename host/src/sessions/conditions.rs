//! Conditions of the calls that write to a session, as the contract's `extras`.

use crate::contract::Member;

/// Conditions of the calls that write to a session, checked by the component in the transaction that writes. A component that
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
}

impl WriteConditions {
    /// As a call takes them: empty, if there are none.
    pub(super) fn to_extras(&self) -> Vec<Member> {
        let member = |name: &str, text: &Option<String>| {
            let mut value = String::new();
            keepline_json::push_string(&mut value, text.as_deref()?);
            Some(Member { name: name.into(), value })
        };
        [member("owner", &self.owner), member("request-id", &self.request_id)].into_iter().flatten().collect()
    }
}
