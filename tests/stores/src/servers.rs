//! A redis-server on which Keepline's user may do what it must, and nothing else; tests look behind its back as
//! the default user.

use std::{
    fmt,
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use keepline_local_redis::{RedisCluster, RedisServer};
use keepline_stores::RedisOptions;
use parking_lot::Mutex;
use tokio::net::TcpSocket;

use crate::proxy::Proxy;

/// Keepline's user.
pub const USER: &str = "keepline";
/// Its password.
pub const PASSWORD: &str = "pw";

/// A server whose user is allowed the prefix of the default options.
pub fn start() -> RedisServer {
    start_with(&[]).unwrap()
}

/// The same, with further arguments of redis-server. One that was built without them does not start.
pub fn start_with(arguments: &[&str]) -> Result<RedisServer, impl fmt::Debug> {
    // As arguments, so that the user is there again after a restart.
    let user = user_rules(USER, &RedisOptions::default());
    let mut all = vec!["--user"];
    all.extend(user.iter().map(String::as_str));
    all.extend(arguments);
    RedisServer::start_with(&all)
}

/// Name and rules of a user that may use a store with these options.
pub fn user_rules(name: &str, options: &RedisOptions) -> Vec<String> {
    let mut words = vec![name.to_owned(), "on".to_owned(), format!(">{PASSWORD}")];
    words.extend(options.least_acl().unwrap());
    words
}

/// Creates a user on every node of a cluster that may use a store with these options, and gives the options
/// with that user.
pub fn allowed_on_cluster(cluster: &RedisCluster, options: RedisOptions) -> RedisOptions {
    let mut options = RedisOptions { cluster: true, nodes: cluster.addresses(), ..options };
    (options.username, options.password) = (Some(options.key_prefix.clone()), Some(PASSWORD.into()));
    let rules = user_rules(&options.key_prefix, &options).join(" ");
    for node in 0..cluster.nodes().len() {
        cluster.ask::<()>(node, &format!("ACL SETUSER {rules}")).unwrap();
    }
    options
}

/// A proxy before each node of a cluster, by which the nodes name each other and themselves from now on.
pub async fn proxied(cluster: &RedisCluster) -> Vec<Proxy> {
    let mut proxies = Vec::new();
    for (at, node) in cluster.nodes().iter().enumerate() {
        let proxy = Proxy::start(node.port()).await;
        cluster.ask::<()>(at, &format!("CONFIG SET cluster-announce-port {}", proxy.port())).unwrap();
        proxies.push(proxy);
    }
    let end = Instant::now() + Duration::from_secs(60);
    for at in 0..cluster.nodes().len() {
        let named = |nodes: String| proxies.iter().all(|proxy| nodes.contains(&format!("127.0.0.1:{}@", proxy.port())));
        while !named(cluster.ask(at, "CLUSTER NODES").unwrap()) {
            assert!(Instant::now() < end, "a node does not learn of the others' new ports");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    proxies
}

/// As `redis_url` takes it.
pub fn url(server: &RedisServer) -> String {
    format!("redis://{USER}:{PASSWORD}@127.0.0.1:{}", server.port())
}

/// How Keepline reaches a server, or a proxy before it.
pub fn options(port: u16) -> RedisOptions {
    RedisOptions {
        host: "127.0.0.1".into(),
        port,
        username: Some(USER.into()),
        password: Some(PASSWORD.into()),
        ..RedisOptions::default()
    }
}

/// A port on loopback at which nobody answers, now and for as long as this process runs: it is taken, and not
/// listened at.
pub fn dead_port() -> u16 {
    static TAKEN: Mutex<Vec<TcpSocket>> = Mutex::new(Vec::new());
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let port = socket.local_addr().unwrap().port();
    TAKEN.lock().push(socket);
    port
}
