//! The digest of a bucket. `shared.lua` computes the same in Redis: a change here belongs there, too.
//!
//! Each part is digested by itself, with the length before its name, so that no two buckets are encoded alike. Parts without
//! an order are sorted by their digests.

use sha1_smol::Sha1;

use crate::names::VALUES;

/// Records of a log that are digested together.
const CHUNK: usize = 256;

#[derive(Default)]
pub(crate) struct BucketDigest {
    parts: Vec<String>,
}

impl BucketDigest {
    pub(crate) fn field(&mut self, name: impl AsRef<[u8]>, text: impl AsRef<[u8]>) {
        self.part("f", &[], name.as_ref(), text.as_ref());
    }

    pub(crate) fn entry(&mut self, map: impl AsRef<[u8]>, key: impl AsRef<[u8]>, text: impl AsRef<[u8]>) {
        match map.as_ref() {
            map if map == VALUES.as_bytes() => self.part("v", &[], key.as_ref(), text.as_ref()),
            map => self.part("m", &[map], key.as_ref(), text.as_ref()),
        }
    }

    pub(crate) fn field_of_index(&mut self, index: impl AsRef<[u8]>, field: impl AsRef<[u8]>, bytes: &[u8]) {
        self.part("i", &[index.as_ref()], field.as_ref(), bytes);
    }

    pub(crate) fn log(&mut self, name: impl AsRef<[u8]>, records: LogDigest) {
        self.part("l", &[], name.as_ref(), records.finish().as_bytes());
    }

    pub(crate) fn finish(mut self) -> String {
        self.parts.sort_unstable();
        let mut sha1 = Sha1::new();
        self.parts.iter().for_each(|part| sha1.update(part.as_bytes()));
        sha1.digest().to_string()
    }

    /// A letter for what it is, the names that it has, each after its length, and its text.
    fn part(&mut self, letter: &str, of: &[&[u8]], name: &[u8], text: &[u8]) {
        let mut sha1 = Sha1::from(letter);
        for name in of.iter().chain([&name]) {
            sha1.update(format!("{}:", name.len()).as_bytes());
            sha1.update(name);
        }
        sha1.update(text);
        self.parts.push(sha1.digest().to_string());
    }
}

/// Of the records of a log, in order.
#[derive(Default)]
pub(crate) struct LogDigest {
    before: String,
    chunk: Sha1,
    count: usize,
}

impl LogDigest {
    pub(crate) fn record(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        self.chunk.update(format!("{}:", text.len()).as_bytes());
        self.chunk.update(text);
        self.count += 1;
        if self.count.is_multiple_of(CHUNK) {
            self.end_chunk();
        }
    }

    fn end_chunk(&mut self) {
        self.before = self.chunk.digest().to_string();
        self.chunk = Sha1::from(&self.before);
    }

    fn finish(mut self) -> String {
        if !self.count.is_multiple_of(CHUNK) {
            self.end_chunk();
        }
        self.before
    }
}
