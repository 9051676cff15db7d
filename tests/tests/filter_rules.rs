//! The filter's rules, tested on the compiled component over every store.
//!
//! A rule is a function of a store; `on_every_store!` makes one test of it for each store.

use std::{sync::Arc, time::Duration};

use keepline::{SessionError, sessions::SessionErrorCode as Code};
use keepline_tests::stores::StoreUnderTest;

#[path = "filter_rules/answers.rs"]
mod answers;
#[path = "filter_rules/capabilities.rs"]
mod capabilities;
#[path = "filter_rules/counters.rs"]
mod counters;
#[path = "filter_rules/deferred.rs"]
mod deferred;
#[path = "filter_rules/expiry.rs"]
mod expiry;
#[path = "filter_rules/history.rs"]
mod history;
#[path = "filter_rules/limits.rs"]
mod limits;
#[path = "filter_rules/maintenance.rs"]
mod maintenance;
#[path = "filter_rules/message_ids.rs"]
mod message_ids;
#[path = "filter_rules/metadata.rs"]
mod metadata;
#[path = "filter_rules/operator_calls.rs"]
mod operator_calls;
#[path = "filter_rules/options.rs"]
mod options;
#[path = "filter_rules/owners.rs"]
mod owners;
#[path = "filter_rules/questions.rs"]
mod questions;
#[path = "filter_rules/session_ids.rs"]
mod session_ids;
#[path = "filter_rules/store_failures.rs"]
mod store_failures;
#[path = "filter_rules/unreadable_values.rs"]
mod unreadable_values;

type Given = Arc<StoreUnderTest>;

const HOUR: Duration = Duration::from_secs(3600);

fn refusal(code: Code, message: &str) -> Refusal {
    Refusal { code, message: message.into() }
}

/// What a call of an operator is refused with.
#[derive(Clone, Debug)]
struct Refusal {
    code: Code,
    message: String,
}

impl PartialEq<Refusal> for SessionError {
    fn eq(&self, refusal: &Refusal) -> bool {
        (self.code, &self.message) == (refusal.code, &refusal.message)
    }
}
