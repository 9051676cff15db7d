//! A redis-server of one's own on a free loopback port, for the demo, the benchmarks and the tests.
//!
//! Keeps nothing on disk unless asked to, and is stopped when it is dropped.

mod cluster;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    mem,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use tempfile::TempDir;

pub use self::cluster::RedisCluster;

/// The servers that this process has started and not yet stopped, with what they keep on disk. A server is
/// started and stopped under the lock, so that each id here is that of a server.
static RUNNING: Mutex<BTreeMap<u32, PathBuf>> = Mutex::new(BTreeMap::new());

/// Stops all servers of this process, for one that ends without dropping them. Whoever starts or stops one
/// after that waits for ever.
pub fn stop_all() {
    let running = RUNNING.lock();
    for (id, directory) in running.iter() {
        // Both fail only for what is gone already.
        let _ = Command::new("kill").arg("-KILL").arg(id.to_string()).status();
        let _ = fs::remove_dir_all(directory);
    }
    mem::forget(running);
}

/// A running redis-server.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    /// Where a node of a cluster talks with the others.
    bus_port: Option<u16>,
    arguments: Vec<String>,
    directory: TempDir,
}

impl RedisServer {
    /// Whether there is a redis-server to start.
    pub fn is_installed() -> bool {
        let mut version = Command::new("redis-server");
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    }

    /// Starts a server that keeps nothing on disk.
    ///
    /// # Errors
    /// When there is no redis-server, or it does not answer within five seconds.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a server with further arguments of redis-server.
    ///
    /// # Errors
    /// When there is no redis-server, or it does not answer within five seconds.
    pub fn start_with(arguments: &[&str]) -> Result<Self> {
        Self::start_on_free_ports(arguments, false)
    }

    /// Starts a server, a node of a cluster with a port for the others, too.
    fn start_on_free_ports(arguments: &[&str], is_node: bool) -> Result<Self> {
        let mut tries = 1;
        loop {
            // Another process may take a port between its choice and redis-server's start.
            match Self::try_start(arguments, is_node) {
                Err(_) if tries < 3 => tries += 1,
                result => return result,
            }
        }
    }

    fn try_start(arguments: &[&str], is_node: bool) -> Result<Self> {
        let mut arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let port = free_port().context("no free port on loopback")?;
        let bus_port = is_node.then(free_port).transpose().context("no free port on loopback")?;
        if let Some(bus_port) = bus_port {
            arguments.extend(["--cluster-port".to_owned(), bus_port.to_string()]);
        }
        // Held until the server is listed with its directory: `stop_all` finds both, or this waits for ever before either
        // is made.
        let mut running = RUNNING.lock();
        let directory = TempDir::with_prefix("keepline-redis-").context("can't make a directory for redis-server")?;
        let child = spawn(&mut running, port, &arguments, &directory)?;
        drop(running);
        let mut server = Self { child, port, bus_port, arguments, directory };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The port, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where a node of a [`RedisCluster`] talks with the others.
    pub fn bus_port(&self) -> Option<u16> {
        self.bus_port
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it keeps its files, if any.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// As `redis_url` takes it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Ends the process at once, as a crash would.
    pub fn kill(&mut self) {
        let mut running = RUNNING.lock();
        // Both fail only for a process that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        running.remove(&self.child.id());
    }

    /// Starts it again on the same port, after [`kill`](Self::kill). What it held is gone, unless its
    /// arguments make it persist.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.child = spawn(&mut RUNNING.lock(), self.port, &self.arguments, &self.directory)?;
        self.wait_until_ready()
    }

    /// Stops it where it is (SIGSTOP): it holds its connections and answers nobody.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn pause(&self) -> Result<()> {
        self.signal("STOP")
    }

    /// Lets it go on (SIGCONT), with what has been sent to it meanwhile.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn resume(&self) -> Result<()> {
        self.signal("CONT")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let status = Command::new("kill").arg(format!("-{signal}")).arg(self.child.id().to_string()).status()?;
        if !status.success() {
            bail!("redis-server is gone");
        }
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                bail!("redis-server ended at once ({status})");
            }
            if answers(self.port).unwrap_or(false) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
        bail!("redis-server does not answer on port {}", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let mut running = RUNNING.lock();
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Before it is forgotten: a process that ends meanwhile leaves nothing behind.
        let _ = fs::remove_dir_all(self.directory.path());
        running.remove(&self.child.id());
    }
}

fn spawn(running: &mut BTreeMap<u32, PathBuf>, port: u16, arguments: &[String], directory: &TempDir) -> Result<Child> {
    let child = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(directory.path())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("can't start redis-server; on Debian `apt-get install redis-server`")?;
    running.insert(child.id(), directory.path().to_owned());
    Ok(child)
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Whether something that speaks Redis's protocol answers; that it wants a password first is an answer.
fn answers(port: u16) -> io::Result<bool> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(200))?;
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    Ok(&answer == b"+PONG" || answer.starts_with(b"-NOAU"))
}
