//! The directory that is recorded, and what happens to it.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::recording::{Change, File, Recording, contents, is_memory};

/// An inode, by which the kernel knows a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node(u64, u64);

impl Node {
    pub(crate) fn of(stat: &libc::stat) -> Self {
        Self(stat.st_dev, stat.st_ino)
    }

    fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|found| Self(found.dev(), found.ino()))
    }
}

/// What becomes of a sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syncs {
    /// What was written before it is on the disk when it returns.
    #[default]
    Kept,
    /// It succeeds and does nothing: a disk that lies.
    Ignored,
    /// It fails, and what it was to write may never reach the disk.
    Failing,
}

/// A directory of which everything that happens to it is noted, from [`Disk::record`] to [`Disk::stop`].
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
    directory: Node,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    recording: Recording,
    /// The files that have a name.
    nodes: HashMap<Node, File>,
    syncs: Syncs,
    sync_time: Duration,
    /// Bytes that all files have room for; none: there is no end.
    capacity: Option<u64>,
}

impl State {
    /// Whether a file may reach to there.
    fn has_room(&self, root: &Path, node: Node, end: u64) -> bool {
        let Some(capacity) = self.capacity else { return true };
        let files = fs::read_dir(root).into_iter().flatten().flatten().filter_map(|entry| entry.metadata().ok());
        let (mut used, mut length) = (0, 0);
        for file in files {
            used += file.len();
            if Node(file.dev(), file.ino()) == node {
                length = file.len();
            }
        }
        end <= length || used + (end - length) <= capacity
    }
}

