//! Pipelines through the compiled component, on every store, over HTTP, and through the command line.

#[path = "../../../pipelines/tests/cases/case_data.rs"]
mod case_data;
mod cases;
#[path = "../routes/client.rs"]
mod client;
mod command_line;
mod commands;
mod examples;
mod forgetting;
mod hostile;
mod http;
mod kills;
mod lanes;
#[path = "../../../pipelines/tests/cases/matcher.rs"]
mod matcher;
mod recall;
mod stored;
mod world;

use cases::every_case_holds;
use command_line::every_case_holds_at_the_command_line;
use forgetting::a_forgotten_user_owns_nothing;
use http::every_case_holds_over_http;

keepline_stores_tests::on_every_store![every_case_holds, a_forgotten_user_owns_nothing,];

mod services {
    keepline_stores_tests::on_stores![run on memory: [every_case_holds_over_http,]];
    use super::*;
}

mod programs {
    keepline_stores_tests::on_stores![run on directory: [every_case_holds_at_the_command_line,]];
    use super::*;
}
