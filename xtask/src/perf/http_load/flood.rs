//! Many HTTP clients on one thread: health checks, commands, scrapes, and clients that send or read slowly.

use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// Time between two requests of a client.
const PAUSE: Duration = Duration::from_secs(1);
/// Time between two bytes of a slow client.
const SLOW_PAUSE: Duration = Duration::from_millis(200);
const REPLY_LIMIT: Duration = Duration::from_secs(10);
/// The nice value of the thread.
const LOWEST_PRIORITY: i32 = 19;

/// What clients ask for, in a hundred requests: mostly health checks.
const PATHS: [(&str, usize); 6] = [
    ("/readyz", 40),
    ("/healthz", 30),
    ("/commands/ruok", 15),
    ("/commands/srvr", 10),
    ("/commands/monitor", 4),
    ("/metrics", 1),
];

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FloodCounts {
    pub(super) replies: u64,
    pub(super) failures: u64,
}

impl FloodCounts {
    pub(super) fn add(&mut self, other: Self) {
        self.replies += other.replies;
        self.failures += other.failures;
    }
}

#[derive(Default)]
struct Counters {
    replies: AtomicU64,
    failures: AtomicU64,
}

/// HTTP clients that run on a thread until this value is dropped.
pub(super) struct HttpFlood {
    counters: Arc<Counters>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl HttpFlood {
    pub(super) fn start(address: SocketAddr, clients: usize, slow: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start a runtime")?;
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&counters);
        let thread = std::thread::spawn(move || {
            // The measured clients share its core: their latency must show the server, not this thread.
            let lowered = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LOWEST_PRIORITY);
            lowered.expect("every thread may lower its own priority");
            runtime.block_on(async move {
                for number in 0..clients {
                    let shared = Arc::clone(&shared);
                    match number {
                        _ if slow <= number => _ = tokio::spawn(poll(address, number, shared)),
                        _ if number % 2 == 0 => _ = tokio::spawn(send_slowly(address)),
                        _ => _ = tokio::spawn(read_slowly(address)),
                    }
                }
                let _ = stopped.await; // an error means the same
            });
        });
        Ok(Self { counters, stop, thread })
    }

    pub(super) fn stop(self) -> Result<FloodCounts> {
        let Self { counters, stop, thread } = self;
        drop(stop);
        thread.join().map_err(|_| anyhow::anyhow!("the thread of the HTTP clients has panicked"))?;
        Ok(FloodCounts { replies: counters.replies.load(Relaxed), failures: counters.failures.load(Relaxed) })
    }
}

/// A request per second on a lasting connection.
async fn poll(address: SocketAddr, number: usize, counters: Arc<Counters>) {
    sleep(PAUSE * u32::try_from(number % 100).unwrap_or(0) / 100).await;
    let mut connection = None;
    for turn in number.. {
        let asked = timeout(REPLY_LIMIT, ask(address, &mut connection, path(turn))).await;
        if matches!(asked, Ok(Ok(()))) {
            counters.replies.fetch_add(1, Relaxed);
        } else {
            counters.failures.fetch_add(1, Relaxed);
            connection = None;
        }
        sleep(PAUSE).await;
    }
}

fn path(turn: usize) -> &'static str {
    let mut left = turn.wrapping_mul(37) % 100;
    for (path, share) in PATHS {
        if left < share {
            return path;
        }
        left -= share;
    }
    PATHS[0].0
}

async fn ask(address: SocketAddr, connection: &mut Option<TcpStream>, path: &str) -> Result<()> {
    let stream = match connection {
        Some(stream) => stream,
        None => connection.insert(TcpStream::connect(address).await?),
    };
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
    let (mut received, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        let count = stream.read(&mut piece).await?;
        anyhow::ensure!(count != 0, "the server has closed the connection");
        received.extend_from_slice(&piece[..count]);
        if let Some(length) = reply_length(&received)
            && length <= received.len()
        {
            return Ok(());
        }
    }
}

/// Bytes of the head and the body, when the head is complete.
fn reply_length(received: &[u8]) -> Option<usize> {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&received[..end]).ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    Some(end + length.parse::<usize>().ok()?)
}

/// Never completes a request.
async fn send_slowly(address: SocketAddr) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(address).await {
            for byte in b"GET /commands/monitor HTTP/1.1\r\nX-Header: ".iter().chain(std::iter::repeat_n(&b'x', 1000)) {
                if stream.write_all(&[*byte]).await.is_err() {
                    break;
                }
                sleep(SLOW_PAUSE).await;
            }
        }
        sleep(PAUSE).await;
    }
}

/// Asks for large replies, and reads a few bytes at a time.
async fn read_slowly(address: SocketAddr) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(address).await {
            let request = b"GET /commands/monitor HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(10);
            let _ = stream.write_all(&request).await; // the read fails, too
            let mut piece = [0; 64];
            while matches!(stream.read(&mut piece).await, Ok(1..)) {
                sleep(SLOW_PAUSE).await;
            }
        }
        sleep(PAUSE).await;
    }
}
