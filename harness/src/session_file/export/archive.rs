//! Exports sessions before their oldest turns are removed.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use anyhow::{Context, Result};
use async_trait::async_trait;
use keepline::{config::Config, maintenance, store::TransferStore};
use keepline_session_file::export_to_file;

use crate::session_file::open_durable_store;

/// Files in a directory: `session-NAME.MILLISECONDS.jsonl`, as `keepline session export` writes them.
struct DirectoryArchive {
    store: Arc<dyn TransferStore>,
    directory: PathBuf,
}

/// The configured archive. `None`: nothing is archived.
pub fn configured_archive(config: &Config) -> Result<Option<Arc<dyn maintenance::Archive>>> {
    let directory = Path::new(&config.host.archive_dir);
    if directory.as_os_str().is_empty() {
        return Ok(None);
    }
    let store = open_durable_store(config, "export (archive_dir)", true)?;
    let told = || format!("archive_dir: {} can't be used", directory.display());
    fs::create_dir_all(directory).with_context(told)?;
    let directory = directory.canonicalize().with_context(told)?;
    Ok(Some(Arc::new(DirectoryArchive { store, directory })))
}

#[async_trait]
impl maintenance::Archive for DirectoryArchive {
    async fn keep(&self, subject: &str) -> Result<(), String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let file = self.directory.join(format!("{}.{now}.jsonl", subject.replace('/', "-")));
        export_to_file(self.store.clone(), subject, &file).await.map_err(|error| format!("not archived: {error:#}"))
    }
}

impl fmt::Debug for DirectoryArchive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").field("directory", &self.directory).finish_non_exhaustive()
    }
}
