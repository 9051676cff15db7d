//! Definitions in a project's own files: what editors and CodeBolt see, pipelines run, and the reverse.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use async_trait::async_trait;
use keepline_options::bucket_names::{definitions_bucket_name, is_definition_id};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Owner;
use crate::store::{
    BreakerState, BucketId, BucketPage, Deadline, DeleteRequest, Deletion, Failure, FailureCode, IndexedReceipt,
    IndexedTransaction, MemoryStore, NewBucket, Operation, Precondition, SetOperation, Status, Store, StoreInfo,
    Transaction, Writer, kind,
};

/// Where a project keeps its definitions, and the map of the store that they stand for.
const FOLDERS: [(&str, &str); 2] =
    [("memories", ".codebolt/PersistentMemory"), ("rules", ".codebolt/context-rule-engines")];

/// A store in which an owner's definitions are the files of a project; everything else is another store's.
///
/// Files are read when they have changed since the last call, and replaced as a whole: a file is there before or after, never
/// in part. Revisions count from 1 for as long as the store lives. Those who write take turns by a lock on the project's
/// folder. Files are read and written on the calling thread.
pub struct ProjectStore {
    store: Arc<dyn Store>,
    project: PathBuf,
    bucket: BucketId,
    /// The definitions as they are in the files; the lock is held over their reading and writing.
    definitions: tokio::sync::Mutex<Definitions>,
}

struct Definitions {
    store: MemoryStore,
    writer: Writer,
    files: BTreeMap<(&'static str, String), KnownFile>,
    /// Problems that were reported already.
    reported: BTreeMap<PathBuf, SystemTime>,
}

/// A file as it was read.
struct KnownFile {
    modified: SystemTime,
    bytes: u64,
    revision: u64,
}

/// A definition as the component stores it.
#[derive(Deserialize)]
struct Stored<'a> {
    revision: u64,
    #[serde(borrow)]
    form: &'a RawValue,
}

/// The member by which a file is known.
#[derive(Deserialize)]
struct Named {
    id: String,
}

impl ProjectStore {
    /// The files of the project in that folder, as the owner's definitions. Nothing is read yet.
    pub fn new(store: Arc<dyn Store>, project: impl Into<PathBuf>, owner: &Owner) -> Self {
        let bucket = BucketId::new(kind::DEFINITION, definitions_bucket_name(&owner.kind, &owner.name));
        let definitions = Definitions {
            store: MemoryStore::default(),
            writer: Writer::new(),
            files: BTreeMap::new(),
            reported: BTreeMap::new(),
        };
        Self { store, project: project.into(), bucket, definitions: tokio::sync::Mutex::new(definitions) }
    }

    async fn transact_definitions(
        &self,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        let changes = changes_of(transaction)?;
        let mut definitions = self.definitions.lock().await;
        // Held until what is written is in the files.
        let _turn = if changes.is_empty() { None } else { Some(self.take_turn()?) };
        self.read_files(&mut definitions).await?;
        let receipt = definitions.store.transact(writer, transaction, deadline).await?;
        if receipt.receipt.status == Status::Applied {
            for change in changes {
                let Change { map, id, text } = change;
                let written = self.write_file(map, id, text);
                match written {
                    Ok(Some(known)) => _ = definitions.files.insert((map, id.to_owned()), known),
                    Ok(None) => _ = definitions.files.remove(&(map, id.to_owned())),
                    Err(error) => {
                        // It is read again, as it is.
                        definitions.files.remove(&(map, id.to_owned()));
                        return Err(self.failed("written", map, id, &error));
                    }
                }
            }
        }
        Ok(receipt)
    }

    fn folder(&self, map: &str) -> PathBuf {
        let folder = FOLDERS.iter().find(|(of, _)| *of == map).map_or("", |(_, folder)| *folder);
        self.project.join(folder)
    }

    /// Waits until no other process writes.
    fn take_turn(&self) -> Result<fs::File, Failure> {
        let folder = self.project.join(".codebolt");
        let locked = fs::create_dir_all(&folder).and_then(|()| {
            let file = fs::File::create(folder.join(".keepline-lock"))?;
            file.lock().map(|()| file)
        });
        locked.map_err(|error| self.failed("locked", "", "", &error))
    }

