//! Compiled code on disk.

use std::{
    fs::Permissions,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
};

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
async fn compiled_code_is_cached_in_the_configured_directory() {
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
fn a_plugin_is_served_despite_a_damaged_code_cache() {
    in_own_process("compiled::a_plugin_is_served_despite_a_damaged_code_cache", || {
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
                    // What the cache's own thread was just writing has its final name meanwhile.
                    let Ok(mut bytes) = fs::read(&file) else { continue };
                    damage(&mut bytes);
                    fs::write(&file, bytes).unwrap();
                }
                serves(&sandbox).await;
            }
        });
    });
}

#[test]
fn a_cache_that_others_can_write_to_is_refused_with_a_remedy() {
    let set_mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let refusal = |cache: &Path| {
        let mut sandbox = sandbox();
        sandbox.cache = CodeCache::At(cache.to_owned());
        Plugin::bundled(&sandbox).err().map(|error| error.to_string())
    };
    let root = tempfile::tempdir().unwrap();
    let (parent, cache) = (root.path().join("parent"), root.path().join("parent/cache"));
    fs::create_dir_all(&cache).unwrap();
    set_mode(&parent, 0o700);
    for mode in [0o777, 0o770, 0o702, 0o1777] {
        set_mode(&cache, mode);
        let told = refusal(&cache).unwrap();
        assert!(told.contains("others can write to it") && told.contains("Run chmod 700"), "{told}");
    }
    set_mode(&cache, 0o700);
    set_mode(&parent, 0o777);
    let told = refusal(&cache).unwrap();
    assert!(told.contains(parent.to_str().unwrap()) && told.contains("chmod go-w"), "{told}");
    // As /tmp is.
    set_mode(&parent, 0o1777);
    assert_eq!(refusal(&cache), None);
    // A link is as good as what it leads to.
    let link = root.path().join("link");
    symlink(&cache, &link).unwrap();
    assert_eq!(refusal(&link), None);
    set_mode(&cache, 0o777);
    assert!(refusal(&link).is_some());
    set_mode(&cache, 0o700);

    // What is in it: code that somebody else may have put there.
    let slot = fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::metadata(&slot).unwrap().mode() & 0o777, 0o700);
    set_mode(&slot, 0o777);
    assert!(refusal(&cache).unwrap().contains("others can write to it"));
    set_mode(&slot, 0o700);
    let code = files(&slot).into_iter().find(|file| file.extension().is_none()).unwrap();
    let elsewhere = root.path().join("elsewhere");
    fs::rename(&code, &elsewhere).unwrap();
    symlink(&elsewhere, &code).unwrap();
    assert!(refusal(&cache).unwrap().contains("it is not what this program writes"));
    // A pipe would be waited for.
    fs::remove_file(&code).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&code).status().unwrap().success());
    assert!(refusal(&cache).unwrap().contains("it is not what this program writes"));

    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(refusal(&file).unwrap().contains("it is not a directory"));
}

/// Only root can give a file away.
#[test]
fn a_cache_of_another_user_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let cache = root.path().join("cache");
    fs::create_dir(&cache).unwrap();
    if chown(&cache, Some(12345), None).is_err() {
        return;
    }
    let mut sandbox = sandbox();
    sandbox.cache = CodeCache::At(cache);
    let refused = Plugin::bundled(&sandbox).unwrap_err();
    assert!(refused.to_string().contains("it belongs to another user (uid 12345)"), "{refused}");
}
