//! The filter's rules, tested on the compiled component over every store.
//!
//! A rule is a function of a store; `on_every_store!` makes one test of it for each store.

use std::{sync::Arc, time::Duration};

use keepline::{SessionError, sessions::SessionErrorCode as Code};
use keepline_tests::stores::StoreUnderTest;

mod answers;
mod capabilities;
mod counters;
mod deferred;
mod history;
mod limits;
mod maintenance;
mod metadata;
mod operator_calls;
mod options;
mod questions;
mod sessions;
mod store_failures;
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
