//! Writes a session with its nodes, as they were at one moment, as JSON lines.
//!
//! The session is read into a temporary file, which is used only if the session is unchanged afterwards. Memory does not
//! grow with a session. One that keeps changing is refused.

use std::{
    io::{self, BufWriter, Seek, Write},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, Result, anyhow, bail};
use keepline::store::{BucketId, Deadline, Failure, Store, TransferStore, kind, names::is_bucket};
use tempfile::{NamedTempFile, SpooledTempFile};

use crate::{
    problem::{Problem, Reason},
    schema::ExportNode,
    source::SessionSource,
    writer::{BucketWriter, Progress, WrittenBucket, estimate_line_count, write_end},
};

/// Attempts to read a session that changes.
const TRIES: u32 = 3;
/// Why a session is left out that kept changing.
pub const KEPT_CHANGING: &str = "it kept changing while it was being read";
/// Bytes of a session beyond which it is spooled to a file.
const SPOOL_BYTES: usize = 4 << 20;

/// Reads sessions as lines.
pub struct SessionExport<'s> {
    source: &'s dyn SessionSource,
    /// Told of the approximate number of a session's lines, before they are read.
    begins: Option<Progress<'s>>,
    progress: Option<Progress<'s>>,
}

/// A session, or a node, as lines.
#[derive(Debug)]
pub struct ExportedSession {
    /// The lines, to be read from the beginning.
    pub lines: SpooledTempFile,
    /// Nodes among them.
    pub nodes: u64,
    /// Records of logs.
    pub records: u64,
    /// The name of the owner's bucket.
    pub owner: Option<String>,
    /// The session's id, if that is not its name.
    pub id: Option<String>,
}

impl<'s> SessionExport<'s> {
    /// Of what is read from there.
    pub fn new(source: &'s dyn SessionSource) -> Self {
        Self { source, begins: None, progress: None }
    }

    /// The same, which tells how many lines there are about, and how many more were read.
    #[must_use]
    pub fn with_progress(self, begins: Progress<'s>, progress: Progress<'s>) -> Self {
        Self { begins: Some(begins), progress: Some(progress), ..self }
    }

    /// Reads a session with its nodes, as they were at one moment.
    ///
    /// # Errors
    /// When there is none of this name, when it can't be written as text, when it keeps changing, or the store fails.
    pub async fn session(&self, name: &str) -> Result<ExportedSession, Problem> {
        self.bucket(kind::SESSION, name).await
    }

    /// Reads a session with its nodes, or a node by itself. The session of a node by itself is not known: the node's bucket
    /// stands for it.
    async fn bucket(&self, kind: &str, name: &str) -> Result<ExportedSession, Problem> {
        if !is_bucket(name) {
            return Err(Problem::invalid(
                "this can't be a session's id; allowed are 1 to 128 letters, digits, hyphens and underscores, or with \
                 session_ids \"hash\", any text of at most 1,024 bytes",
            ));
        }
        let mut lines = SpooledTempFile::new(SPOOL_BYTES);
        for _ in 0..TRIES {
            lines.set_len(0)?;
            lines.rewind()?;
            if let Some((written, nodes, records)) = self.try_bucket(kind, name, &mut lines).await? {
                lines.rewind()?;
                let WrittenBucket { owner, id, .. } = written;
                return Ok(ExportedSession { lines, nodes, records, owner, id });
            }
        }
        Err(Problem::Left(Reason::Conflict, KEPT_CHANGING.to_owned()))
    }

    /// What was written of it, with the numbers of its nodes and of all records. None: it changed meanwhile.
    async fn try_bucket(
        &self,
        kind: &str,
        name: &str,
        out: &mut SpooledTempFile,
    ) -> Result<Option<(WrittenBucket, u64, u64)>, Problem> {
        let whole = BucketId::new(kind, name);
        let own = (kind == kind::NODE).then(|| ExportNode { bucket: name.into(), ..ExportNode::default() });
        let mut out = BufWriter::new(out);
        let mut seen = vec![(whole.clone(), self.source.digest(&whole).await?)];
        let Some(head) = self.source.head(&whole).await? else {
            return Err(Problem::Left(Reason::NotFound, format!("there is no such {kind}")));
        };
        if let Some(begins) = self.begins {
            begins(estimate_line_count(&head));
        }
        let writer = BucketWriter { source: self.source, progress: self.progress };
        let mut nodes = u64::from(own.is_some());
        let mut written = writer.write_bucket(&whole, &head, name, own, &mut out).await?;
        let mut records = written.counts.records;
        for (node, ids) in std::mem::take(&mut written.nodes) {
            let bucket = BucketId::node(node);
            seen.push((bucket.clone(), self.source.digest(&bucket).await?));
            // One that has expired is still named.
            let Some(head) = self.source.head(&bucket).await? else { continue };
            let node =
                ExportNode { bucket: bucket.name.as_str().into(), ..serde_json::from_str(&ids).unwrap_or_default() };
            let WrittenBucket { counts, .. } = writer.write_bucket(&bucket, &head, name, Some(node), &mut out).await?;
            write_end(&bucket.name, counts, &mut out)?;
            nodes += 1;
            records += counts.records;
        }
        write_end(name, written.counts, &mut out)?;
        out.flush()?;
        let mut is_same = true;
        for (bucket, before) in &seen {
            is_same = is_same && self.source.digest(bucket).await? == *before;
        }
        Ok(is_same.then_some((written, nodes, records)))
    }
}

/// Writes `session/NAME` with its nodes, or `node/NAME`, to a file, whole or not at all.
///
/// # Errors
/// When there is no such session or node, when it can't be read, or the file can't be written.
pub async fn export_to_file(store: Arc<dyn TransferStore>, subject: &str, path: &Path) -> Result<()> {
    let (kind, name) = match subject.split_once('/') {
        Some(("session", name)) => (kind::SESSION, name),
        Some(("node", name)) => (kind::NODE, name),
        _ => bail!("{subject} is neither a session nor a node"),
    };
    let exported = SessionExport::new(&store).bucket(kind, name).await.map_err(|problem| match problem {
        Problem::Input(why) | Problem::Left(_, why) => anyhow!(why),
        Problem::Failed(error) => error,
    });
    let mut lines = exported?.lines;
    let told = || format!("can't write {}", path.display());
    let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new("."))).with_context(told)?;
    io::copy(&mut lines, &mut file).with_context(told)?;
    file.as_file().sync_all().with_context(told)?;
    file.persist(path).with_context(told)?;
    Ok(())
}

/// Names of a page of sessions.
const PAGE: u32 = 1000;

/// The names of all sessions of a store, in order.
///
/// # Errors
/// When the store can't list them.
pub async fn list_sessions(store: &dyn Store) -> Result<Vec<String>, Failure> {
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = store.list_buckets(kind::SESSION, &cursor, PAGE, Deadline::NEVER).await?;
        names.extend(page.names);
        cursor = page.cursor;
        if cursor.is_empty() {
            break;
        }
    }
    // A name may come twice.
    names.sort_unstable();
    names.dedup();
    Ok(names)
}