    /// A failure that a component may read, and its place in the log.
    fn failed(&self, what: &str, map: &str, id: &str, error: &io::Error) -> Failure {
        let path = if id.is_empty() { self.project.clone() } else { self.folder(map).join(format!("{id}.json")) };
        tracing::warn!(target: "keepline", "{} can't be {what}: {error}", path.display());
        Failure::new(FailureCode::Unavailable, "", format!("a file of the project can't be {what}: {error}"))
    }

    /// Takes over what has changed in the files.
    async fn read_files(&self, definitions: &mut Definitions) -> Result<(), Failure> {
        for (map, _) in FOLDERS {
            let folder = self.folder(map);
            let mut found = BTreeMap::new();
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                entries => Some(entries.map_err(|error| self.failed("read", map, "", &error))?),
            };
            for entry in entries.into_iter().flatten() {
                let path = entry.map_err(|error| self.failed("read", map, "", &error))?.path();
                let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| is_definition_id(stem));
                let is_json = path.extension().is_some_and(|extension| extension == "json");
                if let (Some(id), true, Ok(metadata)) = (stem, is_json, fs::metadata(&path)) {
                    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.insert(id.to_owned(), (modified, metadata.len(), path));
                }
            }
            let (mut put, mut remove) = (Vec::new(), Vec::new());
            let gone = |(of, id): &&(&str, String)| *of == map && !found.contains_key(id);
            let gone: Vec<_> = definitions.files.keys().filter(gone).cloned().collect();
            for key in gone {
                definitions.files.remove(&key);
                remove.push(key.1);
            }
            for (id, (modified, bytes, path)) in found {
                let known = definitions.files.get(&(map, id.clone()));
                if known.is_some_and(|known| known.modified == modified && known.bytes == bytes) {
                    continue;
                }
                let revision = known.map_or(0, |known| known.revision) + 1;
                match read_definition(&path, &id) {
                    Ok(form) => {
                        put.push((id.clone(), format!(r#"{{"revision":{revision},"form":{form}}}"#)));
                        definitions.files.insert((map, id), KnownFile { modified, bytes, revision });
                    }
                    Err(problem) => {
                        if definitions.reported.insert(path.clone(), modified) != Some(modified) {
                            tracing::warn!(target: "keepline", "{} is left out: {problem}", path.display());
                        }
                        if definitions.files.remove(&(map, id.clone())).is_some() {
                            remove.push(id);
                        }
                    }
                }
            }
            if !put.is_empty() || !remove.is_empty() {
                self.take_over(definitions, map, put, remove).await?;
            }
        }
        Ok(())
    }

    async fn take_over(
        &self,
        definitions: &mut Definitions,
        map: &str,
        put: Vec<(String, String)>,
        remove: Vec<String>,
    ) -> Result<(), Failure> {
        let put = put.into_iter().map(|(key, text)| crate::store::Entry { key, text }).collect();
        let set = SetOperation { map_name: map.to_owned(), reset: false, remove, put };
        let transaction = Transaction {
            bucket: self.bucket.clone(),
            precondition: Precondition::Create(NewBucket { time_to_live: None }),
            expectations: Vec::new(),
            operations: vec![Operation::Set(set)],
        };
        let writer = definitions.writer.advance();
        definitions.store.transact(writer, &transaction.into(), Deadline::NEVER).await.map(drop)
    }

    /// Writes a definition in the place of its file, or removes the file. What the file is then.
    fn write_file(&self, map: &str, id: &str, text: Option<&str>) -> io::Result<Option<KnownFile>> {
        let folder = self.folder(map);
        let path = folder.join(format!("{id}.json"));
        let Some(text) = text else {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(None),
            };
        };
        let stored: Stored<'_> = serde_json::from_str(text)?;
        fs::create_dir_all(&folder)?;
        // Beside it, so that it is one step to take its place.
        let beside = folder.join(format!(".{id}.json.{:016x}", fastrand::u64(..)));
        let written =
            write_whole(&beside, &indented_json(stored.form.get())?).and_then(|()| fs::rename(&beside, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&beside);
            return Err(error);
        }
        let metadata = fs::metadata(&path)?;
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Ok(Some(KnownFile { modified, bytes: metadata.len(), revision: stored.revision }))
    }
}

