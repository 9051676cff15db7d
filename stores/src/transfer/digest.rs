//! What a bucket comes to, for stores in this process. `weigh.lua` reckons the same in Redis: what is changed here is
//! changed there.
//!
//! Each part by itself, its name's length before it, so that no two buckets are written alike. What has no order is put
//! in that of the parts' digests.

use sha1_smol::Sha1;

/// Records of a log that are digested together.
const CHUNK: usize = 256;

#[derive(Default)]
pub(crate) struct Digest {
    parts: Vec<String>,
}

impl Digest {
    pub(crate) fn field(&mut self, name: &str, text: &str) {
        self.part(&["f", &name.len().to_string(), ":", name, text]);
    }

    pub(crate) fn value(&mut self, key: &str, text: &str) {
        self.part(&["v", &key.len().to_string(), ":", key, text]);
    }

    pub(crate) fn entry(&mut self, map: &str, key: &str, text: &str) {
        self.part(&["m", &map.len().to_string(), ":", map, &key.len().to_string(), ":", key, text]);
    }

    pub(crate) fn field_of_index(&mut self, index: &str, field: &str, bytes: &[u8]) {
        let name = format!("i{}:{index}{}:{field}", index.len(), field.len());
        self.parts.push(hash(&[name.as_bytes(), bytes]));
    }

    pub(crate) fn log(&mut self, name: &str, records: LogDigest) {
        self.part(&["l", &name.len().to_string(), ":", name, &records.finish()]);
    }

    pub(crate) fn finish(mut self) -> String {
        self.parts.sort_unstable();
        hash(&self.parts)
    }

    fn part(&mut self, texts: &[&str]) {
        self.parts.push(hash(texts));
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
    pub(crate) fn record(&mut self, text: &str) {
        self.chunk.update(format!("{}:", text.len()).as_bytes());
        self.chunk.update(text.as_bytes());
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

fn hash<T: AsRef<[u8]>>(texts: &[T]) -> String {
    let mut sha1 = Sha1::new();
    texts.iter().for_each(|text| sha1.update(text.as_ref()));
    sha1.digest().to_string()
}
