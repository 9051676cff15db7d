//! demo
use crate::cli::{DemoArguments, Global};
use std::process::ExitCode;
/// Run
pub fn main(_: &Global, _: &DemoArguments) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
