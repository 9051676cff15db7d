//! A network that fails on purpose: a TCP proxy before a server on loopback.

use std::{
    net::Ipv4Addr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinHandle,
    time::Instant,
};

/// Where a connection is cut. What is on its way then, in either direction, is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server never sees the request.
    BeforeRequest,
    /// It sees half of it.
    MidRequest,
    /// It has done what it was asked, and the client is not told.
    BeforeReply,
    /// The client is told half of it.
    MidReply,
}

impl Cut {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::BeforeRequest, Self::MidRequest, Self::BeforeReply, Self::MidReply];
}

/// What the network does to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// It passes on what it is given.
    Fair,
    /// Requests take so long.
    Slow(Duration),
    /// Nothing arrives, and nobody is told.
    BlackHole,
    /// Connections are closed as soon as they are made, and those there are, at once.
    Closed,
}

/// The proxy. It ends when it is dropped, with all its connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    target: u16,
    weather: watch::Sender<Weather>,
    planned: Mutex<Planned>,
    cuts: [AtomicU64; 4],
    connections: AtomicU64,
}

#[derive(Debug)]
struct Planned {
    next: Option<Cut>,
    /// One request in so many is cut, somewhere.
    one_in: Option<u32>,
    random: fastrand::Rng,
}

impl Proxy {
    /// A proxy before the server on that port of loopback, in fair weather.
    pub async fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            target,
            weather: watch::Sender::new(Weather::Fair),
            planned: Mutex::new(Planned { next: None, one_in: None, random: fastrand::Rng::with_seed(0) }),
            cuts: [const { AtomicU64::new(0) }; 4],
            connections: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Self { port, shared, accepting }
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on, for all connections.
    pub fn weather(&self, weather: Weather) {
        self.shared.weather.send_replace(weather);
    }

    /// Cut the connection that carries the next request.
    pub fn cut_next(&self, cut: Cut) {
        self.shared.planned.lock().next = Some(cut);
    }

    /// Cut one request in so many, at random places. None: no more.
    pub fn cut_at_random(&self, one_in: Option<u32>, seed: u64) {
        let mut planned = self.shared.planned.lock();
        planned.one_in = one_in;
        planned.random = fastrand::Rng::with_seed(seed);
    }

    /// How many connections have been cut so far, in all.
    pub fn cuts(&self) -> u64 {
        Cut::ALL.iter().map(|cut| self.cuts_of(*cut)).sum()
    }

    /// How many have been cut there.
    pub fn cuts_of(&self, cut: Cut) -> u64 {
        self.shared.cuts[cut as usize].load(Ordering::Relaxed)
    }

    /// How many connections have been made.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.weather(Weather::Closed);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        shared.connections.fetch_add(1, Ordering::Relaxed);
        if *shared.weather.borrow() != Weather::Closed {
            tokio::spawn(serve(client, shared.clone()));
        }
    }
}

async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.target)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let planned = Mutex::new(None);
    let mut weather = shared.weather.subscribe();
    // Whichever ends first takes the connection with it.
    tokio::select! {
        () = requests(from_client, to_server, &shared, &planned) => {}
        () = replies(from_server, to_client, &shared, &planned) => {}
        _ = weather.wait_for(|weather| *weather == Weather::Closed) => {}
    }
}

/// What is far away is late, and no less of it arrives for that: all of it is delayed by the same time.
async fn requests(mut from: OwnedReadHalf, to: OwnedWriteHalf, shared: &Shared, planned: &Mutex<Option<Cut>>) {
    let (on_its_way, arriving) = mpsc::unbounded_channel();
    let read = async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let weather = *shared.weather.borrow();
            let delay = match weather {
                Weather::BlackHole => continue,
                Weather::Slow(delay) => delay,
                Weather::Fair | Weather::Closed => Duration::ZERO,
            };
            if on_its_way.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    };
    // A cut ends both; what was read before the client's end still arrives.
    let mut deliver = pin!(deliver(arriving, to, shared, planned));
    tokio::select! {
        () = read => deliver.await,
        () = &mut deliver => {}
    }
}

async fn deliver(
    mut arriving: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    planned: &Mutex<Option<Cut>>,
) {
    while let Some((due, request)) = arriving.recv().await {
        tokio::time::sleep_until(due).await;
        let length = request.len();
        let cut = shared.planned.lock().plan();
        let end = match cut {
            Some(Cut::BeforeRequest) => return shared.count(Cut::BeforeRequest),
            Some(Cut::MidRequest) => length / 2,
            Some(reply @ (Cut::BeforeReply | Cut::MidReply)) => {
                *planned.lock() = Some(reply);
                length
            }
            None => length,
        };
        if to.write_all(&request[..end]).await.is_err() {
            return;
        }
        if cut == Some(Cut::MidRequest) {
            return shared.count(Cut::MidRequest);
        }
    }
}

async fn replies(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, planned: &Mutex<Option<Cut>>) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer).await else { return };
        if *shared.weather.borrow() == Weather::BlackHole {
            continue;
        }
        let cut = planned.lock().take();
        let end = match cut {
            Some(Cut::MidReply) => length / 2,
            Some(_) => 0,
            None => length,
        };
        if to.write_all(&buffer[..end]).await.is_err() {
            return;
        }
        if let Some(cut) = cut {
            return shared.count(cut);
        }
    }
}

impl Planned {
    fn plan(&mut self) -> Option<Cut> {
        let random = &mut self.random;
        self.next.take().or_else(|| {
            let hit = self.one_in.is_some_and(|one_in| random.u32(..one_in) == 0);
            hit.then(|| Cut::ALL[random.usize(..Cut::ALL.len())])
        })
    }
}

impl Shared {
    fn count(&self, cut: Cut) {
        self.cuts[cut as usize].fetch_add(1, Ordering::Relaxed);
    }
}
