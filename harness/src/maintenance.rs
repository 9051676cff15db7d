//! Opens what does the deferred work of a Keepline: titles, summaries, indexes, removal of old turns.

use anyhow::Result;
use keepline::{Keepline, config::Config, maintenance::Maintenance};
use tokio::runtime::Handle;

use crate::{app, session_file::export::archive};

/// Opens the maintenance of a Keepline, on that runtime.
pub fn open_maintenance(keepline: &Keepline, config: &Config, runtime: &Handle) -> Result<Maintenance> {
    let (model, mut options) = (app::model(config)?, config.maintenance_options());
    options.archive = archive::configured_archive(config)?;
    Ok(Maintenance::new(keepline.clone(), model, options, runtime.clone()))
}
