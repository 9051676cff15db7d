//! Compiled code, and what becomes of it on disk.

use super::*;

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { ahead.push(path) } else { found.push(path) }
        }
    }
    found
}

async fn serves(sandbox: &Sandbox) {
    let plugin = Plugin::from_bytes(BUNDLED, sandbox).unwrap();
    let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
    let keepline = Keepline::new(plugin, store, Options::default()).await.unwrap();
    let passed = keepline.pipe().question("?", r#"{"session_id":"s1"}"#).await.unwrap();
    assert_eq!(passed.effect, Effect::Resumed);
}

#[tokio::test]
async fn compiled_code_is_kept_where_it_is_asked_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let mut sandbox = sandbox();
    sandbox.cache = CodeCache::At(directory.path().to_owned());
    serves(&sandbox).await;
    // Code, without what wasmtime writes about its use, in its own time.
    let code = || {
        let mut code = files(directory.path());
        code.retain(|file| file.extension().is_none());
        code
    };
    let kept = code();
    assert!(!kept.is_empty());
    serves(&sandbox).await;
    assert_eq!(code(), kept);
    sandbox.cache = CodeCache::Off;
    serves(&sandbox).await;
}

#[test]
fn a_damaged_cache_of_compiled_code_is_survived() {
    in_own_process("compiled::a_damaged_cache_of_compiled_code_is_survived", || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let mut sandbox = sandbox();
            sandbox.cache = CodeCache::At(directory.path().to_owned());
            serves(&sandbox).await;
            let damages: [fn(&mut Vec<u8>); 4] = [
                |bytes| bytes.clear(),
                |bytes| bytes.truncate(bytes.len() / 2),
                |bytes| bytes.iter_mut().for_each(|byte| *byte = fastrand::u8(..)),
                |bytes| bytes.extend_from_within(..),
            ];
            for damage in damages {
                for file in files(directory.path()) {
                    let mut bytes = fs::read(&file).unwrap();
                    damage(&mut bytes);
                    fs::write(&file, bytes).unwrap();
                }
                serves(&sandbox).await;
            }
            // A place where nothing can be kept.
            let file = directory.path().join("file");
            fs::write(&file, "").unwrap();
            sandbox.cache = CodeCache::At(file);
            serves(&sandbox).await;
        });
    });
}