/// An entry of a map that a transaction puts (its text) or removes.
struct Change<'a> {
    map: &'static str,
    id: &'a str,
    text: Option<&'a str>,
}

/// What a transaction changes in the definitions.
///
/// # Errors
/// When it is for another map, or for what can be no file.
fn changes_of(transaction: &IndexedTransaction) -> Result<Vec<Change<'_>>, Failure> {
    let refused =
        |what: &str| Failure::new(FailureCode::Invalid, "", format!("{what} can't be kept in a project's files"));
    let mut changes = Vec::new();
    for operation in &transaction.transaction.operations {
        let set = match operation {
            Operation::Set(set) => set,
            Operation::Get(_) | Operation::GetAll(_) | Operation::Describe(_) => continue,
            _ => return Err(refused("anything but definitions")),
        };
        let map = FOLDERS.iter().find(|(map, _)| *map == set.map_name).map(|(map, _)| *map);
        let map = map.filter(|_| !set.reset).ok_or_else(|| refused("anything but definitions"))?;
        let removed = set.remove.iter().map(|id| Change { map, id, text: None });
        changes.extend(removed.chain(set.put.iter().map(|put| Change { map, id: &put.key, text: Some(&put.text) })));
    }
    match changes.iter().find(|change| !is_definition_id(change.id)) {
        Some(_) => Err(refused("a definition of such an id")),
        None => Ok(changes),
    }
}

/// The definition in a file, in compact JSON.
fn read_definition(path: &Path, id: &str) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let text = text.trim_start_matches('\u{feff}');
    let named: Named = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if named.id != id {
        return Err(format!("its id is {:?}, and its name says {id}", named.id));
    }
    let mut compact = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_transcode::transcode(&mut reader, &mut serde_json::Serializer::new(&mut compact))
        .and_then(|()| reader.end())
        .map_err(|error| error.to_string())?;
    String::from_utf8(compact).map_err(|error| error.to_string())
}

/// JSON with a line for each member, in its own order.
///
/// # Errors
/// When it is none.
pub fn indented_json(json: &str) -> io::Result<String> {
    let mut indented = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(json);
    serde_transcode::transcode(&mut reader, &mut serde_json::Serializer::pretty(&mut indented))?;
    String::from_utf8(indented).map_err(io::Error::other)
}

fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

