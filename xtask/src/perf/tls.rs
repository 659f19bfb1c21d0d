//! Servers with a TLS port, and clients that only make handshakes.

use super::server::{MeasuredProgram, Running, StartData, target};
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use ox_bench::job::MeasuredServer;
use ox_bench::security::{BenchSecurity, TlsResumption};
use ox_bench::session::BenchTarget;
use ox_client::ClientProperties;
use ox_testkit::free_port;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Apache has TLS with Netty only. Our server ignores the key.
const NETTY: (&str, &str) = ("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory");
/// Threads that make handshakes. The client's part of one takes about a millisecond.
const FLOOD_THREADS: u32 = 4;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// The stores of the server, in PEM: an RSA key with 2048 bits, as most ensembles have.
pub(super) struct TlsStores {
    keys: PathBuf,
    trust: PathBuf,
}

impl TlsStores {
    pub(super) fn find() -> Result<Self> {
        let directory = Workspace::find().root().join("crates/ox-tls/testdata");
        let stores = Self { keys: directory.join("pkcs8.pem"), trust: directory.join("ca.pem") };
        ensure!(stores.keys.exists() && stores.trust.exists(), "{} has no stores", directory.display());
        Ok(stores)
    }

    /// Starts a server with a plain port and a TLS port.
    pub(super) fn start(&self, program: &MeasuredProgram) -> Result<Running> {
        let port = free_port();
        let settings = [
            (NETTY.0.to_owned(), NETTY.1.to_owned()),
            ("secureClientPort".to_owned(), port.to_string()),
            ("ssl.clientAuth".to_owned(), "none".to_owned()),
            ("ssl.keyStore.location".to_owned(), self.keys.display().to_string()),
            ("ssl.trustStore.location".to_owned(), self.trust.display().to_string()),
        ];
        Running::start_with(program, StartData::Fresh, &settings, Some((Ipv4Addr::LOCALHOST, port).into()))
    }

    /// The TLS port of a server.
    pub(super) fn target(&self, running: &Running, resumption: TlsResumption) -> Result<MeasuredServer> {
        let address = running.secure_address.context("the server has a TLS port")?;
        let mut properties = ClientProperties::default();
        properties.set("zookeeper.client.secure", "true");
        properties.set("zookeeper.ssl.trustStore.location", &self.trust.display().to_string());
        let security = BenchSecurity::new(&properties, "localhost", address, resumption)?;
        let security = security.map(|security| &*Box::leak(Box::new(security)));
        Ok(MeasuredServer { target: BenchTarget { security, ..target(address) }, pid: Some(running.pid()) })
    }
}

/// Clients that connect, make a full handshake and disconnect, at a fixed rate.
pub(super) struct HandshakeFlood {
    shared: Arc<FloodState>,
    threads: Vec<JoinHandle<Result<()>>>,
    begun: Instant,
}

#[derive(Default)]
struct FloodState {
    ends: AtomicBool,
    handshakes: AtomicU64,
}

impl HandshakeFlood {
    pub(super) fn start(target: BenchTarget, per_second: f64) -> Result<Self> {
        let shared = Arc::new(FloodState::default());
        let interval = Duration::from_secs_f64(f64::from(FLOOD_THREADS) / per_second);
        let threads = (0..FLOOD_THREADS).map(|number| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || flood(&shared, target, interval, interval / FLOOD_THREADS * number))
        });
        Ok(Self { threads: threads.collect(), shared, begun: Instant::now() })
    }

    /// Ends the threads, and returns the handshakes per second.
    pub(super) fn stop(self) -> Result<f64> {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.shared.ends.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a flood thread does not panic")?;
        }
        Ok(self.shared.handshakes.load(Ordering::Relaxed) as f64 / seconds)
    }
}

fn flood(shared: &FloodState, target: BenchTarget, interval: Duration, offset: Duration) -> Result<()> {
    let mut due = Instant::now() + offset;
    while !shared.ends.load(Ordering::Relaxed) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        handshake(target)?;
        shared.handshakes.fetch_add(1, Ordering::Relaxed);
        due = (due + interval).max(Instant::now() - interval * 10); // a short delay is made up for
    }
    Ok(())
}

/// A handshake, and the reply to a command, which shows that the server has completed its part.
fn handshake(target: BenchTarget) -> Result<()> {
    let socket = connect(target.address)?;
    let mut stream = target.secure(socket)?;
    stream.write_all(b"srvr")?;
    let mut first = [0];
    stream.read_exact(&mut first).context("a handshake fails")?;
    Ok(())
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(HANDSHAKE_LIMIT))?;
    Ok(socket)
}
