//! A store that processes share, and how a child is told where it is.

use std::{sync::Arc, time::Duration};

use keepline::store::{DirectoryOptions, DirectoryStore, RedisOptions, RedisStore, Store};

use crate::servers;

/// The variable that holds it for a child.
pub const PLACE: &str = "KEEPLINE_TEST_PLACE";
/// However busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The store at a port of Redis, or in the directory of that path.
pub fn store_at(place: &str) -> Arc<dyn Store> {
    match place.parse() {
        Ok(port) => {
            let options = RedisOptions { store_timeout: TIMEOUT, ..servers::options(port) };
            Arc::new(RedisStore::new(options).unwrap())
        }
        Err(_) => {
            let options = DirectoryOptions { timeout: TIMEOUT, ..DirectoryOptions::default() };
            Arc::new(DirectoryStore::open(place, options).unwrap())
        }
    }
}
