//! Redis and the client on cores of their own. Left to itself, the system puts them on one core for a while and
//! on two for another, and a round trip takes half as long on one: that would drown what a curve is about.

use std::{process::Command, thread};

use keepline_local_redis::RedisServer;

/// While this lives, this thread stays on the first core, and the servers that were put apart on the last.
pub struct Apart {
    cores: usize,
}

impl Apart {
    pub fn begin() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let apart = Self { cores };
        // A process has the id of its first thread, which is the one that measures.
        apart.pin(std::process::id(), "0");
        apart
    }

    pub fn put(&self, server: &RedisServer) {
        self.pin(server.pid(), &(self.cores - 1).to_string());
    }

    /// Without the command, which every Linux has, the system decides as ever.
    fn pin(&self, thread: u32, cores: &str) {
        let _ = Command::new("taskset").args(["-cp", cores, &thread.to_string()]).output();
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.pin(std::process::id(), &format!("0-{}", self.cores - 1));
    }
}
