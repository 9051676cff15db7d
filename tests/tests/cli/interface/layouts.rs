//! OCI image layouts: `keepline component --oci` writes them, and `--plugin oci:DIR@sha256:…` runs what they hold or nothing.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use keepline_tests::ladder;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Ran, answer, call, context, question};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A layout, and what it is called by.
struct Layout {
    folder: TempDir,
    named: String,
}

impl Layout {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("layout");
        let written = call(&["component", "--oci", directory.to_str().unwrap()], b"").ok();
        let named = written.text().trim_end().to_owned();
        assert!(named.starts_with(&format!("oci:{}@sha256:", directory.display())), "{named}");
        Self { folder, named }
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("layout")
    }

    fn blob(&self, digest: &Value) -> PathBuf {
        let hexadecimal = digest.as_str().unwrap().strip_prefix("sha256:").unwrap();
        self.directory().join("blobs/sha256").join(hexadecimal)
    }

    fn index(&self) -> Value {
        json_of(&self.directory().join("index.json"))
    }

    fn set_index(&self, index: &Value) {
        fs::write(self.directory().join("index.json"), index.to_string()).unwrap();
    }

    fn manifest(&self) -> Value {
        json_of(&self.blob(&self.index()["manifests"][0]["digest"]))
    }

    /// Puts a blob there, and returns its descriptor.
    fn add(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = json!(format!("sha256:{}", keepline::plugin::sha256(bytes)));
        fs::write(self.blob(&digest), bytes).unwrap();
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    /// Makes this the only manifest, with a digest that fits.
    fn set_manifest(&self, manifest: &Value) {
        let descriptor = self.add(MANIFEST, manifest.to_string().as_bytes());
        self.set_index(&json!({"schemaVersion": 2, "manifests": [descriptor]}));
    }

    fn inspect(&self) -> Ran {
        call(&["inspect", "--json", &format!("oci:{}", self.directory().display())], b"")
    }

    #[track_caller]
    fn assert_refused(&self, expected: &str) {
        let ran = self.inspect();
        assert!(ran.code == 3 && ran.out.is_empty() && ran.err.contains(expected), "{expected}: {ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let names = ["oci-layout", "index.json", "blobs/sha256"].map(|name| folder.join(name));
    let blobs = fs::read_dir(&names[2]).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = blobs.chain(names[..2].iter().cloned()).collect();
    all.sort();
    all.into_iter().map(|path| (path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap())).collect()
}

#[test]
fn a_layout_has_the_same_bytes_each_time_and_its_component_runs() {
    let (layout, again) = (Layout::new(), Layout::new());
    assert_eq!(files(&layout.directory()), files(&again.directory()));
    let manifest = layout.manifest();
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    assert_eq!(fs::read(layout.blob(&manifest["layers"][0]["digest"])).unwrap(), keepline::plugin::BUNDLED);
    let config = json_of(&layout.blob(&manifest["config"]["digest"]));
    let bundled = call(&["inspect", "--json"], b"").json();
    assert_eq!(config["component"]["imports"], bundled["imports"]);
    assert_eq!(config["layerDigests"], json!([manifest["layers"][0]["digest"]]));

    let input = question("a", "1") + &answer("x") + &question("a", "2");
    for named in [&*layout.named, &format!("oci:{}", layout.directory().display())] {
        let ran = call(&["run", "--plugin", named], input.as_bytes()).ok();
        assert_eq!(context(ran.text().lines().last().unwrap())["last_answer"], "x");
    }
    let trust = layout.folder.path().join("plugins.json");
    let trust = ["--trust", trust.to_str().unwrap()];
    call(&[&["plugin", "add", "mine", &layout.named, "--yes"][..], &trust].concat(), b"").ok();
    let shown = call(&[&["plugin", "show", "mine", "--json"][..], &trust].concat(), b"").ok().json();
    assert_eq!((&shown["sha256"], &shown["pin"]["source"]), (&bundled["sha256"], &json!(layout.named)));

    let ran = call(&["component", "--oci", layout.directory().to_str().unwrap()], b"");
    assert!(ran.code == 3 && ran.err.contains("it is not empty"), "{ran:?}");
}

#[test]
fn a_flipped_bit_of_any_blob_is_refused() {
    let layout = Layout::new();
    let manifest = layout.manifest();
    let blobs = [
        ("the manifest", layout.index()["manifests"][0]["digest"].clone()),
        ("the config", manifest["config"]["digest"].clone()),
        ("the component", manifest["layers"][0]["digest"].clone()),
    ];
    for (what, digest) in blobs {
        let path = layout.blob(&digest);
        let bytes = fs::read(&path).unwrap();
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            fs::write(&path, flipped).unwrap();
            layout.assert_refused(&format!("{what} has changed: its SHA-256 is"));
        }
        for (length, other) in [(bytes.len() - 1, &bytes[1..]), (bytes.len() + 1, &[&bytes[..], b" "].concat())] {
            fs::write(&path, other).unwrap();
            layout.assert_refused(&format!("{what} has {length} bytes, but its descriptor says {}", bytes.len()));
        }
        fs::remove_file(&path).unwrap();
        layout.assert_refused("No such file");
        fs::write(&path, bytes).unwrap();
    }
    layout.inspect().ok();
    let other = format!("{}0", &layout.named[..layout.named.len() - 1]);
    let other = if other == layout.named { format!("{}1", &other[..other.len() - 1]) } else { other };
    let ran = call(&["run", "--plugin", &other], b"");
    assert!(ran.code == 3 && ran.err.contains("it has no manifest sha256:"), "{ran:?}");
    for wrong in ["oci:", "oci:x@sha256:12", "oci:x@sha256:../../index.json"] {
        assert_eq!(call(&["run", "--plugin", wrong], b"").code, 2, "{wrong}");
    }
}

#[test]
fn links_and_paths_that_leave_a_layout_are_refused() {
    let layout = Layout::new();
    let manifest = layout.manifest();
    let descriptors = [&layout.index()["manifests"][0], &manifest["config"], &manifest["layers"][0]];
    let blobs = descriptors.map(|descriptor| layout.blob(&descriptor["digest"]));
    let others = ["oci-layout", "index.json", "blobs", "blobs/sha256"].map(|name| layout.directory().join(name));
    for place in blobs.into_iter().chain(others) {
        let outside = layout.folder.path().join("outside");
        fs::rename(&place, &outside).unwrap();
        symlink(&outside, &place).unwrap();
        let ran = layout.inspect();
        assert!(ran.code == 3 && ran.out.is_empty(), "{}: {ran:?}", place.display());
        fs::remove_file(&place).unwrap();
        fs::rename(&outside, &place).unwrap();
    }
    layout.inspect().ok();
    for digest in ["sha256:../../index.json", "sha256:/etc/passwd", "/etc/passwd", "sha512:00", "sha256:", "", "../x"] {
        let mut index = layout.index();
        index["manifests"][0]["digest"] = json!(digest);
        layout.set_index(&index);
        layout.assert_refused("it must be sha256: and 64 characters");
    }
    fs::remove_file(layout.directory().join("index.json")).unwrap();
    let fifo = layout.directory().join("index.json");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    layout.assert_refused("not a regular file");
}

#[test]
fn what_is_no_layout_of_one_component_is_refused() {
    let layout = Layout::new();
    let (index, manifest) = (layout.index(), layout.manifest());
    let descriptor = index["manifests"][0].clone();

    // An index within an index, and other artifacts.
    for media_type in
        ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.v2+json"]
    {
        let mut nested = index.clone();
        nested["manifests"][0]["mediaType"] = json!(media_type);
        layout.set_index(&nested);
        layout.assert_refused(media_type);
    }
    layout.set_index(&json!({"schemaVersion": 2, "manifests": [descriptor, descriptor]}));
    layout.assert_refused("it has 2 manifests, so one must be named");
    layout.set_index(&json!({"schemaVersion": 2, "manifests": []}));
    layout.assert_refused("it has 0 manifests");
    layout.set_index(&json!({"schemaVersion": 2, "manifests": vec![&descriptor; 1001]}));
    layout.assert_refused("at most 1000 are allowed");
    layout.set_index(&json!({"schemaVersion": 1, "manifests": [descriptor]}));
    layout.assert_refused("schemaVersion 1");
    let million =
        format!("{{\"schemaVersion\":2,\"manifests\":[{}{descriptor}]}}", format!("{descriptor},").repeat(1_000_000));
    fs::write(layout.directory().join("index.json"), million).unwrap();
    layout.assert_refused("at most 4194304 are allowed");
    let million = format!("{{\"schemaVersion\":2,\"manifests\":[{}{{}}]}}", "{},".repeat(1_000_000));
    fs::write(layout.directory().join("index.json"), million).unwrap();
    layout.assert_refused("missing field `mediaType`");
    fs::write(layout.directory().join("index.json"), "[".repeat(1 << 20)).unwrap();
    layout.assert_refused("index.json");

    let (config, layer) = (manifest["config"].clone(), manifest["layers"][0].clone());
    let with = |config: &Value, layers: Value| json!({"schemaVersion": 2, "config": config, "layers": layers});
    let tar = layout.add("application/vnd.oci.image.layer.v1.tar+gzip", keepline::plugin::BUNDLED);
    let foreign = layout.add("application/vnd.oci.image.config.v1+json", b"{}");
    let arm = layout.add("application/vnd.wasm.config.v0+json", br#"{"architecture":"arm64","layerDigests":[]}"#);
    let lies = layout.add("application/vnd.wasm.config.v0+json", br#"{"architecture":"wasm","layerDigests":[]}"#);
    let mut huge = layer.clone();
    huge["size"] = json!(1_u64 << 40);
    for (manifest, expected) in [
        (with(&config, json!([tar])), "application/vnd.oci.image.layer.v1.tar+gzip"),
        (with(&foreign, json!([layer])), "application/vnd.oci.image.config.v1+json"),
        (with(&arm, json!([layer])), "the architecture is"),
        (with(&lies, json!([layer])), "name different layers"),
        (with(&config, json!([layer, layer])), "has 2 layers"),
        (with(&config, json!([])), "has 0 layers"),
        (with(&config, json!([huge])), "plugin_max_bytes"),
        (json!({"schemaVersion": 2, "mediaType": "text/plain", "config": config, "layers": [layer]}), "text/plain"),
    ] {
        layout.set_manifest(&manifest);
        layout.assert_refused(expected);
    }
    layout.set_manifest(&manifest);
    layout.inspect().ok();
    fs::write(layout.directory().join("oci-layout"), r#"{"imageLayoutVersion":"2.0.0"}"#).unwrap();
    layout.assert_refused("the version of the layout is");
}

#[test]
fn another_answer_of_a_registry_under_the_same_tag_is_refused() {
    let layout = Layout::new();
    let tagged = format!("oci:{}", layout.directory().display());
    let trust = layout.folder.path().join("plugins.json");
    let trust = ["--trust", trust.to_str().unwrap()];
    call(&[&["plugin", "add", "mine", &tagged, "--yes"][..], &trust].concat(), b"").ok();
    // Each is right in itself, and none is the one that was looked at: one that does other things, and one that asks for more.
    let more = wat::parse_str("(component (import \"wasi:filesystem/types@0.2.3\" (instance)))").unwrap();
    for component in [keepline_tests::guests::HOSTILE, &more] {
        let layer = layout.add("application/wasm", component);
        let config = json!({"architecture": "wasm", "os": "wasip2", "layerDigests": [layer["digest"]]});
        let config = layout.add("application/vnd.wasm.config.v0+json", config.to_string().as_bytes());
        layout.set_manifest(&json!({"schemaVersion": 2, "config": config, "layers": [layer]}));
        let ran = call(&["inspect", "--json", &layout.named], b"");
        assert!(ran.code == 3 && ran.out.is_empty() && ran.err.contains("it has no manifest sha256:"), "{ran:?}");
        let ran = call(&[&["run", "--plugin", "@mine"][..], &trust].concat(), b"");
        assert!(ran.code == 3 && ran.out.is_empty() && ran.err.contains("has changed since it was pinned"), "{ran:?}");
    }
}

#[test]
fn the_contract_is_a_wit_package_and_a_layout_with_the_same_bytes_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["one", "two"] {
        let written = call(&["component", "--wit", "--oci", &path(name)], b"").ok();
        assert!(written.text().starts_with(&format!("oci:{}@sha256:", path(name))), "{written:?}");
    }
    assert_eq!(files(&folder.path().join("one")), files(&folder.path().join("two")));
    call(&["component", "--wit", "--output", &path("wit.wasm")], b"").ok();
    let package = fs::read(path("wit.wasm")).unwrap();
    let decoded = wit_component::decode(&package).unwrap();
    let main = &decoded.resolve().packages[decoded.package()];
    assert_eq!(main.name.to_string(), format!("keepline:memory@{}", ladder::contract_version()));
    let worlds: Vec<&str> = main.worlds.keys().map(String::as_str).collect();
    assert!(worlds.contains(&"memory-filter") && worlds.contains(&"plain-filter"), "{worlds:?}");
    // The comments are the reference.
    let docs = main.docs.contents.as_deref().unwrap_or_default();
    assert!(docs.contains("Entries on their way to the model and back"), "{docs}");

    let layout = folder.path().join("one");
    let blob =
        |digest: &Value| layout.join("blobs/sha256").join(digest.as_str().unwrap().trim_start_matches("sha256:"));
    let index = json_of(&layout.join("index.json"));
    assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], ladder::contract_version());
    let manifest = json_of(&blob(&index["manifests"][0]["digest"]));
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    assert_eq!(fs::read(blob(&manifest["layers"][0]["digest"])).unwrap(), package);
    // It is no plugin.
    let ran = call(&["run", "--plugin", &format!("oci:{}", layout.display())], b"");
    assert!(ran.code == 3 && ran.out.is_empty(), "{ran:?}");
}
