//! Pipelines through the compiled component, on every store.

mod cases;
#[path = "../../../pipelines/tests/cases/matcher.rs"]
mod matcher;
mod world;

keepline_stores_tests::on_every_store![every_case_holds,];

use cases::every_case_holds;