static RECORDED: Mutex<Vec<Arc<Disk>>> = Mutex::new(Vec::new());
/// How many: so that all other writes of the process cost nothing.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// Begin to record a directory. What is in it is on the disk.
    pub fn record(root: &Path) -> io::Result<Arc<Self>> {
        let root = root.canonicalize()?;
        let mut state = State::default();
        for (name, content) in contents(&root)? {
            let node = Node::at(&root.join(&name))?;
            state.nodes.insert(node, state.recording.begin(name, content));
        }
        let disk = Arc::new(Self { directory: Node::at(&root)?, root, state: Mutex::new(state) });
        locked(&RECORDED).push(disk.clone());
        COUNT.fetch_add(1, Ordering::SeqCst);
        Ok(disk)
    }

    /// End the recording.
    pub fn stop(&self) -> Recording {
        let mut recorded = locked(&RECORDED);
        let before = recorded.len();
        recorded.retain(|disk| disk.root != self.root);
        COUNT.fetch_sub(before - recorded.len(), Ordering::SeqCst);
        std::mem::take(&mut locked(&self.state).recording)
    }

    /// Note that something is promised from now on, such as an acknowledged write.
    pub fn mark(&self, what: u64) {
        self.note(Change::Mark(what));
    }

    /// What becomes of the syncs to come.
    pub fn set_syncs(&self, syncs: Syncs) {
        locked(&self.state).syncs = syncs;
    }

    /// How long a sync takes from now on, in which others may write.
    pub fn syncs_take(&self, time: Duration) {
        locked(&self.state).sync_time = time;
    }

    /// How many bytes the disk has room for, in all files; none: no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        locked(&self.state).capacity = bytes;
    }

    pub(crate) fn any_is_recorded() -> bool {
        COUNT.load(Ordering::Relaxed) > 0
    }

    /// The disk that has this open file.
    pub(crate) fn with(node: Node, file: i32) -> Option<Arc<Self>> {
        let recorded = locked(&RECORDED);
        let has = |disk: &&Arc<Self>| disk.directory == node || locked(&disk.state).nodes.contains_key(&node);
        if let Some(disk) = recorded.iter().find(has) {
            return Some(disk.clone());
        }
        // Not seen before, or none of ours. A file that has lost its name is "… (deleted)".
        let path = fs::read_link(format!("/proc/self/fd/{file}")).ok()?;
        let disk = recorded.iter().find(|disk| path.parent() == Some(&disk.root))?;
        let name = path.file_name()?.to_str().filter(|name| !is_memory(name))?;
        (Node::at(&path).ok()? == node).then(|| disk.found(node, name))?;
        Some(disk.clone())
    }

    /// The disk that a path is on, and its name there.
    pub(crate) fn at(path: &Path) -> Option<(Arc<Self>, String)> {
        let parent = path.parent()?.canonicalize().ok()?;
        let recorded = locked(&RECORDED);
        let disk = recorded.iter().find(|disk| disk.root == parent)?;
        Some((disk.clone(), path.file_name()?.to_str()?.to_owned()))
    }

    fn found(&self, node: Node, name: &str) {
        let mut state = locked(&self.state);
        if !state.nodes.contains_key(&node) {
            let file = state.recording.create(name.to_owned());
            state.nodes.insert(node, file);
        }
    }

    fn note(&self, change: Change) {
        locked(&self.state).recording.note(change);
    }

    /// The call is made under the lock, so that the order of the changes is that of the record.
    /// None: there is no room for so many bytes.
    pub(crate) fn write<'a>(
        &self,
        node: Node,
        at: u64,
        length: usize,
        call: impl FnOnce() -> (isize, &'a [u8]),
    ) -> Option<isize> {
        let mut state = locked(&self.state);
        if !state.has_room(&self.root, node, at + length as u64) {
            return None;
        }
        let (returned, data) = call();
        if let (Some(&file), false) = (state.nodes.get(&node), data.is_empty()) {
            state.recording.note(Change::Write { file, at, data: data.into() });
        }
        Some(returned)
    }

    /// None: there is no room for that length.
    pub(crate) fn resize(&self, node: Node, length: u64, call: impl FnOnce() -> i32) -> Option<i32> {
        let mut state = locked(&self.state);
        if !state.has_room(&self.root, node, length) {
            return None;
        }
        let returned = call();
        if let (Some(&file), 0) = (state.nodes.get(&node), returned) {
            state.recording.note(Change::Resize { file, length });
        }
        Some(returned)
    }

    /// Whether it succeeds.
    pub(crate) fn sync(&self, node: Node) -> bool {
        if node == self.directory {
            self.look_around();
        }
        let (begun, syncs, time) = {
            let state = locked(&self.state);
            (state.recording.len(), state.syncs, state.sync_time)
        };
        if !time.is_zero() {
            thread::sleep(time);
        }
        let succeeds = syncs != Syncs::Failing;
        let mut state = locked(&self.state);
        let change = match state.nodes.get(&node) {
            _ if syncs == Syncs::Ignored => return true,
            Some(&file) => Change::Sync { file: Some(file), begun, succeeds },
            None => Change::Sync { file: None, begun, succeeds },
        };
        state.recording.note(change);
        succeeds
    }

    /// Files that have a name and were never written to.
    fn look_around(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if let (Ok(node), Some(name)) = (Node::at(&entry.path()), name.to_str().filter(|name| !is_memory(name))) {
                self.found(node, name);
            }
        }
    }

    pub(crate) fn unlink(&self, name: &str, call: impl FnOnce() -> i32) -> i32 {
        let mut state = locked(&self.state);
        let node = Node::at(&self.root.join(name));
        let returned = call();
        if let (Ok(node), 0) = (node, returned) {
            state.nodes.remove(&node);
            state.recording.note(Change::Unlink { name: name.to_owned() });
        }
        returned
    }

    pub(crate) fn rename(&self, from: &str, to: &str, call: impl FnOnce() -> i32) -> i32 {
        if let Ok(node) = Node::at(&self.root.join(from)) {
            self.found(node, from);
        }
        let mut state = locked(&self.state);
        let replaced = Node::at(&self.root.join(to));
        let returned = call();
        if returned == 0 {
            replaced.ok().and_then(|node| state.nodes.remove(&node));
            state.recording.note(Change::Rename { from: from.to_owned(), to: to.to_owned() });
        }
        returned
    }
}
