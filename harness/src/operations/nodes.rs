//! Lists the nodes of a session.

use std::time::Duration;

use anyhow::Result;
use keepline::{
    Deadline, Keepline,
    sessions::Transcript,
    store::{FoundEntries, GetAllOperation, Operation, Outcome, Writer, kind},
};
use serde::Deserialize;

use super::pages::PageLimits;
use crate::{app::look::read_only_transaction, terminal::json_text::parse_lenient};

/// Time limit of a page.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The map of a session that names its nodes.
const NODES_MAP: &str = "nodes";
/// Nodes of a page, and bytes of them.
const PAGE_NODES: u64 = 1000;
const PAGE_BYTES: u64 = 1 << 20;

/// A node, with its ids as its session keeps them. Ids that are too long are not kept.
#[derive(Default, Deserialize)]
pub struct SessionNode {
    /// The name of its bucket.
    #[serde(skip)]
    pub bucket: String,
    pub app_id: Option<String>,
    pub node_id: Option<String>,
}

impl SessionNode {
    /// Its transcript, if its id is known.
    pub fn transcript<'a>(&'a self, session: &'a str) -> Option<Transcript<'a>> {
        let node_id = Some(self.node_id.as_deref()?);
        Some(Transcript { session, app_id: self.app_id.as_deref(), node_id })
    }

    /// For people: `llm`, `llm of app shop`.
    pub fn display_name(&self) -> String {
        let node = self.node_id.as_deref().unwrap_or(&self.bucket);
        self.app_id.as_ref().map_or_else(|| node.to_owned(), |app| format!("{node} of app {app}"))
    }
}

/// The nodes of a session, sorted; without counting a use of it.
pub async fn session_nodes(keepline: &Keepline, session: &str) -> Result<Vec<SessionNode>> {
    let (mut nodes, mut pages) = (Vec::new(), PageLimits::default());
    while let Some(page) = read_node_page(keepline, session, pages.cursor()).await? {
        let (is_new, next) = (!page.entries.is_empty(), page.cursor().to_owned());
        pages.count_kept_texts(page.entries.iter().map(|entry| &*entry.text), "use `keepline session export`")?;
        for entry in page.entries {
            nodes.push(SessionNode { bucket: entry.key, ..parse_lenient(&entry.text).unwrap_or_default() });
        }
        if next.is_empty() {
            break;
        }
        pages.turn_to(next, is_new)?;
    }
    nodes.sort_by(|one, other| {
        (&one.app_id, &one.node_id, &one.bucket).cmp(&(&other.app_id, &other.node_id, &other.bucket))
    });
    nodes.dedup_by(|one, other| one.bucket == other.bucket);
    Ok(nodes)
}

/// `None`: there is no such session.
async fn read_node_page(keepline: &Keepline, session: &str, cursor: &str) -> Result<Option<FoundEntries>> {
    let Some(name) = keepline.session_ids().bucket_name(session) else { return Ok(None) };
    let page = GetAllOperation {
        map_name: NODES_MAP.to_owned(),
        cursor: Some(cursor.to_owned()),
        max_entries: PAGE_NODES,
        max_bytes: PAGE_BYTES,
        keys_only: false,
    };
    let transaction = read_only_transaction(kind::SESSION, &name, Operation::GetAll(page));
    let deadline = Deadline::after(TIMEOUT);
    let receipt = keepline.store().transact(Writer::new().advance(), &transaction, deadline).await?;
    Ok(receipt.receipt.outcomes.into_iter().find_map(|outcome| match outcome {
        Outcome::Entries(page) => Some(page),
        _ => None,
    }))
}