impl fmt::Debug for ProjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectStore")
            .field("project", &self.project)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for ProjectStore {
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        if transaction.transaction.bucket == self.bucket {
            return self.transact_definitions(writer, transaction, deadline).await;
        }
        self.store.transact(writer, transaction, deadline).await
    }

    async fn transact_each(
        &self,
        writer: &Writer,
        transactions: &[IndexedTransaction],
        deadline: Deadline,
    ) -> Vec<Result<IndexedReceipt, Failure>> {
        let is_own = |one: &IndexedTransaction| one.transaction.bucket == self.bucket;
        if !transactions.iter().any(is_own) {
            return self.store.transact_each(writer, transactions, deadline).await;
        }
        let others: Vec<_> = transactions.iter().filter(|one| !is_own(one)).cloned().collect();
        let mut others = self.store.transact_each(writer, &others, deadline).await.into_iter();
        let mut receipts = Vec::with_capacity(transactions.len());
        for transaction in transactions {
            let receipt = if is_own(transaction) {
                self.transact_definitions(writer, transaction, deadline).await
            } else {
                others.next().unwrap_or_else(|| Err(Failure::new(FailureCode::Other, "", "the store did not answer")))
            };
            receipts.push(receipt);
        }
        receipts
    }

    async fn delete(&self, writer: &Writer, request: &DeleteRequest, deadline: Deadline) -> Result<Deletion, Failure> {
        if request.bucket == self.bucket {
            let message = "a project's files are removed one by one";
            return Err(Failure::new(FailureCode::Unsupported, "", message));
        }
        self.store.delete(writer, request, deadline).await
    }

    async fn list_buckets(
        &self,
        kind: &str,
        cursor: &str,
        limit: u32,
        deadline: Deadline,
    ) -> Result<BucketPage, Failure> {
        self.store.list_buckets(kind, cursor, limit, deadline).await
    }

    fn about(&self) -> StoreInfo {
        self.store.about()
    }

    fn breaker(&self) -> Option<BreakerState> {
        self.store.breaker()
    }

    fn round_trips(&self) -> u64 {
        self.store.round_trips()
    }

    async fn warnings(&self) -> Vec<String> {
        self.store.warnings().await
    }

    async fn check(&self) -> Result<(), Failure> {
        self.store.check().await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::{
        pipelines::{DefinitionForm, DefinitionKind, PipelineErrorCode, PipelineOptions, Pipelines},
        plugin::Plugin,
        sandbox::Sandbox,
    };

    fn definition(label: &str) -> String {
        format!(
            r#"{{"id":"a","label":"{label}","inputs_scope":[],"retrieval":{{"pipeline":[{{"type":"annotate"}}]}}}}"#
        )
    }

    async fn open(project: &Path) -> Pipelines {
        let plugin = Plugin::bundled_pipelines(&Sandbox::default()).unwrap();
        let store = ProjectStore::new(Arc::new(MemoryStore::default()), project, &Owner::project("p"));
        Pipelines::new(plugin, Arc::new(store), PipelineOptions::default()).await.unwrap()
    }

    #[tokio::test]
    async fn definitions_are_the_files_of_the_project_and_the_reverse() {
        let folder = std::env::temp_dir().join(format!("keepline-project-{:016x}", fastrand::u64(..)));
        let memories = folder.join(".codebolt/PersistentMemory");
        fs::create_dir_all(&memories).unwrap();
        let file = memories.join("a.json");
        let (owner, kind, form) = (Owner::project("p"), DefinitionKind::Memory, DefinitionForm::Json);
        let pipelines = open(&folder).await;
        assert!(pipelines.list(&owner, kind, None, false).await.unwrap().is_empty());
        // What an editor writes.
        fs::write(&file, definition("first")).unwrap();
        assert!(pipelines.get(&owner, kind, "a").await.unwrap().text.contains("first"));
        fs::write(&file, definition("the second")).unwrap();
        let found = pipelines.get(&owner, kind, "a").await.unwrap();
        assert!(found.revision == 2 && found.text.contains("the second"));
        // What is none is left out, and so is one of another name.
        fs::write(memories.join("b.json"), "{").unwrap();
        fs::write(memories.join("c.json"), definition("of another id")).unwrap();
        fs::write(memories.join("notes.txt"), "not a definition").unwrap();
        assert_eq!(pipelines.list(&owner, kind, None, false).await.unwrap().len(), 1);
        // What the component writes.
        let stored = pipelines.update(&owner, kind, "a", r#"{"label":"third"}"#, Some(2)).await.unwrap();
        assert_eq!(stored.revision, 3);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("{\n  \"id\": \"a\",\n  \"label\": \"third\"") && text.ends_with("}\n"), "{text}");
        let other = open(&folder).await;
        assert!(other.get(&owner, kind, "a").await.unwrap().text.contains("third"));
        // Somebody else's change is not overwritten.
        fs::write(&file, definition("by hand, meanwhile")).unwrap();
        let error = pipelines.update(&owner, kind, "a", "{}", Some(3)).await.unwrap_err();
        assert_eq!(error.code, PipelineErrorCode::Conflict);
        assert!(fs::read_to_string(&file).unwrap().contains("by hand"));
        pipelines.put(&owner, kind, form, &definition("x").replace("\"a\"", "\"d\""), Some(0)).await.unwrap();
        assert!(memories.join("d.json").exists());
        pipelines.remove(&owner, kind, "d", None).await.unwrap();
        assert!(!memories.join("d.json").exists());
        fs::remove_file(&file).unwrap();
        assert_eq!(pipelines.get(&owner, kind, "a").await.unwrap_err().code, PipelineErrorCode::NotFound);
        // Nothing is left beside the files, and another owner has its own definitions.
        let hidden = fs::read_dir(&memories)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
        assert_eq!(hidden.count(), 0);
        pipelines.put(&Owner::project("q"), kind, form, &definition("elsewhere"), None).await.unwrap();
        assert!(!file.exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_an_id_names_a_file() {
        for (id, is) in [("a.b-c_1", true), ("", false), (".a", false), ("../a", false), ("a/b", false), ("é", false)]
        {
            assert_eq!(is_definition_id(id), is, "{id}");
        }
    }
}
