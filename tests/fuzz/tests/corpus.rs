//! Replays the fuzzer's corpus in an ordinary build.

use std::{fs, path::Path};

use keepline_fuzz::TARGETS;

#[test]
fn every_kept_input_passes_its_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        let directory = corpus.join(name);
        let mut files: Vec<_> = fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort_unstable();
        assert!(files.len() > 10, "{}: {}", directory.display(), files.len());
        for file in files {
            println!("{}", file.display());
            target(&fs::read(file).unwrap());
        }
    }
}

#[test]
fn every_directory_is_a_target_s() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for directory in fs::read_dir(corpus).unwrap() {
        let name = directory.unwrap().file_name();
        assert!(TARGETS.iter().any(|(known, _)| **known == *name), "{name:?}");
    }
}
